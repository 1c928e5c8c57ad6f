"""What can be chosen by name: kinds of models, recurrent cells, solvers of the matching, refinements of the table.

Those of the package are imported when they are first used, so that their names cost nothing. More can be added from
outside: `KINDS.add("mine", Kind(…))` is all it takes for settings, command line, training, checkpoints and inference.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from .errors import LightRNNError


class Registry(Mapping[str, Any]):
    """Entries of one sort by name; places[name] is the module and the attribute of one that is not imported yet."""

    def __init__(self, sort: str, places: dict[str, str]) -> None:
        self._sort = sort
        self._places = dict(places)
        self._entries: dict[str, Any] = {}

    def add(self, name: str, entry: Any) -> None:
        """Make an entry known; a name that is taken is an error."""
        if name in self:
            raise LightRNNError(f"there is a {self._sort} {name!r} already; choose another name")
        self._entries[name] = entry

    def remove(self, name: str) -> None:
        """Forget an entry that was added."""
        del self._entries[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._entries:
            if name not in self._places:
                raise LightRNNError(f"there is no {self._sort} {name!r}; known are {', '.join(self)}")
            module, attribute = self._places[name].split(":")
            self._entries[name] = getattr(import_module(f".{module}", __package__), attribute)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter([*self._places, *(name for name in self._entries if name not in self._places)])

    def __len__(self) -> int:
        return len(list(iter(self)))


KINDS = Registry(
    "model",
    {
        "lightrnn": "models.kinds:LIGHTRNN",
        "full": "models.kinds:FULL",
        "hsm": "models.kinds:HSM",
        "chsm": "models.kinds:CHSM",
        "blackout": "models.kinds:BLACKOUT",
        "adaptive": "models.kinds:ADAPTIVE",
    },
)  # of models.kind.Kind
CELLS = Registry(
    "cell",
    {
        "lstm": "models.cells:LSTM",
        "gru": "models.cells:GRU",
        "rnn-tanh": "models.cells:TANH",
        "rnn-sigmoid": "models.cells:SIGMOID",
    },
)  # of models.cells.Cell
SOLVERS = Registry(
    "solver", {"block": "table.matching:block", "half": "table.matching:half", "exact": "table.matching:exact"}
)  # of table.matching.Solver
REFINEMENTS = Registry(
    "refinement",
    {
        "none": "training.refinement:NONE",
        "matching": "training.refinement:MATCHING",
        "cluster": "training.refinement:CLUSTER",
    },
)  # of training.refinement.Refinement, or None

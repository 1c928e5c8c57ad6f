"""From a path to a model that can be asked: a folder of `lightrnn train`, an n-gram file, a mix of models.

A mix is a folder with a config.json that names its models, by paths relative to the folder, and their weights.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from ..errors import LightRNNError
from ..files import read_json, write_json
from ..models.checkpoint import CONFIG, load_model
from ..ngram.arpa import read_arpa
from ..ngram.kenlm import KenLM
from ..outputs import replace_output, settle
from ..text.vocabulary import Vocabulary
from .lm import LM, NGramLM
from .mixture import Mix
from .network import NetworkLM

MIX_FORMAT = 1


def load(path: str | Path, *, device: torch.device | str = "cpu", vocabulary: Vocabulary | None = None) -> LM:
    """The model at a path, whatever its kind, ready to score.

    A file named *.arpa, .arpa.gz and so on is read here; any other file by the `kenlm` package, which does not tell its
    words: it needs a vocabulary, which `lightrnn mix` takes from the first model.
    """
    path = Path(path)
    settle(path)
    if not path.exists():
        raise LightRNNError(f"{path} does not exist; give a folder of lightrnn train or mix, or an n-gram file")
    if path.is_file() and ".arpa" in path.suffixes:
        return NGramLM(read_arpa(path))
    if path.is_file():
        if vocabulary is None:
            raise LightRNNError(
                f"{path} is no ARPA file by its name, and KenLM's binaries do not list their words; "
                "use the .arpa file, or the binary in a mix after a model that has a vocabulary"
            )
        return NGramLM(KenLM(path, vocabulary))
    if _is_mix(path):
        return _load_mix(path, device)
    return NetworkLM(*load_model(path, device))


def load_all(paths: Sequence[Path], *, device: torch.device | str = "cpu") -> list[LM]:
    """Several models, the first of which says which words there are."""
    first = load(paths[0], device=device)
    return [first, *(load(path, device=device, vocabulary=first.vocabulary) for path in paths[1:])]


def save_mix(
    folder: str | Path, members: Sequence[str | Path], weights: Sequence[float], *, force: bool = False
) -> None:
    """Write a mix: the models stay where they are. If there is a model in `folder` already, `force` replaces it."""
    with replace_output(folder, "model", inputs=all_members(members), force=force) as stage:
        places = [Path(member).parent.resolve() / Path(member).name for member in members]
        listed = [
            {"path": os.path.relpath(place, Path(folder).resolve()), "weight": weight}
            for place, weight in zip(places, weights, strict=True)
        ]
        write_json(stage / CONFIG, {"format": MIX_FORMAT, "kind": "mix", "files": {}, "members": listed})


def all_members(paths: Sequence[str | Path]) -> list[Path]:
    """Models, and where there is a mix among them, the models that it is made of."""
    found = []
    for path in map(Path, paths):
        settle(path)
        found += [path, *(all_members([place for place, _ in _listed(path)]) if _is_mix(path) else [])]
    return found


def _is_mix(path: Path) -> bool:
    return (path / CONFIG).is_file() and read_json(path / CONFIG).get("kind") == "mix"


def _load_mix(folder: Path, device: torch.device | str) -> Mix:
    members = _listed(folder)
    return Mix(load_all([path for path, _ in members], device=device), [weight for _, weight in members])


def _listed(folder: Path) -> list[tuple[Path, float]]:
    """The models of a mix and their weights, as its config.json tells them."""
    config = read_json(folder / CONFIG)
    if config.get("format") != MIX_FORMAT:
        raise LightRNNError(
            f"{folder} was written by a newer lightrnn (mix format {config.get('format')}); upgrade lightrnn"
        )
    try:
        return [(folder / str(member["path"]), float(member["weight"])) for member in config["members"]]
    except (KeyError, TypeError, ValueError):
        raise LightRNNError(f"{folder / CONFIG} does not list the models of a mix; make it again") from None

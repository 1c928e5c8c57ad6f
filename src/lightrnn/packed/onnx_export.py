"""A trained LightRNN as an ONNX graph, written operator by operator, without PyTorch. docs/onnx.md.

Shapes: B batch, S codes, D embedding, H hidden, F features that are scored (H, or D where vectors are tied), L layers,
G gates, K components, n_s values of component s, P positions.

    codes (B, S), state  →  log_probs (B, S-1) of all codes but the first,  next_… of the code after the last,  state

One graph both scores a text and takes a step, where S = 1. Every code's feature goes to the softmax that the code asks
for, and to no other: positions are gathered by what follows, so a softmax that nothing asks for has no rows.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..models.sizes import head_of
from ..registry import CELLS
from ..table.shapes import component_names
from .model import Network, describe
from .onnx_graph import BOOL, FLOAT, INT32, INT64, Graph, Value, Weight, check_onnx
from .weights import Precision

if TYPE_CHECKING:
    import onnx

FORMAT = 1
ABOUT = "Scores codes of words and predicts the next one; what codes are is told in the metadata and in docs/onnx.md."


@dataclass(frozen=True)
class Operator:
    """An ONNX operator for a cell; gates: those of PyTorch, by number, in the operator's order."""

    kind: str
    gates: tuple[int, ...]
    attributes: Mapping[str, Any]


OPERATORS = {
    "lstm": Operator("LSTM", (0, 3, 1, 2), {}),  # i f g o → i o f c
    "gru": Operator("GRU", (1, 0, 2), {"linear_before_reset": 1}),  # r z n → z r h
    "rnn-tanh": Operator("RNN", (0,), {"activations": ["Tanh"]}),
    "rnn-sigmoid": Operator("RNN", (0,), {"activations": ["Sigmoid"]}),
}


@dataclass(frozen=True)
class Softmax:
    """One softmax over some codes: those from `first` on, `size` of them; of a head, one more for all the rest.

    vectors: (size, F), and that of the rest; bias: (size,), and that of the rest; "": they are of_words, (prefixes,
    size), or there are none; missing: (size,), which of them do not exist on the edge; "": all do.
    """

    component: int
    first: int
    size: int
    has_rest: bool
    vectors: Weight
    bias: str
    of_words: Weight | None
    missing: str

    @property
    def end(self) -> int:
        return self.first + self.size


def export(network: Network, precision: Precision) -> "onnx.ModelProto":
    """The graph, with words, table and rules in its metadata."""
    check_onnx()
    if network.config.cell not in OPERATORS:
        known = ", ".join(OPERATORS)
        raise LightRNNError(f"ONNX has no operator for the cell {network.config.cell}; known are {known}")
    words = [network.vocabulary.words[word] for word in network.table.words.tolist()]
    about = {"format": FORMAT} | describe(network, precision)
    metadata = {"lightrnn": json.dumps(about, ensure_ascii=False), "words": "\n".join(words)}
    return _Export(network, precision).model(metadata)


class _Export:
    """What is known while the graph of a network is made."""

    def __init__(self, network: Network, precision: Precision) -> None:
        self.config, self.table, self.weights = network.config, network.table, network.weights
        self.graph = Graph(precision)
        self.offsets = [sum(self.table.shape[:s]) for s in range(self.table.components)]
        self.softmaxes = self._softmaxes()
        self.inputs: list[Value] = [("codes", INT64, ("batch", "length"))]
        self.outputs: list[Value] = [("log_probs", FLOAT, ("batch", "scored"))]
        self.after: list[Value] = []
        self.batch = self.graph.op("Shape", "codes", start=0, end=1)  # (1,)

    def model(self, metadata: Mapping[str, str]) -> "onnx.ModelProto":
        g = self.graph
        there = g.op("GreaterOrEqual", "codes", g.number(0))
        lengths = g.op("ReduceSum", g.cast(there, INT32), g.numbers(1), keepdims=0)  # (B,)
        features = self._recurrence(self._fed(), lengths)
        if "projection.weight" in self.weights:
            projection = g.weight("projection", self.weights["projection.weight"])
            features = g.op("Gemm", features, projection.whole(), transB=1)  # (B·S, F)
        padded = g.op("Pad", "codes", g.numbers(0, 0, 0, 1), g.number(-1))
        following = self._flat(g.columns(padded, 1))
        is_last = g.op("And", self._flat(there), g.op("Less", following, g.number(0)))
        edge, prefixes = self._edge(is_last), self._prefixes(is_last)
        expected = self._expected(self._flat(there))
        self._scores(features, following, is_last, edge, prefixes, expected)
        return g.model(self.inputs, [*self.outputs, *self.after], ABOUT, metadata)

    def _flat(self, value: str) -> str:
        """(B, S) → (B·S,), track after track."""
        return self.graph.op("Reshape", value, self.graph.numbers(-1))

    def _state(self, name: str, layers: int, units: int) -> str:
        """A state that goes in, of B tracks or of one for all, (layers, B, units); what it becomes comes out after all
        else."""
        g = self.graph
        self.inputs.append((name, FLOAT, (layers, "states", units)))
        self.after.append((f"{name}_after", FLOAT, (layers, "batch", units)))
        return g.op("Expand", name, g.op("Concat", g.numbers(layers), self.batch, g.numbers(units), axis=0))

    # --- what goes in

    def _softmaxes(self) -> list[Softmax]:
        """All of them, in the order of their codes."""
        shape, found = self.table.shape, []
        head = head_of(self.config, shape[0], self.table.alone)
        for s, (offset, n) in enumerate(zip(self.offsets, shape, strict=True)):
            cuts = [0, head, n] if s == 0 and head else [0, n]
            for begin, end in pairwise(cuts):
                if begin < end:
                    found.append(self._softmax(s, begin, end, offset, has_rest=s == 0 and end == head))
        return found

    def _softmax(self, s: int, begin: int, end: int, offset: int, *, has_rest: bool) -> Softmax:
        """Over values begin … end-1 of component s."""
        g, last = self.graph, self.table.last_place[s]
        name = f"{component_names(self.table.components)[s]}_{begin}"
        vectors = (
            self.weights["input_vectors.weight"][offset + begin : offset + end]
            if self.config.tied
            else self.weights[f"output_vectors.{s}"][begin:end]
        )
        bias = self.weights[f"output_bias.{s}"] if self.config.output_bias else None
        of_words = g.weight(f"{name}.word_biases", bias) if bias is not None and bias.ndim > 1 else None
        bias = None if bias is None or of_words else bias[begin:end]
        if has_rest:
            vectors = np.concatenate([vectors, self.weights["rest_vector"]])
            bias = None if bias is None else np.concatenate([bias, self.weights["rest_bias"]])
        is_cut = not self.table.is_full and last < self.table.shape[s] - 1
        return Softmax(
            s,
            offset + begin,
            end - begin,
            has_rest,
            g.weight(f"{name}.vectors", vectors),
            "" if bias is None else g.bias(f"{name}.bias", bias),
            of_words,
            g.array(f"{name}.missing", np.arange(begin, end) > last) if is_cut else "",
        )

    def _fed(self) -> str:
        """(B, S, D): the input vectors of the codes."""
        g = self.graph
        if not self.config.tied:
            vectors = g.weight("input_vectors", self.weights["input_vectors.weight"])
            return vectors.rows(g.op("Max", "codes", g.number(0)))
        fed = ""
        for softmax in self.softmaxes:
            numbers = g.op("Max", g.op("Sub", "codes", g.number(softmax.first)), g.number(0))
            if softmax is not self.softmaxes[-1]:
                numbers = g.op("Min", numbers, g.number(softmax.size - 1))
            rows = softmax.vectors.rows(numbers)
            here = g.op("GreaterOrEqual", "codes", g.number(softmax.first))
            fed = g.op("Where", g.op("Unsqueeze", here, g.numbers(2)), rows, fed) if fed else rows
        return fed

    # --- equation (1)

    def _recurrence(self, fed: str, lengths: str) -> str:
        """Vectors (B, S, D) and how many each track has → the states after each, (B·S, H)."""
        g, H, L = self.graph, self.config.hidden_size, self.config.layers
        operator, names = OPERATORS[self.config.cell], ("h", "c")[: CELLS[self.config.cell].states]
        before = [self._by_layer(name, self._state(name, L, H)) for name in names]
        after: list[list[str]] = []
        values = g.op("Transpose", fed, perm=[1, 0, 2])  # (S, B, D)
        for layer in range(L):
            ends = [f"{name}_after_{layer}" if L > 1 else f"{name}_after" for name in names]
            weights = [g.weight(f"{name}_{layer}", self._gates(name, layer)).whole() for name in ("W", "U")]
            biases = np.concatenate([self._gates("b_input", layer), self._gates("b_hidden", layer)], axis=1)
            states = [arrays[layer] for arrays in before]
            inputs = [values, *weights, g.bias(f"b_{layer}", biases), lengths, *states]
            made = [f"outputs_{layer}", *ends]
            g.ops(operator.kind, *inputs, names=made, hidden_size=H, **operator.attributes)  # (S, 1, B, H), (1, B, H)
            values = g.op("Squeeze", made[0], g.numbers(1))
            after.append(ends)
        if L > 1:
            for name, layers in zip(names, zip(*after, strict=True), strict=True):
                g.op("Concat", *layers, name=f"{name}_after", axis=0)
        return g.op("Reshape", g.op("Transpose", values, perm=[1, 0, 2]), g.numbers(-1, H))

    def _by_layer(self, name: str, state: str) -> list[str]:
        """(L, B, H) → (1, B, H) for each layer."""
        layers = self.config.layers
        if layers == 1:
            return [state]
        return self.graph.ops("Split", state, names=[f"{name}_{layer}" for layer in range(layers)], axis=0)

    def _gates(self, name: str, layer: int) -> NDArray[np.float32]:
        """A layer's W, U or one of its biases with the gates in the operator's order: (1, G·H, …)."""
        stored = {"W": "weight_ih", "U": "weight_hh", "b_input": "bias_ih", "b_hidden": "bias_hh"}[name]
        array = self.weights[f"recurrence.{stored}_l{layer}"]
        order = OPERATORS[self.config.cell].gates
        gates = array.reshape(len(order), self.config.hidden_size, *array.shape[1:])
        return gates[list(order)].reshape(1, *array.shape)

    # --- equations (2) and (3)

    def _expected(self, there: str) -> list[str]:
        """For each component whether it is what follows, (B·S,) each: after a shared row or a component in the middle
        the next component, else a row."""
        g, flat = self.graph, self._flat("codes")
        inner, row = [], there
        for s in range(1, self.table.components):
            first = self.table.alone if s == 1 else self.offsets[s - 1]
            within = self._within(flat, first, self.offsets[s])
            inner.append(within)
            row = g.op("And", row, g.op("Not", within))
        return [row, *inner]

    def _within(self, codes: str, first: int, end: int) -> str:
        g = self.graph
        above = g.op("GreaterOrEqual", codes, g.number(first))
        return g.op("And", above, g.op("Less", codes, g.number(end)))

    def _edge(self, is_last: str) -> str:
        """(B·S,): whether the codes of a word up to here are those of the last place; "": no softmax asks.

        With more than two components that depends on codes before, so it is part of the state.
        """
        g, K = self.graph, self.table.components
        cut = [softmax.component for softmax in self.softmaxes if softmax.missing]
        if not cut:
            return ""
        last = [first + code for first, code in zip(self.offsets, self.table.last_place, strict=True)]
        edge = g.op("Equal", "codes", g.number(last[0]))
        if max(cut) > 1:
            before = g.cast(g.op("Reshape", self._state("edge", 1, 1), g.numbers(-1, 1)), BOOL)  # (B, 1)
            rows, match = edge, edge
            for s in range(1, K - 1):
                match = g.op("Or", match, g.op("Equal", "codes", g.number(last[s])))
            for _ in range(1, K - 1):
                shifted = g.columns(edge, 0, -1)
                carried = g.op("Concat", before, shifted, axis=1)
                edge = g.op("And", match, g.op("Or", rows, carried))
        edge = self._flat(edge)
        if max(cut) > 1:
            ends = g.cast(g.op("Compress", edge, is_last, axis=0), FLOAT)
            g.op("Reshape", ends, g.numbers(1, -1, 1), name="edge_after")
        return edge

    def _prefixes(self, is_last: str) -> str:
        """(B·S,): what the codes of a word up to here are in lexicographic order, as words' biases are; "": there are
        none.

        With more than two components that depends on codes before, so it is part of the state.
        """
        g, K, shape = self.graph, self.table.components, self.table.shape
        if not any(softmax.of_words for softmax in self.softmaxes):
            return ""
        rows = numbers = g.op("Sub", "codes", g.number(self.table.alone))
        if K > 2:
            before = g.cast(g.op("Reshape", self._state("prefix", 1, 1), g.numbers(-1, 1)), INT64)  # (B, 1)
            for _ in range(1, K - 1):
                carried = g.op("Concat", before, g.columns(numbers, 0, -1), axis=1)
                numbers = rows
                for s in range(1, K - 1):
                    value = g.op("Sub", "codes", g.number(self.offsets[s]))
                    longer = g.op("Add", g.op("Mul", carried, g.number(shape[s])), value)
                    here = self._within("codes", self.offsets[s], self.offsets[s + 1])
                    numbers = g.op("Where", here, longer, numbers)
        last = -(-(len(self.table) - self.table.alone) // shape[-1]) - 1
        numbers = self._flat(g.op("Min", g.op("Max", numbers, g.number(0)), g.number(last)))
        if K > 2:
            ends = g.cast(g.op("Compress", numbers, is_last, axis=0), FLOAT)
            g.op("Reshape", ends, g.numbers(1, -1, 1), name="prefix_after")
        return numbers

    def _scores(
        self, features: str, following: str, is_last: str, edge: str, prefixes: str, expected: list[str]
    ) -> None:
        """log_probs of the codes that follow, and next_… where none does.

        A code that cannot follow the one before it has -inf.
        """
        g = self.graph
        zeros = g.op("ConstantOfShape", g.op("Shape", following))
        found: list[str] = []
        ends: dict[int, list[str]] = {}
        possible = ""
        for softmax in self.softmaxes:
            where = expected[softmax.component]
            here = g.op("And", where, self._within(following, softmax.first, softmax.end))
            possible = g.op("Or", possible, here) if possible else here
            if ends.get(softmax.component):  # the rest of a head: where one of it comes, or any might
                where = g.op("And", where, g.op("Or", here, is_last))
            positions = self._flat(g.op("NonZero", where))  # (P,)
            log_probs = self._log_probs(softmax, g.op("Gather", features, positions), edge, prefixes, positions)
            found.append(self._picked(softmax, log_probs, following, positions, zeros))
            of_last = g.op("Compress", log_probs, g.op("Gather", is_last, positions), axis=0)
            ends.setdefault(softmax.component, []).append(of_last)
        total = g.op("Where", possible, g.op("Sum", *found), g.number(-np.inf, FLOAT))
        total = g.op("Where", g.op("Less", following, g.number(0)), g.number(0, FLOAT), total)
        by_track = g.op("Reshape", total, g.op("Shape", "codes"))
        g.columns(by_track, 0, -1, name="log_probs")
        for component, lasts in ends.items():
            self._next(component, lasts)

    def _log_probs(self, softmax: Softmax, features: str, edge: str, prefixes: str, positions: str) -> str:
        """Equation (2): features (P, F) → (P, n)."""
        g = self.graph
        scores = g.op("Gemm", features, softmax.vectors.whole(), *filter(None, [softmax.bias]), transB=1)
        if softmax.of_words:
            scores = g.op("Add", scores, softmax.of_words.rows(g.op("Gather", prefixes, positions)))
        if softmax.missing:
            on_edge = g.op("Unsqueeze", g.op("Gather", edge, positions), g.numbers(1))
            scores = g.op("Where", g.op("And", on_edge, softmax.missing), g.number(-np.inf, FLOAT), scores)
        return g.op("LogSoftmax", scores, axis=-1)

    def _picked(self, softmax: Softmax, log_probs: str, following: str, positions: str, zeros: str) -> str:
        """Of log-probabilities (P, n) those of the codes that follow, at their positions, (B·S,): in a head that of the
        rest, where the code is of it."""
        g = self.graph
        most = softmax.size if softmax.has_rest else softmax.size - 1
        targets = g.op("Sub", g.op("Gather", following, positions), g.number(softmax.first))
        targets = g.op("Min", g.op("Max", targets, g.number(0)), g.number(most))
        picked = g.op("GatherElements", log_probs, g.op("Unsqueeze", targets, g.numbers(1)), axis=1)
        return g.op("ScatterElements", zeros, positions, self._flat(picked), axis=0)

    def _next(self, component: int, lasts: list[str]) -> None:
        """log P of every value of a component, for those tracks that it follows; of rows in two softmaxes, in one."""
        g, n, name = self.graph, self.table.shape[component], component_names(self.table.components)[component]
        output = f"next_{name}"
        self.outputs.append((output, FLOAT, (f"{name}_tracks", n)))
        if len(lasts) == 1:
            g.op("Identity", lasts[0], name=output)
            return
        of_head, within = lasts
        among_all = g.op("Add", within, g.columns(of_head, -1))
        g.op("Concat", g.columns(of_head, 0, -1), among_all, name=output, axis=1)


def part_sizes(model: "onnx.ModelProto") -> dict[str, int]:
    """Bytes of what a file of it is made of."""
    sizes = {
        "words": sum(len(entry.value.encode()) for entry in model.metadata_props if entry.key == "words"),
        "weights": sum(len(array.raw_data) for array in model.graph.initializer),
    }
    return sizes | {"graph": model.ByteSize() - sum(sizes.values())}

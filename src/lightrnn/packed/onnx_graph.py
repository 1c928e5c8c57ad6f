"""An ONNX graph that grows node by node, each known by the name of what it gives. The extra `onnx` is imported here.

Shapes: a weight is (…, n, d), n vectors of d numbers.

A weight of int8 is stored as its steps and scales, and the graph multiplies them: w = scale · q, a scale a vector.
Runtimes do so once, when they load the graph, since it is all of constants. DequantizeLinear would say the same, but
onnxruntime keeps that for integer kernels, which recurrent operators do not have, and does it again at every call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from .weights import Precision, narrowed, quantised

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 17, 8  # what onnxruntime 1.12 of 2022 and all later ones read
INT32, INT64, FLOAT, BOOL = (np.dtype(kind) for kind in ("int32", "int64", "float32", "bool"))
Value = tuple[str, np.dtype[Any], Sequence[int | str]]  # name, type, shape of what goes in or comes out


def check_onnx() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise LightRNNError("ONNX files need the onnx package; install it with: pip install 'lightrnn[onnx]'") from None


@dataclass
class Graph:
    """precision: of the weights; everything is computed in float32."""

    precision: Precision
    nodes: "list[onnx.NodeProto]" = field(default_factory=list)
    initializers: "dict[str, onnx.TensorProto]" = field(default_factory=dict)

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node of one output, under a name that is given or made; an input that is left out is empty."""
        return self.ops(kind, *inputs, names=[name or f"{kind}_{len(self.nodes)}"], **attributes)[0]

    def ops(self, kind: str, *inputs: str, names: Sequence[str], **attributes: Any) -> list[str]:
        """A node of several outputs."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return list(names)

    def cast(self, value: str, kind: np.dtype[Any]) -> str:
        from onnx import helper

        return self.op("Cast", value, to=helper.np_dtype_to_tensor_dtype(kind))

    def columns(self, value: str, begin: int, end: int = 2**31, name: str = "") -> str:
        """value[:, begin:end]"""
        return self.op("Slice", value, self.numbers(begin), self.numbers(end), self.numbers(1), name=name)

    def array(self, name: str, array: NDArray[Any]) -> str:
        """A constant, stored under its name."""
        from onnx import numpy_helper

        self.initializers[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def numbers(self, *numbers: int) -> str:
        """A constant of some whole numbers, (n,); the same ones are stored once."""
        return self.array(f"numbers_{'_'.join(map(str, numbers))}", np.array(numbers, INT64))

    def number(self, number: float, kind: np.dtype[Any] = INT64) -> str:
        """A constant without dimensions."""
        return self.array(f"{kind}_{number}", np.array(number, kind))

    def weight(self, name: str, array: NDArray[np.float32]) -> "Weight":
        """A weight in the graph's precision."""
        if self.precision == "int8":
            scales, steps = quantised(array, array.shape[-1])
            return Weight(self, self.array(name, steps), self.array(f"{name}.scales", scales))
        return Weight(self, self.array(name, narrowed(name, array, self.precision)))

    def bias(self, name: str, array: NDArray[np.float32]) -> str:
        """The same of a bias, which int8 leaves as it is."""
        return self.array(name, array) if self.precision == "int8" else self.weight(name, array).whole()

    def model(
        self, inputs: Sequence[Value], outputs: Sequence[Value], about: str, metadata: Mapping[str, str]
    ) -> "onnx.ModelProto":
        """The whole, checked."""
        from onnx import checker, helper

        def infos(values: Sequence[Value]) -> "list[onnx.ValueInfoProto]":
            return [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)
                for name, kind, shape in values
            ]

        graph = helper.make_graph(
            self.nodes, "lightrnn", infos(inputs), infos(outputs), list(self.initializers.values()), doc_string=about
        )
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, producer_name="lightrnn", opset_imports=opset, ir_version=IR_VERSION)
        helper.set_model_props(model, dict(metadata))
        checker.check_model(model, full_check=True)
        return model


@dataclass(frozen=True)
class Weight:
    """A weight in a graph, by the name of what is stored, and of its scales if it has any."""

    graph: Graph
    stored: str
    scales: str = ""

    def whole(self) -> str:
        """All of it in float32."""
        return self._widened(self.stored, self.scales)

    def rows(self, numbers: str) -> str:
        """Some of its rows in float32: numbers (…) → (…, d)."""
        picked = [self.graph.op("Gather", name, numbers) if name else "" for name in (self.stored, self.scales)]
        return self._widened(*picked)

    def _widened(self, values: str, scales: str) -> str:
        if self.graph.precision == "float32":
            return values
        wide = self.graph.cast(values, FLOAT)
        return self.graph.op("Mul", wide, scales) if scales else wide

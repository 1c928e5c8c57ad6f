"""ONNX files: onnxruntime on what `export` writes against PyTorch and the NumPy predictor, and what the files hold."""

import json
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, numpy_helper

import lightrnn
from helpers import CELLS, ROOT, Call, lm_of, printed, random_lightrnn, refused, run_apart, train_small, vocabulary_of
from lightrnn.errors import LightRNNError
from lightrnn.models.lightrnn import LightRNN
from lightrnn.packed import model as packed
from lightrnn.packed.model import Network
from lightrnn.packed.onnx_export import export
from lightrnn.packed.onnx_graph import IR_VERSION, OPSET
from lightrnn.registry import CELLS as KNOWN_CELLS
from lightrnn.text.corpus import Corpus
from lightrnn.text.spelling import Ids

CLOSE = 1e-4  # nats; float32 with sums in another order, weights of 0.7, some dozen steps
Found = dict[str, np.ndarray]


def network_of(model: LightRNN) -> Network:
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items() if name != "codes"}
    return Network(model.config, vocabulary_of(len(model.table)), weights, model.table, {})


class Runtime:
    """A graph in onnxruntime, on one thread."""

    def __init__(self, model: onnx.ModelProto, optimized: Path | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if optimized is not None:
            options.optimized_model_filepath = str(optimized)
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        shapes = {given.name: given.shape for given in self.session.get_inputs() if given.name != "codes"}
        self.start = {
            name: np.zeros([side if isinstance(side, int) else 1 for side in shape], np.float32)
            for name, shape in shapes.items()
        }

    def read(self, codes: Any, state: Found) -> tuple[Found, Found]:
        """All outputs, and the state among them as it goes in again."""
        names = [output.name for output in self.session.get_outputs()]
        given = {"codes": np.asarray(codes, np.int64), **state}
        found = dict(zip(names, self.session.run(None, given), strict=True))
        return found, {name: found[f"{name}_after"] for name in state}

    def all_words(self, model: LightRNN, codes: np.ndarray) -> np.ndarray:
        """(V,): the log-probability of every word after some codes, component by component: a track a prefix."""
        table, parts = model.table, [name for name in self._outputs() if name.startswith("next_")]
        found, state = self.read(codes[None], self.start)
        log_probs = found[parts[0]][0]
        alone, prefixes = log_probs[: table.alone], log_probs[table.alone :]
        feed = np.arange(table.alone, table.shape[0])
        for s in range(1, table.components):
            found, state = self.read(feed[:, None], state)
            prefixes = (prefixes[:, None] + found[parts[s]]).ravel()
            state = {name: array.repeat(table.shape[s], axis=1) for name, array in state.items()}
            feed = np.tile(np.arange(table.shape[s]) + model.offsets[s], len(feed))
        return np.concatenate([alone, prefixes])[table.places]

    def _outputs(self) -> list[str]:
        return [output.name for output in self.session.get_outputs()]


def some_words(model: LightRNN, count: int = 40) -> Ids:
    """Words at random, among them some at the edge of the table."""
    ids = np.random.default_rng(1).integers(0, len(model.table), count).astype(np.int32)
    ids[5:30:4] = model.table.words[-1]
    return ids


def reference(model: LightRNN, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """By PyTorch: log-probabilities of all words but the first (N-1,), and of every word after them (V,)."""
    with torch.inference_mode():
        log_probs, state = model.log_probs(torch.from_numpy(ids[None].astype(np.int64)))
    inner = tuple(tensor.numpy() for tensor in state)
    return log_probs[0].sum(dim=1).numpy(), model.predictor().all_words(int(ids[-1]), inner)


def by_word(model: LightRNN, ids: Ids, log_probs: np.ndarray) -> np.ndarray:
    """Of the log-probabilities of all codes but the first those of words, but the first."""
    return np.array([log_probs[begin - 1 : end - 1].sum() for begin, end in pairwise(model.spelling.ends(ids)[1:])])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(("alone", "head"), [(0, 0), (6, 0), (6, 4)])
@pytest.mark.parametrize("tied", [False, True])
def test_onnxruntime_gives_what_pytorch_gives(
    cell: str, layers: int, K: int, alone: int, head: int, tied: bool
) -> None:
    model = random_lightrnn(cell, V=23, K=K, layers=layers, alone=alone, head=head, tied=tied)
    runtime, ids = Runtime(export(network_of(model), "float32")), some_words(model)
    codes = model.spelling.spell(ids)
    scores, following = reference(model, ids)
    found, after = runtime.read(codes[None], runtime.start)
    np.testing.assert_allclose(by_word(model, ids, found["log_probs"][0]), scores, atol=CLOSE)
    np.testing.assert_allclose(runtime.all_words(model, codes), following, atol=CLOSE)
    with torch.inference_mode():
        _, state = model.read(torch.from_numpy(codes[None]))
    for name, tensor in zip("hc", state, strict=False):
        np.testing.assert_allclose(after[name], tensor.numpy(), atol=CLOSE)


@pytest.mark.parametrize(
    "settings",
    [
        *({"V": 25}, {"V": 27, "K": 3}, {"V": 20, "alone": 20}, {"V": 30, "K": 4, "alone": 3}, {"bias": False}),
        *({"rows": 3}, {"tied": True, "units": 5}, {"tied": True, "alone": 9, "head": 9, "bias": False}),
        *(
            {"V": V, "K": K, "alone": N, "word_bias": True}
            for V, K, N in [(25, 2, 0), (23, 2, 6), (31, 3, 4), (30, 4, 0)]
        ),
        *({"V": 20, "alone": 20, "word_bias": True}, {"rows": 3, "tied": True, "word_bias": True}),
    ],
    ids=str,
)
def test_odd_tables_and_settings(settings: dict[str, Any]) -> None:
    """Full tables, all words alone, four components, no biases or those of words, a low table, tied vectors as wide as
    the state."""
    model = random_lightrnn(**settings)
    runtime, ids = Runtime(export(network_of(model), "float32")), some_words(model)
    codes = model.spelling.spell(ids)
    scores, following = reference(model, ids)
    found, _ = runtime.read(codes[None], runtime.start)
    np.testing.assert_allclose(by_word(model, ids, found["log_probs"][0]), scores, atol=CLOSE)
    if model.alone == len(model.table):
        np.testing.assert_allclose(found["next_row"][0][model.table.places], following, atol=CLOSE)
    else:
        np.testing.assert_allclose(runtime.all_words(model, codes), following, atol=CLOSE)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("K", "word_bias"), [(2, False), (3, False), (2, True), (4, True)])
def test_code_by_code_is_all_at_once(cell: str, K: int, word_bias: bool) -> None:
    """Wherever a text is cut, inside a word at the edge of the table too."""
    model = random_lightrnn(cell, V=23, K=K, layers=2, alone=4, tied=True, head=2, word_bias=word_bias)
    runtime, codes = Runtime(export(network_of(model), "float32")), model.spelling.spell(some_words(model))
    whole, last = runtime.read(codes[None], runtime.start)
    state, found = runtime.start, []
    for code, target in pairwise(codes):
        step, state = runtime.read([[code]], state)
        assert step["log_probs"].shape == (1, 0)
        (name,) = [name for name, array in step.items() if name.startswith("next_") and len(array)]
        component = np.searchsorted(model.offsets, target, side="right") - 1
        assert list(step).index(name) == component + 1
        found.append(step[name][0, target - model.offsets[component]])
    np.testing.assert_allclose(found, whole["log_probs"][0], atol=CLOSE)
    _, state = runtime.read(codes[None, -1:], state)
    for name in last:
        np.testing.assert_allclose(state[name], last[name], atol=CLOSE)


@pytest.mark.parametrize("cell", CELLS)
def test_tracks_of_unlike_length_are_as_by_themselves(cell: str) -> None:
    model = random_lightrnn(cell, V=23, K=3, layers=2, alone=4)
    runtime, codes = Runtime(export(network_of(model), "float32")), model.spelling.spell(some_words(model))
    tracks = [codes[:1], codes[2:9], codes[:30], codes[11:13]]
    _, before = runtime.read([[codes[3]]] * 4, runtime.start)
    padded = np.full((4, 30), -1)
    for track, some in zip(padded, tracks, strict=True):
        track[: len(some)] = some
    together, after = runtime.read(padded, before)
    ends: dict[str, list[np.ndarray]] = {name: [] for name in together if name.startswith("next_")}
    for b, some in enumerate(tracks):
        single, state = runtime.read(some[None], {name: array[:, b : b + 1] for name, array in before.items()})
        np.testing.assert_allclose(together["log_probs"][b, : len(some) - 1], single["log_probs"][0], atol=CLOSE)
        assert (together["log_probs"][b, len(some) - 1 :] == 0).all()
        for name, array in state.items():
            np.testing.assert_allclose(after[name][:, b : b + 1], array, atol=CLOSE)
        for name, found in ends.items():
            found.append(single[name])
    for name, found in ends.items():
        np.testing.assert_allclose(together[name], np.concatenate(found), atol=CLOSE)


def test_what_cannot_follow_has_no_probability() -> None:
    model = random_lightrnn(V=23, alone=4, head=2)
    runtime = Runtime(export(network_of(model), "float32"))
    row, column = model.shape[0] - 1, model.shape[0]
    for impossible in ([row, row], [row, 0], [0, column], [column, column], [row, column + model.shape[1] - 1]):
        found, _ = runtime.read([impossible], runtime.start)
        assert found["log_probs"] == -np.inf
    found, _ = runtime.read([[row, column], [0, row], [column, 1]], runtime.start)
    assert np.isfinite(found["log_probs"]).all()


@pytest.mark.parametrize("tied", [False, True])
def test_codes_that_there_are_not_are_refused(tied: bool) -> None:
    model = random_lightrnn(V=23, alone=4, tied=tied)
    runtime = Runtime(export(network_of(model), "float32"))
    with pytest.raises(Exception, match="out of data bounds"):
        runtime.read([[sum(model.shape)]], runtime.start)


# --- what is in the file


def arrays_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {array.name: numpy_helper.to_array(array) for array in model.graph.initializer}


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_file_holds_every_weight_once_and_narrow(precision: str, tied: bool) -> None:
    model = random_lightrnn(V=900, units=40, layers=2, alone=50, head=20, tied=tied)
    network = network_of(model)
    made = export(network, precision)  # type: ignore[arg-type]
    matrices = [array for array in network.weights.values() if array.ndim > 1]
    stored = [a for name, a in arrays_of(made).items() if a.dtype == precision and not re.search("^b_|bias", name)]
    assert sum(array.size for array in stored if array.ndim) == sum(array.size for array in matrices)
    wide = sum(array.nbytes for array in arrays_of(made).values() if array.dtype == np.float32)
    vectors, biases = (sum(len(array) for array in network.weights.values() if array.ndim == n) for n in (2, 1))
    allowed = {"float32": sum(array.nbytes for array in matrices), "float16": 0, "int8": 4 * vectors}[precision]
    assert wide <= allowed + 4 * biases + 64  # and some single numbers
    words = len("\n".join(network.vocabulary.words))
    narrow = sum(array.nbytes for array in stored)
    described = 16_000  # bytes of nodes and metadata, whatever the size of the model
    assert made.ByteSize() < narrow + (wide if precision != "float32" else 4 * biases) + words + described


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize(
    ("cell", "operator"), [("lstm", "LSTM"), ("gru", "GRU"), ("rnn-tanh", "RNN"), ("rnn-sigmoid", "RNN")]
)
def test_a_graph_is_of_standard_operators_whose_weights_are_constants(
    precision: str, cell: str, operator: str, tmp_path: Path
) -> None:
    """In the file, or once a runtime has loaded it: none is computed at every call."""
    network = network_of(random_lightrnn(cell, V=90, layers=2, alone=10, tied=True, head=5))
    made = export(network, precision)  # type: ignore[arg-type]
    onnx.checker.check_model(made, full_check=True)
    assert [(opset.domain, opset.version) for opset in made.opset_import] == [("", OPSET)]
    assert made.ir_version == IR_VERSION
    kinds = Counter(node.op_type for node in made.graph.node)
    assert (kinds[operator], kinds["Gemm"], kinds["LogSoftmax"]) == (2, 4, 3)
    assert not {"DequantizeLinear", "If", "Loop", "Scan"} & set(kinds)
    if precision == "float32":
        assert "Mul" not in kinds
    Runtime(made, optimized := tmp_path / "loaded.onnx")
    loaded = onnx.load(optimized)
    constants = {array.name: array.data_type for array in loaded.graph.initializer}
    for node in loaded.graph.node:
        weights = {operator: node.input[1:4], "Gemm": node.input[1:2]}.get(node.op_type, [])
        assert all(constants[name] == TensorProto.FLOAT for name in weights), node.name


def test_a_tool_that_quantises_finds_the_weights_of_the_recurrence(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    model = random_lightrnn(V=90, units=48)
    onnx.save(export(network_of(model), "float32"), tmp_path / "wide.onnx")
    quantize_dynamic(tmp_path / "wide.onnx", tmp_path / "narrow.onnx", op_types_to_quantize=["LSTM"])
    narrow = onnx.load(tmp_path / "narrow.onnx")
    assert Counter(node.op_type for node in narrow.graph.node)["DynamicQuantizeLSTM"] == 1
    small, large = ((tmp_path / f"{name}.onnx").stat().st_size for name in ("narrow", "wide"))
    recurrence = sum(p.numel() for name, p in model.recurrence.named_parameters() if "weight" in name)
    assert large - small > 2 * recurrence  # of the three bytes a weight that it saves some go into nodes


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_narrow_weights_are_those_of_a_packed_file(precision: Any) -> None:
    model = random_lightrnn(V=60, units=24, alone=10, tied=True, head=5)
    network = network_of(model)
    back = packed.read(packed.write(network, precision), "it").weights
    narrow = LightRNN(model.config, model.table)
    narrow.load_state_dict({name: torch.from_numpy(array) for name, array in back.items()} | {"codes": model.codes})
    runtime, ids = Runtime(export(network, precision)), some_words(model)
    codes = model.spelling.spell(ids)
    found, _ = runtime.read(codes[None], runtime.start)
    log_probs = by_word(model, ids, found["log_probs"][0])
    np.testing.assert_allclose(log_probs, reference(narrow.eval(), ids)[0], atol=CLOSE)
    assert np.abs(log_probs - reference(model, ids)[0]).max() > CLOSE  # it is not float32


def test_weights_too_large_for_float16_are_refused() -> None:
    model = random_lightrnn()
    with torch.no_grad():
        model.recurrence.weight_hh_l0[0, 0] = 1e6
    with pytest.raises(LightRNNError, match="too large for float16; pack with --precision float32"):
        export(network_of(model), "float16")


def test_a_cell_without_an_operator_is_refused() -> None:
    KNOWN_CELLS.add("mine", KNOWN_CELLS["rnn-tanh"])
    try:
        with pytest.raises(LightRNNError, match="no operator for the cell mine; known are lstm, gru"):
            export(network_of(random_lightrnn("mine")), "float32")
    finally:
        KNOWN_CELLS.remove("mine")


# --- from a trained model to an answer


@pytest.fixture(scope="module")
def trained(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    return train_small(
        tiny, folder, epochs=4, hidden_size=24, embedding_size=16, alone=12, head=6, tied=True, learning_rate=0.02
    )


def perplexity(path: Path, ids: Ids, lm: Any) -> float:
    """Of a text as one stream, by the file alone but for the words' ids."""
    model = onnx.load(path)
    entries = {entry.key: entry.value for entry in model.metadata_props}
    about, places = json.loads(entries["lightrnn"]), {w: p for p, w in enumerate(entries["words"].split("\n"))}
    (rows, columns), alone = about["table_shape"], about["alone"]

    def codes_of(word: int) -> list[int]:
        place = places[lm.vocabulary.words[word]]
        row, column = divmod(place - alone, columns)
        return [place] if place < alone else [alone + row, rows + column]

    first, runtime = codes_of(lm.vocabulary.bos_id)[-1:], Runtime(model)
    found, _ = runtime.read([[*first, *(code for word in ids.tolist() for code in codes_of(word))]], runtime.start)
    return float(np.exp(-found["log_probs"].sum(dtype=np.float64) / len(ids)))


def test_int8_costs_next_to_nothing(trained: Path, tiny: Corpus, call: Call, tmp_path: Path) -> None:
    lm, ids = lightrnn.load(trained), tiny.split("test")
    figures = {}
    for precision in ("float32", "float16", "int8"):
        told = json.loads(printed(call("pack", trained, "-o", f"{precision}.onnx", "--precision", precision, "--json")))
        path = tmp_path / f"{precision}.onnx"
        assert told["bytes"] == path.stat().st_size == sum(told["parts"].values())
        figures[precision] = perplexity(path, ids, lm)
    exact = lm.evaluate(ids).perplexity
    assert figures["float32"] == pytest.approx(exact, rel=1e-5)
    assert figures["int8"] == pytest.approx(figures["float32"], rel=5e-3)
    assert figures["float16"] == pytest.approx(figures["float32"], rel=1e-3)
    assert exact < 0.5 * len(lm.vocabulary)  # it has learnt something that could be lost


def test_a_packed_file_makes_the_same_as_its_folder(trained: Path, call: Call, tmp_path: Path) -> None:
    """But for the order of words that only the folder knows, which a table has no use for."""
    for source, made in ((trained, "words.lightrnn"), (trained, "one.onnx"), ("words.lightrnn", "other.onnx")):
        printed(call("pack", source, "-o", made))
    one, other = (onnx.load(tmp_path / name) for name in ("one.onnx", "other.onnx"))
    assert one.SerializeToString() == other.SerializeToString()


def test_the_program_of_the_docs_answers_as_lightrnn_does(trained: Path, call: Call, tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8"), re.S)
    assert not re.search(r"torch|lightrnn\b(?!\"\])", program)
    printed(call("pack", trained, "-o", "model.onnx", "--precision", "float32"))
    for sentence in ("w1 w2 w3", "w5 nonsense w1", ""):
        first, *lines = printed(run_apart(sentence, script=program, folder=tmp_path)).splitlines()
        lm = lightrnn.load(trained)
        assert float(first.removeprefix("log10 P ")) == pytest.approx(lm.score(sentence), abs=CLOSE)
        expected = lm.next_words(sentence, 5)
        assert [line.split()[0] for line in lines] == [word for word, _ in expected]
        assert [float(line.split()[1]) for line in lines] == pytest.approx([p for _, p in expected], rel=CLOSE)


def test_packing_needs_no_pytorch(trained: Path, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from lightrnn.packed.model import Network\n"
        "from lightrnn.packed.onnx_export import export\n"
        "export(Network.of_folder(sys.argv[1]), 'int8')\n"
        "print('torch' in sys.modules)"
    )
    assert printed(run_apart(trained, script=script)) == "False\n"


def test_without_the_package_the_extra_is_named(
    trained: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "pip install 'lightrnn[onnx]'" in refused(call("pack", trained, "-o", "model.onnx"))
    assert not list(tmp_path.iterdir())


def test_words_are_told_as_they_are() -> None:
    """In the order of their places, whatever they are made of but white space."""
    lm = lm_of(9)
    network = network_of(lm.model)
    network.vocabulary.words[4:7] = ["</script>", "a\u2028b\x85", "žluťoučký"]
    entries = {entry.key: entry.value for entry in export(network, "int8").metadata_props}
    listed = entries["words"].split("\n")
    assert [listed[place] for place in network.table.places] == network.vocabulary.words
    about = json.loads(entries["lightrnn"])
    assert about["format"] == 1
    assert about["rules"] == network.vocabulary.rules.to_dict()
    assert (tuple(about["table_shape"]), about["alone"], about["precision"]) == (network.table.shape, 0, "int8")

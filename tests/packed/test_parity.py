"""A packed model in NumPy against the PyTorch model that it was made from, whatever its shape."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import CELLS, FLOAT32, network_of, random_lightrnn, train_small, vocabulary_of
from lightrnn.inference.loading import load
from lightrnn.inference.network import NetworkLM
from lightrnn.models.lightrnn import LightRNN
from lightrnn.packed.model import Network, read, write
from lightrnn.packed.weights import Precision
from lightrnn.text.corpus import Corpus

V = 23
SHAPES = [  # what a LightRNN's weights depend on, besides cell, layers and components
    {},
    {"alone": 6},
    {"alone": 6, "tied": True},  # vectors of 5, states of 7: projected
    {"tied": True, "units": 5},  # vectors and states of one size
    {"alone": 6, "head": 3, "tied": True},
    {"alone": 6, "head": 3, "bias": False},
    {"alone": 6, "head": 3, "tied": True, "word_bias": True},
    {"word_bias": True},
]


def both(model: LightRNN, precision: Precision = "float32") -> tuple[NetworkLM, NetworkLM, np.ndarray]:
    """The model in PyTorch, the same packed and read, and [V]: the latter's ids of the words."""
    vocabulary = vocabulary_of(V)
    packed = NetworkLM.of_packed(read(write(network_of(model, vocabulary), precision), "x"))
    return NetworkLM(model, vocabulary), packed, packed.vocabulary.encode(vocabulary.words)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numpy_answers_as_pytorch_does(cell: str, layers: int, K: int, shape: dict[str, int]) -> None:
    model = random_lightrnn(cell, V, K, layers, **shape)
    for name, parameter in model.recurrence.named_parameters():
        if name.startswith("weight_hh"):
            parameter.data.mul_(0.5)  # what is forgotten: without, a plain cell makes more of every difference
    lm, packed, ids_of = both(model)
    assert sorted(ids_of) == list(range(V))
    near = {"atol": FLOAT32, "rtol": FLOAT32}
    ids = np.random.default_rng(1).integers(V, size=600).astype(np.int32)
    for convention in ("stream", "sentence"):
        one, other = lm.token_log_probs(ids, convention), packed.token_log_probs(ids_of[ids], convention)
        np.testing.assert_allclose(one, other, **near)
    one, other = lm.empty_state(), packed.empty_state()
    read_one, one = lm.read_words(one, ids[:90])
    read_other, other = packed.read_words(other, ids_of[ids[:90]])
    np.testing.assert_allclose(read_one, read_other, **near)
    for word in ids[:5].tolist():
        for mine, its in zip(one.inner, other.inner, strict=True):
            np.testing.assert_allclose(mine, its, **near)
        np.testing.assert_allclose(lm.next_log_probs(one), packed.next_log_probs(other)[ids_of], **near)
        log_prob, one = lm.read_word(one, word)
        log_prob_of_packed, other = packed.read_word(other, int(ids_of[word]))
        assert log_prob == pytest.approx(log_prob_of_packed, abs=FLOAT32)
    assert dict(packed.next_words(other, 5)) == pytest.approx(dict(lm.next_words(one, 5)), abs=FLOAT32)
    assert packed.next_words(other, 3, "w1")[0][0].startswith("w1")
    np.testing.assert_allclose(lm.vectors, packed.vectors[ids_of], **near)
    np.testing.assert_allclose(lm.unigram, packed.unigram[ids_of])
    assert packed.score("w1 w2") == pytest.approx(lm.score("w1 w2"), abs=FLOAT32)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"layers": 2, "components": 3},
        {"alone": 9, "tied": True, "embedding_size": 5, "head": 4},
        {"alone": 9, "components": 3, "layers": 2},
    ],
    ids=str,
)
def test_a_trained_model_answers_alike(tiny: Corpus, tmp_path: Path, cell: str, fields: dict[str, Any]) -> None:
    folder = train_small(tiny, tmp_path / "model", cell=cell, learning_rate=0.02, **fields)
    lm, packed = load(folder), NetworkLM.of_packed(read(write(Network.of_folder(folder), "float32"), "x"))
    ids_of, ids = packed.vocabulary.encode(lm.vocabulary.words), tiny.split("valid")
    near = {"atol": FLOAT32, "rtol": FLOAT32}
    for convention in ("stream", "sentence"):
        one, other = lm.token_log_probs(ids, convention), packed.token_log_probs(ids_of[ids], convention)
        np.testing.assert_allclose(one, other, **near)
    one, other = lm.state("w1 w2 w3"), packed.state("w1 w2 w3")
    np.testing.assert_allclose(lm.next_log_probs(one), packed.next_log_probs(other)[ids_of], **near)
    assert [word for word, _ in packed.next_words(other, 3)] == [word for word, _ in lm.next_words(one, 3)]


@pytest.mark.parametrize("precision", ["int8", "float16"])
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[4]], ids=str)
def test_narrow_weights_are_read_as_what_they_mean(precision: Precision, shape: dict[str, int]) -> None:
    """PyTorch with the weights that the file stands for gives what NumPy reads from the file."""
    model = random_lightrnn(V=V, **shape)
    network = network_of(model, vocabulary_of(V))
    meant = read(write(network, precision), "x").weights
    assert any((meant[name] != network.weights[name]).any() for name in meant)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in meant.items()}, strict=False)
    lm, _, _ = both(model)
    packed = NetworkLM.of_packed(read(write(network, precision), "x"))
    ids_of = packed.vocabulary.encode(lm.vocabulary.words)
    ids = np.random.default_rng(1).integers(V, size=300).astype(np.int32)
    near = {"atol": FLOAT32, "rtol": FLOAT32}
    np.testing.assert_allclose(lm.token_log_probs(ids), packed.token_log_probs(ids_of[ids]), **near)
    state, other = lm.state("w1 w2"), packed.state("w1 w2")
    np.testing.assert_allclose(lm.next_log_probs(state), packed.next_log_probs(other)[ids_of], **near)


def test_a_text_and_its_words_one_by_one_score_alike() -> None:
    _, packed, _ = both(random_lightrnn(V=V, alone=6, tied=True))
    ids = np.random.default_rng(2).integers(1, V, size=70).astype(np.int32)
    ids[ids == packed.vocabulary.eos_id] = 2
    state, one_by_one = packed.begin_state(), []
    for word in ids.tolist():
        log_prob, state = packed.read_word(state, word)
        one_by_one.append(log_prob)
    together = packed.token_log_probs(ids, "sentence").sum(axis=1)
    np.testing.assert_allclose(together, one_by_one, atol=FLOAT32, rtol=FLOAT32)


def test_the_same_seed_writes_the_same_text() -> None:
    _, packed, _ = both(random_lightrnn(V=V, alone=6))
    texts = [[word for word, _ in zip(packed.generate("w1", seed=3), range(20), strict=False)] for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_packed_model_can_be_had_in_pytorch() -> None:
    """For another device, or for what only PyTorch does."""
    lm, packed, ids_of = both(random_lightrnn(V=V, alone=6, tied=True, head=3))
    words = ids_of[np.random.default_rng(1).integers(V, size=30)]
    first = packed.stream_state()
    expected, _ = packed.read_words(first, words)
    with torch.inference_mode():
        sequence = torch.tensor([[first.last_word, *words.tolist()]])
        found, _ = packed.model.log_probs(sequence, packed.model.initial_state(1))
    np.testing.assert_allclose(found[0].sum(dim=1), expected, atol=FLOAT32, rtol=FLOAT32)
    assert sum(p.numel() for p in packed.model.parameters()) == sum(p.numel() for p in lm.model.parameters())

"""The paper's opponents: exact distributions, literal oracles in NumPy, and the same training as LightRNN's."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers import CPU, FLOAT32, Call, outcome_of, printed, started, wait_for
from lightrnn import registry
from lightrnn.config import BootstrapConfig, ModelConfig, Recipe
from lightrnn.errors import LightRNNError
from lightrnn.inference.passes import evaluate, stream_log_probs
from lightrnn.models import characters
from lightrnn.models.base import TorchReader, to_arrays
from lightrnn.models.checkpoint import load_model, load_training, save_training
from lightrnn.models.kind import Size, build, kind_of
from lightrnn.models.outputs import (
    AdaptiveSoftmax,
    BlackOut,
    HierarchicalSoftmax,
    adaptive_shape,
    class_places,
)
from lightrnn.table.bigrams import bigram_vectors
from lightrnn.table.shapes import table_shape
from lightrnn.text.corpus import Corpus
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary, frequency_ranks
from lightrnn.text.windows import Window
from lightrnn.training import bootstrap
from lightrnn.training.starts import choose_start
from lightrnn.training.trainer import Trainer, clip_gradients

KINDS = ("full", "hsm", "chsm", "blackout", "adaptive", "tied full", "tied adaptive")
FAST = Recipe(bootstrap=BootstrapConfig(refine="cluster")).override(
    {"hidden_size": 12, "batch_size": 4, "window": 10, "epochs": 3, "dropout": 0.1, "learning_rate": 0.02}
)


def words_of(V: int) -> Vocabulary:
    """V words of one to fifty characters, the frequent ones not first."""
    rng = np.random.default_rng(V)
    lengths = [1, 50, 41, 40, 39, *rng.integers(2, 9, size=V)]
    words = [f"{i}" + "".join(rng.choice(list("aäbß√"), size=n)) for i, n in enumerate(lengths)]
    return Vocabulary(["</s>", "<unk>", *words[: V - 2]], rng.integers(0, 50, size=V), TextRules())


def settings_of(kind: str, **fields) -> ModelConfig:
    """Of one of KINDS."""
    return ModelConfig(model=kind.removeprefix("tied "), tied=kind.startswith("tied "), **fields)


def make(kind: str, V: int = 23, layers: int = 1, cell: str = "lstm", size: int = 5, **fields):
    torch.manual_seed(V)
    config = settings_of(kind, layers=layers, cell=cell, hidden_size=7, embedding_size=size, dropout=0.3, **fields)
    model = build(config, words_of(V), None, seed=3)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2 if kind == "chsm" and name.startswith("input.") else 0.7)
    return model.eval()


def weights(model) -> dict[str, np.ndarray]:
    return {name: tensor.detach().double().numpy() for name, tensor in model.state_dict().items()}


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max())
    return e / e.sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("V", [3, 4, 23, 25, 30])
@pytest.mark.parametrize("layers", [1, 2])
def test_probabilities_of_all_words_sum_to_one(kind: str, V: int, layers: int) -> None:
    model = make(kind, V, layers)
    _, state = model.log_probs(torch.tensor([[1, 0, 2]]))
    tracks = torch.tensor([[2, word] for word in range(V)])
    stacked = tuple(tensor.expand(-1, V, -1).contiguous() for tensor in state)
    scored = model.log_probs(tracks, stacked)[0]
    assert scored.shape == (V, 1, len(kind_of(model.config).parts(model.config)))
    scored = scored.sum(dim=-1)[:, 0]
    assert abs(scored.exp().sum().item() - 1) < FLOAT32
    torch.testing.assert_close(
        torch.from_numpy(model.predictor().all_words(2, to_arrays(state))), scored.double(), atol=FLOAT32, rtol=FLOAT32
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn-tanh", "rnn-sigmoid"])
def test_carried_state_is_one_pass_and_nothing_after_a_word_is_seen(kind: str, cell: str) -> None:
    model = make(kind, layers=2, cell=cell)
    words = torch.randint(23, (3, 21))
    whole, end = model.log_probs(words)
    state, parts = model.initial_state(3), []
    for begin, stop in ((0, 8), (8, 9), (9, 20)):
        piece, state = model.log_probs(words[:, begin : stop + 1], state)
        parts.append(piece)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=FLOAT32, rtol=FLOAT32)
    for one, other in zip(state, end, strict=True):
        torch.testing.assert_close(one, other, atol=FLOAT32, rtol=FLOAT32)
    changed = words.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 23
    other, _ = model.log_probs(changed)
    torch.testing.assert_close(other[:, :5], whole[:, :5])
    assert not torch.allclose(other[:, 5:], whole[:, 5:])


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_what_is_scored_and_dropout_acts_in_training_only(kind: str) -> None:
    model = make(kind)
    words = torch.randint(23, (2, 9))
    if kind != "blackout":
        log_probs, _ = model.log_probs(words)
        torch.testing.assert_close(model.losses(words)[0], -log_probs.sum(dim=-1))
    torch.testing.assert_close(model.log_probs(words)[0], model.log_probs(words)[0])
    model.train()
    assert not torch.allclose(model.log_probs(words)[0], model.log_probs(words)[0])


@pytest.mark.parametrize("V", [3, 23, 25, 400])
@pytest.mark.parametrize("classes", ["random", "frequency"])
def test_hierarchical_softmax_against_a_loop_over_places(V: int, classes: str) -> None:
    model = make("hsm", V, classes=classes)
    output, w = model.output, weights(model.output)
    C, S = table_shape(V)
    hidden, targets = torch.randn(90, 7), torch.randint(V, (90,))
    targets[:40] = 2  # more places of one class than fit into a block
    got = output.log_probs(hidden, targets).detach().numpy()
    place = w["places"].astype(int)
    assert sorted(place) == list(range(V))
    vectors, biases = w["words.weight"].reshape(C * S, 7), w["word_bias.weight"].reshape(C * S)
    for h, word, (class_part, word_part) in zip(hidden.double().numpy(), targets.tolist(), got, strict=True):
        c = place[word] // S
        members = [other for other in range(V) if place[other] // S == c]
        P_class = softmax(w["classes.weight"] @ h + w["classes.bias"])[c]
        P_word = softmax(np.array([vectors[place[m]] @ h + biases[place[m]] for m in members]))[members.index(word)]
        np.testing.assert_allclose([class_part, word_part], np.log([P_class, P_word]), atol=FLOAT32, rtol=FLOAT32)


def test_classes_are_of_one_size_and_as_they_are_called() -> None:
    counts = np.random.default_rng(0).integers(0, 99, size=103)
    C, S = table_shape(103)
    for classes in ("random", "frequency"):
        sizes = np.bincount(class_places(counts, classes, seed=1) // S, minlength=C)
        assert (sizes[:-1] == S).all()
        assert sizes.sum() == 103
    by_class = class_places(counts, "frequency", seed=1) // S
    assert all(counts[by_class == c].min() >= counts[by_class == c + 1].max() for c in range(C - 1))
    assert not np.array_equal(class_places(counts, "random", seed=1), class_places(counts, "random", seed=2))
    assert np.array_equal(counts[np.argsort(frequency_ranks(counts))], np.sort(counts)[::-1])


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_blackout_against_the_papers_formula(alpha: float) -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 30, size=11)
    layer = BlackOut(counts, 6, samples=5, alpha=alpha)
    w = weights(layer)
    hidden, targets = torch.randn(4, 6), torch.tensor([3, 0, 10, 7])
    drawn = [2, 7, 7, 9, 3]  # one word twice, and two of the targets
    got = layer.sampled_losses(hidden, targets, torch.tensor(drawn))
    Q = np.maximum(counts, 1.0) ** alpha
    Q /= Q.sum()
    for loss, s, i in zip(got.tolist(), hidden.double().numpy(), targets.tolist(), strict=True):

        def weighted(word: int, s: np.ndarray = s) -> float:
            return np.exp(w["vectors.weight"][word] @ s + w["bias.weight"][word, 0]) / Q[word]

        S_K = [j for j in drawn if j != i]
        total = weighted(i) + sum(weighted(j) for j in S_K)
        J = np.log(weighted(i) / total) + sum(np.log(1 - weighted(j) / total) for j in S_K)
        assert loss == pytest.approx(-J, rel=1e-4)  # float32


def test_blackout_draws_from_its_proposal_and_scores_by_a_softmax() -> None:
    counts = np.array([100, 10, 1, 0, 50])
    layer = BlackOut(counts, 6, samples=40_000, alpha=0.4)
    torch.manual_seed(0)
    shares = torch.bincount(layer.draw(), minlength=5).numpy() / 40_000
    Q = np.maximum(counts, 1) ** 0.4
    np.testing.assert_allclose(shares, Q / Q.sum(), atol=0.01)  # four standard deviations of 40,000 draws
    w, hidden = weights(layer), torch.randn(5, 6)
    for word, (h, got) in enumerate(
        zip(hidden.double().numpy(), layer.log_probs(hidden, torch.arange(5)), strict=True)
    ):
        P = softmax(w["vectors.weight"] @ h + w["bias.weight"][:, 0])
        assert got.item() == pytest.approx(np.log(P[word]), rel=1e-4)  # float32


def test_blackout_has_gradients_even_when_it_draws_nothing_but_the_word() -> None:
    layer = BlackOut(np.array([3, 1]), 4, samples=2, alpha=0.4)
    hidden = torch.randn(2, 4, requires_grad=True)
    layer.sampled_losses(hidden, torch.tensor([0, 1]), torch.tensor([0, 0])).sum().backward()
    assert hidden.grad.isfinite().all()
    assert layer.vectors.weight.grad.coalesce().values().isfinite().all()


@pytest.mark.parametrize("V", [2, 3, 23, 400])
def test_adaptive_softmax_is_pytorchs_over_words_by_frequency(V: int) -> None:
    counts = np.random.default_rng(V).integers(0, 99, size=V)
    layer = AdaptiveSoftmax(counts, 8)
    hidden = torch.randn(V, 8)
    by_rank = layer.softmax.log_prob(hidden)  # (V, V): column r is the word of rank r
    order = np.argsort(-counts, kind="stable")
    got = layer.log_probs(hidden, torch.arange(V))[:, 0]
    for rank, word in enumerate(order):
        torch.testing.assert_close(got[word], by_rank[word, rank], atol=FLOAT32, rtol=FLOAT32)
        torch.testing.assert_close(layer.distribution(hidden[0])[word], by_rank[0, rank], atol=FLOAT32, rtol=FLOAT32)
    cutoffs, _ = adaptive_shape(V, 8)
    assert 0 < min(cutoffs) <= max(cutoffs) < V


@pytest.mark.parametrize("size", [5, 7])  # 7 is that of the state, which is then not projected
def test_tied_softmax_against_a_product_with_the_input_vectors(size: int) -> None:
    model = make("tied full", size=size)
    w, hidden = weights(model), torch.randn(23, 7)
    assert ("output.projection.weight" in w) == (size == 5)
    for word, (h, got) in enumerate(
        zip(hidden.double().numpy(), model.output.log_probs(hidden, torch.arange(23)), strict=True)
    ):
        projected = w["output.projection.weight"] @ h if size == 5 else h
        P = softmax(w["input.weight"] @ projected + w["output.bias"])
        assert got.item() == pytest.approx(np.log(P[word]), rel=1e-4)  # float32


@pytest.mark.parametrize("V", [3, 23, 400])
@pytest.mark.parametrize("size", [5, 7])
def test_tied_adaptive_softmax_against_a_loop_over_words(V: int, size: int) -> None:
    """The vector of a word is what goes in for it; the head's entries after its words are the tails."""
    model = make("tied adaptive", V, size=size)
    w, hidden, counts = weights(model.output), torch.randn(V, 7), words_of(V).counts
    vectors = model.word_vectors().double().numpy()
    cutoffs, _ = adaptive_shape(V, 7)
    order = np.argsort(-counts, kind="stable")
    head, *tails = np.split(order, cutoffs)
    assert len(tails) == len(cutoffs)
    got = model.output.log_probs(hidden, torch.arange(V)).detach().numpy()
    for word, (h, log_prob) in enumerate(zip(hidden.double().numpy(), got[:, 0], strict=True)):
        projected = w["projection.weight"] @ h if size == 5 else h
        scores = [vectors[other] @ projected for other in head] + [tail @ projected for tail in w["tails"]]
        P_head = softmax(np.array(scores) + w["head_bias"])
        if word in head:
            expected = P_head[list(head).index(word)]
        else:
            number = next(number for number, tail in enumerate(tails) if word in tail)
            of_tail = w[f"tail_projections.{number}.weight"] @ h
            P_tail = softmax(np.array([vectors[other] @ of_tail for other in tails[number]]))
            expected = P_head[len(head) + number] * P_tail[list(tails[number]).index(word)]
        assert log_prob == pytest.approx(np.log(expected), rel=1e-4)  # float32


@pytest.mark.parametrize("kind", ["tied full", "tied adaptive"])
def test_tied_vectors_get_gradients_from_both_sides(kind: str) -> None:
    model = make(kind, V=40)
    words = torch.tensor([[3, 9, 3, 17]])

    def gradient(of_output_only: bool) -> Tensor:
        model.zero_grad()
        hidden, _ = model.features(words)
        hidden = hidden.detach() if of_output_only else hidden
        model.scored(words, hidden).sum().backward()
        assert not model.input.weight.grad.is_sparse
        by_row = model.input.weight.grad.clone()
        return by_row[model.input.ranks.long()] if kind == "tied adaptive" else by_row

    outputs, both = gradient(of_output_only=True), gradient(of_output_only=False)
    assert (both - outputs).any(dim=1).nonzero().flatten().tolist() == [3, 9]  # what was fed
    assert outputs[[3, 9, 17]].any(dim=1).all()  # what was scored
    assert sum(p is model.input.weight for p in model.parameters()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_among_the_weights_are_checked_when_they_are_read(kind: str) -> None:
    model = make(kind)
    state = model.state_dict()
    whole = {name for name, tensor in state.items() if not tensor.is_floating_point()}
    assert kind_of(model.config).permutations & state.keys() == whole
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)  # each is stored once


def test_word_vectors_against_a_loop_over_characters() -> None:
    model = make("chsm", V=12)
    vocabulary, w = words_of(12), weights(model.input)
    assert max(map(len, vocabulary.words)) > characters.LONGEST
    alphabet = sorted(set("".join(vocabulary.words)))
    got = model.input.word_vectors(torch.arange(12)).detach().numpy()
    for word, vector in zip(vocabulary.words, got, strict=True):
        codes = [0, *(2 + alphabet.index(c) for c in word[:40]), 1]
        letters = [w["characters.weight"][code] for code in codes]
        features = []
        for width in range(1, 7):
            K, b = w[f"convolutions.{width - 1}.weight"], w[f"convolutions.{width - 1}.bias"]
            for f in range(25 * width):
                outputs = []
                for begin in range(len(letters)):
                    window = letters[begin : begin + width]
                    outputs.append(np.tanh(b[f] + sum(K[f, :, i] @ x for i, x in enumerate(window))))
                features.append(max(outputs))
        y = np.array(features)
        t = 1 / (1 + np.exp(-(w["gate.weight"] @ y + w["gate.bias"])))
        z = t * np.maximum(w["transform.weight"] @ y + w["transform.bias"], 0) + (1 - t) * y
        np.testing.assert_allclose(vector, 0.2 * (z - z.mean()) / z.std(), atol=FLOAT32, rtol=FLOAT32)


def test_a_word_is_the_same_in_any_company_and_the_cache_follows_the_weights() -> None:
    model = make("chsm")
    words = torch.tensor([[2, 7, 2], [9, 22, 3]])
    alone = torch.stack([model.input.word_vectors(word[None])[0] for word in words.flatten()])
    torch.testing.assert_close(model.input(words).flatten(0, 1), alone, atol=FLOAT32, rtol=FLOAT32)
    for change in (1.0, 2.0):
        with torch.no_grad():
            model.input.characters.weight.mul_(change)
            expected = model.input.word_vectors(words.flatten())
            torch.testing.assert_close(model.input(words).flatten(0, 1), expected, atol=FLOAT32, rtol=FLOAT32)
            assert model.input._vocabulary_vectors() is model.input._vocabulary_vectors()


# --- start vectors

STARTED = [kind for kind in KINDS if kind != "chsm"]


def standardised(vectors: np.ndarray, size: int, scale: float) -> np.ndarray:
    """Centred, cut to the first dimensions, brought to a standard deviation of scale."""
    centred = (vectors - vectors.mean(axis=0))[:, :size]
    return centred * (scale / centred.std())


def started_with(kind: str, d: int, V: int = 40):
    """A model before and after it got vectors of d dimensions; these; the words' counts."""
    model, counts = make(kind, V), words_of(V).counts
    assert (counts == 0).any()  # which have logs too
    vectors = np.random.default_rng(d).normal(2.0, 3.0, size=(V, d)).astype(np.float32)
    before = weights(model)
    model.use_word_vectors(vectors, counts, 0.1)
    return model, before, vectors, np.maximum(counts, 0.5)


@pytest.mark.parametrize("kind", STARTED)
@pytest.mark.parametrize("d", [3, 5, 30])
def test_start_vectors_fill_as_many_dimensions_of_the_input_as_they_have(kind: str, d: int) -> None:
    model, before, vectors, _ = started_with(kind, d)
    got, rest = model.word_vectors().numpy(), before["input.weight"]
    if kind == "tied adaptive":
        rest = rest[before["input.ranks"].astype(int)]
    np.testing.assert_allclose(got[:, :d], standardised(vectors, 5, 0.1), atol=FLOAT32)
    np.testing.assert_array_equal(got[:, d:], rest[:, d:])
    assert before["recurrence.weight_ih_l0"].tobytes() == weights(model)["recurrence.weight_ih_l0"].tobytes()


@pytest.mark.parametrize("kind", STARTED)
def test_a_state_of_zeros_knows_the_words_frequencies(kind: str) -> None:
    model, _, _, counts = started_with(kind, 3)
    expected = counts / counts.sum()
    if model.config.model == "adaptive":  # its tails have no biases: their words share what the tail has
        for tail in np.split(np.argsort(-counts, kind="stable"), adaptive_shape(40, 7)[0])[1:]:
            expected[tail] = expected[tail].mean()
    got = model.output.distribution(torch.zeros(7)).detach().exp().numpy()
    np.testing.assert_allclose(got, expected, atol=FLOAT32)


@pytest.mark.parametrize("kind", ["full", "blackout"])
def test_start_vectors_of_a_softmax(kind: str) -> None:
    model, before, vectors, _ = started_with(kind, 6)
    got = weights(model)["output.vectors.weight"]
    np.testing.assert_allclose(got[:, :6], standardised(vectors, 7, 0.1), atol=FLOAT32)
    np.testing.assert_array_equal(got[:, 6:], before["output.vectors.weight"][:, 6:])


def test_start_vectors_of_classes_are_the_means_of_their_words() -> None:
    model, _, vectors, counts = started_with("hsm", 6)
    w, (C, S) = weights(model.output), table_shape(40)
    place = w["places"].astype(int)
    words = w["words.weight"].reshape(C * S, 7)
    np.testing.assert_allclose(words[place, :6], standardised(vectors, 7, 0.1), atol=FLOAT32)
    members = [[word for word in range(40) if place[word] // S == c] for c in range(C)]
    means = np.stack([np.average(vectors[m], axis=0, weights=counts[m]) for m in members])
    np.testing.assert_allclose(w["classes.weight"][:, :6], standardised(means, 7, 0.1), atol=FLOAT32)


def test_start_vectors_of_an_adaptive_softmax() -> None:
    """Those of the head and of each tail, with a mean for each tail among those of the head."""
    model, _, vectors, counts = started_with("adaptive", 6)
    w = weights(model.output)
    head, *tails = np.split(np.argsort(w["ranks"]), adaptive_shape(40, 7)[0])
    means = [np.average(vectors[tail], axis=0, weights=counts[tail]) for tail in tails]
    expected = standardised(np.stack([*vectors[head], *means]), 7, 0.1)
    np.testing.assert_allclose(w["softmax.head.weight"][:, :6], expected, atol=FLOAT32)
    for number, tail in enumerate(tails):
        got = w[f"softmax.tail.{number}.1.weight"]
        np.testing.assert_allclose(got, standardised(vectors[tail], got.shape[1], 0.1), atol=FLOAT32)


def test_start_vectors_of_a_tied_adaptive_softmax() -> None:
    model, _, _, counts = started_with("tied adaptive", 6)
    words = model.word_vectors().numpy()
    _, *tails = np.split(np.argsort(-words_of(40).counts, kind="stable"), adaptive_shape(40, 7)[0])
    expected = [np.average(words[tail], axis=0, weights=counts[tail]) for tail in tails]
    np.testing.assert_allclose(weights(model)["output.tails"], expected, atol=FLOAT32)


@pytest.mark.parametrize("kind", [*KINDS, "lightrnn"])
def test_a_run_begins_with_bigram_vectors_where_they_mean_something(kind: str, tiny: Corpus, tmp_path: Path) -> None:
    def first(name: str, given: bool):
        config = settings_of(kind, hidden_size=12)
        recipe = Recipe(config, FAST.training, BootstrapConfig(bigram_vectors=given))
        (tmp_path / name).mkdir()
        return bootstrap.begin(tiny, recipe, tmp_path / name, device=CPU)

    without, run = first("without", given=False), first("given", given=True)
    vectors = run.trainer.model.word_vectors()
    if kind not in STARTED:
        torch.testing.assert_close(vectors, without.trainer.model.word_vectors(), atol=0, rtol=0)
        return
    counts = tiny.vocabulary.counts
    found = bigram_vectors(tiny.split("train"), counts, words=tiny.vocabulary.words, seed=run.recipe.training.seed)
    np.testing.assert_allclose(vectors, standardised(found, 12, FAST.training.weight_init), atol=FLOAT32)
    assert run.clock.start > without.clock.start
    perplexity = evaluate(run.trainer.model.eval(), tiny.split("valid"), tiny.vocabulary).perplexity
    # before any training: the frequencies of words are known, but for the tails' of an adaptive softmax
    assert perplexity < (1.5 if "adaptive" in kind else 1.1) * unigram_perplexity(tiny)
    assert perplexity < 0.9 * evaluate(without.trainer.model.eval(), tiny.split("valid"), tiny.vocabulary).perplexity


# --- training


def unigram_perplexity(corpus: Corpus) -> float:
    counts = corpus.vocabulary.counts + 1
    return float(np.exp(-np.log(counts / counts.sum())[corpus.split("valid")].mean()))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("full", {}),
        ("full", {"optimizer": "sgd", "learning_rate": 1.0}),
        ("hsm", {}),
        ("hsm", {"optimizer": "sgd", "learning_rate": 1.0, "classes": "frequency"}),
        ("chsm", {"optimizer": "sgd", "learning_rate": 0.3, "epochs": 2}),
        ("blackout", {"blackout_samples": 20}),
        ("adaptive", {}),
        ("full", {"tied": True, "embedding_size": 6, "bigram_vectors": True}),
        ("adaptive", {"tied": True, "optimizer": "sgd", "learning_rate": 1.0}),
        ("hsm", {"bigram_vectors": True, "classes": "bigram"}),
    ],
)
def test_it_learns_saves_and_loads(tiny: Corpus, tmp_path: Path, kind: str, fields: dict) -> None:
    recipe = FAST.override({"model": kind} | fields)
    best = np.empty(0)

    def note(run, event) -> None:
        nonlocal best
        if getattr(event, "improved", False):
            best = stream_log_probs(TorchReader(run.trainer.model), tiny.split("test"), tiny.vocabulary.bos_id)

    outcome = bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, report=note)
    # each word depends on the one before: there is much to learn
    assert outcome.best_perplexity < 0.75 * unigram_perplexity(tiny)
    assert not (tmp_path / "m" / "table.tsv").exists()
    assert json.loads((tmp_path / "m" / "config.json").read_text())["kind"] == kind
    model, vocabulary = load_model(tmp_path / "m")
    assert not model.training
    again = stream_log_probs(TorchReader(model), tiny.split("test"), vocabulary.bos_id)
    assert again.tobytes() == best.tobytes()
    assert evaluate(model, tiny.split("valid"), vocabulary).perplexity == pytest.approx(outcome.best_perplexity)


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "hsm", "layers": 2},
        {"model": "blackout", "blackout_samples": 9},
        {"model": "hsm", "optimizer": "sgd", "learning_rate": 1.0, "schedule": "halve", "validate_every": 9},
        {"model": "adaptive"},
        {"model": "chsm", "epochs": 0.3},
        {"model": "full", "tied": True, "bigram_vectors": True},
        {"model": "adaptive", "tied": True, "embedding_size": 6, "bigram_vectors": True},
    ],
    ids=lambda fields: f"{fields['model']}-{fields.get('optimizer', 'adam')}{'-tied' * fields.get('tied', False)}",
)
def test_stopping_anywhere_and_resuming_changes_nothing(tiny: Corpus, tmp_path: Path, fields: dict) -> None:
    recipe = FAST.override({"epochs": 1} | fields)
    bootstrap.train(tiny, recipe, tmp_path / "whole", device=CPU)
    events = 0

    def stop_now() -> bool:
        nonlocal events
        events += 1
        return events % 10 == 0

    outcome = bootstrap.train(tiny, recipe, tmp_path / "parts", device=CPU, should_stop=stop_now)
    resumed = 0
    while outcome.interrupted:
        resumed += 1
        torch.manual_seed(resumed)
        outcome = bootstrap.resume(tiny, tmp_path / "parts", {}, device=CPU, should_stop=stop_now)
    assert resumed >= 3  # it was stopped, and often
    one, other = outcome_of(tmp_path / "whole"), outcome_of(tmp_path / "parts")
    assert one == other
    sparse = recipe.training.optimizer == "adam" and not recipe.model.tied
    assert any(name.startswith("sparse_optimizer.") for name in one["tensors"]) == sparse


def test_a_sigkill_changes_nothing(tiny: Corpus, tmp_path: Path) -> None:
    recipe = FAST.override({"model": "hsm", "validate_every": 20})
    bootstrap.train(tiny, recipe, tmp_path / "whole", device=CPU)
    options = (
        *("--recipe", "plain", "--model", "hsm", "--hidden-size", "12", "--batch-size", "4", "--window", "10"),
        *("--epochs", "3"),
        *("--dropout", "0.1", "--learning-rate", "0.02", "--validate-every", "20", "--threads", "1", "--device", "cpu"),
    )
    written = tmp_path / "killed" / "metrics.jsonl"
    with started("train", tiny.path, "-o", tmp_path / "killed", *options) as process:
        wait_for(lambda: written.exists() and written.read_text().count("\n") >= 3, process)
    load_model(tmp_path / "killed")
    bootstrap.resume(tiny, tmp_path / "killed", {}, device=CPU)
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "killed")


@pytest.mark.parametrize("kind", ["hsm", "blackout"])
def test_clipping_is_that_of_dense_gradients(kind: str) -> None:
    """The norm, and every clipped gradient, must be what they are when no embedding is sparse."""
    words = torch.randint(23, (4, 30))
    gradients, norms = [], []
    for sparse in (True, False):
        model = make(kind).train()
        model.set_dropout(0.0)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                module.sparse = sparse
        torch.manual_seed(0)
        model.losses(words)[0].sum().backward()
        assert any(p.grad.is_sparse for p in model.parameters()) == sparse
        norm = clip_gradients(model, 0.5) if sparse else torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        norms.append(norm.item())
        gradients.append([p.grad.to_dense() for p in model.parameters()])
    assert norms[0] == pytest.approx(norms[1], rel=FLOAT32)
    assert norms[0] > 0.5  # there was something to clip
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
    # float32
    assert torch.stack([g.square().sum() for g in gradients[0]]).sum().sqrt().item() == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("kind", ["hsm", "blackout"])
def test_rows_that_no_window_touches_stay(kind: str) -> None:
    model = make(kind, V=200, **({"blackout_samples": 5} if kind == "blackout" else {}))
    recipe = FAST.override({"model": kind})
    trainer = Trainer(model, recipe.training, np.zeros(99, np.int32), np.zeros(9, np.int32), words_of(200))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trainer.train_step(Window(np.array([[5, 9, 11, 5]]), None, starts=True, tokens=3))
    after = model.state_dict()
    assert (before["input.weight"] != after["input.weight"]).any(dim=1).nonzero().flatten().tolist() == [5, 9, 11]
    if kind == "hsm":
        touched = (before["output.words.weight"] != after["output.words.weight"]).any(dim=1)
        classes = {int(model.output.places[word]) // model.output.S for word in (5, 9, 11)}
        assert set(touched.nonzero().flatten().tolist()) == classes
    else:
        touched = (before["output.vectors.weight"] != after["output.vectors.weight"]).any(dim=1)
        assert touched[[5, 9, 11]].all()
        assert touched.sum() <= 3 + 5  # its words and the samples


def test_going_on_from_an_opponent_keeps_its_kind(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    bootstrap.train(tiny, FAST.override({"model": "hsm", "epochs": 1}), tmp_path / "base", device=CPU)
    printed(call("train", tiny.path, "--init", "base", "-o", "next", "--epochs", "1"))
    base, further = (load_model(tmp_path / name)[0] for name in ("base", "next"))
    assert further.config.model == "hsm"
    assert torch.equal(base.output.places, further.output.places)
    assert not torch.equal(base.output.words.weight, further.output.words.weight)


@pytest.mark.parametrize("kind", ["hsm", "chsm"])
def test_classes_are_the_rows_of_a_bigram_start_and_stay(kind: str, tiny: Corpus, tmp_path: Path) -> None:
    recipe = FAST.override({"model": kind, "classes": "bigram"})
    bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, should_stop=lambda: True)
    table = choose_start(
        recipe.bootstrap, tiny.split("train"), tiny.vocabulary, ModelConfig(), recipe.training.seed
    ).table
    bootstrap.resume(tiny, tmp_path / "m", {}, device=CPU)
    output = load_model(tmp_path / "m")[0].output
    assert isinstance(output, HierarchicalSoftmax)
    places, words = output.places.numpy(), np.arange(len(tiny.vocabulary))
    assert sorted(places) == sorted(words)
    for row in range(table.shape[0]):
        assert set(words[places // output.S == row]) == set(words[table.codes[:, 0] == row])


def test_a_run_of_another_version_of_the_model_is_refused(tiny: Corpus, tmp_path: Path) -> None:
    bootstrap.train(tiny, FAST.override({"model": "hsm"}), tmp_path / "m", device=CPU, should_stop=lambda: True)
    tensors, facts = load_training(tmp_path / "m")
    tensors["model.input.projection.weight"] = tensors.pop("model.input.weight")
    save_training(tmp_path / "m", tensors, facts)
    with pytest.raises(LightRNNError, match="does not fit the model that its settings describe now; train again"):
        bootstrap.resume(tiny, tmp_path / "m", {}, device=CPU)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_all_but_characters_are_dropped_before_the_recurrence(kind: str, tiny: Corpus, tmp_path: Path) -> None:
    recipe = FAST.override({"model": kind, "dropout": 0.5})
    bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, should_stop=lambda: True)
    model = load_model(tmp_path / "m")[0].train()
    fed: list[Tensor] = []
    model.recurrence.register_forward_pre_hook(lambda module, inputs: fed.append(inputs[0]))
    model.losses(torch.arange(12).view(1, -1))
    zeros = (fed[0] == 0).double().mean().item()
    assert zeros < 0.01 if kind == "chsm" else 0.4 < zeros < 0.6  # of the dropout of 0.5


# --- sizes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("V", [3, 101, 400])
@pytest.mark.parametrize("units", [2, 4, 9])
def test_counts_are_those_of_the_real_model(kind: str, V: int, units: int) -> None:
    vocabulary = words_of(V)
    config = settings_of(kind, layers=2, hidden_size=units, embedding_size=4, cell="gru", output_bias=False)
    model = build(config, vocabulary, None, seed=1)
    parts = {"input vectors": model.input, "output vectors": model.output, "recurrence": model.recurrence}
    counted = kind_of(config).parameters(config, Size(V, characters=len(vocabulary.alphabet)))
    assert counted == {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}


PAPER = {  # vocabulary in thousands: parameters of HSM and C-HSM in millions, as Table 4 prints them
    152: (61, 48),
    137: (56, 44),
    60: (25, 20),
    206: (83, 64),
    339: (137, 104),
    497: (200, 152),
}


@pytest.mark.parametrize("thousands", PAPER)
def test_the_papers_parameter_counts_of_its_opponents(thousands: int) -> None:
    """Kim et al.'s small networks: two LSTM layers, of 200 with words and of 300 with characters as input."""
    for kind, units, millions in zip(("hsm", "chsm"), (200, 300), PAPER[thousands], strict=True):
        config = ModelConfig(model=kind, layers=2, hidden_size=units)
        counted = sum(kind_of(config).parameters(config, Size(thousands * 1000)).values()) / 1e6
        assert counted == pytest.approx(millions, abs=0.7)  # they round, and may count no biases

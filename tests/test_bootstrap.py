"""The table that learns: word statistics, start tables, refinements, and rounds that survive being stopped."""

import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lightrnn.cli import screen
from lightrnn.config import BootstrapConfig, ModelConfig, Recipe
from lightrnn.errors import LightRNNError
from lightrnn.inference.passes import evaluate
from lightrnn.models.checkpoint import load_model, load_training
from lightrnn.models.folder import load_table
from lightrnn.models.lightrnn import LightRNN
from lightrnn.runtime import Progress
from lightrnn.table.bigrams import bigram_vectors, neighbour_counts, positive_pmi, shrink_to_endings
from lightrnn.table.clustering import cluster
from lightrnn.table.coherence import row_coherence, table_coherence
from lightrnn.table.word_table import WordTable, table_shape
from lightrnn.text.corpus import Corpus
from lightrnn.text.vocabulary import Vocabulary
from lightrnn.training import bootstrap
from lightrnn.training.bootstrap import Event, Refined
from lightrnn.training.figures import training_figures
from lightrnn.training.fitting import round_budget
from lightrnn.training.refinement import carried_over, refine
from lightrnn.training.starts import Start, choose_start, use_start_vectors
from lightrnn.training.trainer import Validated
from lightrnn.training.word_sums import matching_costs, word_sums
from test_training import CPU, FAST, contents

ROUNDS = FAST.override({"start": "bigram", "refine": "cluster", "rounds": 2, "round_share": 0.3, "epochs": 3})


def some_model(corpus: Corpus, units: int = 6, components: int = 2, bias: bool = True) -> LightRNN:
    torch.manual_seed(4)
    config = ModelConfig(hidden_size=units, components=components, output_bias=bias, dropout=0.5)
    model = LightRNN(config, WordTable.random(len(corpus.vocabulary), components, seed=3))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def grouped_stream(classes: int, members: int, words: int) -> np.ndarray:
    """A text in which class follows class in a fixed cycle, its members at random: word = class + classes · member."""
    rng = np.random.default_rng(1)
    return (np.arange(words) % classes + classes * rng.integers(members, size=words)).astype(np.int32)


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("units", [6, 40])  # narrower and wider than the table's sides
@pytest.mark.parametrize("bias", [True, False])
def test_costs_are_the_losses_up_to_a_constant_of_the_word(
    tiny: Corpus, components: int, units: int, bias: bool
) -> None:
    """Against log-softmaxes summed position by position, which is what they stand for."""
    model = some_model(tiny, units, components, bias)
    model.is_full = True  # the costs know no missing places: compare with the unmasked softmax
    ids = tiny.split("valid")[:640]
    sums = word_sums(model, ids, tiny.vocabulary, for_matching=True)
    assert sums.is_scores == tuple(n < units for n in model.shape)
    costs = matching_costs(model, sums)
    model.eval()
    length = len(ids) // 64
    words = np.stack(
        [np.concatenate([[tiny.vocabulary.bos_id], ids])[b * length : (b + 1) * length + 1] for b in range(64)]
    )
    codes = model.codes[torch.from_numpy(words.astype(np.int64))]
    with torch.no_grad():
        hidden, _ = model.hidden_states(codes, model.initial_state(64))
    counts = np.bincount(words[:, 1:].ravel(), minlength=len(tiny.vocabulary))
    assert (sums.counts == counts).all()
    everything = np.arange(len(tiny.vocabulary))
    for s, n in enumerate(model.shape):
        with torch.no_grad():
            losses = -model.scores(s, hidden[:, :, s], codes[:, 1:, :s].long()).log_softmax(dim=-1).double().numpy()
        expected = np.zeros((len(tiny.vocabulary), n))
        np.add.at(expected, words[:, 1:].ravel(), losses.reshape(-1, n))
        expected -= expected.min(axis=1, keepdims=True)
        np.testing.assert_allclose(costs[s][everything], expected, atol=2e-3)


def test_sums_of_sentences_start_each_afresh(tiny: Corpus) -> None:
    """Against one sentence after the other, as a model of the sentence convention was trained."""
    rules = replace(tiny.vocabulary.rules, bos="<S>", convention="sentence")
    words, counts = ["<S>", *tiny.vocabulary.words], [0, *tiny.vocabulary.counts]
    vocabulary = Vocabulary(words, np.array(counts), rules)
    ids = vocabulary.encode([tiny.vocabulary.words[i] for i in tiny.split("valid")])
    torch.manual_seed(2)
    model = LightRNN(ModelConfig(hidden_size=5), WordTable.random(len(vocabulary), seed=3)).eval()
    model.reset(0.5)
    sums = word_sums(model, ids, vocabulary)
    expected = [np.zeros((len(vocabulary), 5)) for _ in range(2)]
    for sentence in filter(len, np.split(ids, np.flatnonzero(ids == vocabulary.eos_id) + 1)):
        with torch.no_grad():
            codes = model.codes[torch.from_numpy(np.array([[vocabulary.bos_id, *sentence]], np.int64))]
            hidden, _ = model.hidden_states(codes)
        for s in range(2):
            np.add.at(expected[s], sentence, hidden[0, :, s].double().numpy())
    assert (sums.counts == np.bincount(ids, minlength=len(vocabulary))).all()
    for s in range(2):
        np.testing.assert_allclose(sums.sums[s], expected[s], atol=1e-4)


def test_sums_leave_the_model_as_it_was_and_refuse_too_much(tiny: Corpus) -> None:
    model = some_model(tiny).train()
    word_sums(model, tiny.split("valid"), tiny.vocabulary)
    assert model.training
    with pytest.raises(LightRNNError, match=r"word sums need .* GB"):
        word_sums(model, tiny.split("valid"), tiny.vocabulary, memory=100.0)


def test_neighbour_counts_and_pmi_by_hand() -> None:
    ids = np.array([0, 1, 2, 0, 1, 3, 0, 2], np.int32)
    counts = np.bincount(ids)
    table = neighbour_counts(ids, counts, contexts=2).toarray()
    expected = np.zeros((4, 4))
    for left, right in itertools.pairwise(ids):
        if left < 2:
            expected[right, left] += 1
        if right < 2:
            expected[left, 2 + right] += 1
    assert (table == expected).all()
    pmi = positive_pmi(neighbour_counts(ids, counts, contexts=2)).toarray()
    total = expected.sum()
    by_hand = np.log(np.maximum(expected * total / np.outer(expected.sum(1), expected.sum(0)), 1e-12))
    np.testing.assert_allclose(pmi, np.maximum(by_hand, 0), atol=1e-6)


def test_rare_words_are_drawn_to_words_that_end_alike() -> None:
    words = ["</s>", "<unk>", "singing", "ringing", "king", "a", "ng", "dance", "glance", "trance", "ice"]
    counts = np.array([500, 9, 70, 0, 3, 12, 1, 25, 2, 0, 1])
    means = np.random.default_rng(1).standard_normal((len(words), 5)).astype(np.float32)

    def typical(ending: str, letters: int) -> np.ndarray:
        """Of all words with this ending, drawn to the next shorter one; word by word."""
        members = [i for i, word in enumerate(words) if letters == 0 or word[-letters:] == ending]
        total = sum((min(counts[i], 20) * means[i].astype(float) for i in members), np.zeros(5))
        number = sum(min(counts[i], 20) for i in members)
        if letters == 0:
            return total / number
        return (total + 20 * typical(ending[-(letters - 1) :] if letters > 1 else "", letters - 1)) / (number + 20)

    drawn = shrink_to_endings(means, counts, words)
    for index, word in enumerate(words):
        share = counts[index] / (counts[index] + 20)
        expected = share * means[index] + (1 - share) * typical(word[-4:], 4)
        np.testing.assert_allclose(drawn[index], expected, atol=1e-5)


def test_bigram_tables_find_the_classes_of_a_text() -> None:
    """Nine classes of nine words: each row of the 9 × 9 table must be one class."""
    ids = grouped_stream(classes=9, members=9, words=20_000)
    counts = np.bincount(ids, minlength=81)
    vectors = bigram_vectors(ids, counts, contexts=81, dimensions=20)
    table = cluster(vectors, np.sqrt(counts).astype(np.float32), table_shape(81))
    rows = [set((np.flatnonzero(table.codes[:, 0] == row) % 9).tolist()) for row in range(9)]
    assert sorted(rows, key=min) == [{i} for i in range(9)]


@pytest.mark.parametrize(
    ("V", "K", "rows"), [(81, 2, 0), (75, 2, 0), (64, 3, 0), (50, 3, 0), (5, 2, 0), (75, 2, 20), (75, 2, 75)]
)
def test_any_clustering_is_a_table_and_the_same_again(V: int, K: int, rows: int) -> None:
    rng = np.random.default_rng(V)
    vectors, weights = rng.standard_normal((V, 7)).astype(np.float32), rng.random(V).astype(np.float32) + 0.01
    one, other = (cluster(vectors, weights, table_shape(V, K, rows), seed=5) for _ in range(2))
    assert (one.codes == other.codes).all()  # WordTable has checked that it is a bijection
    assert one.shape == table_shape(V, K, rows)


def test_clustering_is_tighter_than_chance() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((100, 4)).astype(np.float32)
    weights = np.ones(100, np.float32)

    def within_rows(table: WordTable) -> float:
        rows = [vectors[table.codes[:, 0] == row] for row in range(10)]
        return sum(float(((row - row.mean(axis=0)) ** 2).sum()) for row in rows)

    chance = np.mean([within_rows(WordTable.random(100, seed=seed)) for seed in range(20)])
    assert within_rows(cluster(vectors, weights, (10, 10))) < 0.6 * chance


def test_weights_carried_to_the_same_table_are_the_same_model(tiny: Corpus) -> None:
    model = some_model(tiny).eval()
    same = carried_over(model, model.table, tiny.vocabulary.counts).eval()
    words = torch.randint(len(tiny.vocabulary), (2, 9))
    torch.testing.assert_close(same.log_probs(words)[0], model.log_probs(words)[0], atol=1e-5, rtol=1e-5)


def test_input_vectors_become_the_means_of_those_who_moved_in(tiny: Corpus) -> None:
    model = some_model(tiny)
    table = WordTable.random(len(tiny.vocabulary), seed=8)
    moved = carried_over(model, table, tiny.vocabulary.counts)
    rows, columns = np.split(model.input_vectors.weight.detach().numpy(), [model.shape[0]])
    weights = np.maximum(tiny.vocabulary.counts, 1e-3)
    for column in range(model.shape[1]):
        here = np.flatnonzero(table.codes[:, 1] == column)
        mean = np.average(columns[model.table.codes[here, 1]], axis=0, weights=weights[here])
        np.testing.assert_allclose(moved.input_vectors.weight[model.shape[0] + column].detach(), mean, atol=1e-5)
    assert (moved.codes.numpy() == table.codes).all()
    assert len(rows) == model.shape[0]


@pytest.mark.parametrize("solver", ["block", "half", "exact"])
def test_matching_lowers_the_cost_and_reports_it(tiny: Corpus, solver: str) -> None:
    model = some_model(tiny)
    config = BootstrapConfig(refine="matching", solver=solver)
    done = refine(model, tiny.split("train"), tiny.vocabulary, config, seed=1)
    assert done.cost_before > done.cost_after
    assert done.bound is None if solver == "half" else done.cost_after >= done.bound >= 0
    assert done.moved == (done.table.codes != model.table.codes).any(axis=1).sum() > 0
    assert 0 < done.moved_tokens <= 1


def test_start_tables(tiny: Corpus) -> None:
    def start(name: str) -> WordTable:
        return choose_start(
            BootstrapConfig(start=name), tiny.split("train"), tiny.vocabulary, ModelConfig(), seed=1
        ).table

    assert (start("random").codes == WordTable.random(len(tiny.vocabulary), seed=1).codes).all()
    assert (start("bigram").codes != start("random").codes).any()
    assert (start("bigram").codes == start("bigram").codes).all()


@pytest.mark.parametrize(("components", "rows", "size"), [(2, 0, 8), (2, 9, 300), (3, 0, 64)])
def test_a_bigram_start_gives_vectors_and_biases(tiny: Corpus, components: int, rows: int, size: int) -> None:
    config = ModelConfig(components=components, rows=rows, hidden_size=size)
    ids, counts = tiny.split("train"), tiny.vocabulary.counts
    start = choose_start(BootstrapConfig(), ids, tiny.vocabulary, config, seed=1)
    model = LightRNN(config, start.table)
    before = model.input_vectors.weight.detach().clone()
    outputs_before = [vectors.detach().clone() for vectors in model.output_vectors]
    use_start_vectors(model, start, counts, 0.1)
    words = bigram_vectors(ids, counts, words=tiny.vocabulary.words, seed=1)
    weights = np.sqrt(np.maximum(counts, 0.1))
    offset, filled = 0, min(size, words.shape[1])
    for s, n in enumerate(start.table.shape):
        chosen = start.table.codes[:, s]
        means = np.stack([np.average(words[chosen == i], axis=0, weights=weights[chosen == i]) for i in range(n)])
        words = words - means[chosen]
        means = (means - means.mean(axis=0))[:, :filled]
        got = model.input_vectors.weight.detach()[offset : offset + n]
        assert np.allclose(got[:, :filled], means * (0.1 / means.std()), atol=1e-4)
        assert torch.equal(got[:, filled:], before[offset : offset + n, filled:])
        outputs = model.output_vectors[s].detach()
        assert torch.equal(outputs[:, :filled], got[:, :filled])
        assert torch.equal(outputs[:, filled:], outputs_before[s][:, filled:])
        offset += n
        share = np.array([np.maximum(counts, 0.5)[chosen == i].sum() for i in range(n)])
        assert np.allclose(model.output_bias[s].detach().softmax(dim=0), share / share.sum(), atol=1e-5)


def test_a_table_beyond_memory_is_refused(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _: 10)
    with pytest.raises(
        LightRNNError, match=r"into a table of 21 × 3 needs .* GB and .* use a smaller vocabulary, or --rows nearer"
    ):
        choose_start(BootstrapConfig(), tiny.split("train"), tiny.vocabulary, ModelConfig(rows=30), seed=1)


def test_forget_gates_of_a_lightrnn_start_open_and_again_after_a_clustering(tiny: Corpus, tmp_path: Path) -> None:
    def first(events: int = 1, **fields: Any) -> float:
        left = iter(range(1, events))
        stop = lambda: next(left, None) is None  # noqa: E731
        recipe = ROUNDS.override({"learning_rate": 1e-6, **fields})
        bootstrap.train(tiny, recipe, tmp_path / "m", force=True, device=CPU, should_stop=stop)
        bias = load_training(tmp_path / "m")[0]["model.recurrence.bias_ih_l0"]
        return float(bias.view(4, -1)[1].mean())

    assert first() == pytest.approx(1, abs=1e-3)
    assert first(forget_bias=-2.0) == pytest.approx(-2, abs=1e-3)
    assert first(refine="cluster", events=10**6) == pytest.approx(1, abs=1e-3)
    assert first(model="hsm") == pytest.approx(0, abs=1e-3)


def test_vectors_of_the_start_are_used_unless_refused(tiny: Corpus, tmp_path: Path) -> None:
    def first(**fields: Any) -> Tensor:
        recipe = ROUNDS.override({"refine": "none", "epochs": 0.001, **fields})
        bootstrap.train(tiny, recipe, tmp_path / "m", force=True, device=CPU, should_stop=lambda: True)
        return load_training(tmp_path / "m")[0]["model.output_bias.0"].abs().max()

    assert first() > 0.3
    assert first(start_vectors=False) < 0.1
    assert first(start="random") < 0.1


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"refine": "matching", "start": "random"},
        {"refine": "matching", "solver": "half", "components": 3, "validate_every": 20},
    ],
)
def test_rounds_stopped_anywhere_end_the_same(tiny: Corpus, tmp_path: Path, fields: dict) -> None:
    recipe = ROUNDS.override(fields)
    events = []
    bootstrap.train(tiny, recipe, tmp_path / "whole", device=CPU, report=lambda run, event: events.append(event))
    refined = [event for event in events if isinstance(event, Refined)]
    assert len(refined) == 2
    calls = 0

    def stop_now() -> bool:
        nonlocal calls
        calls += 1
        return calls % 41 == 0

    outcome = bootstrap.train(tiny, recipe, tmp_path / "parts", device=CPU, should_stop=stop_now)
    while outcome.interrupted:
        torch.manual_seed(calls)
        outcome = bootstrap.resume(tiny, tmp_path / "parts", {}, device=CPU, should_stop=stop_now)
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")


@pytest.mark.parametrize("where", ["refine", "carried_over", "append_metrics", "save"])
def test_a_kill_in_a_refinement_or_right_after_it_changes_nothing(
    tiny: Corpus, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap.train(tiny, ROUNDS, tmp_path / "whole", device=CPU)
    real_refine, real = bootstrap._refine, getattr(bootstrap, where)
    armed = False

    def refining(run: bootstrap.Run, progress: Progress) -> Refined:
        nonlocal armed
        armed = True
        return real_refine(run, progress)

    def killed(*arguments: object, **options: object) -> object:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "_refine", refining)
        patch.setattr(bootstrap, where, killed)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.train(tiny, ROUNDS, tmp_path / "killed", device=CPU)
    model, vocabulary = load_model(tmp_path / "killed")
    assert (load_table(tmp_path / "killed", vocabulary).codes == model.table.codes).all()
    bootstrap.resume(tiny, tmp_path / "killed", {}, device=CPU)
    assert contents(tmp_path / "whole") == contents(tmp_path / "killed")


def test_the_folder_holds_the_best_round_with_its_own_table(tiny: Corpus, tmp_path: Path) -> None:
    outcome = bootstrap.train(tiny, ROUNDS.override({"refine": "matching", "epochs": 1.5}), tmp_path / "m", device=CPU)
    model, vocabulary = load_model(tmp_path / "m")
    assert evaluate(model, tiny.split("valid"), vocabulary).perplexity == pytest.approx(
        outcome.best_perplexity, rel=1e-6
    )
    lines = [json.loads(line) for line in (tmp_path / "m" / "metrics.jsonl").read_text().splitlines()]
    assert outcome.best_perplexity == min(line["valid_perplexity"] for line in lines if "valid_perplexity" in line)
    refined = [line for line in lines if "refinement" in line]
    assert [line["round"] for line in refined] == [1, 2]
    for line in refined:
        assert line["cost_before"] > line["cost_after"] >= line["bound"]
        assert line["perplexity_before"] > 1
        assert line["perplexity_after"] > 1


def test_the_star_marks_the_best_of_all_rounds(tiny: Corpus, tmp_path: Path) -> None:
    lines: list[tuple[float, str]] = []

    def note(run: bootstrap.Run, event: Event) -> None:
        if isinstance(event, Validated):
            lines.append((event.validation.perplexity, screen._validation_line(run, event)))

    bootstrap.train(tiny, ROUNDS, tmp_path / "m", device=CPU, report=note)
    starred = ["* rate" in line for _, line in lines]
    perplexities = [perplexity for perplexity, _ in lines]
    assert starred == [p < min([np.inf, *perplexities[:i]]) for i, p in enumerate(perplexities)]
    assert not all(starred)


def slow_starts(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    def slow(*given: Any) -> Start:
        time.sleep(seconds)
        return choose_start(*given)

    monkeypatch.setattr(bootstrap, "choose_start", slow)


def test_minutes_count_tables_and_a_resumed_run_has_no_more(
    tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_starts(monkeypatch, seconds=0.3)
    minutes: list[float] = []
    recipe = ROUNDS.override({"minutes": 0.05, "epochs": 1e5, "rounds": 1, "round_share": 0.5})

    def note(run: bootstrap.Run, event: Event) -> None:
        minutes.append(run.trainer.config.minutes)

    bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, report=note, should_stop=lambda: len(minutes) > 5)
    assert minutes[0] <= (0.05 - 0.3 / 60) / 2
    bootstrap.resume(tiny, tmp_path / "m", {}, device=CPU, report=note)
    first, last = dict.fromkeys(minutes)  # of the two rounds, each the same before and after the resume
    assert first == minutes[0]
    assert 0 < first + last < 0.05 - 0.3 / 60


def test_no_refinement_when_the_time_is_up(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_starts(monkeypatch, seconds=0.7)
    events: list[Event] = []
    recipe = ROUNDS.override({"minutes": 0.01, "epochs": 1e5})
    bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, report=lambda run, event: events.append(event))
    assert events
    assert not [event for event in events if isinstance(event, Refined)]


def test_rounds_share_the_budget() -> None:
    recipe = Recipe().override({"epochs": 10.0, "minutes": 5.0, "rounds": 3, "round_share": 0.2, "refine": "cluster"})
    budgets = [round_budget(recipe, r) for r in range(4)]
    assert [b.epochs for b in budgets] == pytest.approx([2, 2, 2, 4])
    assert [round_budget(recipe, r, 60.0 * r).minutes for r in range(4)] == pytest.approx([1, 1, 1, 2])
    assert [round_budget(recipe, r, 150.0).minutes for r in range(4)] == pytest.approx([0.5, 0.625, 2.5 / 3, 2.5])
    assert round_budget(recipe, 0, 1e6).minutes > 0  # 0 would be without end
    assert round_budget(recipe.override({"minutes": 0.0}), 1, 90).minutes == 0
    assert round_budget(recipe.override({"refine": "none"}), 0).epochs == 10


def test_rounds_that_leave_nothing_are_refused(tiny: Corpus, tmp_path: Path) -> None:
    with pytest.raises(LightRNNError, match=r"--rounds 5 of --round-share 0\.2"):
        bootstrap.train(tiny, ROUNDS.override({"rounds": 5, "round_share": 0.2}), tmp_path / "m", device=CPU)
    assert not (tmp_path / "m").exists()


def test_rows_of_a_clustered_table_are_coherent_in_unseen_text() -> None:
    train, unseen = grouped_stream(9, 9, 20_000), grouped_stream(9, 9, 3_000)
    counts = np.bincount(train, minlength=81)
    learned = cluster(bigram_vectors(train, counts, contexts=81), np.sqrt(counts).astype(np.float32), (9, 9))
    chance = table_coherence(WordTable.random(81, seed=1), unseen)
    assert table_coherence(learned, unseen) > 3 * chance
    # by hand for one row: the mean cosine of all its pairs
    seen = np.bincount(unseen, minlength=81)
    vectors = positive_pmi(neighbour_counts(unseen, seen, 81)).toarray()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    members = np.flatnonzero(learned.codes[:, 0] == 4)
    pairs = [vectors[a] @ vectors[b] for a in members for b in members if a != b]
    assert row_coherence(learned, unseen, contexts=81)[4] == pytest.approx(np.mean(pairs), rel=1e-5)


def test_figures_show_every_validation(tiny: Corpus, tmp_path: Path) -> None:
    bootstrap.train(tiny, ROUNDS, tmp_path / "m", device=CPU)
    paths = training_figures(tmp_path / "m")
    assert [path.name for path in paths] == ["perplexity.png", "loss-parts.png"]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_one_refinement_on_its_own(tiny: Corpus, tmp_path: Path) -> None:
    bootstrap.train(tiny, FAST.override({"epochs": 1}), tmp_path / "m", device=CPU)
    for how in ("matching", "cluster"):
        command = ["reallocate", str(tmp_path / "m"), str(tiny.path), "--refine", how, "-o", str(tmp_path / how)]
        done = subprocess.run([sys.executable, "-m", "lightrnn", *command], capture_output=True, check=True, text=True)
        assert "words moved" in done.stdout
        assert ("lower bound" in done.stdout) == (how == "matching")
        old, new = load_model(tmp_path / "m")[0], load_model(tmp_path / how)[0]
        assert (old.codes != new.codes).any()
        assert torch.equal(old.output_vectors[0], new.output_vectors[0])
    command = ["table", str(tmp_path / "cluster"), "--data", str(tiny.path), "--count", "3", "--json"]
    done = subprocess.run([sys.executable, "-m", "lightrnn", *command], capture_output=True, check=True, text=True)
    facts = json.loads(done.stdout)
    shown = [line["row"] for line in facts["shown"]]
    table = load_model(tmp_path / "cluster")[0].table
    assert facts["coherence"] == table_coherence(table, tiny.split("valid"))
    coherence = np.nan_to_num(
        row_coherence(load_model(tmp_path / "cluster")[0].table, tiny.split("valid"), least=8), nan=-1
    )
    assert shown == np.argsort(-coherence, kind="stable")[:3].tolist()

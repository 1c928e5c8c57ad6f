"""Words that stand alone, from training to every command that uses the model: what must hold whoever is asked."""

import json
from collections.abc import Callable, Iterator
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from helpers import CPU, FLOAT32, SMALL, SMALL_RECIPE, Call, outcome_of, printed, refused
from lightrnn.models.checkpoint import load_model
from lightrnn.models.folder import load_table, load_vocabulary
from lightrnn.registry import SOLVERS
from lightrnn.runtime import Progress
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.rules import TextRules
from lightrnn.training import bootstrap
from lightrnn.training.bootstrap import Refined

MODELS: dict[str, dict[str, Any]] = {
    "untied": {"alone": 20},
    "tied": {"alone": 30, "tied": True, "embedding_size": 5},
    "sentences": {"alone": 8, "head": 3, "tied": True, "embedding_size": 5},
    "three": {"alone": 20, "head": 9, "components": 3, "tied": True},
    "gru": {"alone": 7, "cell": "gru", "layers": 2, "rows": 4, "embedding_size": 5},
    "all": {"alone": 10_000_000, "tied": True},
}
QUICK = (*SMALL, "--epochs", "0.2")
WRITTEN = 1e-4  # relative: float32, through powers and logarithms, eight digits written


@pytest.fixture(autouse=True, scope="module")
def without_plots() -> Iterator[None]:
    """Drawing takes longer than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lightrnn.cli.train.find_spec", lambda name: None)
        patch.setattr("lightrnn.training.bootstrap.find_spec", lambda name: None)
        yield


@pytest.fixture(scope="module")
def sentences(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The same text, each sentence by itself."""
    train, valid, test = (str(tiny.path.parent / f"{split}.txt") for split in ("train", "valid", "test"))
    rules = TextRules(convention="sentence")
    return prepare(train, tmp_path_factory.mktemp("sentences") / "data", valid=valid, test=test, rules=rules)


@pytest.fixture(scope="module", params=MODELS)
def trained(
    request: pytest.FixtureRequest, tiny: Corpus, sentences: Corpus, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Corpus]:
    """A model of each sort and the text that it was trained on."""
    corpus = sentences if request.param == "sentences" else tiny
    folder = tmp_path_factory.mktemp("trained") / request.param
    bootstrap.train(corpus, SMALL_RECIPE.override({"epochs": 0.5} | MODELS[request.param]), folder, device=CPU)
    return folder, corpus


@pytest.fixture
def asked(call: Call) -> Callable[..., Any]:
    """What a command prints as JSON."""
    return lambda *arguments: json.loads(printed(call(*arguments, "--json")))


def table_of(folder: Path) -> WordTable:
    return load_table(folder, load_vocabulary(folder))


def summary(folder: Path) -> dict[str, Any]:
    """How it was trained."""
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))["training"]
    return found


def test_evaluation_is_the_validation_of_the_training(asked, trained: tuple[Path, Corpus]) -> None:
    folder, corpus = trained
    facts = asked("evaluate", folder, corpus.path, "--split", "valid")
    told = summary(folder)["valid_perplexity"]
    assert facts["perplexity"] == pytest.approx(told, rel=FLOAT32)
    assert sum(facts["parts"].values()) == pytest.approx(facts["nats"], rel=FLOAT32)
    assert exp(facts["nats"] / facts["tokens"]) == pytest.approx(told, rel=FLOAT32)
    table = table_of(folder)
    shared = (table.codes[:, 1] >= 0)[corpus.split("valid")]
    beyond = sum(list(facts["parts"].values())[1:])
    assert (beyond > 0) == shared.any()  # a word that stands alone has nothing after its row


@pytest.mark.parametrize("convention", ["stream", "sentence"])
def test_scores_sum_to_the_evaluation(
    asked, call: Call, trained: tuple[Path, Corpus], tiny: Corpus, convention: str
) -> None:
    folder, text = trained[0], tiny.path.parent / "test.txt"
    facts = asked("evaluate", folder, text, "--convention", convention)
    lines = printed(call("score", folder, text, "--convention", convention, "--log-base", "e")).splitlines()
    total = -sum(float(line.split("\t")[0]) for line in lines)
    assert total == pytest.approx(facts["nats"], rel=FLOAT32)
    assert sum(int(line.split("\t")[1]) for line in lines) == facts["tokens"]


@pytest.mark.parametrize("context", ["", "w1 w2 w40"])
def test_next_words_have_the_probabilities_of_their_scores(
    asked, call: Call, trained: tuple[Path, Corpus], context: str
) -> None:
    folder, _ = trained
    table, vocabulary = table_of(folder), load_vocabulary(folder)
    found = asked("next", folder, context, "-k", 1000, "--unk")["words"]
    assert sum(fact["probability"] for fact in found) == pytest.approx(1, abs=WRITTEN)
    assert {fact["word"] for fact in found} == set(vocabulary.words)
    assert [fact["probability"] for fact in found] == sorted((f["probability"] for f in found), reverse=True)
    alone = [fact for fact in found if table.codes[vocabulary.ids[fact["word"]], 1] < 0]
    sharing = [fact for fact in found if fact not in alone]
    some = [fact for fact in (*alone[:4], *alone[-2:], *sharing[:4], *sharing[-2:]) if fact["word"] != "</s>"]
    lines = "".join(f"{context} {fact['word']}\n" for fact in some).encode()
    scored = printed(call("score", folder, "--format", "jsonl", "--log-base", "e", stdin=lines)).splitlines()
    for fact, line in zip(some, scored, strict=True):
        assert json.loads(line)["log_probs"][-2] == pytest.approx(log(fact["probability"]), rel=WRITTEN, abs=WRITTEN)
    few = asked("next", folder, context, "-k", 5)["words"]
    assert [fact["word"] for fact in few] == [fact["word"] for fact in found[:5]]
    prefixed = asked("next", folder, context, "-k", 4, "--prefix", "w1")["words"]
    expected = [fact["word"] for fact in found if fact["word"].startswith("w1")][:4]
    assert [fact["word"] for fact in prefixed] == expected


def test_generated_text_is_repeatable_and_greedy_takes_the_likeliest(
    asked, call: Call, trained: tuple[Path, Corpus]
) -> None:
    folder, _ = trained
    drawn = ("generate", folder, "-n", 60, "--seed", 3)
    assert printed(call(*drawn)) == printed(call(*drawn))
    words = set(printed(call(*drawn)).split())
    assert words <= set(load_vocabulary(folder).words)
    table, ids = table_of(folder), load_vocabulary(folder).ids
    stand = {table.codes[ids[word], 1] < 0 for word in words}
    assert stand == ({True} if table.alone == len(table) else {True, False})
    cut = printed(call("generate", folder, "-n", 60, "--seed", 3, "--top-k", 1)).split()
    first = asked("next", folder, "", "-k", 1)["words"][0]["word"]
    assert cut[:1] == ([first] if first != "</s>" else cut[:1])
    if table.alone == len(table):  # no rows before columns: greedy words are the likeliest
        assert printed(call("generate", folder, "-n", 60, "--greedy")).split() == cut
    assert printed(call("generate", folder, "--prompt", "w1", "--beam", 3, "-n", 5)).startswith("w1")


def test_a_vector_is_the_state_after_all_codes_of_its_word(
    call: Call, trained: tuple[Path, Corpus], tmp_path: Path
) -> None:
    folder, _ = trained
    printed(call("vectors", folder, "-o", "vectors.txt"))
    heading, *lines = (tmp_path / "vectors.txt").read_text(encoding="utf-8").splitlines()
    model, vocabulary = load_model(folder)
    assert heading == f"{len(vocabulary)} 8"
    spelled = model.spelling.codes
    for line, word, codes in zip(lines, vocabulary.words, spelled, strict=True):
        name, *values = line.split(" ")
        assert name == word
        with torch.inference_mode():
            state = model.read(torch.from_numpy(codes[codes >= 0])[None])[0][0, -1].numpy()
        np.testing.assert_allclose(np.array(values, float), state, rtol=1e-5, atol=1e-6)  # six digits are written


def test_a_mix_and_rescored_lists_go_by_the_same_scores(
    asked, call: Call, trained: tuple[Path, Corpus], tmp_path: Path
) -> None:
    folder, corpus = trained
    printed(call("ngram", corpus.path, "-o", "kn.arpa", "--order", 2))
    *members, mixed = asked("mix", folder, "kn.arpa", "--tune", corpus.path, "-o", "mixed")["models"]
    assert sum(member["weight"] for member in members) == pytest.approx(1)
    assert mixed["tune"] <= min(member["tune"] for member in members) * (1 + FLOAT32)
    valid = asked("evaluate", "mixed", corpus.path, "--split", "valid")["perplexity"]
    assert valid == pytest.approx(mixed["tune"], rel=WRITTEN)

    texts = ("w1 w2 w3", "w40 w1", "w50 w51 w52 w1")
    lists = "".join(f"one\t-1.5\t{text}\n" for text in texts)
    (tmp_path / "lists.tsv").write_text(lists, encoding="utf-8")
    ranked = [line.split("\t") for line in printed(call("rescore", folder, "lists.tsv")).splitlines()]
    scores = printed(call("score", folder, stdin="".join(f"{text}\n" for text in texts).encode())).splitlines()
    expected = {text: float(line.split("\t")[0]) - 1.5 for text, line in zip(texts, scores, strict=True)}
    assert {text: float(total) for _, total, text in ranked} == pytest.approx(expected, rel=WRITTEN)
    assert [text for _, _, text in ranked] == sorted(texts, key=lambda text: -expected[text])


@pytest.mark.parametrize("how", [("cluster",), *(("matching", "--solver", solver) for solver in SOLVERS)])
def test_refinements_move_only_words_that_share(
    asked, call: Call, trained: tuple[Path, Corpus], tmp_path: Path, how: tuple[str, ...]
) -> None:
    folder, corpus = trained
    command = ("reallocate", folder, corpus.path, "--refine", *how, "-o", "moved", "--threads", 1)
    old = table_of(folder)
    if old.alone == len(old):
        assert "all words stand alone" in refused(call(*command))
        return
    printed(call(*command))
    new = table_of(tmp_path / "moved")
    moved = (old.codes != new.codes).any(axis=1)
    assert (old.shape, old.alone) == (new.shape, new.alone)
    assert moved.any()
    assert (old.codes[moved, 1] >= 0).all()
    facts = asked("evaluate", "moved", corpus.path, "--split", "valid")
    assert facts["perplexity"] == pytest.approx(summary(tmp_path / "moved")["valid_perplexity"], rel=FLOAT32)


def test_what_info_says(asked, call: Call, trained: tuple[Path, Corpus]) -> None:
    folder, _ = trained
    model, vocabulary = load_model(folder)
    table, facts = model.table, asked("info", folder)
    weights = {name: array for name, array in load_file(folder / "weights.safetensors").items() if name != "codes"}
    assert sum(facts["parameters"].values()) == sum(array.size for array in weights.values())
    assert facts["parameters"]["input vectors"] == weights["input_vectors.weight"].size
    assert facts["table_shape"] == list(table.shape)
    assert facts["alone"] == table.alone
    assert facts["shared_shape"] == list(table.shared.shape)
    lengths = [1 if codes[1] < 0 else len(table.shape) for codes in table.codes]
    assert facts["steps_a_word"] == pytest.approx(np.average(lengths, weights=vocabulary.counts))
    assert (facts["tied"], facts["embedding_size"]) == (model.config.tied, model.config.input_size)
    conventional, own = (facts[whose]["input vectors"] for whose in ("conventional", "parameters"))
    assert conventional == len(vocabulary) * model.config.input_size >= own
    shown = printed(call("info", folder))
    assert f"{facts['steps_a_word']:.2f} recurrent steps a word" in shown
    assert ("all alone" in shown) == (table.alone == len(table))
    assert ("output vectors" in shown) == (not model.config.tied)
    assert ("biases and projection" in shown) == (model.config.tied and model.config.input_size == 5)


# --- the table as it is shown


def test_the_table_is_that_of_words_that_share(asked, call: Call, trained: tuple[Path, Corpus]) -> None:
    folder, corpus = trained
    table, vocabulary = table_of(folder), load_vocabulary(folder)
    counts, alone = vocabulary.counts, table.alone
    facts = asked("table", folder, "--count", 1000, "--words", 3)
    by_count = np.argsort(-counts, kind="stable")[:alone]
    assert facts["alone"]["count"] == alone
    assert facts["alone"]["words"] == [vocabulary.words[w] for w in by_count[:3]]
    assert facts["alone"]["more"] == alone - 3
    assert facts["alone"]["share"] == pytest.approx(counts[by_count].sum() / counts.sum())
    assert sorted(line["row"] for line in facts["shown"]) == list(range(alone, table.shape[0]))
    shared = int(counts[table.sharing].sum())
    assert sum(line["tokens"] for line in facts["shown"]) + facts["alone"]["tokens"] == shared + counts[by_count].sum()
    shown = printed(call("table", folder, "--count", 2))
    assert shown.startswith(f"{alone} words stand alone, {facts['alone']['share']:.1%} of the training text:  ")

    word = vocabulary.words[by_count[4]]
    assert asked("table", folder, "--word", word)["place"] == [4]
    assert printed(call("table", folder, "--word", word)).splitlines() == [
        f"{word}: place (4), {counts[by_count[4]]:,} occurrences",
        "stands alone: no other word is in its row, and it has no column",
    ]
    assert "stands alone" in printed(call("table", folder, "--row", 4))
    ranked = asked("table", folder, "--data", corpus.path)
    assert ("coherence" in ranked) == (len(table.sharing) > 0)
    if not len(table.sharing):
        assert "all words of this table stand alone" in refused(call("table", folder, "--column", 0))
        return
    assert all(line["row"] >= alone for line in ranked["shown"])
    assert "stands alone" not in printed(call("table", folder, "--row", alone))
    mate = vocabulary.words[table.sharing[0]]
    found = asked("table", folder, "--word", mate, "--words", 1000)
    row, *column = table.codes[table.sharing[0]].tolist()
    assert found["place"] == [row, *column]
    places = [table.codes[[vocabulary.ids[word] for word in line["words"]]] for line in found["shown"]]
    assert (places[0][:, 0] == row).all()
    assert (places[1][:, 1:] == column).all()
    assert [len(place) + 1 for place in places] == [
        (table.codes[:, 0] == row).sum(),
        (table.codes[:, 1:] == column).all(axis=1).sum(),
    ]


# --- training that is stopped, goes on, begins elsewhere

ROUNDS = {"rounds": 2, "round_share": 0.3, "epochs": 0.6, "alone": 20, "tied": True, "embedding_size": 5}


@pytest.mark.parametrize(
    ("convention", "fields"),
    [
        ("stream", {"refine": "matching", "dropout": 0.2}),
        ("sentence", {"refine": "matching", "components": 3, "solver": "half", "validate_every": 20}),
        ("sentence", {"refine": "cluster", "tied": False, "cell": "gru", "layers": 2}),
        ("stream", {"alone": 10_000_000, "dropout": 0.2}),
    ],
)
def test_a_stopped_run_goes_on_to_the_same_bytes(
    call: Call, tiny: Corpus, sentences: Corpus, tmp_path: Path, convention: str, fields: dict[str, Any]
) -> None:
    corpus = tiny if convention == "stream" else sentences
    recipe = SMALL_RECIPE.override(ROUNDS | fields)
    events = []
    bootstrap.train(corpus, recipe, tmp_path / "whole", device=CPU, report=lambda run, event: events.append(event))
    assert len([event for event in events if isinstance(event, Refined)]) == recipe.bootstrap.refinements
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls % 23 == 0

    outcome = bootstrap.train(corpus, recipe, tmp_path / "parts", device=CPU, should_stop=stop)
    assert outcome.interrupted
    assert bootstrap.resume(corpus, tmp_path / "parts", device=CPU, should_stop=stop).interrupted
    assert call("train", corpus.path, "-o", "parts", "--resume", "--threads", 1).code == 0
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "parts")


def test_a_run_killed_in_a_refinement_goes_on_to_the_same_bytes(
    call: Call, tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = SMALL_RECIPE.override(ROUNDS | {"refine": "matching"})
    bootstrap.train(tiny, recipe, tmp_path / "whole", device=CPU)

    def killed(*arguments: object, progress: Progress, **options: object) -> None:
        progress("reading words", 1, 2)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "refine", killed)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.train(tiny, recipe, tmp_path / "killed", device=CPU)
    assert call("train", tiny.path, "-o", "killed", "--resume", "--threads", 1).code == 0
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "killed")


def test_where_all_words_stand_alone_nothing_is_refined(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    """Asked for, it is refused before anything is trained; a recipe's refinement gives way."""
    (tmp_path / "recipe.toml").write_text("[bootstrap]\nrefine = 'cluster'\n", encoding="utf-8")
    every = ("train", tiny.path, "-o", "model", "--alone", 10**6)
    assert "all words stand alone" in refused(call(*every, *QUICK, "--refine", "matching"))
    assert not (tmp_path / "model").exists()
    sizes = [option for option in QUICK if option not in ("--refine", "none")]
    result = call(*every, *sizes, "--recipe", "recipe.toml")
    assert result.code == 0, result.err
    assert "not refined" in result.err


def test_going_on_from_a_model(asked, call: Call, trained: tuple[Path, Corpus], tmp_path: Path) -> None:
    folder, corpus = trained
    old = load_model(folder)[0]
    go_on = ("train", corpus.path, "--init", folder, *QUICK[2:])  # of the size that the model has
    assert call(*go_on, "-o", "next").code == 0
    new = load_model(tmp_path / "next")[0]
    assert torch.equal(old.codes, new.codes)
    assert new.config.alone == old.config.alone == old.alone
    better, before = (asked("evaluate", model, corpus.path, "--split", "valid") for model in ("next", folder))
    assert better["perplexity"] < before["perplexity"]
    told = refused(call(*go_on, "-o", "other", "--alone", old.alone + 1))
    assert f"--alone cannot change with --init: the model has {old.alone}" in told
    assert "--alone cannot change on --resume" in refused(
        call("train", corpus.path, "-o", "next", "--resume", "--alone", 3)
    )


@pytest.mark.parametrize("alone", ["auto", 10_000])
def test_the_command_of_a_run_goes_on_with_it(call: Call, tiny: Corpus, alone: object, tmp_path: Path) -> None:
    """What was asked for is not the number that it came to."""
    command = ("train", tiny.path, "-o", "m", *SMALL, "--alone", alone)
    assert call(*command, "--epochs", "0.1").code == 0
    result = call(*command, "--epochs", "0.2", "--resume")
    assert result.code == 0, result.err
    assert load_model(tmp_path / "m")[0].alone == table_of(tmp_path / "m").alone > 0


def test_training_on_a_given_table(call: Call, trained: tuple[Path, Corpus], tmp_path: Path) -> None:
    folder, corpus = trained
    old = table_of(folder)
    given = ("train", corpus.path, "--table", folder / "table.tsv", *QUICK)
    assert call(*given, "-o", "same", "--alone", old.alone).code == 0
    assert (table_of(tmp_path / "same").codes == old.codes).all()
    assert load_model(tmp_path / "same")[0].config.alone == old.alone
    told = refused(call(*given, "-o", "other", "--alone", old.alone + 1))
    assert f"--alone cannot differ from --table's, which has {old.alone}" in told


def test_any_word_may_stand_alone_in_a_table_that_is_given(asked, call: Call, tiny: Corpus, tmp_path: Path) -> None:
    """Not the most frequent ones, and not in their order."""
    apart = np.array([40, 3, 17])
    table = WordTable.random(len(tiny.vocabulary), seed=1, alone=apart)
    with (tmp_path / "table.tsv").open("wb") as file:
        table.write(file, tiny.vocabulary)
    assert call("train", tiny.path, "--table", "table.tsv", "-o", "model", *QUICK).code == 0
    words = [tiny.vocabulary.words[w] for w in apart]
    assert [asked("table", "model", "--word", word)["place"] for word in words] == [[0], [1], [2]]
    assert asked("table", "model")["alone"]["words"] == sorted(words, key=tiny.vocabulary.ids.__getitem__)
    counts = tiny.vocabulary.counts
    assert asked("info", "model")["steps_a_word"] == pytest.approx(2 - counts[apart].sum() / counts.sum())


def test_windows_in_which_no_word_begins(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    """One code each: now and then it is a column."""
    tracks = ("--batch-size", 1, "--window", 1, "--epochs", 0.05)
    assert call("train", tiny.path, "-o", "model", "--alone", 8, *QUICK, *tracks).code == 0
    assert summary(tmp_path / "model")["steps"] > summary(tmp_path / "model")["words"]


# --- options


@pytest.mark.parametrize(("value", "alone"), [("auto", None), ("0", 0), ("5", 5), ("10000000", 62)])
def test_how_many_words_stand_alone(call: Call, tiny: Corpus, tmp_path: Path, value: str, alone: int | None) -> None:
    result = call("train", tiny.path, "-o", "model", "--alone", value, "--tied", *QUICK)
    assert result.code == 0, result.err
    table, counts = table_of(tmp_path / "model"), tiny.vocabulary.counts
    expected = min(alone, len(counts)) if alone is not None else int((counts >= 50).sum())
    assert 0 <= table.alone == expected
    standing = table.codes[:, 1] < 0
    if 0 < expected < len(counts):
        assert counts[standing].min() >= counts[~standing].max()


def test_a_number_that_is_none(refuse, world) -> None:
    told = refuse("train", world.data, "-o", "out", "--alone", "banana")
    assert "(--alone) must be auto or a whole number at least 0 and at most 2,147,483,647, got 'banana'" in told


def test_an_opponent_has_no_words_that_stand_alone(refuse, world) -> None:
    told = refuse("train", world.data, "-o", "out", "--model", "full", "--alone", 3)
    assert "--alone is for --model lightrnn" in told


def test_info_without_a_model(asked, call: Call) -> None:
    options = ("--recipe", "plain", "--alone", 100, "--tied", "--embedding-size", 50, "--hidden-size", 80)
    facts = asked("info", "--vocab-size", 1000, *options)
    assert (facts["table_shape"], facts["shared_shape"], facts["alone"]) == ([130, 30], [30, 30], 100)
    assert facts["steps_a_word"] is None  # no text is known
    assert facts["parameters"]["input vectors"] == 160 * 50
    assert facts["parameters"]["output vectors"] == 160 + 50 * 80
    assert facts["conventional"]["input vectors"] == 1000 * 50
    assert asked("info", "--vocab-size", 1000, "--alone", 10**6)["steps_a_word"] == 1
    assert asked("info", "--vocab-size", 1000, "--alone", 0)["steps_a_word"] == 2
    assert asked("info", "--vocab-size", 1000, "--model", "full")["steps_a_word"] == 1
    assert "by Zipf's law" in call("info", "--vocab-size", 1000, "--alone", "auto").err

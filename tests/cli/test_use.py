"""The commands that use a model: next, generate, vectors, mix, evaluate on any kind."""

import io
import json
import os
import pty
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.cells import cell_len

import lightrnn
from helpers import FLOAT32, TIMEOUT, Call, Refusal, printed, refused, started
from lightrnn.cli.next import ALT, CTRL_U, CTRL_W, Prompt, fitting, pressed_key
from lightrnn.config import ModelConfig, Recipe, TrainingConfig
from lightrnn.inference.cache import CacheLM
from lightrnn.inference.mixture import Mix
from lightrnn.inference.network import NetworkLM
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap


@pytest.fixture(scope="module")
def models(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two small trained models over the same words."""
    folders = []
    for seed in (1, 2):
        folder = tmp_path_factory.mktemp("models") / f"model{seed}"
        recipe = Recipe(ModelConfig(hidden_size=12), TrainingConfig(epochs=2, batch_size=5, window=12, seed=seed))
        bootstrap.train(tiny, recipe, folder, device=torch.device("cpu"))
        folders.append(folder)
    return folders


@pytest.fixture
def run(call: Call) -> Callable[..., str]:
    return lambda *arguments: printed(call(*arguments))


@pytest.fixture
def fail(call: Call) -> Refusal:
    def sentence(*arguments: object) -> str:
        result = call(*arguments)
        assert result.out == ""
        return refused(result)

    return sentence


def test_next_prints_the_likeliest_words(run, models: list[Path]) -> None:
    lm = lightrnn.load(models[0])
    lines = [line.split("\t") for line in run("next", models[0], "w1 w2", "-k", 4).splitlines()]
    assert [word for _, word in lines] == [word for word, _ in lm.next_words("w1 w2", 4)]
    facts = json.loads(run("next", models[0], "w1 w2", "--prefix", "w3", "--json"))["words"]
    assert [fact["word"] for fact in facts] == [word for word, _ in lm.next_words("w1 w2", 10, "w3")]
    assert facts[0]["probability"] == pytest.approx(lm.next_words("w1 w2", 1, "w3")[0][1])
    assert run("next", models[0], "w1", "--prefix", "zzz") == ""
    everything = [line.split("\t")[1] for line in run("next", models[0], "w1", "-k", 999).splitlines()]
    assert {*everything, "<unk>"} == set(lm.vocabulary.words)
    assert "<unk>" not in everything
    assert "\t<unk>\n" in run("next", models[0], "w1", "-k", 999, "--unk")


def test_the_prompt_completes_words(models: list[Path]) -> None:
    lm = lightrnn.load(models[0])
    prompt = Prompt(lm, 3)
    first = prompt.suggestions
    assert first == [word for word, _ in lm.next_words("", 3)]
    prompt.press("\x1b2")
    assert prompt.text == first[1] + " "
    for key in "w1":
        prompt.press(key)
    assert prompt.text == f"{first[1]} w1"
    prompt.press("\x1b9")  # which is not there
    assert prompt.text == f"{first[1]} w1"
    prompt.press("\t")
    assert prompt.text == f"{first[1]} {lm.next_words(first[1], 3, 'w1')[0][0]} "
    prompt.press("\x7f")
    assert not prompt.text.endswith(" ")
    prompt.press("\t")
    assert prompt.text.endswith(" ")
    prompt.text = "zzz"
    prompt.press("\t")
    assert prompt.text == "zzz"


def test_a_prompt_takes_back_words_and_lines_and_tells_unknown_ones(models: list[Path]) -> None:
    prompt = Prompt(lightrnn.load(models[0]), 3, text="w1 zzz w2")
    assert prompt.unknown == ["zzz"]
    prompt.press(CTRL_W)
    assert prompt.text == "w1 zzz "
    prompt.press(CTRL_W)
    assert prompt.text == "w1 "
    assert prompt.unknown == []
    prompt.press(CTRL_U)
    assert prompt.text == ""


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize("text", ["", "it was", "word " * 30, "広い言葉 " * 30])
def test_a_prompt_stays_in_one_row(text: str, columns: int) -> None:
    offered = [f"{i}:{'word' * i}" for i in range(1, 10)]
    typed, hints = fitting(text, offered, columns)
    assert cell_len(typed + hints) < columns
    assert text.endswith(typed.removeprefix("…"))
    assert typed == text or cell_len(typed) >= columns // 2 - 3
    assert ("   " + "  ".join(offered)).startswith(hints)
    assert columns == 20 or offered[0] in hints


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_prompt_in_hardly_any_terminal(columns: int) -> None:
    typed, hints = fitting("it was", ["1:the"], columns)
    assert cell_len(typed) <= 1
    assert hints == ""


def test_a_note_is_shown_where_it_leaves_room_for_suggestions() -> None:
    note, offered = ["(Wilhelmina is not in the vocabulary)"], ["1:the", "2:a"]
    assert fitting("Wilhelmina ", offered, 80, note)[1] == f"   {note[0]}  1:the  2:a"
    assert fitting("it was Wilhelmina that he had spoken of, and the ", offered, 80, note)[1] == "   1:the  2:a"


def test_keys_as_terminals_send_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits with Alt; arrows with and without it; escapes that mean nothing, before keys that mean something."""
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("a\x1b2\x1b0\x1b[A\x1b[1;3C\x1bOP\x1b\x1b[Bb\x1b\x1b3\x1b\x03\x1b\x04\x1b")
    )
    assert list(iter(pressed_key, "")) == ["a", ALT + "2", "0", "b", ALT + "3", "\x03", "\x04"]


def test_a_prompt_with_a_cache_learns_the_words_just_typed(models: list[Path]) -> None:
    lm = lightrnn.load(models[0])
    mix = Mix([lm, CacheLM(lm, 20)], [0.5, 0.5])
    rare = lm.next_words("", len(lm.vocabulary))[-1][0]
    first = Prompt(mix, 3)
    assert rare not in first.suggestions
    first.text = f"{rare} {rare} {rare} "
    second = first.entered()
    assert rare in second.suggestions
    assert rare in second.entered().suggestions
    assert second.text == ""


def test_the_interactive_prompt_in_a_terminal(models: list[Path], fail) -> None:
    assert "terminal" in fail("next", models[0], "--interactive")
    control, terminal = pty.openpty()
    assert "--prefix does not go with --interactive" in fail("next", models[0], "-i", "--prefix", "w")
    with started("next", models[0], "w1", "-i", "--threads", "1", terminal=terminal) as process:
        os.close(terminal)
        seen = _read_until(control, b"1:")
        os.write(control, b"\x1b[A\t")  # an arrow, which does nothing, and a Tab
        seen += _read_until(control, b"1:")
        os.write(control, b"1840\x04")  # digits are typed, and the line that was not ended is written
        assert process.wait(TIMEOUT) == 0
        seen += _read_until(control, b"1840\r\n")
    word = lightrnn.load(models[0]).next_words("w1", 1)[0][0]
    assert f"1:{word}".encode() in seen
    assert f"w1 {word} 1840\r\n".encode() in seen
    os.close(control)


def _read_until(descriptor: int, mark: bytes) -> bytes:
    seen, end = b"", time.monotonic() + TIMEOUT
    while mark not in seen:
        assert time.monotonic() < end, seen
        seen += os.read(descriptor, 4096)
    return seen


def test_generate_is_repeatable_and_a_sentence_a_line(run, models: list[Path]) -> None:
    lm = lightrnn.load(models[0])
    text = run("generate", models[0], "--prompt", "w1 w2", "-n", 40, "--seed", 3, "--temperature", 0.9)
    assert text == run("generate", models[0], "--prompt", "w1 w2", "-n", 40, "--seed", 3, "--temperature", 0.9)
    assert text.startswith("w1 w2")
    drawn = lm.generate("w1 w2", temperature=0.9, seed=3)
    words = [next(drawn) for _ in range(40)]
    assert len(text.split()) == 2 + sum(word != "</s>" for word in words)
    assert text.rstrip("\n").count("\n") == " ".join(words).rstrip("</s> ").count("</s>")
    assert text != run("generate", models[0], "--prompt", "w1 w2", "-n", 40, "--seed", 4, "--temperature", 0.9)
    greedy = lm.generate("w1", temperature=0)
    expected = ["w1", *(word for word in (next(greedy) for _ in range(5)) if word != "</s>")]
    assert run("generate", models[0], "--prompt", "w1", "-n", 5, "--greedy").split() == expected
    assert run("generate", models[0], "--prompt", "w1", "--beam", 3).startswith("w1")


def test_generate_refuses_what_does_not_go_together(fail, models: list[Path]) -> None:
    assert "--beam" in fail("generate", models[0], "--greedy", "--beam", 3)
    assert "--greedy draws nothing" in fail("generate", models[0], "--greedy", "--top-k", 3)
    assert "--beam draws nothing" in fail("generate", models[0], "--beam", 2, "--seed", 3)


def test_vectors_in_the_format_of_word2vec(run, fail, models: list[Path], tmp_path: Path) -> None:
    run("vectors", models[0], "-o", tmp_path / "v.txt")
    lm = lightrnn.load(models[0])
    heading, *lines = (tmp_path / "v.txt").read_text().splitlines()
    assert heading == f"{len(lm.vocabulary)} 12"
    for line, word, vector in zip(lines, lm.vocabulary.words, lm.vectors, strict=True):
        name, *values = line.split(" ")
        assert name == word
        # six digits are written
        np.testing.assert_allclose([float(value) for value in values], vector, rtol=1e-5, atol=1e-7)
    assert "--force" in fail("vectors", models[0], "-o", tmp_path / "v.txt")


def test_a_mix_is_tuned_tested_saved_and_used(run, fail, models: list[Path], tiny: Corpus, tmp_path: Path) -> None:
    tuning = ("--tune", tiny.path, "--test", tiny.path)
    *members, mixed = json.loads(run("mix", *models, *tuning, "-o", tmp_path / "mixed", "--json"))["models"]
    assert sum(row["weight"] for row in members) == pytest.approx(1)
    assert mixed["tune"] <= min(row["tune"] for row in members)
    for model, row in zip(models, members, strict=True):
        facts = json.loads(run("evaluate", model, tiny.path, "--json"))
        assert row["test"] == pytest.approx(facts["perplexity"], rel=FLOAT32)
    facts = json.loads(run("evaluate", tmp_path / "mixed", tiny.path, "--json"))
    assert facts["perplexity"] == pytest.approx(mixed["test"], rel=FLOAT32)
    assert run("next", tmp_path / "mixed", "w1", "-k", 3).count("\n") == 3
    assert "w1" in run("generate", tmp_path / "mixed", "--prompt", "w1", "-n", 3, "--seed", 1)
    assert re.search(r"^mix +1.000", run("mix", *models, "--tune", tiny.path), re.MULTILINE)
    moved = tmp_path / "elsewhere"
    (tmp_path / "mixed").rename(moved)  # its models are named relative to it
    assert json.loads(run("evaluate", moved, tiny.path, "--json"))["perplexity"] == facts["perplexity"]

    assert "at least two" in fail("mix", models[0], "--tune", tiny.path)
    assert "exists" in fail("mix", *models, "--tune", tiny.path, "-o", moved)
    assert "does not exist" in fail("mix", models[0], tmp_path / "none", "--tune", tiny.path)
    config = json.loads((moved / "config.json").read_text())
    for damage in ({"members": [{"path": "x"}]}, {"format": 99}, {"members": None}):
        (moved / "config.json").write_text(json.dumps(config | damage))
        assert "lightrnn" in fail("evaluate", moved, tiny.path) or "make it again" in fail("evaluate", moved, tiny.path)


def test_models_of_other_words_mix_by_a_rule_that_is_told(call: Call, models: list[Path], tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a w1 w2 b\nw1 b a w3\n" * 40, encoding="utf-8")
    lightrnn.prepare([str(tmp_path / "t.txt")], tmp_path / "data", valid=[str(tmp_path / "t.txt")])
    recipe = Recipe(ModelConfig(hidden_size=4), TrainingConfig(epochs=1, batch_size=2, window=5))
    bootstrap.train(Corpus.load(tmp_path / "data"), recipe, tmp_path / "other", device=torch.device("cpu"))
    (tmp_path / "held.txt").write_text("w1 w2 w9\n", encoding="utf-8")
    result = call("mix", models[0], "other", "--tune", "held.txt")
    assert result.code == 0, result.err
    assert "does not know" in result.err
    assert "equal share" in result.err


def test_in_a_mix_each_model_reads_a_text_its_own_way(
    run: Callable[..., str], models: list[Path], tiny: Corpus, tmp_path: Path
) -> None:
    """An n-gram file, whose vocabulary is the mix's, is of sentences, and the network of a stream."""
    run("ngram", tiny.path, "-o", tmp_path / "kn.arpa", "--order", 3)
    lightrnn.save_mix(tmp_path / "m", [str(tmp_path / "kn.arpa"), str(models[0])], [0.5, 0.5])
    words = [tiny.vocabulary.words[word] for word in tiny.split("test")]
    members = [lightrnn.load(path) for path in (tmp_path / "kn.arpa", models[0])]
    nats = set()
    for options, convention in (((), "stream"), (("--convention", "sentence"), "sentence")):
        each = [lm.token_log_probs(lm.vocabulary.encode(words), convention).sum(axis=1) for lm in members]
        facts = json.loads(run("evaluate", tmp_path / "m", tiny.path, *options, "--json"))
        assert facts["convention"] == convention
        assert facts["nats"] == pytest.approx(-np.log(np.exp(each).mean(axis=0)).sum(), rel=1e-5)  # float32
        nats.add(facts["nats"])
    assert len(nats) == 2


def test_a_mix_with_an_ngram_file(run, fail, models: list[Path], tiny: Corpus, tmp_path: Path) -> None:
    run("ngram", tiny.path, "-o", tmp_path / "kn.arpa", "--order", 3)
    tuned = run("mix", models[0], tmp_path / "kn.arpa", "--tune", tiny.path, "-o", tmp_path / "m", "--json")
    rows = json.loads(tuned)["models"]
    assert rows[2]["tune"] <= min(rows[0]["tune"], rows[1]["tune"]) * (1 + FLOAT32)
    facts = json.loads(run("evaluate", tmp_path / "kn.arpa", tiny.path, "--split", "valid", "--json"))
    assert facts["perplexity"] == pytest.approx(rows[1]["tune"], rel=1e-6)  # the same figures by another path
    mixed, lm, ngram = (lightrnn.load(path) for path in (tmp_path / "m", models[0], tmp_path / "kn.arpa"))
    assert mixed.distribution("w1 w2").sum() == pytest.approx(1, abs=FLOAT32)
    weight = rows[0]["weight"]
    for sentence in ("w1 w2", "w7 never w1", ""):
        each = [[10**value for value, _, _ in one.full_scores(sentence)] for one in (lm, ngram)]
        expected = sum(np.log10(weight * a + (1 - weight) * b) for a, b in zip(*each, strict=True))
        assert mixed.score(sentence) == pytest.approx(expected, rel=1e-4)  # float32, through powers and logarithms
        state, stepped = mixed.begin_state(), 0.0
        for word in [*sentence.split(), "</s>"]:
            value, state = mixed.score_word(state, word)
            stepped += value
        assert stepped == pytest.approx(expected, rel=1e-4)  # float32, through powers and logarithms
    assert max(order for _, order, _ in ngram.full_scores("w1 w2 w3 w4")) > 1
    assert run("next", tmp_path / "kn.arpa", "w1", "-k", 3).count("\n") == 3
    assert "no word vectors" in fail("vectors", tmp_path / "kn.arpa", "-o", tmp_path / "v.txt")
    assert "is not a model" in fail("evaluate", tmp_path / "m" / "config.json", tiny.path)


def test_arpa_files_are_known_by_what_they_hold(run, models: list[Path], tiny: Corpus, tmp_path: Path) -> None:
    run("ngram", tiny.path, "-o", tmp_path / "kn.arpa", "--order", 3)
    (tmp_path / "kn.lm").write_bytes((tmp_path / "kn.arpa").read_bytes())
    ours, theirs = (
        json.loads(run("mix", models[0], tmp_path / name, "--tune", tiny.path, "--json"))["models"]
        for name in ("kn.arpa", "kn.lm")
    )
    for one, other in zip(ours, theirs, strict=True):
        assert one["tune"] == pytest.approx(other["tune"], rel=1e-4)  # float32, through powers and logarithms
        assert one["weight"] == pytest.approx(other["weight"], abs=1e-3)  # where the iterations of tune stop


@pytest.mark.parametrize("kind", ["full", "hsm", "chsm", "blackout", "adaptive"])
def test_opponents_are_used_like_any_model(kind: str, run, tiny: Corpus, models: list[Path], tmp_path: Path) -> None:
    recipe = Recipe(ModelConfig(model=kind, hidden_size=6), TrainingConfig(epochs=0.2, batch_size=5, window=12))
    bootstrap.train(tiny, recipe, tmp_path / kind, device=torch.device("cpu"))
    lm = lightrnn.load(tmp_path / kind)
    assert lm.distribution("w1 w2").sum() == pytest.approx(1, abs=FLOAT32)
    state, stepped = lm.begin_state(), 0.0
    for word in ["w1", "never", "</s>"]:
        value, state = lm.score_word(state, word)
        stepped += value
    assert lm.score("w1 never") == pytest.approx(stepped, rel=1e-4)  # float32, through powers and logarithms
    assert lm.vectors.shape[0] == len(lm.vocabulary)
    assert run("next", tmp_path / kind, "w1", "-k", 2).count("\n") == 2
    rows = json.loads(run("mix", models[0], tmp_path / kind, "--tune", tiny.path, "--json"))["models"]
    assert rows[2]["tune"] <= min(rows[0]["tune"], rows[1]["tune"]) * (1 + FLOAT32)


def test_the_search_is_exact_on_a_trained_model(models: list[Path], tiny: Corpus) -> None:
    lm = lightrnn.load(models[0])
    state = lm.begin_state()
    for word in tiny.split("valid")[:100].tolist():
        _, state = lm.read_word(state, word)
        log_probs = np.sort(lm.next_log_probs(state))[::-1]
        for count in (1, 10, 1000):
            np.testing.assert_allclose(lm.likeliest(state, count).log_probs, log_probs[:count], atol=FLOAT32)


def test_a_cache_that_cannot_be_is_refused_before_the_text_is_read(
    fail: Callable[..., str], tiny: Corpus, models: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NetworkLM, "token_log_probs", None)
    assert "the size of a cache must be a whole number from 1 to 100,000" in fail(
        "evaluate", models[0], tiny.path, "--cache", 200_000
    )


def test_a_mix_with_a_cache_is_a_model(run: Callable[..., str], tiny: Corpus, models: list[Path]) -> None:
    """Found, saved, loaded, told of, asked; its figure is that of the saved one."""
    told = run("mix", models[0], "cache:50", "--tune", tiny.path, "--test", tiny.path, "-o", "mixed")
    assert re.search(r"^ *cache:50:[\d.]+ +0\.\d+ +∞ +∞", told, re.M)
    assert told.split()[-1] == re.search(r"^perplexity +([\d.]+)", run("evaluate", "mixed", tiny.path), re.M)[1]
    assert re.search(r"cache:50:[\d.]+ +0\.\d+", run("info", "mixed"))
    assert "\t" in run("next", "mixed", "w1 w2 w3 w1")
    given = json.loads(run("mix", models[0], "cache:50:4", "--tune", tiny.path, "--json"))
    assert [row["model"] for row in given["models"]] == [str(models[0]), "cache:50:4", "mix"]


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        (("MODEL", "cache:0"), "size of a cache must be a whole number from 1"),
        (("MODEL", "cache:many"), "cache:SIZE"),
        (("MODEL", "cache:5:0"), "flatness of a cache must be a number from 1e-06"),
        (("cache:5", "MODEL"), "before it"),
        (("kn.arpa", "cache:5"), "needs a network"),
    ],
)
def test_caches_that_cannot_be(
    call: Call, tiny: Corpus, models: list[Path], named: tuple[str, str], reason: str
) -> None:
    assert call("ngram", tiny.path, "-o", "kn.arpa", "--order", "2").code == 0
    told = refused(call("mix", *(models[0] if name == "MODEL" else name for name in named), "--tune", tiny.path))
    assert reason in told


def test_what_adapting_and_a_cache_are_worth_is_told_beside_the_plain_figure(
    run: Callable[..., str], tiny: Corpus, models: list[Path]
) -> None:
    plain = json.loads(run("evaluate", models[0], tiny.path, "--json"))
    facts = json.loads(run("evaluate", models[0], tiny.path, "--adapt", "--cache", "50", "--json"))
    assert facts["perplexity"] == plain["perplexity"]
    assert facts["adapted"]["perplexity"] != plain["perplexity"]
    assert set(facts["adapted_with_cache"]) >= {"perplexity", "size", "weight", "flatness"}
    mixed = json.loads(run("mix", models[0], "cache:50", "--tune", tiny.path, "--test", tiny.path, "--json"))
    cached = json.loads(run("evaluate", models[0], tiny.path, "--cache", "50", "--json"))["with_cache"]
    assert cached["perplexity"] == pytest.approx(mixed["models"][-1]["test"], rel=FLOAT32)
    assert cached["weight"] == pytest.approx(mixed["models"][1]["weight"], rel=1e-3)  # where the iterations stop
    still = run("evaluate", models[0], tiny.path, "--adapt", "--adapt-rate", "0")
    figures = dict(line.rsplit(maxsplit=1) for line in still.splitlines() if line.startswith("perplexity"))
    assert figures["perplexity"] == figures["perplexity, adapted"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--adapt-rate", "0.1"), "without --adapt"),
        (("--tune", "DATA"), "without --cache"),
        (("--adapt", "--convention", "sentence"), "one stream"),
        (("--cache", "5", "--split", "valid"), "the valid split, which is measured"),
        (("--cache", "5", "--split", "valid", "--tune", "DATA"), "--tune names the text that is measured"),
        (("--cache", "1000000"), "the size of a cache must be a whole number from 1 to 100,000"),
    ],
)
def test_adaptations_that_cannot_be(
    call: Call, tiny: Corpus, models: list[Path], options: tuple[str, ...], reason: str
) -> None:
    given = [str(tiny.path) if option == "DATA" else option for option in options]
    assert reason in refused(call("evaluate", models[0], tiny.path, *given))


def test_a_cache_for_a_text_needs_another_one_and_a_network(call: Call, tiny: Corpus, models: list[Path]) -> None:
    text = tiny.path.parent / "valid.txt"
    assert "--tune" in refused(call("evaluate", models[0], text, "--cache", "5"))
    assert call("ngram", tiny.path, "-o", "kn.arpa", "--order", "2").code == 0
    assert "single network" in refused(call("evaluate", "kn.arpa", text, "--cache", "5"))
    assert "can learn" in refused(call("evaluate", "kn.arpa", text, "--adapt"))


def test_a_mix_is_evaluated_as_its_network_learns(run: Callable[..., str], tiny: Corpus, models: list[Path]) -> None:
    run("mix", models[0], "cache:40", "--tune", tiny.path, "-o", "mixed")
    facts = json.loads(run("evaluate", "mixed", tiny.path, "--adapt", "--json"))
    lm = lightrnn.load("mixed")
    assert facts["adapted"]["perplexity"] == pytest.approx(lm.adapt(tiny.split("test")).perplexity, rel=1e-6)
    assert facts["adapted"]["perplexity"] != pytest.approx(facts["perplexity"], rel=1e-3)

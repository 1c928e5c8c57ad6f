"""lightrnn score --format kaldi: the figures of LM.full_scores, written as Kaldi's own script writes them."""

from math import log
from pathlib import Path

import numpy as np
import pytest

from helpers import Call, random_lightrnn, refused, vocabulary_of
from lightrnn import load
from lightrnn.inference.lm import LM
from lightrnn.models.checkpoint import save_model

HYPOTHESES = ["talk-a-1 w1 w2 w3", "talk-a-2 w1 never", "talk-a-3", "talk-b-1 w4 w5", "talk-b-2 w4", "c-1 w1 w2 w3"]
TOLERANCE = 1e-4  # four decimals are written


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kaldi") / "model"
    save_model(folder, random_lightrnn(V=23, alone=6), vocabulary_of(23), {})
    return folder


@pytest.fixture(scope="module")
def lm(model: Path) -> LM:
    return load(model)


def costs(text: str) -> list[list[float]]:
    return [[float(figure) for figure in line.split()[1:]] for line in text.splitlines()]


def scored(call: Call, model: Path, *options: str) -> str:
    result = call("score", model, "-", "--format", "kaldi", *options, stdin="\n".join(HYPOTHESES).encode())
    assert result.code == 0, result.err
    return result.out


def test_names_and_nats_of_every_word_and_the_end(call: Call, model: Path, lm: LM) -> None:
    out = scored(call, model)
    names = [line.split()[0] for line in HYPOTHESES]
    expected = [[-log(10) * value for value, _, _ in lm.full_scores(line.partition(" ")[2])] for line in HYPOTHESES]
    for line, name, values in zip(out.splitlines(), names, costs(out), strict=True):
        assert line == name + " " + "".join(f"{value:.4f} " for value in values)  # a space after each, as there
    for got, wanted in zip(costs(out), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=TOLERANCE)
    assert [len(values) for values in costs(out)] == [4, 3, 1, 3, 2, 4]  # an arc for each word, and the final state


def test_the_first_hypothesis_is_the_context_of_the_next_utterance(call: Call, model: Path, lm: LM) -> None:
    got = costs(scored(call, model, "--convention", "stream"))
    start = lm.stream_state()

    def read(state: object, line: str) -> tuple[list[float], object]:
        values = []
        for word in [*line.split()[1:], "</s>"]:
            value, state = lm.score_word(state, word)
            values.append(-log(10) * value)
        return values, state

    _, after_a = read(start, HYPOTHESES[0])
    _, after_b = read(after_a, HYPOTHESES[3])
    befores = [start, start, start, after_a, after_a, after_b]
    for line, before, values in zip(HYPOTHESES, befores, got, strict=True):
        np.testing.assert_allclose(values, read(before, line)[0], atol=TOLERANCE)
    assert abs(got[5][0] - got[0][0]) > 10 * TOLERANCE  # the same words, in another context


def test_unknown_words_keep_their_place(call: Call, model: Path) -> None:
    plain, skipped, fined = (costs(scored(call, model, "--unk", rule)) for rule in ("score", "skip", "penalty=-3"))
    assert skipped[1] == [plain[1][0], 0.0, plain[1][2]]
    np.testing.assert_allclose(fined[1], [plain[1][0], plain[1][1] + 3, plain[1][2]], atol=TOLERANCE)


def test_a_line_without_a_name(call: Call, model: Path) -> None:
    for options in ((), ("--convention", "stream")):
        result = call("score", model, "-", "--format", "kaldi", *options, stdin=b"a-1 w1\n\n")
        assert "line 2: expected utt-n and words, as Kaldi has them" in refused(result)

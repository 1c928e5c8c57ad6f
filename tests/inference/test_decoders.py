"""Models inside of speech decoders: a real flashlight-text that decodes noisy letters, and pyctcdecode by its shape."""

from math import log
from typing import Any

import numpy as np
import pytest

import lightrnn
from helpers import FLOAT32, lm_of, made_up_sentences, vocabulary_with
from lightrnn import LightRNNError, Mix, decoders, estimate
from lightrnn.inference.lm import LM
from lightrnn.inference.ngrams import NGramLM

KINDS = [
    {"V": 25},
    {"V": 28, "K": 3},
    {"V": 40, "alone": 11, "tied": True},
    {"V": 60, "alone": 30, "head": 9, "tied": True},
]


def every_word(lm: LM) -> list[str]:
    return [*lm.vocabulary.words, "never"]


@pytest.mark.parametrize("settings", KINDS)
def test_what_follows_a_state_is_what_is_read_there(settings: dict[str, object]) -> None:
    lm = lm_of(**settings)  # type: ignore[arg-type]
    for state in (lm.begin_state(), lm.state("w1 w2 never"), lm.empty_state()):
        follows = lm.continuations(state)
        for word in range(len(lm.vocabulary)):
            (log_prob, after), (expected, other) = follows(word), lm.read_word(state, word)
            assert log_prob == pytest.approx(expected, abs=FLOAT32)
            np.testing.assert_allclose(lm.distribution(after), lm.distribution(other), atol=FLOAT32)


def test_what_words_share_is_computed_once() -> None:
    """A step for the rows, and one for each of the rows that words share."""
    lm = lm_of(V=60, alone=20)
    state, network = lm.state("w1"), lm._predictor.reader.steps.__class__  # type: ignore[attr-defined]
    calls, step = [0], network.__call__

    def counted(self: object, *given: object) -> object:
        calls[0] += 1
        return step(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "__call__", counted)
        follows = lm.continuations(state)
        for word in range(60):
            follows(word)
            follows(word)
    table = lm.model.table
    assert calls[0] == 1 + table.shape[0] - table.alone


# --- flashlight-text

flashlight = pytest.importorskip("flashlight.lib.text.decoder", reason="flashlight-text is not installed")


def words_of(lm: LM) -> list[str]:
    """A decoder's words: known ones in an order of its own, and one that the model does not know."""
    return [*reversed([word for word in lm.vocabulary.words if word.startswith("w")]), "never"]


def models() -> list[LM]:
    light = lm_of(40, alone=11)
    sentences = made_up_sentences()
    words = sorted({word for sentence in sentences for word in sentence})
    vocabulary = vocabulary_with(words, None)
    ids = np.concatenate([[*vocabulary.encode(sentence), vocabulary.eos_id] for sentence in sentences])
    ngram = NGramLM(estimate(ids.astype(np.int32), vocabulary, order=3))
    return [light, ngram, Mix([light, ngram], [0.5, 0.5])]


@pytest.mark.parametrize("kind", range(3))
def test_scores_are_those_of_the_model(kind: int) -> None:
    lm = models()[kind]
    words = words_of(lm)
    model = decoders.FlashlightLM(lm, words)
    random = np.random.default_rng(2)
    for nothing, begin in ((False, lm.begin_state()), (True, lm.empty_state())):
        root = model.start(nothing)
        for _ in range(12):
            state, expected_state = root, begin
            for index in random.integers(len(words), size=4).tolist():
                state, score = model.score(state, index)
                expected, expected_state = lm.score_word(expected_state, words[index])
                assert score == pytest.approx(expected, abs=FLOAT32)
            _, score = model.finish(state)
            assert score == pytest.approx(lm.score_word(expected_state, lm.vocabulary.rules.eos)[0], abs=FLOAT32)


def test_states_are_those_of_flashlight() -> None:
    """The same words lead to the same state, which is how a decoder takes hypotheses together."""
    lm = lm_of()
    model = decoders.FlashlightLM(lm, words_of(lm))
    root = model.start(False)
    one, other = (model.score(model.score(root, 1)[0], 2)[0] for _ in range(2))
    assert one.compare(other) == 0
    assert one.compare(model.score(root, 2)[0]) != 0
    kept = len(model._reached)
    model.score(root, 1)
    assert len(model._reached) == kept
    model.start(False)
    with pytest.raises(LightRNNError, match="of an utterance that has ended"):
        model.score(one, 3)


def test_a_trie_is_built_from_one_distribution() -> None:
    lm = lm_of(V=60)
    words = words_of(lm)
    model = decoders.FlashlightLM(lm, words)
    read = []
    lm.read_word = lambda state, word: read.append(word)  # type: ignore[assignment]
    lm.continuations = read.append  # type: ignore[assignment]
    start = model.start(False)
    got = [model.score(start, index)[1] for index in range(len(words))]
    distribution = lm.distribution("")
    known = [distribution[lm.vocabulary.ids.get(word, lm.vocabulary.unk_id)] for word in words]
    np.testing.assert_allclose(got, np.log10(known), atol=FLOAT32)
    assert read == []


def test_utterances_follow_a_context() -> None:
    lm = lm_of()
    words = words_of(lm)
    model = decoders.FlashlightLM(lm, words)
    model.follow("w1 w2 </s>")
    _, score = model.score(model.start(False), 3)
    assert score == pytest.approx(lm.score_word(lm.state("w1 w2 </s>"), words[3])[0], abs=FLOAT32)


def test_a_model_may_learn_between_utterances() -> None:
    lm = lm_of(V=40, alone=11, tied=True)
    words = words_of(lm)
    model = decoders.FlashlightLM(lm, words)

    def first_word() -> float:
        return model.score(model.start(False), 3)[1]

    before = first_word()
    lm.adapt(f"{words[3]} w2 {words[3]}\n" * 20)
    learned = first_word()
    assert learned == pytest.approx(lm.score_word(lm.begin_state(), words[3])[0], abs=FLOAT32)
    assert learned != pytest.approx(before, abs=FLOAT32)
    lm.reset()
    assert first_word() == before


def test_words_may_be_flashlights_dictionary() -> None:
    from flashlight.lib.text.dictionary import Dictionary

    lm = lm_of()
    words, dictionary = words_of(lm), Dictionary()
    for word in words:
        dictionary.add_entry(word)
    models = [decoders.FlashlightLM(lm, given) for given in (words, dictionary)]
    one, other = (model.score(model.start(False), 5)[1] for model in models)
    assert one == other


def test_without_flashlight_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "LMState", None)
    with pytest.raises(LightRNNError, match=r"pip install 'lightrnn\[flashlight\]'"):
        decoders.FlashlightLM(lm_of(), ["w1"])


LETTERS = ["#", "|", *"0123456789w"]  # the blank and the separator first


def heard(emissions: np.ndarray, words: list[str], model: Any) -> list[str]:
    """Letters to words by flashlight-text's lexicon decoder; without a model all words are as likely."""
    trie, start = flashlight.Trie(len(LETTERS), 1), model.start(False)
    for index, word in enumerate(words):
        trie.insert([LETTERS.index(letter) for letter in word], index, model.score(start, index)[1])
    trie.smear(flashlight.SmearingMode.MAX)
    nothing = isinstance(model, flashlight.ZeroLM)
    options = flashlight.LexiconDecoderOptions(
        beam_size=30,
        beam_size_token=len(LETTERS),
        beam_threshold=100.0,
        lm_weight=0.0 if nothing else log(10),
        word_score=-log(len(words)) if nothing else 0.0,
        unk_score=-np.inf,
        sil_score=0.0,
        log_add=False,
        criterion_type=flashlight.CriterionType.CTC,
    )
    decoder = flashlight.LexiconDecoder(options, trie, model, 1, 0, -1, [], False)
    best = decoder.decode(emissions.ctypes.data, *emissions.shape)[0]
    return [words[index] for index in best.words if index >= 0]


def test_a_decoder_hears_better_with_the_model() -> None:
    """Sentences drawn from a model, a frame a letter, seen through noise whose log-likelihoods the decoder gets."""
    lm, noise, random = lm_of(V=40, alone=11, seed=5), 0.4, np.random.default_rng(3)
    words = [word for word in lm.vocabulary.words if word.startswith("w")]
    models = [flashlight.ZeroLM(), decoders.FlashlightLM(lm, words)]
    right = [0, 0]
    drawn = (word for word in lm.generate(seed=8, temperature=0.7) if word != "</s>")
    for _ in range(12):
        said = [next(drawn) for _ in range(6)]
        letters = [LETTERS.index(letter) for letter in "|" + "|".join(said) + "|"]
        seen = np.eye(len(LETTERS))[letters] + noise * random.normal(size=(len(letters), len(LETTERS)))
        emissions = np.asarray(seen / noise**2, np.float32)
        for which, model in enumerate(models):
            right[which] += heard(emissions, words, model) == said
    assert right[0] < right[1]


# --- pyctcdecode


def test_the_shape_of_pyctcdecodes_models() -> None:
    """What its decoder calls and sets; the formula is that of its own LanguageModel."""
    lm = lm_of()
    model = decoders.PyctcdecodeLM(lm, alpha=0.7, beta=1.1, unk_score_offset=-4.0)
    start = model.get_start_state()
    log10, after = lm.score_word(lm.begin_state(), "w1")
    score, state = model.score(start, "w1")
    assert score == pytest.approx(0.7 * log(10) * log10 + 1.1)
    end, _ = lm.score_word(after, "</s>")
    unknown, _ = lm.score_word(after, "never")
    last, _ = lm.score_word(lm.score_word(after, "never")[1], "</s>")
    assert model.score(state, "never")[0] == pytest.approx(0.7 * log(10) * (unknown - 4) + 1.1)
    assert model.score(state, "never", is_last_word=True)[0] == pytest.approx(
        0.7 * log(10) * (unknown - 4 + last) + 1.1
    )
    assert model.score(start, "w1", True)[0] == pytest.approx(0.7 * log(10) * (log10 + end) + 1.1)
    assert (
        model.score(start, "", True)[0] == model.score(start, "never", True)[0]
    )  # an utterance in which nothing was heard
    model.alpha = 0.5
    model.reset_params(beta=0.0, unk_score_offset=-2.0, score_boundary=False)
    with pytest.raises(LightRNNError, match="got 'gamma'"):
        model.reset_params(gamma=1.0)
    without, _ = lm.score_word(lm.empty_state(), "w1")
    assert model.score(model.get_start_state(), "w1", True)[0] == pytest.approx(0.5 * log(10) * without)
    assert model.score_partial_token("w") == model.score_partial_token("w1") == 0.0
    assert model.score_partial_token("x") == -2.0
    assert model.score_partial_token("x" * 9) == -3.0


def test_what_is_no_model_and_no_list_of_words_is_refused() -> None:
    for make in (lambda: decoders.FlashlightLM("model", ["w1"]), lambda: decoders.PyctcdecodeLM("model")):
        with pytest.raises(LightRNNError, match=r"a model that lightrnn\.load gives, got str"):
            make()
    with pytest.raises(LightRNNError, match="words must be a list, got the string 'w1'"):
        decoders.FlashlightLM(lm_of(), "w1")


def test_how_much_of_a_hypothesis_counts() -> None:
    """A decoder takes hypotheses together that agree in the last order - 1 words."""
    light, ngram, mix = models()
    assert decoders.PyctcdecodeLM(ngram).order == 3
    assert decoders.PyctcdecodeLM(light).order == decoders.PyctcdecodeLM(mix).order > 10**6


def test_decoders_are_imported_when_they_are_used() -> None:
    assert lightrnn.decoders is decoders
    assert "decoders" in dir(lightrnn)

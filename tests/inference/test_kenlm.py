"""`from lightrnn import kenlm`: KenLM's own example on every kind of model, and its figures beside the real ones."""

import copy
import os
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightrnn
from helpers import (
    KENLM,
    made_up_sentences,
    printed,
    random_sentences,
    run_apart,
    stream,
    train_small,
    vocabulary_with,
)
from lightrnn import kenlm
from lightrnn.inference.loading import save_mix
from lightrnn.ngram.arpa import write_arpa
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.ngram.packed import write_packed
from lightrnn.text.corpus import Corpus

FLOAT32 = 1e-6  # log10 of one word: KenLM computes in single precision


@pytest.fixture(scope="module")
def folder(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LightRNN, n-gram files of both sorts, one of KenLM's binaries, and a mix."""
    folder = tmp_path_factory.mktemp("models")
    train_small(tiny, folder / "network")
    model = estimate(tiny.split("train"), tiny.vocabulary, 3, prune=[0, 0, 1])
    write_arpa(model, folder / "kn.arpa")
    write_packed(model, folder / "kn.lightrnn")
    save_mix(folder / "mix", [folder / "network", folder / "kn.lightrnn"], [0.7, 0.3])
    (folder / "kn.binary").write_bytes((KENLM / "trie.binary").read_bytes())
    return folder


@pytest.fixture(params=["network", "kn.arpa", "kn.lightrnn", "mix", "kn.binary"])
def model(request: pytest.FixtureRequest, folder: Path) -> kenlm.Model:
    if request.param == "kn.binary":
        pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    return kenlm.Model(str(folder / request.param))


def test_the_example_of_kenlms_own_sources(model: kenlm.Model) -> None:
    """python/example.py, with words that the models know and one that they do not."""
    known = next(word for word in ("w3", "a") if word in model)
    sentence = f"{known} stranger {known}"
    full = [*model.full_scores(sentence)]
    assert sum(log_prob for log_prob, _, _ in full) == pytest.approx(model.score(sentence), abs=1e-3)
    assert [unknown for _, _, unknown in full] == [False, True, False, False]
    assert all(1 <= length <= model.order for _, length, _ in full)
    assert [word in model for word in ("<s>", known, "stranger", "</s>", "<unk>")] == [True, True, False, True, False]
    state, state2 = kenlm.State(), kenlm.State()
    model.BeginSentenceWrite(state)
    accumulated = model.BaseScore(state, known, state2)
    accumulated += model.BaseScore(state2, "stranger", state)
    assert accumulated == pytest.approx(model.score(f"{known} stranger", eos=False), abs=1e-3)
    accumulated += model.BaseScore(state, "</s>", state2)
    assert accumulated == pytest.approx(model.score(f"{known} stranger"), abs=1e-3)
    assert model.perplexity(sentence) == pytest.approx(10 ** (-model.score(sentence) / 4))
    assert model.score(sentence.encode()) == model.score(sentence)


def test_it_is_the_model_that_load_gives(model: kenlm.Model) -> None:
    lm = lightrnn.load(os.fsdecode(model.path))
    known = [word for word in lm.vocabulary.words if word in model and word not in lm.vocabulary.rules.specials]
    for sentence in (" ".join(s) for s in random_sentences(10, [*known, "stranger"], seed=3)):
        for bos, eos in product([True, False], repeat=2):
            ours, theirs = [*model.full_scores(sentence, bos, eos)], [*lm.full_scores(sentence, bos, eos)]
            np.testing.assert_allclose([s[0] for s in ours], [s[0] for s in theirs], rtol=0, atol=1e-5)
            assert [s[2] for s in ours] == [s[2] for s in theirs]
    assert lm.order == model.order
    assert (model.order == sys.maxsize) == (not lm.has_orders)


def test_states_are_values(model: kenlm.Model) -> None:
    known = next(word for word in ("w3", "a") if word in model)
    begin, nothing, other = kenlm.State(), kenlm.State(), kenlm.State()
    model.BeginSentenceWrite(begin)
    model.NullContextWrite(nothing)
    kept = copy.copy(begin)
    assert kept == begin != nothing
    assert hash(kept) == hash(begin)
    assert len({begin, nothing, kept, copy.deepcopy(nothing)}) == 2
    assert (begin < nothing) != (nothing < begin)
    first = model.BaseScore(begin, known, begin)  # one state for both
    assert begin != kept
    assert model.BaseScore(kept, known, other) == first
    assert other == begin
    assert model.BaseScore(kenlm.State(), known, other) == model.BaseScore(nothing, known, begin)
    assert model.score(known, bos=False, eos=False) == model.BaseScore(nothing, known, other)
    assert model.BaseScore(other, "<s>", begin) == -99
    assert begin == kept


@pytest.mark.parametrize("name", ["network", "kn.lightrnn"])
def test_it_needs_no_pytorch(folder: Path, name: str) -> None:
    script = f"""
import sys
from lightrnn import kenlm
print(kenlm.Model({str(folder / name)!r}).score("w3 w4"), *({{"torch", "kenlm"}} & set(sys.modules)))
"""
    assert float(printed(run_apart(script=script))) == pytest.approx(kenlm.Model(folder / name).score("w3 w4"))


def real(path: Path) -> Any:
    module = pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    config = module.Config()
    config.show_progress = False
    config.arpa_complain = module.ARPALoadComplain.NONE
    return module, module.Model(str(path), config)


@pytest.fixture(scope="module", params=[[], [0, 0, 1], [0, 1]])
def arpa(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sentences = made_up_sentences()
    vocabulary = vocabulary_with([word for sentence in sentences for word in sentence], None)
    path = tmp_path_factory.mktemp("arpa") / "lm.arpa"
    write_arpa(estimate(stream(sentences, vocabulary), vocabulary, 4, prune=request.param), path)
    return path


def texts() -> Iterator[str]:
    words = [*(f"w{i}" for i in range(25)), "stranger", "<unk>", "</s>"]
    yield from (" ".join(s) for s in [*made_up_sentences(300, seed=9), *random_sentences(40, words, seed=6), ()])


def test_the_figures_of_the_real_module(arpa: Path) -> None:
    _, theirs = real(arpa)
    ours = kenlm.LanguageModel(arpa, kenlm.Config())
    assert ours.order == theirs.order
    assert ours.path == theirs.path
    for text in texts():
        for bos, eos in product([True, False], repeat=2):
            found, expected = [*ours.full_scores(text, bos, eos)], [*theirs.full_scores(text, bos, eos)]
            assert [s[1:] for s in found] == [s[1:] for s in expected], text
            np.testing.assert_allclose([s[0] for s in found], [s[0] for s in expected], rtol=2e-7, atol=FLOAT32)
            assert ours.score(text, bos, eos) == pytest.approx(theirs.score(text, bos, eos), rel=1e-6, abs=FLOAT32)
        assert ours.perplexity(text) == pytest.approx(theirs.perplexity(text), rel=1e-5)
        assert [word in ours for word in text.split()] == [word in theirs for word in text.split()]


def test_states_are_equal_where_those_of_the_real_module_are(arpa: Path) -> None:
    module, theirs = real(arpa)
    ours = kenlm.Model(str(arpa))
    reached: list[tuple[Any, Any]] = []
    for text in texts():
        states = [kenlm.State(), module.State()]
        for model, state in zip((ours, theirs), states, strict=True):
            model.BeginSentenceWrite(state)
        for word in text.split():
            after = [kenlm.State(), module.State()]
            pairs = zip((ours, theirs), states, after, strict=True)
            found, expected = (model.BaseFullScore(state, word, then) for model, state, then in pairs)
            assert (found.ngram_length, found.oov) == (expected.ngram_length, expected.oov)
            assert found.log_prob == pytest.approx(expected.log_prob, rel=2e-7, abs=FLOAT32)
            states = after
            reached.append((states[0], states[1]))
    some = reached[::7]
    assert len({one for one, _ in reached}) == len({other for _, other in reached}) < len(reached)
    for (one, its), (other, others) in product(some, some):
        assert (one == other) == (its == others)
        assert one != other or hash(one) == hash(other)


def test_names_that_programs_use() -> None:
    module = pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    names = {name for name in dir(module) if not name.startswith("_")} - {"os"}
    assert names <= set(dir(kenlm))
    for name in ("Model", "State", "Config"):
        public = {attribute for attribute in dir(getattr(module, name)) if not attribute.startswith("_")}
        assert public <= {*dir(getattr(kenlm, name)), *vars(kenlm.Config()), "path"}
    for name in ("LoadMethod", "ARPALoadComplain"):
        values = {key: value for key, value in vars(getattr(module, name)).items() if key.isupper()}
        assert values == {member.name: member.value for member in getattr(kenlm, name)}


def test_what_cannot_be_read_is_an_oserror(tmp_path: Path, arpa: Path) -> None:
    (tmp_path / "lm.arpa").write_bytes(arpa.read_bytes()[:-20])
    for name in ("missing.arpa", "lm.arpa"):
        with pytest.raises(OSError, match=rf"Cannot read model '.*{name}' \("):
            kenlm.Model(str(tmp_path / name))
    with pytest.raises(TypeError, match="Cannot convert <class 'int'> to string"):
        kenlm.Model(arpa).score(3)  # type: ignore[arg-type]
    assert repr(kenlm.Model(os.fsencode(arpa))) == "<Model from lm.arpa>"

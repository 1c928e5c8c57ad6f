"""N-gram models for this room: of made-up text, and of real corpora."""

import pytest

from helpers import made_up_sentences, prepared_corpus, stream, vocabulary_with
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.ngram.model import NGram
from lightrnn.text.corpus import Corpus


@pytest.fixture(scope="module", params=[None, "<s>"])
def small(request: pytest.FixtureRequest) -> NGram:
    """A 4-gram model of a text that is big enough for the closed form of the discounts at every order but one."""
    sentences = made_up_sentences()
    vocabulary = vocabulary_with([*(word for s in sentences for word in s), "never", "seen"], request.param)
    return estimate(stream(sentences, vocabulary), vocabulary, 4)


@pytest.fixture(scope="session")
def penn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, NGram]:
    corpus = prepared_corpus("ptb", "ptb", tmp_path_factory.mktemp("penn"))
    return corpus, estimate(corpus.split("train"), corpus.vocabulary)

"""Text that a command is given, and what a person should be told of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ..errors import LightRNNError
from . import screen

GLUED = re.compile(r"\w[.,;:!?]$")  # a word, and punctuation that belongs to its sentence
MUCH_GLUED = 0.05  # of the words; abbreviations are fewer
LOOKED_AT = 100_000  # words of a vocabulary, the first and so mostly the most frequent

if TYPE_CHECKING:
    from ..inference.lm import LM
    from ..text.corpus import Corpus
    from ..text.spelling import Ids
    from ..text.vocabulary import Unknown, Vocabulary


def ids_of(lm: LM, text: list[str], split: str) -> Ids:
    """Text files (or -), or a split of a data folder whose words are the model's, as ids of its vocabulary."""
    from ..text.corpus import Corpus, is_data_folder
    from ..text.vocabulary import Unknown

    eos, unk = lm.vocabulary.eos_id, lm.vocabulary.unk_id
    if len(text) == 1 and is_data_folder(text[0]):
        corpus = Corpus.load(text[0])
        ids = ids_of_same_words(corpus, lm.vocabulary)
        if ids is None:
            raise LightRNNError(f"{text[0]} has another vocabulary than the model; give the text files themselves")
        found = ids[corpus.split(split)]
        if lm.vocabulary.never_saw_unknown:
            tell_unknown(Unknown(lm.vocabulary, int((found != eos).sum()), int((found == unk).sum())))
        return found
    unknown = Unknown(lm.vocabulary)
    ids = lm.vocabulary.encode_files(text, unknown)
    if len(ids) == 0:
        raise LightRNNError(f"{', '.join(text)} is empty; give a text with words in it")
    tell_unknown(unknown)
    return ids


def ids_of_same_words(corpus: Corpus, vocabulary: Vocabulary) -> Ids | None:
    """[V]: what a model's vocabulary calls each word of a corpus, as a packed one has another order; None where it has
    other words."""
    import numpy as np

    from ..inference.mixture import translation

    ids, _ = translation(corpus.vocabulary, vocabulary)
    missing = len(vocabulary) - len(np.unique(ids)) - (corpus.vocabulary.rules.bos != vocabulary.rules.bos)
    return None if missing > 0 or (ids == vocabulary.unk_id).sum() > 1 else ids


def given_lines(file: str, errors: str) -> Iterator[list[str]]:
    """The lines of a file for a command that has --errors."""
    from ..text.reading import CONVERT, Errors, line_blocks

    return line_blocks(file, cast(Errors, errors), f"{CONVERT}, or use --errors replace")


def tell_unknown(unknown: Unknown) -> None:
    """Many unknown words have a reason more often than not."""
    if not unknown.is_notable:
        return
    share = f"note: the model does not know {unknown.unknown / unknown.tokens:.1%} of the words"
    if unknown.is_capitals:
        screen.note(f"{share}, most of them for their capitals; lower-case the text, or prepare with --lowercase")
    elif unknown.is_punctuation:
        screen.note(f"{share}, most of them for punctuation that is part of them; set it apart by spaces first")
    elif unknown.vocabulary.never_saw_unknown:
        screen.note(
            f"{share}, and met no unknown word in training; "
            "teach it them by train --unk-rate 0.5, or prepare with --min-count 2"
        )
    else:
        screen.note(f"{share}; is this the kind of text that it was trained on?")


def tell_unknown_of(lm: LM, context: str) -> None:
    """The same of a context that a person gave."""
    from ..text.vocabulary import Unknown

    unknown, words = Unknown(lm.vocabulary), lm.vocabulary.rules.split(context)
    unknown.add(words, lm.vocabulary.encode(words))
    tell_unknown(unknown)


def tell_of(corpus: Corpus) -> None:
    """What a model of a text that was just prepared will not do, and what to do about it."""
    _tell_untaught(corpus)
    _tell_glued(corpus)


def _tell_untaught(corpus: Corpus) -> None:
    """A vocabulary of all words of the training text leaves nothing to learn about unknown ones."""
    if corpus.untaught:
        shares = " and ".join(
            f"{corpus.info['splits'][name]['unknown_rate']:.1%} of {name}" for name in corpus.untaught
        )
        screen.note(
            f"note: {shares} are unknown words, and train has none that a model could learn from; "
            "--min-count 2 makes the words that occur once unknown, and train --unk-rate reads them so now and then"
        )


def _tell_glued(corpus: Corpus) -> None:
    """Words are what stands between spaces, and so "end." is another one than "end"."""
    vocabulary = corpus.vocabulary
    some = range(min(len(vocabulary), LOOKED_AT))
    glued = [w for w in some if GLUED.search(vocabulary.words[w])]
    share = float(vocabulary.counts[glued].sum()) / max(float(vocabulary.counts[: len(some)].sum()), 1.0)
    if share > MUCH_GLUED:
        screen.note(
            f"note: {share:.0%} of the words end in punctuation, as {vocabulary.words[glued[0]]!r} does, which makes "
            "another word of each; set punctuation apart by spaces first"
        )

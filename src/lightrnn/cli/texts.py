"""Text that a command is given, and what a person should be told of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ..errors import LightRNNError
from . import screen

if TYPE_CHECKING:
    from ..inference.lm import LM
    from ..text.corpus import Corpus
    from ..text.spelling import Ids
    from ..text.vocabulary import Unknown


def ids_of(lm: LM, text: list[str], split: str) -> Ids:
    """Text files (or -), or a split of a data folder whose words are the model's, as ids of its vocabulary."""
    import numpy as np

    from ..inference.mixture import translation
    from ..text.corpus import Corpus, is_data_folder
    from ..text.vocabulary import Unknown

    eos, unk = lm.vocabulary.eos_id, lm.vocabulary.unk_id
    if len(text) == 1 and is_data_folder(text[0]):
        corpus = Corpus.load(text[0])
        ids, _ = translation(corpus.vocabulary, lm.vocabulary)
        missing = len(lm.vocabulary) - len(np.unique(ids)) - (corpus.vocabulary.rules.bos != lm.vocabulary.rules.bos)
        if missing > 0 or (ids == unk).sum() > 1:
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
    elif unknown.vocabulary.never_saw_unknown:
        screen.note(
            f"{share}, and met no unknown word in training; "
            "teach it them by train --unk-rate 0.5, or prepare with --min-count 2"
        )
    else:
        screen.note(f"{share}; is this the kind of text that it was trained on?")


def tell_untaught(corpus: Corpus) -> None:
    """A vocabulary of all words of the training text leaves nothing to learn about unknown ones."""
    if corpus.untaught:
        shares = " and ".join(
            f"{corpus.info['splits'][name]['unknown_rate']:.1%} of {name}" for name in corpus.untaught
        )
        screen.note(
            f"note: {shares} are unknown words, and train has none that a model could learn from; "
            "--min-count 2 makes the words that occur once unknown, and train --unk-rate reads them so now and then"
        )

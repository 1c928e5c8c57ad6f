"""Text that a command is given, as ids of a model's vocabulary."""

from pathlib import Path

import numpy as np

from ..errors import LightRNNError
from ..files import expand
from ..inference.lm import LM
from ..inference.mixture import translation
from ..text.corpus import Corpus, is_data_folder
from ..text.windows import Ids


def ids_of(lm: LM, text: list[str], split: str) -> Ids:
    """Text files (or -), or a split of a data folder whose words are the model's."""
    if len(text) == 1 and is_data_folder(text[0]):
        corpus = Corpus.load(Path(text[0]))
        ids, _ = translation(corpus.vocabulary, lm.vocabulary)
        missing = len(lm.vocabulary) - len(np.unique(ids)) - (corpus.vocabulary.rules.bos != lm.vocabulary.rules.bos)
        if missing > 0 or (ids == lm.vocabulary.unk_id).sum() > 1:
            raise LightRNNError(f"{text[0]} has another vocabulary than the model; give the text files themselves")
        return ids[corpus.split(split)]
    ids = lm.vocabulary.encode_files(expand(text))
    if len(ids) == 0:
        raise LightRNNError(f"{', '.join(text)} is empty; give a text with words in it")
    return ids

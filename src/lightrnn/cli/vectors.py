"""lightrnn vectors"""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import LightRNNError
from ..files import atomic_file
from ..inference.loading import load
from ..runtime import use_threads
from . import screen
from .options import ModelArgument, ThreadsOption


def vectors(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.")],
    threads: ThreadsOption = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """A vector for every word, in the text format of word2vec: how many and how long, then a line a word.

    A word's vector is the state that it leaves when it is read alone: its row and its column, put together by the
    recurrence. gensim reads the file with
    KeyedVectors.load_word2vec_format; from Python, lm.vectors is the same array and lm.similar(word) its neighbours.

      lightrnn vectors model -o vectors.txt
    """
    if out.exists() and not force:
        raise LightRNNError(f"{out} exists; choose another -o, or replace it with --force")
    use_threads(threads)
    lm = load(model)
    rows = lm.vectors
    with atomic_file(out) as file:
        file.write(f"{rows.shape[0]} {rows.shape[1]}\n".encode())
        for word, row in zip(lm.vocabulary.words, rows.tolist(), strict=True):
            file.write(f"{word} {' '.join(f'{value:.6g}' for value in row)}\n".encode())
    screen.out.print(f"{rows.shape[0]:,} vectors of {rows.shape[1]} in {out}")

"""lightrnn vectors"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..outputs import replace_output
from ..runtime import use_threads
from . import screen
from .options import ForceOption, ThreadsOption


def vectors(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A folder of `lightrnn train`, or a file of `lightrnn pack`.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.")],
    threads: ThreadsOption = 0,
    force: ForceOption = False,
) -> None:
    """A vector for every word, in the text format of word2vec: how many and how long, then a line a word.

    A word's vector is the state that it leaves when nothing else is read: its row and its column, put together by the
    recurrence, or its row only if it stands alone. gensim reads the file with KeyedVectors.load_word2vec_format; from
    Python, lm.vectors is the same array and lm.similar(word) its neighbours.

      lightrnn vectors model -o vectors.txt
    """
    from ..inference.loading import load

    use_threads(threads)
    with replace_output(out, "file", inputs=[model], force=force) as stage, stage.open("wb") as file:
        lm = load(model)
        rows = lm.vectors
        file.write(f"{rows.shape[0]} {rows.shape[1]}\n".encode())
        for word, row in zip(lm.vocabulary.words, rows, strict=True):
            file.write(f"{word} {' '.join(f'{value:.6g}' for value in row.tolist())}\n".encode())
    screen.out.print(f"{rows.shape[0]:,} vectors of {rows.shape[1]} in {out}")

"""lightrnn ngram"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..errors import LightRNNError
from ..outputs import check_output
from . import screen
from .options import ForceOption, JsonOption


def ngram(
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA|TEXT…", help="A folder made by `lightrnn prepare` (its train split), text files, or -."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The ARPA file to make, .arpa or .arpa.gz.")],
    order: Annotated[int, typer.Option("--order", min=1, max=99, help="Words in the longest n-grams.")] = 5,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Estimate an n-gram model: interpolated modified Kneser-Ney, the numbers of KenLM's lmplz.

    Every line is a sentence of its own, its end is predicted, nothing is pruned. DATA gives its vocabulary, so that the
    model can be compared and mixed with others of the same data; of TEXT all words are used. The ARPA file can be read
    by KenLM (its Python package up to order 6), SRILM and others.

      lightrnn ngram data -o lm.arpa
      lightrnn ngram train.txt.xz --order 3 -o lm.arpa.gz
    """
    from ..ngram.arpa import RULES, arpa_words, write_arpa
    from ..ngram.kneser_ney import FALLBACK, estimate
    from ..text.corpus import Corpus, is_data_folder, read_text

    if not out.name.endswith((".arpa", ".arpa.gz")):
        raise LightRNNError(f"-o must end in .arpa or .arpa.gz, got {out.name!r}")
    check_output(out, "file", inputs=text, force=force)
    begin, corpus = time.perf_counter(), None
    with screen.counter("words") as progress:
        if len(text) == 1 and is_data_folder(text[0]):
            corpus = Corpus.load(text[0])
            vocabulary, ids = corpus.vocabulary, corpus.split("train")
        else:
            vocabulary, ids = read_text(text, RULES, progress)
    arpa_words(vocabulary)  # fails now rather than after the work
    with screen.counter("n-grams") as progress:
        model = estimate(ids, vocabulary, order, corpus.watching(progress) if corpus else progress)
        progress("writing", sum(model.counts))
        write_arpa(model, out, force=force)
    seconds = time.perf_counter() - begin
    discounts = model.discounts or []
    if as_json:
        facts = {"tokens": len(ids), "ngrams": model.counts, "discounts": discounts, "seconds": seconds}
        screen.print_json(facts)
        return
    rows = [
        [str(n), f"{count:,}", *(f"{d:.4f}" for d in ds), "fallback" if ds == FALLBACK else ""]
        for n, (count, ds) in enumerate(zip(model.counts, discounts, strict=True), 1)
    ]
    screen.out.print(screen.table(None, "order", "n-grams", "D1", "D2", "D3+", "", rows=rows))
    screen.out.print()
    screen.out.print(
        screen.table(
            None, "", "", rows=[["tokens", f"{len(ids):,}"], ["file", str(out)], ["seconds", f"{seconds:.1f}"]]
        )
    )

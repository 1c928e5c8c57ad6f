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
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to make: .lightrnn, .arpa or .arpa.gz.")],
    order: Annotated[int, typer.Option("--order", min=1, max=99, help="Words in the longest n-grams.")] = 5,
    prune: Annotated[
        str,
        typer.Option(
            "--prune",
            metavar="'N …'",
            help="For each order, the count up to which n-grams are left out; the last holds for all above. '0 0 1': "
            "trigrams and longer ones that occur once.",
        ),
    ] = "0",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Estimate an n-gram model: interpolated modified Kneser-Ney, the numbers of KenLM's lmplz.

    Every line is a sentence of its own, its end is predicted; --prune is that of lmplz. DATA gives its vocabulary, so
    that the model can be compared and mixed with others of the same data; of TEXT all words are used. A .lightrnn file
    loads at once; an ARPA file takes longer, and can be read by KenLM (its Python package up to order 6), SRILM and
    others.

      lightrnn ngram data -o kn5.lightrnn
      lightrnn ngram data --order 4 --prune '0 0 1' -o pruned.lightrnn
      lightrnn ngram train.txt.xz --order 3 -o lm.arpa.gz
    """
    from ..ngram.arpa import RULES, arpa_words, write_arpa
    from ..ngram.kneser_ney import FALLBACK, estimate, thresholds_of
    from ..ngram.packed import write_packed
    from ..text.corpus import Corpus, is_data_folder, read_text

    is_arpa = out.name.endswith((".arpa", ".arpa.gz"))
    if not is_arpa and out.suffix != ".lightrnn":
        raise LightRNNError(f"-o must end in .lightrnn, .arpa or .arpa.gz, got {out.name!r}")
    if not all(number.isdecimal() and len(number) < 19 for number in prune.split()):
        raise LightRNNError(f"--prune takes whole numbers with spaces between them, such as '0 0 1', got {prune!r}")
    thresholds = [int(number) for number in prune.split()]
    thresholds_of(thresholds, order)
    check_output(out, "file", inputs=text, force=force)
    begin, corpus = time.perf_counter(), None
    with screen.counter("words") as progress:
        if len(text) == 1 and is_data_folder(text[0]):
            corpus = Corpus.load(text[0])
            vocabulary, ids = corpus.vocabulary, corpus.split("train")
        else:
            vocabulary, ids = read_text(text, RULES, progress)
    if is_arpa:
        arpa_words(vocabulary)  # fails now rather than after the work
    with screen.counter("n-grams") as progress:
        watched = corpus.watching(progress) if corpus else progress
        model = estimate(ids, vocabulary, order, watched, prune=thresholds)
        progress("writing", sum(model.counts))
        (write_arpa if is_arpa else write_packed)(model, out, force=force)
    seconds, size = time.perf_counter() - begin, out.stat().st_size
    discounts = model.discounts or []
    if as_json:
        told = {"tokens": len(ids), "ngrams": model.counts, "discounts": discounts}
        screen.print_json(told | {"bytes": size, "seconds": seconds})
        return
    rows = [
        [str(n), f"{count:,}", *(f"{d:.4f}" for d in ds), "fallback" if ds == FALLBACK else ""]
        for n, (count, ds) in enumerate(zip(model.counts, discounts, strict=True), 1)
    ]
    screen.out.print(screen.table(None, "order", "n-grams", "D1", "D2", "D3+", "", rows=rows))
    screen.out.print()
    facts = [["tokens", f"{len(ids):,}"], ["file", str(out)], ["bytes", f"{size:,}"], ["seconds", f"{seconds:.1f}"]]
    screen.out.print(screen.table(None, "", "", rows=facts))

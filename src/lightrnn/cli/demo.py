"""lightrnn demo"""

from __future__ import annotations

import itertools
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..config import Recipe
from ..errors import LightRNNError
from ..outputs import refuse_foreign
from ..runtime import keep_memory, use_threads
from . import screen
from .info import size_table
from .options import ThreadsOption
from .prepare import print_statistics

if TYPE_CHECKING:
    from ..text.corpus import Corpus

CONTEXTS = ("she looked at", "it was a", '" i do not know , " said')


def demo(
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Keep the data and the model in this folder.")] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.01, max=1e5, help="Minutes of training, the table included.")
    ] = 2.0,
    threads: ThreadsOption = 0,
) -> None:
    """The whole of it in about three minutes: prepare a text, train on it, and see what was learned.

    The text ships with the package: the beginnings of 99 English novels of 1840-1920 (ELTeC), a million words.
    """
    use_threads(threads)
    keep_memory()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else out
        refuse_foreign(folder)
        for part in ("data", "model"):
            if (folder / part).exists():
                raise LightRNNError(f"{folder / part} exists; choose another -o")
        _demo(folder, minutes)
        if out is None:
            screen.note("\nnothing of it was kept; `lightrnn demo -o FOLDER` keeps data and model")
        else:
            screen.note(f"\nkept: {out / 'data'} and {out / 'model'}; try: lightrnn next {out / 'model'} it was a")


def _demo(folder: Path, minutes: float) -> None:
    from ..inference.network import NetworkLM
    from ..models.checkpoint import load_lightrnn
    from ..models.kind import Size, kind_of
    from ..models.sizes import conventional_parameters
    from ..table.coherence import row_coherence
    from ..table.explorer import rank_rows, row_words
    from ..text.corpus import prepare
    from ..training import bootstrap

    _heading("1. Prepare: a million words of English novels (ELTeC, public domain)")
    bundled = resources.files("lightrnn") / "data" / "eltec-en-1m"
    with resources.as_file(bundled) as source, screen.counter("words") as progress:
        corpus = prepare(source, folder / "data", preset="aclw", progress=progress)
    print_statistics(corpus)

    recipe = Recipe.load("demo").override({"minutes": minutes})
    _heading(f"2. Train: one layer of {recipe.model.hidden_size} units, {minutes:g} minutes")
    with screen.training_screen() as (report, progress):
        bootstrap.train(corpus, recipe, folder / "model", report=report, progress=progress)
    model, _ = load_lightrnn(folder / "model")
    lm = NetworkLM(model, corpus.vocabulary)

    _heading("3. What it is worth")
    result = lm.evaluate(corpus.split("test"))
    rows = [
        ["unigram", f"{unigram_perplexity(corpus):.1f}"],
        ["LightRNN", f"{result.perplexity:.1f}"],
    ]
    screen.out.print(screen.table(None, "model", "test perplexity", rows=rows))
    screen.out.print()
    size = len(corpus.vocabulary)
    parts = kind_of(model.config).parameters(model.config, Size(size, model.shape))
    screen.out.print(size_table(parts, conventional_parameters(model.config, size), model.config))

    _heading("4. What comes next")
    for context in CONTEXTS:
        words = "  ".join(f"{word} {p:.1%}" for word, p in lm.next_words(context, 5))
        screen.out.print(f"{context} …  {words}")

    _heading("5. Sampled sentences")
    for context in ("", *CONTEXTS[:2]):
        drawn = lm.generate(context, temperature=0.7, seed=1)
        sentence = itertools.takewhile(lambda word: word != corpus.vocabulary.rules.eos, drawn)
        screen.out.print(" ".join([context, *itertools.islice(sentence, 40)]).strip())

    apart = f"; {model.alone:,} words stand alone" if model.alone else ""
    _heading(f"6. Some rows of the word table, most coherent first: words that are used alike share a row{apart}")
    coherence = row_coherence(
        model.table, corpus.split("train"), least=8
    )  # few of the words that share are in the others
    counts = corpus.vocabulary.counts
    for row in rank_rows(model.table, counts, coherence)[:6]:
        members = row_words(model.table, counts, int(row))[:12]
        screen.out.print("  ".join(corpus.vocabulary.words[w] for w in members))


def _heading(text: str) -> None:
    screen.out.print(f"\n{text}", style="bold")


def unigram_perplexity(corpus: Corpus) -> float:
    """Test perplexity of the training text's word frequencies, one added to each."""
    import numpy as np

    counts = corpus.vocabulary.counts + 1.0
    log_probs = np.log(counts / counts.sum())
    return float(np.exp(-log_probs[corpus.split("test")].mean()))

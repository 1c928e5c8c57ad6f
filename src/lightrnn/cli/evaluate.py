"""lightrnn evaluate"""

from __future__ import annotations

from typing import Annotated, cast

import typer

from ..runtime import BATCH_SIZE, keep_memory, use_threads
from ..text.rules import Convention
from . import screen
from .options import DeviceOption, JsonOption, ModelArgument, ThreadsOption, choice
from .texts import ids_of


def evaluate(
    model: ModelArgument,
    text: Annotated[
        list[str],
        typer.Argument(metavar="TEXT…|DATA", help="Text files, -, or a folder made by `lightrnn prepare`."),
    ],
    split: Annotated[str, typer.Option("--split", help="Which split of DATA: train, valid or test.")] = "test",
    convention: Annotated[
        str | None,
        typer.Option(
            "--convention",
            metavar="stream|sentence",
            help="Carry the state across sentences, or start each afresh; the model's own unless given.",
        ),
    ] = None,
    batch_size: Annotated[
        int,
        typer.Option("--batch-size", min=1, max=65536, help="Tracks or sentences side by side; no figure changes."),
    ] = BATCH_SIZE,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Perplexity of a text: every token once, sentence ends included, nothing dropped.

    stream: one pass with the state carried from the first word to the last. sentence: each sentence from a fresh state.
    Words outside the vocabulary are scored as the unknown word; the perplexity without them is given too.

      lightrnn evaluate model data
      lightrnn evaluate model text.txt.xz --convention sentence
    """
    from ..inference.loading import load

    if convention is not None:
        choice("--convention", convention, Convention)
    use_threads(threads)
    keep_memory()
    lm = load(model, device=device)
    ids = ids_of(lm, text, split)
    with screen.counter("words") as progress:
        result = lm.evaluate(
            ids,
            cast(Convention | None, convention),
            batch_size=batch_size,
            progress=progress,
        )
    names = lm.part_names
    if as_json:
        facts = {
            "convention": result.convention,
            "perplexity": result.perplexity,
            "perplexity_without_unknown": result.perplexity_known,
            "tokens": result.tokens,
            "unknown": result.unknown_tokens,
            "nats": result.nats,
            "parts": dict(zip(names, result.parts, strict=True)),
            "words_per_second": result.words_per_second,
        }
        screen.print_json(facts)
        return
    rows = [
        ["convention", result.convention],
        ["perplexity", f"{result.perplexity:.2f}"],
        ["  without unknown words", f"{result.perplexity_known:.2f}"],
        ["tokens", f"{result.tokens:,}"],
        ["  unknown", f"{result.unknown_tokens:,} ({result.unknown_tokens / result.tokens:.2%})"],
        ["nats per token", f"{result.nats / result.tokens:.4f}"],
        *([f"  {name}", f"{part / result.tokens:.4f}"] for name, part in zip(names, result.parts, strict=True)),
        ["words/s", f"{result.words_per_second:,.0f}"],
    ]
    screen.out.print(screen.table(None, "", "", rows=rows))

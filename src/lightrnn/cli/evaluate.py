"""lightrnn evaluate"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..errors import LightRNNError
from ..runtime import BATCH_SIZE, MOST_TRACKS, keep_memory, use_threads
from ..text.rules import Convention
from . import screen
from .options import DeviceOption, JsonOption, ModelArgument, ThreadsOption, choice
from .texts import ids_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..inference.evaluation import Evaluation
    from ..inference.lm import LM
    from ..inference.while_reading import Worth


def evaluate(
    model: ModelArgument,
    text: Annotated[
        list[str],
        typer.Argument(metavar="TEXT…|DATA", help="Text files, -, or a folder made by `lightrnn prepare`."),
    ],
    split: Annotated[
        str | None, typer.Option("--split", help="Which split of DATA: train, valid or test; test if not given.")
    ] = None,
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
        typer.Option("--batch-size", min=1, max=MOST_TRACKS, help="Tracks or sentences side by side; figures stay."),
    ] = BATCH_SIZE,
    adapt: Annotated[
        bool, typer.Option("--adapt", help="Measure too what it is worth when it learns from what it has read.")
    ] = False,
    adapt_rate: Annotated[
        float | None,
        typer.Option(
            "--adapt-rate", min=0, max=1, help="How far a step of --adapt goes; 0.001, and less above 256 units."
        ),
    ] = None,
    adapt_decay: Annotated[
        float | None,
        typer.Option("--adapt-decay", min=0, max=1, help="How much of what was learned each step of --adapt undoes."),
    ] = None,
    cache: Annotated[
        int, typer.Option("--cache", metavar="SIZE", min=0, help="Measure too what a cache of so many words is worth.")
    ] = 0,
    tuned_on: Annotated[
        str | None,
        typer.Option(
            "--tune", metavar="TEXT|DATA", help="Held-out text for --cache (of DATA: valid); that of DATA unless given."
        ),
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Perplexity of a text: every token once, sentence ends included, nothing dropped.

    stream: one pass with the state carried from the first word to the last. sentence: each sentence from a fresh state.
    Words outside the vocabulary are scored as the unknown word; the perplexity without them is given too.

    With --adapt the network learns from every 20 words once they are scored (dynamic evaluation), with --cache it is
    mixed with a cache of the last words; both see nothing but what was before. These figures are given beside the plain
    one, and are not to be compared with others' plain ones. With both, the cache goes with the network that learns.
    Of a mix, --adapt has its networks learn, each by itself.

      lightrnn evaluate model data
      lightrnn evaluate model text.txt.xz --convention sentence
      lightrnn evaluate model data --adapt --cache 2000
    """
    from ..inference.loading import load
    from ..text.corpus import is_data_folder

    if convention is not None:
        choice("--convention", convention, Convention)
    use_threads(threads)
    keep_memory()
    lm = load(model, device=device)
    name = cast(Convention | None, convention)
    learning = {word: value for word, value in (("rate", adapt_rate), ("decay", adapt_decay)) if value is not None}
    _check_adaptive(lm, name or lm.convention, adapt, cache, learning, tuned_on is not None)
    prepared = len(text) == 1 and is_data_folder(text[0])
    if split is not None and not prepared:
        raise LightRNNError(f"--split is for a folder made by lightrnn prepare, got {', '.join(text)}; leave it out")
    if cache and tuned_on is None and not prepared:
        raise LightRNNError("--cache finds its weight on held-out text; name one with --tune")
    if cache and tuned_on is None and split == "valid":
        raise LightRNNError("--cache finds its weight on the valid split, which is measured; name a text with --tune")
    ids = ids_of(lm, text, split or "test")
    held_out = ids_of(lm, [tuned_on or text[0]], "valid") if cache else None
    if tuned_on is not None and held_out is not None and held_out.tolist() == ids.tolist():
        raise LightRNNError(f"--tune names the text that is measured, {tuned_on}; name another one")
    with screen.counter("words") as progress:
        result = lm.evaluate(ids, name, batch_size=batch_size, progress=progress)
        others: list[Worth] = []
        failure: LightRNNError | None = None
        if adapt or cache:
            from ..inference.while_reading import while_reading

            settings, read_as = learning if adapt else None, result.convention
            try:
                others = while_reading(
                    lm, ids, read_as, learning=settings, cache=cache, held_out=held_out, progress=progress
                )
            except LightRNNError as error:  # what is known is told first
                failure = error
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
        screen.print_json(facts | {other.name: _facts(other) for other in others})
    else:
        rows = _plain_rows(result, names) + [row for other in others for row in _rows(other)]
        screen.out.print(screen.table(None, "", "", rows=rows))
    if failure is not None:
        raise failure


def _plain_rows(result: Evaluation, names: Sequence[str]) -> list[list[str]]:
    return [
        ["convention", result.convention],
        ["perplexity", f"{result.perplexity:.2f}"],
        ["  without unknown words", f"{result.perplexity_known:.2f}"],
        ["tokens", f"{result.tokens:,}"],
        ["  unknown", f"{result.unknown_tokens:,} ({result.unknown_tokens / result.tokens:.2%})"],
        ["nats per token", f"{result.nats / result.tokens:.4f}"],
        *([f"  {name}", f"{part / result.tokens:.4f}"] for name, part in zip(names, result.parts, strict=True)),
        ["words/s", f"{result.words_per_second:,.0f}"],
    ]


def _check_adaptive(lm: LM, name: str, adapt: bool, cache: int, learning: dict[str, float], tuned_on: bool) -> None:
    """Refuse what cannot be, or would change nothing."""
    from ..inference.cache import CacheLM
    from ..inference.network import NetworkLM

    if learning and not adapt:
        raise LightRNNError(f"--adapt-{next(iter(learning))} changes nothing without --adapt; leave it out or add that")
    if tuned_on and not cache:
        raise LightRNNError("--tune changes nothing without --cache; leave it out or add that")
    if adapt and not lm.networks:
        raise LightRNNError("--adapt is for models that can learn: those of lightrnn train, and mixes of them")
    if cache:
        if not isinstance(lm, NetworkLM):
            raise LightRNNError("--cache is for a single network; make it a member of a mix by lightrnn mix")
        CacheLM(lm, cache)  # refuses a size that cannot be
    if adapt and name != "stream":
        raise LightRNNError("--adapt reads a text as one stream; add --convention stream")


def _facts(worth: Worth) -> dict[str, float]:
    result = worth.result
    known = result.perplexity_known
    return {"perplexity": result.perplexity, "perplexity_without_unknown": known, **worth.settings}


def _rows(worth: Worth) -> list[list[str]]:
    return [
        [f"perplexity, {worth.name.replace('_', ' ')}", f"{worth.result.perplexity:.2f}"],
        ["  without unknown words", f"{worth.result.perplexity_known:.2f}"],
        *(
            [f"  {setting}", f"{value:,}" if isinstance(value, int) else f"{value:.3g}"]
            for setting, value in worth.settings.items()
        ),
    ]

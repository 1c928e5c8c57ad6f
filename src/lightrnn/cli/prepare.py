"""lightrnn prepare"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..outputs import check_output, settle
from ..runtime import use_threads
from ..text.presets import PRESETS, find_preset
from . import screen
from .options import ForceOption, JsonOption, ThreadsOption
from .texts import tell_of

if TYPE_CHECKING:
    from ..text import corpus as corpora


def prepare(
    train: Annotated[
        list[str],
        typer.Argument(
            metavar="TRAIN…",
            help="Training text: files, globs, folders of shards (.gz, .xz, .zst or plain), or -.",
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The data folder to make.")],
    valid: Annotated[list[str] | None, typer.Option("--valid", help="Validation text; once for each file.")] = None,
    test: Annotated[list[str] | None, typer.Option("--test", help="Test text; once for each file.")] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help=f"Conventions of a known corpus: {', '.join(PRESETS)}.")
    ] = None,
    min_count: Annotated[
        int | None, typer.Option("--min-count", min=1, help="Words rarer than this in TRAIN become unknown.")
    ] = None,
    max_words: Annotated[
        int | None,
        typer.Option("--max-words", min=3, help="Keep so many words at most, the most frequent ones."),
    ] = None,
    vocab: Annotated[
        Path | None,
        typer.Option("--vocab", help="Use the words of this list (one a line) or model folder, not TRAIN's."),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Fold case.")] = False,
    normalize: Annotated[
        str | None,
        typer.Option(
            "--normalize", metavar="none|nfc|nfkc", help="Unicode normalisation; nfc unless a preset says otherwise."
        ),
    ] = None,
    convention: Annotated[
        str | None,
        typer.Option(
            "--convention",
            metavar="stream|sentence",
            help="Carry the state across sentences (the default), or start each afresh.",
        ),
    ] = None,
    threads: ThreadsOption = 0,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Turn text into a data folder: vocabulary, token ids, statistics.

    Words are what white space separates; every line ends a sentence. The text is read once and streamed: memory grows
    with the vocabulary, not with the text. Shards, and stretches of a large plain file, are read side by side on all
    cores; the result is the same, byte for byte, on any number. A word may have 1 MiB (2^20 bytes) at most. A single
    folder that holds train, valid and test files is understood as such. Without --valid, the last 5% of the text is
    held out.

      lightrnn prepare train.txt.xz --valid valid.txt.xz --test test.txt.xz -o data
      zcat shards/*.gz | lightrnn prepare - --min-count 3 -o data
      lightrnn prepare 1-billion-word-language-modeling-benchmark --preset billionw -o data
    """
    from ..models.folder import load_vocabulary
    from ..text import corpus as corpora

    texts = [*train, *(valid or []), *(test or [])]
    check_output(out, "data", inputs=texts if vocab is None else [*texts, vocab], force=force)
    given = (("lowercase", lowercase or None), ("normalize", normalize), ("convention", convention))
    changes: dict[str, Any] = {name: value for name, value in given if value is not None}
    rules = replace(find_preset(preset).rules, **changes) if changes else None
    if vocab is not None:
        settle(vocab)
    use_threads(threads)
    vocabulary = load_vocabulary(vocab) if vocab is not None and vocab.is_dir() else vocab
    with screen.counter("words") as progress:
        corpus = corpora.prepare(
            train,
            out,
            valid=valid or (),
            test=test or (),
            preset=preset,
            rules=rules,
            min_count=min_count,
            max_words=max_words,
            vocabulary=vocabulary,
            force=force,
            progress=progress,
        )
    if vocab is None:
        tell_of(corpus)
    if as_json:
        screen.print_json(corpus.info)
        return
    for split in corpus.info["splits"]:
        if len(files := corpus.files(split)) > 1:
            screen.note(f"{split}: {', '.join(files)}"[:200])
    print_statistics(corpus)


def print_statistics(corpus: corpora.Corpus) -> None:
    from ..models.sizes import human_count

    rows = [
        [
            split,
            f"{facts['lines']:,}",
            f"{facts['tokens']:,}",
            f"{facts['words']:,}",
            f"{facts['unknown_rate']:.2%}",
        ]
        for split, facts in corpus.info["splits"].items()
    ]
    screen.out.print(screen.table(None, "split", "lines", "tokens", "words", "unknown", rows=rows))
    size, tokens = len(corpus.vocabulary), corpus.info["splits"]["train"]["tokens"]
    screen.out.print()
    row = [corpus.path.name, f"{human_count(tokens)} ({tokens:,})", f"{human_count(size)} ({size:,})"]
    screen.out.print(screen.table(None, "dataset", "#token", "vocabulary size", rows=[row]))

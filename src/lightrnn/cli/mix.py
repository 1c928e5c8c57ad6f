"""lightrnn mix"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import LightRNNError
from ..outputs import check_output, locked
from ..runtime import use_threads
from . import screen
from .options import DeviceOption, ForceOption, JsonOption, ThreadsOption
from .texts import ids_of

if TYPE_CHECKING:
    import numpy as np

    from ..inference.mixture import Mix


def mix(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL MODEL…",
            help="Folders of `lightrnn train` or `mix`, packed or n-gram files; cache:SIZE for the last words read.",
        ),
    ],
    tuned_on: Annotated[
        str, typer.Option("--tune", metavar="TEXT|DATA", help="Held-out text for the weights (of DATA: valid).")
    ],
    tested_on: Annotated[
        str | None, typer.Option("--test", metavar="TEXT|DATA", help="Text to measure on (of DATA: test).")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Save the mix as a model in this folder.")] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Mix models word by word: P(w) = Σ weight · P_model(w), the weights found on held-out text alone.

    Each model keeps its own vocabulary and its own rule of context: an n-gram model sees one sentence, a stream model
    all before. The mix has the vocabulary of the first model; a word of it that another model does not know gets an
    equal share of that model's unknown word. A saved mix is a model like any other for evaluate, score, next, generate
    and rescore; it names its models by their places, relative to its own.

    cache:2000 is a cache of the last 2,000 words of the text itself, each with the state of the first network before
    it: a word is likely where it came before in like places. It needs no training; its flatness, how little the
    likeness counts, is found on the held-out text too, unless it is given (cache:2000:11).

      lightrnn ngram data -o kn5.arpa
      lightrnn mix model kn5.arpa --tune data --test data -o mixed
      lightrnn mix model cache:2000 --tune data --test data -o remembers
    """
    from ..inference.cache import CacheLM, CacheName
    from ..inference.evaluation import perplexity_of
    from ..inference.loading import all_members, load_all, member_of, save_mix
    from ..inference.mixture import Mix, mixed
    from ..inference.tuning import tuned_mix

    if len(models) < 2:
        raise LightRNNError("a mix needs at least two models, got one; name another")
    use_threads(threads)
    with nullcontext() if out is None else locked(out):
        if out is not None:
            check_output(out, "model", inputs=all_members(models), force=force)
        members = load_all(models, device=device)
        together = Mix(members, [1.0] * len(members))
        named = [member_of(model) for model in models]
        loose = [m for m, name in enumerate(named) if isinstance(name, CacheName) and name.flatness is None]
        if any(member.vocabulary.words != together.vocabulary.words for member in members):
            _tell_vocabularies(together, [str(name) for name in named])
        with screen.counter("words") as progress:
            together, columns = tuned_mix(together, loose, ids_of(together, [tuned_on], "valid"), progress)
            found: dict[str, np.ndarray] = {"tune": columns}
            if tested_on is not None:
                found["test"] = together.member_log_probs(ids_of(together, [tested_on], "test"), progress=progress)
        weights = together.weights
        named = [
            CacheName(member.size, member.flatness) if isinstance(member, CacheLM) else name
            for name, member in zip(named, together.members, strict=True)
        ]
        together_log_probs = {name: mixed(log_probs, weights) for name, log_probs in found.items()}
        rows: list[dict[str, Any]] = [
            {"model": str(name), "weight": weight, **{on: perplexity_of(values[:, m]) for on, values in found.items()}}
            for m, (name, weight) in enumerate(zip(named, weights, strict=True))
        ]
        rows.append(
            {"model": "mix", "weight": 1.0, **{on: perplexity_of(values) for on, values in together_log_probs.items()}}
        )
        if out is not None:
            save_mix(out, named, weights, force=force, option="-o")
    if as_json:
        finite = [
            {key: None if key in found and not _is_finite(value) else value for key, value in r.items()} for r in rows
        ]
        screen.print_json({"models": finite})
        return
    lines = [[r["model"], f"{r['weight']:.3f}", *(_shown(r[on]) for on in found)] for r in rows]
    screen.out.print(screen.table(None, "model", "weight", *(f"perplexity, {on}" for on in found), rows=lines))
    if out is not None:
        screen.note(f"the mix is in {out}")


def _shown(perplexity: float) -> str:
    return f"{perplexity:.2f}" if _is_finite(perplexity) else "∞"


def _is_finite(perplexity: float) -> bool:
    """That of a cache alone is not: there are words that it does not hold."""
    return perplexity < 1e9


def _tell_vocabularies(together: Mix, names: list[str]) -> None:
    for name, unknown in zip(names, together.unknown_words, strict=True):
        if unknown:
            screen.note(
                f"{name} does not know {unknown:,} of the {len(together.vocabulary):,} words of {names[0]}: "
                "each gets an equal share of its unknown word"
            )

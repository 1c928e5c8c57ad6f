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
        list[Path], typer.Argument(metavar="MODEL MODEL…", help="Folders of `lightrnn train` or `mix`, n-gram files.")
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
    equal share of that model's unknown word. A saved mix is a model like any other for evaluate, score, next and
    rescore; it names its models by their places, relative to its own.

      lightrnn ngram data -o kn5.arpa
      lightrnn mix model kn5.arpa --tune data --test data -o mixed
    """
    from ..inference.evaluation import perplexity_of
    from ..inference.loading import all_members, load_all, save_mix
    from ..inference.mixture import Mix, mixed, tune

    if len(models) < 2:
        raise LightRNNError("a mix needs at least two models, got one; name another")
    use_threads(threads)
    with nullcontext() if out is None else locked(out):
        if out is not None:
            check_output(out, "model", inputs=all_members(models), force=force)
        members = load_all(models, device=device)
        together = Mix(members, [1.0] * len(members))
        names = [str(model) for model in models]
        if any(member.vocabulary.words != together.vocabulary.words for member in members):
            _tell_vocabularies(together, names)
        found: dict[str, np.ndarray] = {}
        with screen.counter("words") as progress:
            for name, source, split in (("tune", tuned_on, "valid"), ("test", tested_on, "test")):
                if source is not None:
                    ids = ids_of(together, [source], split)
                    found[name] = together.member_log_probs(ids, progress=progress)
        weights = tune(found["tune"])
        together_log_probs = {name: mixed(log_probs, weights) for name, log_probs in found.items()}
        rows: list[dict[str, Any]] = [
            {"model": name, "weight": weight, **{on: perplexity_of(values[:, m]) for on, values in found.items()}}
            for m, (name, weight) in enumerate(zip(names, weights, strict=True))
        ]
        rows.append(
            {"model": "mix", "weight": 1.0, **{on: perplexity_of(values) for on, values in together_log_probs.items()}}
        )
        if out is not None:
            save_mix(out, models, weights, force=force)
    if as_json:
        screen.print_json({"models": rows})
        return
    lines = [[r["model"], f"{r['weight']:.3f}", *(f"{r[on]:.2f}" for on in found)] for r in rows]
    screen.out.print(screen.table(None, "model", "weight", *(f"perplexity, {on}" for on in found), rows=lines))
    if out is not None:
        screen.note(f"the mix is in {out}")


def _tell_vocabularies(together: Mix, names: list[str]) -> None:
    for name, unknown in zip(names, together.unknown_words, strict=True):
        if unknown:
            screen.note(
                f"{name} does not know {unknown:,} of the {len(together.vocabulary):,} words of {names[0]}: "
                "each gets an equal share of its unknown word"
            )

"""lightrnn reallocate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import BootstrapConfig
from ..errors import LightRNNError
from ..outputs import replace_output
from ..registry import REFINEMENTS, SOLVERS
from ..runtime import choose_device, keep_memory, use_threads
from . import screen
from .options import DeviceOption, ForceOption, ThreadsOption

HOW = tuple(name for name in REFINEMENTS if name != "none")


def reallocate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder made by `lightrnn train`.")],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="The folder made by `lightrnn prepare` it was trained on.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model folder to make.")],
    how: Annotated[
        str, typer.Option("--refine", metavar="|".join(HOW), help="The paper's matching, or our clustering.")
    ] = "matching",
    solver: Annotated[
        str | None,
        typer.Option("--solver", metavar="|".join(SOLVERS), help="Solver of the matching; else block."),
    ] = None,
    clustering: Annotated[
        str | None,
        typer.Option(
            "--clustering", metavar="auto|transport|bisection", help="How words are clustered; see `lightrnn train`."
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="Words of the text that a clustering reads; 0: all of it.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the clustering.")] = 1,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    force: ForceOption = False,
) -> None:
    """One refinement of the word table on its own. Words that stand alone stay where they are.

    The new model has the new table and the old weights, input vectors re-estimated; after a clustering these are of
    little use, and the table is better trained on afresh:

      lightrnn reallocate model data -o moved
      lightrnn reallocate model data --refine cluster -o clustered
      lightrnn train data --table clustered/table.tsv -o better
    """
    from ..inference.passes import evaluate
    from ..models.checkpoint import load_lightrnn, save_model
    from ..models.folder import read_config
    from ..text.corpus import Corpus
    from ..training.refinement import carried_over, refine

    if how == "none":
        raise LightRNNError(f"--refine must be {' or '.join(HOW)} here, got 'none'")
    given = {"solver": solver, "clustering": clustering, "sample": sample or None}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    config = BootstrapConfig(refine=how, **chosen)
    for name in chosen:
        if not (REFINEMENTS[how].uses_solver if name == "solver" else REFINEMENTS[how].uses_clustering):
            raise LightRNNError(f"--{name} changes nothing with --refine {how}; leave it out")
    use_threads(threads)
    keep_memory()
    with replace_output(out, "model", inputs=[model, data], force=force) as stage:
        old, vocabulary = load_lightrnn(model, choose_device(device))
        corpus = Corpus.load(data)
        if corpus.vocabulary.digest != vocabulary.digest:
            raise LightRNNError(f"{data} has another vocabulary than {model}; give the data that it was trained on")
        with screen.waiting() as progress:
            watched = corpus.watching(progress)
            done = refine(old, corpus.split("train"), vocabulary, config, seed=seed, progress=watched)
        new = carried_over(old, done.table, vocabulary.counts).eval()
        before, after = (evaluate(lm, corpus.split("valid"), vocabulary).perplexity for lm in (old, new))
        save_model(stage, new, vocabulary, read_config(model)["training"] | {"valid_perplexity": after})
    rows = [["words moved", f"{done.moved:,}"], ["tokens that they carry", f"{done.moved_tokens:.1%}"]]
    if done.cost_before is not None:
        rows += [
            ["cost before, nats a token", f"{done.cost_before:.4f}"],
            ["cost after", f"{done.cost_after:.4f}"],
            ["lower bound", screen.shown_bound(done)],
        ]
    rows += [
        ["validation perplexity before", f"{before:.2f}"],
        ["right after, not trained on the new table yet", f"{after:.2f}"],
        ["seconds", f"{done.seconds:.1f}"],
    ]
    screen.out.print(screen.table(None, "refinement", how, rows=rows))

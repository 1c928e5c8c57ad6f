"""Runs of training/test_together.py, in as many processes as it starts: each joins the others and trains case by case.

    RANK=0 WORLD_SIZE=2 … python together_runs.py FOLDER DATA:CASE DATA:CASE …

A case's model is in FOLDER/DATA-CASE, the loss of every mini-batch in FOLDER/DATA-CASE.json.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from lightrnn.config import Recipe
from lightrnn.processes import joined
from lightrnn.text.corpus import Corpus
from lightrnn.training.bootstrap import Event, begin, go_on
from lightrnn.training.fitting import fitted
from lightrnn.training.following import follow
from lightrnn.training.run import Run
from lightrnn.training.teaching import Teacher
from lightrnn.training.trainer import Batch

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {"hidden_size": 12, "batch_size": 5, "window": 6, "epochs": 1.0, "dropout": 0.3}
CASES: dict[str, dict[str, Any]] = {
    "cluster": SMALL | {"layers": 2, "refine": "cluster", "round_share": 0.4, "validate_every": 40},
    "matching": SMALL | {"layers": 2, "refine": "matching", "round_share": 0.4, "alone": 7},
    "again": SMALL | {"layers": 2, "refine": "matching", "round_share": 0.4, "alone": 7},
    "gru": SMALL | {"cell": "gru", "layers": 2, "epochs": 0.3, "start": "random", "batch_size": 2},
    "sigmoid": SMALL | {"cell": "rnn-sigmoid", "layers": 2, "epochs": 0.3, "start": "random"},
    "hsm": SMALL | {"model": "hsm", "epochs": 0.3},
    "blackout": SMALL | {"model": "blackout", "blackout_samples": 20, "epochs": 0.3},
    "adaptive": SMALL | {"model": "adaptive", "tied": True, "epochs": 0.3, "bigram_vectors": True},
    "meeting": SMALL | {"optimizer": "sgd", "learning_rate": 0.3, "clip_norm": 1e6, "batch_size": 6, "epochs": 0.5},
    "taught": SMALL | {"layers": 2, "refine": "matching", "round_share": 0.4, "alone": 9, "head": 6},
    "rounded": SMALL | {"exchange": "bfloat16", "learning_rate": 0.02},
    "averaged": SMALL | {"local_steps": 4, "schedule": "average", "epochs": 1.0},
    "local": SMALL | {"local_steps": 4, "validate_every": 30, "epochs": 3.0, "learning_rate": 0.02},
}


def recipe_of(case: str, corpus: Corpus) -> Recipe:
    """The case's recipe as `lightrnn train --recipe plain` with these options would have it."""
    chosen = CASES[case]
    return fitted(Recipe.load("plain").override(chosen), corpus, chosen=chosen)


def run_case(data: Path, case: str, out: Path, leads: bool) -> None:
    """Train in `out` and write the losses beside it, or follow who does.

    In the case `meeting` weights are averaged after every mini-batch, in place of gradients being added up: with plain
    SGD, equal shares and no clipping that is the same. In the case `taught` the model beside the data is the teacher.
    """
    corpus, losses = Corpus.load(data, verify=False), []
    if leads:
        out.mkdir()
        teacher = Teacher.load(data.parent / "teacher") if case == "taught" else None
        run = begin(corpus, recipe_of(case, corpus), out, teacher=teacher, device=CPU)
    else:
        run = follow(corpus, CPU)

    run.trainer.is_local |= case == "meeting" and run.trainer.processes.size > 1

    def note(_run: Run, event: Event) -> None:
        if isinstance(event, Batch):
            losses.append(event.nats)

    go_on(run, note)
    if run.recipe.bootstrap.refine == "none":  # else who follows has gone on to another run
        weights = b"".join(tensor.numpy().tobytes() for tensor in run.trainer.result.state_dict().values())
        assert len(set(run.trainer.processes.heard(sha256(weights).hexdigest()))) == 1, "all have one model"
    if leads:
        out.with_suffix(".json").write_text(json.dumps(losses))


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    with joined(CPU) as processes:
        for name in sys.argv[2:]:
            data, _, case = name.rpartition(":")
            run_case(Path(data), case, folder / f"{Path(data).name}-{case}", processes.leads)

"""The file of a finished run: its facts, checked as they are read, and a digest over them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from ..border import check, digest, list_of, maybe, number, one_field, record, shown, text, true_or_false, whole
from ..config import Recipe
from ..errors import LightRNNError
from ..files import read_json, write_json
from ..outputs import sweep
from .grid import GridRun

RUN_FORMAT = 1
SECONDS, PERPLEXITY = number(least=0, most=1e12), number(least=0)
FACTS = record(  # of a finished run
    {
        **dict.fromkeys(("corpus", "model", "data", "date"), text()),
        **dict.fromkeys(("seed", "train_tokens", "vocabulary_size", "parameters"), whole()),
        "recipe": record({}, {"order": whole(1, 99)}),
        "budget": maybe(one_field({"epochs": number(least=0), "minutes": number(least=0)})),
        "valid": PERPLEXITY,
        "test": PERPLEXITY,
        "mix": maybe(record({"with": text(), "weight": number(least=0, most=1), "test": PERPLEXITY})),
        "bytes": record(dict.fromkeys(("weights", "table", "vocabulary"), whole()), {"packed": whole()}),
        "words_per_second": number(least=0),
        **dict.fromkeys(("training_seconds", "start_table_seconds", "refinement_seconds"), SECONDS),
        "refinement_share": number(least=0, most=1),
        "curve": list_of(
            record({"seconds": SECONDS, "words": whole(), "epoch": number(least=0), "perplexity": PERPLEXITY})
        ),
        "machine": record(
            {"cpu": text(), "threads": whole(1), "device": text(), "torch": text()}, {"precision": text()}
        ),
    },
    {
        "sha256": digest(),
        "alone": whole(),
        "teacher": text(),
        "cache": whole(),
        "adapt": true_or_false(),
        "while_reading": record({}, dict.fromkeys(("adapted", "with_cache", "adapted_with_cache"), PERPLEXITY)),
    },
)

Facts = dict[str, Any]


def read_run(path: Path, run: GridRun | None = None) -> Facts:
    """The facts of a finished run; `run`: that which it must be. Files of before the digests have none."""
    facts = read_json(path)
    if facts.get("format") != RUN_FORMAT:
        raise LightRNNError(
            f"{path} is not a run that this lightrnn can read (format {shown(facts.get('format'))}, not "
            f"{RUN_FORMAT}); use another -o, or the lightrnn that wrote it"
        )
    remedy = "restore it, or remove it and run the command again"
    check(facts, FACTS, str(path), remedy)
    if facts.pop("sha256", _digest_of(facts)) != _digest_of(facts):
        raise LightRNNError(f"{path} is damaged: its digest is another; {remedy}")
    if "order" not in facts["recipe"]:
        Recipe.from_dict(facts["recipe"], str(path))
    named = (facts["corpus"], facts["model"], facts["seed"])
    if run is not None and named != (run.corpus.name, run.model.name, run.seed):
        raise LightRNNError(f"{path} is the run of {named[0]}, {named[1]}, seed {named[2]}; {remedy}")
    return facts


def write_run(path: Path, facts: Facts) -> None:
    """At once, and after what an attempt before may have left."""
    facts = {"format": RUN_FORMAT, **facts}
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, path.name)
    write_json(path, facts | {"sha256": _digest_of(facts)})


def _digest_of(facts: Facts) -> str:
    """SHA-256 of a run's facts, but for the digest itself."""
    told = {name: value for name, value in facts.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

"""The paper's tables, from the facts of finished runs; everything here is a function of those.

A figure is the mean over the seeds that are finished; perplexities of several seeds have their standard deviation with
them, ±. What is missing stays empty; a perplexity that was never reached is infinite.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from math import inf, isinf
from statistics import fmean, stdev
from typing import Any

from ..config import ModelConfig
from ..models.sizes import human_bytes, human_count

Facts = dict[str, Any]
Measure = Callable[[Facts], float | None]


@dataclass(frozen=True)
class ModelRow:
    """A model of the grid: kind as in a recipe, or ngram; the sizes of a network, among them how many words stand
    alone; `rest`: what else tells it apart."""

    name: str
    kind: str
    embedding_size: int = 0
    hidden_size: int = 0
    alone: int | str = 0
    rest: object = None


@dataclass(frozen=True)
class Layout:
    """What the tables are to hold, finished or not; target: the model whose perplexity the others are timed to."""

    corpora: tuple[str, ...]
    models: tuple[ModelRow, ...]
    target: str | None = None

    @property
    def networks(self) -> list[ModelRow]:
        return [model for model in self.models if model.kind != "ngram"]

    @property
    def families(self) -> list[list[ModelRow]]:
        """Networks that differ in nothing but their sizes."""
        alike = dict.fromkeys((model.kind, model.rest) for model in self.networks)
        return [[model for model in self.networks if (model.kind, model.rest) == family] for family in alike]


def family_name(family: Sequence[ModelRow]) -> str:
    """The words with which all its names begin, else its kind."""
    places = zip(*(model.name.split() for model in family), strict=False)
    words = [words[0] for words in takewhile(lambda words: len(set(words)) == 1, places)]
    return " ".join(words).rstrip(",") or family[0].kind


@dataclass(frozen=True)
class Column:
    name: str
    shown: Callable[[float], str]
    measure: Measure


@dataclass(frozen=True)
class Table:
    """values[row][column] for models × columns, spreads: their standard deviations; seeds[row]: over how many runs."""

    number: str  # in the paper
    title: str
    corpus: str
    models: tuple[str, ...]
    columns: tuple[Column, ...]
    values: list[list[float | None]]
    spreads: list[list[float | None]]
    seeds: list[int]

    def markdown(self) -> str:
        header = ["model", *(column.name for column in self.columns), "seeds"]
        rows = [
            [model, *map(_shown, self.columns, values, spreads), str(seeds or "")]
            for model, values, spreads, seeds in zip(self.models, self.values, self.spreads, self.seeds, strict=True)
        ]
        return _markdown(self.title, header, rows)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _ppl(value: float) -> str:
    return f"{value:.1f}"


def _shown(column: Column, value: float | None, spread: float | None) -> str:
    if value is None:
        return ""
    beside = f" ± {_ppl(spread)}" if column.shown is _ppl and spread is not None else ""
    return "not reached" if isinf(value) else column.shown(value) + beside


COUNTED = ("training", "start_table", "refinement")  # what a budget of minutes counts
VALID = Column("valid", _ppl, lambda run: run["valid"])
TEST = Column("test", _ppl, lambda run: run["test"])
PARAMETERS = Column("parameters", human_count, lambda run: run["parameters"])
ALONE = Column("words alone", _count, lambda run: run.get("alone") or None)
PACKED = Column("packed", human_bytes, lambda run: run["bytes"].get("packed"))
RESULTS = (
    VALID,
    TEST,
    Column("test, mixed with KN", _ppl, lambda run: run["mix"] and run["mix"]["test"]),
    Column("its weight", lambda w: f"{w:.2f}", lambda run: run["mix"] and run["mix"]["weight"]),
    Column("test, cache", _ppl, lambda run: run.get("while_reading", {}).get("with_cache")),
    Column("test, adapted", _ppl, lambda run: run.get("while_reading", {}).get("adapted")),
    Column("test, adapted, cache", _ppl, lambda run: run.get("while_reading", {}).get("adapted_with_cache")),
    PARAMETERS,
    ALONE,
    Column("weights", human_bytes, lambda run: run["bytes"]["weights"]),
    Column("table", human_bytes, lambda run: run["bytes"]["table"]),
    Column("vocabulary", human_bytes, lambda run: run["bytes"]["vocabulary"]),
    PACKED,
    Column("epochs", "{:.1f}".format, lambda run: run["curve"][-1]["epoch"] if run["curve"] else None),
    Column("hours", "{:.2f}".format, lambda run: sum(run[f"{part}_seconds"] for part in COUNTED) / 3600),
    Column("words/s", _count, lambda run: run["words_per_second"]),
    Column("seconds", _count, lambda run: run["training_seconds"]),
)
SIZES = (
    Column("layers", _count, lambda run: _network(run).layers),
    Column("embedding", _count, lambda run: _network(run).input_size),
    Column("hidden", _count, lambda run: _network(run).hidden_size),
    ALONE,
    TEST,
    PARAMETERS,
)
REALLOCATION: tuple[Column, ...] = (
    Column("training s", _count, lambda run: run["training_seconds"]),
    Column("start table s", "{:,.1f}".format, lambda run: run["start_table_seconds"]),
    Column("reallocation s", "{:,.1f}".format, lambda run: run["refinement_seconds"]),
    Column("reallocation share", "{:.2%}".format, lambda run: run["refinement_share"]),
)


def _network(run: Facts) -> ModelConfig:
    return ModelConfig.from_dict(run["recipe"]["model"], "a run")


def of(runs: Sequence[Facts], corpus: str, model: str) -> list[Facts]:
    return [run for run in runs if run["corpus"] == corpus and run["model"] == model]


def mean(runs: Sequence[Facts], measure: Measure) -> float | None:
    """Over the runs that have the figure."""
    values = [value for run in runs if (value := measure(run)) is not None]
    return fmean(values) if values else None


def spread(runs: Sequence[Facts], measure: Measure) -> float | None:
    """The standard deviation over the runs, each of another seed (n - 1 in the denominator); None below two."""
    values = [value for run in runs if (value := measure(run)) is not None]
    return stdev(values) if len(values) > 1 and inf not in values else None


def seconds_to_reach(run: Facts, perplexity: float) -> float:
    """Of the first validation at or below a perplexity, the making of tables included; infinite if there is none."""
    return next((float(p["seconds"]) for p in run["curve"] if p["perplexity"] <= perplexity), inf)


def seconds_to_goal(run: Facts, goals: dict[int, float]) -> float | None:
    """The same to the perplexity that the target reached with the same seed."""
    return seconds_to_reach(run, goals[run["seed"]]) if run["seed"] in goals else None


def tables(layout: Layout, runs: Sequence[Facts]) -> list[Table]:
    """All tables of all corpora that have a finished run, in the paper's order."""

    def table(number: str, title: str, corpus: str, models: Sequence[ModelRow], columns: Sequence[Column]) -> Table:
        by_model = [of(runs, corpus, model.name) for model in models]
        filled = [
            c
            for c in columns
            if c in (TEST, PARAMETERS) or any(mean(found, c.measure) is not None for found in by_model)
        ]
        values, spreads = (
            [[figure(found, c.measure) for c in filled] for found in by_model] for figure in (mean, spread)
        )
        names, seeds = tuple(model.name for model in models), [len(found) for found in by_model]
        return Table(number, f"{corpus}: {title}", corpus, names, tuple(filled), values, spreads, seeds)

    found_tables = []
    for corpus in (corpus for corpus in layout.corpora if any(run["corpus"] == corpus for run in runs)):
        found_tables.append(
            table("4, 5", "perplexity and size (the paper's Tables 4 and 5)", corpus, layout.models, RESULTS)
        )
        for family in layout.families:
            if len({(model.embedding_size, model.hidden_size, model.alone) for model in family}) > 1:
                title = f"{family_name(family)} by size (Table 2)"
                found_tables.append(table("2", title, corpus, family, SIZES))
        columns, title = REALLOCATION, "time of training, and reallocation's share (Table 3)"
        goals = {run["seed"]: run["valid"] for run in of(runs, corpus, layout.target)} if layout.target else {}
        if goals:
            name = f"s to reach {fmean(goals.values()):.1f}"
            columns = (Column(name, _count, partial(seconds_to_goal, goals=goals)), *columns)
            title = f"time to reach {layout.target}'s validation perplexity, and reallocation's share (Table 3)"
        if layout.networks:
            found_tables.append(table("3", title, corpus, layout.networks, columns))
    return found_tables


def overview(layout: Layout, runs: Sequence[Facts]) -> tuple[list[str], list[list[str]]]:
    """Header and rows as the paper prints them: test perplexity/parameters, mixes with KN below; missing ones empty."""

    def shown(corpus: str, model: str, perplexity: Measure) -> str:
        found = of(runs, corpus, model)
        value = _shown(TEST, mean(found, perplexity), spread(found, perplexity))
        parameters = mean(found, PARAMETERS.measure)
        return "" if parameters is None or not value else f"{value}/{human_count(parameters)}"

    rows = [[m.name, *(shown(corpus, m.name, TEST.measure) for corpus in layout.corpora)] for m in layout.models]
    mixed = {run["model"]: run["mix"]["with"] for run in runs if run["mix"]}

    def mixed_test(run: Facts) -> float | None:
        return run["mix"]["test"] if run["mix"] else None

    for model in (model.name for model in layout.models if model.name in mixed):
        with_own = [shown(corpus, model, mixed_test).split("/")[0] for corpus in layout.corpora]
        rows.append([f"{mixed[model]} + {model}", *with_own])
    return ["model", *layout.corpora], rows


def markdown(layout: Layout, runs: Sequence[Facts], command: str, total: int) -> str:
    """tables.md: what was run, on what, when, and all tables."""
    header, rows = overview(layout, runs)
    parts = [
        "# Comparison",
        f"`{command}`: {len(runs)} of {total} runs finished. Means over the finished seeds, and for perplexities "
        "of several seeds ± the standard deviation over them (n - 1); what has not been run is empty. Seconds "
        "and words/s count validations, of which the last may lie beyond a budget of minutes.",
        "\n".join(f"- {line}" for line in provenance(runs)),
        _markdown("Test perplexity/parameters", header, rows),
        *(table.markdown() for table in tables(layout, runs)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def provenance(runs: Sequence[Facts]) -> list[str]:
    """Corpora with their budgets, machines, what networks were trained in, and the days between which the runs were
    finished."""
    corpora = {}
    for run in runs:
        size = f"{run['train_tokens']:,} tokens, vocabulary {run['vocabulary_size']:,}"
        if run["budget"]:
            (unit, amount), *_ = run["budget"].items()
            corpora[run["corpus"]] = f"{run['corpus']}: {size}; {unit} for every network: {amount:g}"
        else:
            corpora.setdefault(run["corpus"], f"{run['corpus']}: {size}")
    machines = {
        f"{m['cpu']}, device {m['device']}, CPU threads: {m['threads']}, PyTorch {m['torch']}"
        for m in (run["machine"] for run in runs)
    }
    precisions = sorted({_precision(run) for run in runs if "training" in run["recipe"]})
    trained = [f"networks trained in {' and '.join(precisions)}"] if precisions else []
    days = sorted(run["date"][:10] for run in runs)
    when = [f"finished {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "")] if days else []
    return [*corpora.values(), *sorted(machines), *trained, *when]


def _precision(run: Facts) -> str:
    """What the products of its training were made in; files of before there was a choice do not tell."""
    asked: str = run["recipe"]["training"].get("precision", "float32")
    found: str = run["machine"].get("precision", "float32") if asked == "auto" else asked
    return found


def csv_text(layout: Layout, runs: Sequence[Facts]) -> str:
    """tables.csv: one figure a line, unrounded; an empty value is one that is missing."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["paper's table", "corpus", "model", "measure", "mean", "standard deviation", "seeds"])
    for table in tables(layout, runs):
        for model, values, spreads, seeds in zip(table.models, table.values, table.spreads, table.seeds, strict=True):
            for column, *figures in zip(table.columns, values, spreads, strict=True):
                shown = ["" if figure is None else figure for figure in figures]
                writer.writerow([table.number, table.corpus, model, column.name, *shown, seeds])
    return file.getvalue()


def _markdown(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(values: Sequence[str]) -> str:
        return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"

    rule = "|---" + "|---:" * (len(header) - 1) + "|"
    return "\n".join([f"## {title}", "", line(header), rule, *map(line, rows)])

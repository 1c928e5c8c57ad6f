"""The paper's tables and plots, from the facts of finished runs; everything here is a function of those.

A figure is the mean over the seeds that are finished; perplexities of several seeds have their standard deviation with
them, ±. What is missing stays empty; a perplexity that was never reached is infinite.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isinf
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ..config import ModelConfig
from ..models.sizes import human_bytes, human_count
from ..training.figures import Plot

Facts = dict[str, Any]
Measure = Callable[[Facts], float | None]


@dataclass(frozen=True)
class ModelRow:
    """A model of the grid: kind as in a recipe, or ngram; the sizes of a network; `rest`: what else tells it apart."""

    name: str
    kind: str
    embedding_size: int = 0
    hidden_size: int = 0
    rest: object = None


@dataclass(frozen=True)
class Layout:
    """What the tables are to hold, finished or not; target: the model whose perplexity the others are timed to."""

    corpora: tuple[str, ...]
    models: tuple[ModelRow, ...]
    target: str | None = None


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


RESULTS = (
    Column("valid", _ppl, lambda run: run["valid"]),
    Column("test", _ppl, lambda run: run["test"]),
    Column("test, mixed with KN", _ppl, lambda run: run["mix"] and run["mix"]["test"]),
    Column("its weight", lambda w: f"{w:.2f}", lambda run: run["mix"] and run["mix"]["weight"]),
    Column("parameters", human_count, lambda run: run["parameters"]),
    Column("weights", human_bytes, lambda run: run["bytes"]["weights"]),
    Column("table", human_bytes, lambda run: run["bytes"]["table"]),
    Column("vocabulary", human_bytes, lambda run: run["bytes"]["vocabulary"]),
    Column("words/s", _count, lambda run: run["words_per_second"]),
    Column("seconds", _count, lambda run: run["training_seconds"]),
)
TEST, PARAMETERS = RESULTS[1], RESULTS[4]
SIZES = (
    Column("layers", _count, lambda run: _network(run).layers),
    Column("embedding", _count, lambda run: _network(run).input_size),
    Column("hidden", _count, lambda run: _network(run).hidden_size),
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
    networks = [model for model in layout.models if model.kind != "ngram"]
    for corpus in (corpus for corpus in layout.corpora if any(run["corpus"] == corpus for run in runs)):
        found_tables.append(
            table("4, 5", "perplexity and size (the paper's Tables 4 and 5)", corpus, layout.models, RESULTS)
        )
        for kind, rest in dict.fromkeys((model.kind, model.rest) for model in networks):
            alike = [model for model in networks if (model.kind, model.rest) == (kind, rest)]
            if len({(model.embedding_size, model.hidden_size) for model in alike}) > 1:
                title = f"{kind} by embedding and hidden size (Table 2)"
                found_tables.append(table("2", title, corpus, alike, SIZES))
        columns, title = REALLOCATION, "time of training, and reallocation's share (Table 3)"
        goals = {run["seed"]: run["valid"] for run in of(runs, corpus, layout.target)} if layout.target else {}
        if goals:
            name = f"s to reach {fmean(goals.values()):.1f}"
            columns = (Column(name, _count, partial(seconds_to_goal, goals=goals)), *columns)
            title = f"time to reach {layout.target}'s validation perplexity, and reallocation's share (Table 3)"
        if networks:
            found_tables.append(table("3", title, corpus, networks, columns))
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
    """Corpora with their budgets, machines, and the days between which the runs were finished."""
    corpora = {}
    for run in runs:
        size = f"{run['train_tokens']:,} words, vocabulary {run['vocabulary_size']:,}"
        if run["budget"]:
            (unit, amount), *_ = run["budget"].items()
            corpora[run["corpus"]] = f"{run['corpus']}: {size}; {unit} for every network: {amount:g}"
        else:
            corpora.setdefault(run["corpus"], f"{run['corpus']}: {size}")
    machines = {
        f"{m['cpu']}, device {m['device']}, CPU threads: {m['threads']}, PyTorch {m['torch']}"
        for m in (run["machine"] for run in runs)
    }
    days = sorted(run["date"][:10] for run in runs)
    when = [f"finished {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "")] if days else []
    return [*corpora.values(), *sorted(machines), *when]


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


def plots(layout: Layout, runs: Sequence[Facts], folder: Path, file_name: Callable[[str], str]) -> list[Path]:
    """For each corpus, CORPUS-time.png and CORPUS-size.png in `folder`; file_name makes a file's name of a corpus's."""
    paths = []
    for corpus in layout.corpora:
        found = {model.name: runs_of for model in layout.models if (runs_of := of(runs, corpus, model.name))}
        if found:
            paths.append(_time_plot(found, folder / f"{file_name(corpus)}-time.png"))
            paths.append(_size_plot(found, folder / f"{file_name(corpus)}-size.png"))
    return paths


def _time_plot(found: dict[str, list[Facts]], path: Path) -> Path:
    """Validation perplexity against seconds, a line for each seed; an n-gram model is a level."""
    plot = Plot("seconds", "validation perplexity")
    for index, (model, runs) in enumerate(found.items()):
        for number, run in enumerate(runs):
            style = {"color": f"C{index}", "label": None if number else model}
            if run["curve"]:
                points = [(point["seconds"], point["perplexity"]) for point in run["curve"]]
                plot.axes.plot(*zip(*points, strict=True), "o-", markersize=3, **style)
            else:
                plot.axes.axhline(run["valid"], linestyle="--", **style)
    plot.axes.set_yscale("log")
    return plot.save(path)


def _size_plot(found: dict[str, list[Facts]], path: Path) -> Path:
    """Test perplexity against parameters, means over seeds."""
    plot = Plot("parameters", "test perplexity")
    for index, (model, runs) in enumerate(found.items()):
        x, y = mean(runs, PARAMETERS.measure), mean(runs, TEST.measure)
        plot.axes.plot([x], [y], "o", color=f"C{index}", label=model)
    plot.axes.set_xscale("log")
    return plot.save(path)

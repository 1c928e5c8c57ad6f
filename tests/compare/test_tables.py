"""Tables of a comparison, from made-up facts."""

import csv
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightrnn.compare.tables import (
    Layout,
    ModelRow,
    csv_text,
    family_name,
    markdown,
    overview,
    provenance,
    seconds_to_reach,
    tables,
)


def run(model: str, seed: int, corpus: str = "fr", **changes: Any) -> dict[str, Any]:
    size = {"A 100": 100, "A 200": 200, "B": 50}.get(model)
    facts: dict[str, Any] = {
        "corpus": corpus,
        "model": model,
        "seed": seed,
        "recipe": {"model": {"layers": 1, "embedding_size": 0, "hidden_size": size}} if size else {"order": 5},
        "budget": {"minutes": 5.0} if size else None,
        "train_tokens": 1000,
        "vocabulary_size": 50,
        "valid": 100.0,
        "test": 90.0,
        "mix": None,
        "parameters": 1_000_000,
        "bytes": {"weights": 4_000_000, "table": 400, "vocabulary": 500},
        "words_per_second": 1000.0,
        "training_seconds": 300.0,
        "start_table_seconds": 0.0,
        "refinement_seconds": 3.0,
        "refinement_share": 0.01,
        "curve": [],
        "machine": {"cpu": "abacus", "threads": 1, "device": "cpu", "torch": "2"},
        "date": "2026-11-16T02:00:00+00:00",
    }
    return facts | changes


def curve(*points: tuple[float, float]) -> list[dict[str, float]]:
    return [{"seconds": s, "words": 0, "epoch": 0, "perplexity": p} for s, p in points]


LAYOUT = Layout(
    ("fr", "en", "de"),
    (
        ModelRow("A 100", "lightrnn", 100, 100),
        ModelRow("A 200", "lightrnn", 200, 200),
        ModelRow("B", "hsm", 50, 50),
        ModelRow("KN", "ngram"),
    ),
    "B",
)
RUNS = [
    run("A 100", 1, test=80.0, mix={"with": "KN", "weight": 0.6, "test": 70.0}, curve=curve((10, 120), (20, 99))),
    run("A 100", 2, test=84.0, mix={"with": "KN", "weight": 0.8, "test": 74.0}, curve=curve((10, 101), (40, 100))),
    run("B", 1, valid=104.0, test=91.0, curve=curve((50, 104))),
    run("B", 2, valid=98.0, test=92.0, curve=curve((70, 98))),
    run("KN", 0, test=120.0, parameters=7_000_000, date="2026-11-18T02:00:00+00:00"),
    run("A 200", 1, "en", test=60.0, curve=curve((5, 500))),
]


def test_means_over_seeds() -> None:
    lines = list(csv.reader(io.StringIO(csv_text(LAYOUT, RUNS))))
    figures = {tuple(line[:4]): (line[4], line[6]) for line in lines[1:]}
    assert figures["4, 5", "fr", "A 100", "test"] == ("82.0", "2")
    assert figures["4, 5", "fr", "A 100", "test, mixed with KN"] == ("72.0", "2")
    assert float(figures["4, 5", "fr", "A 100", "its weight"][0]) == pytest.approx(0.7)
    assert figures["4, 5", "fr", "B", "test"] == ("91.5", "2")
    assert figures["4, 5", "fr", "B", "test, mixed with KN"] == ("", "2")
    assert figures["4, 5", "fr", "KN", "test"] == ("120.0", "1")
    assert figures["4, 5", "fr", "A 200", "test"] == ("", "0")
    assert figures["4, 5", "fr", "KN", "hours"] == (str(303 / 3600), "1")  # with the making of tables
    assert figures["4, 5", "fr", "KN", "epochs"] == ("", "1")
    assert figures["3", "fr", "A 100", "s to reach 101.0"] == ("inf", "2")  # 20 to 104, and the second never to 98
    assert figures["3", "fr", "B", "s to reach 101.0"] == ("60.0", "2")  # each seed to its own
    assert figures["3", "fr", "A 100", "reallocation share"] == ("0.01", "2")
    assert figures["2", "fr", "A 100", "hidden"] == ("100.0", "2")
    assert figures["2", "en", "A 200", "test"] == ("60.0", "1")
    assert not [key for key in figures if key[0] == "2" and key[2] == "B"]  # one size is no table
    assert not [key for key in figures if key[1] == "de"]
    assert "## fr: A by size (Table 2)" in markdown(LAYOUT, RUNS, "x", 17)
    other = replace(LAYOUT, models=(replace(LAYOUT.models[0], rest="more rows"), *LAYOUT.models[1:]))
    assert "2" not in [table.number for table in tables(other, RUNS)]  # they differ in more than size


def test_words_alone_are_a_size() -> None:
    models = (ModelRow("A 5", "lightrnn", 9, 9, 5), ModelRow("A auto", "lightrnn", 9, 9, "auto"), ModelRow("B", "hsm"))
    layout = Layout(("fr",), models)
    runs = [run("A 5", 1, alone=5), run("A auto", 1, alone=1234), run("B", 1, alone=0)]
    text = markdown(layout, [facts | {"recipe": run("B", 1)["recipe"]} for facts in runs], "x", 3)
    assert "| model | layers | embedding | hidden | words alone | test | parameters | seeds |\n" in text
    assert "| A auto | 1 | 50 | 50 | 1,234 | 90.0 | 1M | 1 |\n" in text
    assert "| B | 100.0 | 90.0 | 1M |  | 4 MB |" in text
    assert "words alone" not in markdown(layout, [runs[-1]], "x", 3)


@pytest.mark.parametrize(
    ("names", "family"),
    [
        (["LightRNN 200", "LightRNN 600"], "LightRNN"),
        (["tied, 5 alone", "tied, 7 alone"], "tied"),
        (["HSM 2×200, dropout"], "HSM 2×200, dropout"),
        (["small", "large"], "hsm"),
    ],
)
def test_families_are_called_what_their_names_begin_with(names: list[str], family: str) -> None:
    assert family_name([ModelRow(name, "hsm") for name in names]) == family


def test_the_papers_table() -> None:
    header, rows = overview(LAYOUT, RUNS)
    assert header == ["model", "fr", "en", "de"]
    assert rows == [
        ["A 100", "82.0 ± 2.8/1M", "", ""],
        ["A 200", "", "60.0/1M", ""],
        ["B", "91.5 ± 0.7/1M", "", ""],
        ["KN", "120.0/7M", "", ""],
        ["KN + A 100", "72.0 ± 2.8", "", ""],
    ]


def test_markdown_says_where_the_figures_come_from() -> None:
    text = markdown(LAYOUT, RUNS, "lightrnn compare g.toml -o r", 17)
    for part in (
        "`lightrnn compare g.toml -o r`: 6 of 17 runs",
        "- fr: 1,000 tokens, vocabulary 50; minutes for every network: 5\n",
        "- abacus, device cpu, CPU threads: 1, PyTorch 2\n",
        "- finished 2026-11-16 to 2026-11-18\n",
        "| A 100 | 82.0 ± 2.8/1M |  |  |\n",
        "| A 100 | not reached | 300 | 0.0 | 3.0 | 1.00% | 2 |\n",
        "| B | 60 | 300 | 0.0 | 3.0 | 1.00% | 2 |\n",
    ):
        assert part in text
    for line in text.splitlines():
        if line.startswith("|---"):
            width = line.count("|")
        elif line.startswith("|") and not line.startswith("| model"):
            assert line.count("|") == width
    without = replace(LAYOUT, target=None)
    assert "to reach" not in markdown(without, RUNS, "x", 17)
    assert [table.number for table in tables(without, RUNS)] == ["4, 5", "2", "3"] * 2


@pytest.mark.parametrize(("perplexity", "seconds"), [(150, 1), (100, 1), (99, 4), (50, 9), (49, np.inf)])
def test_seconds_to_reach_are_of_the_first_check_that_is_there(perplexity: float, seconds: float) -> None:
    points = curve((1, 100), (3, 120), (4, 60), (9, 50), (12, 55))
    assert seconds_to_reach({"curve": points}, perplexity) == seconds


def test_what_networks_were_trained_in_is_told() -> None:
    def trained(precision: str | None, machine: str | None) -> dict[str, Any]:
        training = {"precision": precision} if precision else {}
        facts = run("A 100", 1)
        facts["recipe"]["training"] = training
        facts["machine"] |= {"precision": machine} if machine else {}
        return facts

    def told(*runs: dict[str, Any]) -> list[str]:
        return [line for line in provenance(runs) if "trained in" in line]

    assert told(trained(None, None)) == ["networks trained in float32"]  # before there was a choice
    assert told(trained("auto", "bfloat16"), run("KN", 0)) == ["networks trained in bfloat16"]
    both = told(trained("float32", "bfloat16"), trained("bfloat16", "float32"))
    assert both == ["networks trained in bfloat16 and float32"]
    assert told(run("KN", 0)) == []

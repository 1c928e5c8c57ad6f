"""Plots of a comparison, from made-up facts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from lightrnn.compare import plots
from lightrnn.compare.grid import slug
from lightrnn.compare.tables import Layout, ModelRow
from lightrnn.plot import Plot

POINTS = {"a": (100.0, 90.0), "b": (300.0, 95.0), "c": (310.0, 70.0), "d": (305.0, 80.0), "e": (900.0, 60.0)}
ALONE: tuple[int | str, ...] = (10, 20, 40, 80, "auto")
MODELS = (
    *(ModelRow(f"tied {words}", "lightrnn", 5, 9, words, "tied") for words in ALONE),
    *(ModelRow(f"square {size}", "lightrnn", size, size) for size in (10, 20)),
    ModelRow("KN", "ngram"),
)


def run(model: str, parameters: int, perplexity: float, alone: int = 0, curve: bool = True) -> dict[str, Any]:
    points = [{"seconds": 1.0, "perplexity": perplexity}, {"seconds": 2.0, "perplexity": perplexity - 1}]
    facts = {"corpus": "a text", "model": model, "seed": 1, "parameters": parameters, "valid": perplexity}
    facts["bytes"] = {} if model == "square 10" else {"packed": 2000 * parameters}  # of before there was packing
    return facts | {"test": perplexity - 2, "alone": alone, "curve": points if curve else []}


RUNS = [
    *(run(f"tied {words}", 100 * words, 90 - words / 2, words) for words in (10, 20, 40, 80)),
    run("tied auto", 3000, 60.0, 30),
    *(run(f"square {size}", 100 * size, 120 - size) for size in (10, 20)),
    run("KN", 50_000, 130.0, curve=False),
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The axes of the plots that are saved, by the names of their files."""
    found: dict[str, Any] = {}
    save = Plot.save

    def keep(plot: Plot, path: Path) -> Path:
        found[path.name] = plot.axes
        return save(plot, path)

    monkeypatch.setattr(Plot, "save", keep)
    return found


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def names(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def line(axes: Any, label: str) -> list[tuple[float, float]]:
    (found,) = [line for line in axes.lines if line.get_label() == label]
    return list(zip(*map(list, found.get_data()), strict=True))


def test_the_frontier_is_what_none_beats_with_as_many_parameters() -> None:
    assert list(plots.frontier(POINTS)) == ["a", "c", "e"]  # c has a tenth more than b and d at most
    assert list(plots.frontier({**POINTS, "b": (280.0, 75.0)})) == ["a", "b", "c", "e"]
    assert list(plots.frontier({"one": (5.0, 5.0)})) == ["one"]


def test_many_sizes_have_a_frontier_by_families(drawn: dict[str, Any], tmp_path: Path) -> None:
    paths = plots.plots(Layout(("a text", "another"), MODELS), RUNS, tmp_path, slug)
    assert [path.name for path in paths] == [f"a-text-{what}.png" for what in ("time", "size", "bytes", "alone")]
    assert [path.name for path in paths] == [*drawn]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    size, alone = drawn["a-text-size.png"], drawn["a-text-alone.png"]
    assert legend(size) == ["tied", "square", "KN", "frontier"]
    assert line(size, "tied") == [(1000, 83), (2000, 78), (4000, 68), (8000, 48), (3000, 58)]
    assert line(size, "frontier") == [(1000, 83), (2000, 78), (3000, 58), (8000, 48)]
    assert names(size) == ["tied 10", "tied 20", "tied auto", "tied 80"]
    assert {"1K", "2K", "5K", "10K"} <= {text.get_text() for text in size.get_xticklabels()}
    packed = drawn["a-text-bytes.png"]
    assert line(packed, "square") == [(4e6, 98)]
    assert line(packed, "frontier") == [(2e6, 83), (4e6, 78), (6e6, 58), (16e6, 48)]
    assert {"2 MB", "5 MB"} <= {text.get_text() for text in packed.get_xticklabels()}
    assert line(alone, "tied") == [(10, 85), (20, 80), (30, 60), (40, 70), (80, 50)]
    assert names(alone) == ["tied auto"]
    assert legend(drawn["a-text-time.png"]) == [model.name for model in MODELS]


def test_families_of_one_name_look_alike(drawn: dict[str, Any], tmp_path: Path) -> None:
    """The largest of them at another rate, say."""
    slower = tuple(ModelRow(f"tied {words}", "lightrnn", 5, 9, words, "slower") for words in (160, 320))
    runs = [*RUNS, *(run(model.name, 20_000, 40.0, 160) for model in slower)]
    plots.plots(Layout(("a text",), MODELS + slower), runs, tmp_path, slug)
    assert legend(drawn["a-text-size.png"]) == ["tied", "square", "KN", "frontier"]
    assert line(drawn["a-text-size.png"], "tied")[-2:] == [(20_000, 38)] * 2


def test_few_sizes_have_a_name_each(drawn: dict[str, Any], tmp_path: Path) -> None:
    plots.plots(Layout(("a text",), MODELS[-5:]), RUNS, tmp_path, slug)
    assert [*drawn] == ["a-text-time.png", "a-text-size.png", "a-text-bytes.png"]
    size = drawn["a-text-size.png"]
    assert names(size) == [model.name for model in MODELS[-5:]]
    assert size.get_legend() is None
    assert [line.get_marker() for line in size.lines] == ["*"] * 4 + ["o"]


def test_more_lines_than_colours_are_families(drawn: dict[str, Any], tmp_path: Path) -> None:
    more = tuple(ModelRow(f"square {size}", "lightrnn", size, size) for size in (30, 40, 50))
    runs = [*RUNS, *(run(model.name, 5000, 70.0) for model in more)]
    plots.plots(Layout(("a text",), MODELS + more), runs, tmp_path, slug)
    assert legend(drawn["a-text-time.png"]) == ["tied", "square", "KN"]


def test_what_is_not_finished_is_not_drawn(drawn: dict[str, Any], tmp_path: Path) -> None:
    plots.plots(Layout(("a text",), MODELS), RUNS[-1:], tmp_path, slug)
    assert legend(drawn["a-text-size.png"]) == legend(drawn["a-text-time.png"]) == ["KN"]
    plots.plots(Layout(("a text",), MODELS), RUNS[:1], tmp_path, slug)
    assert line(drawn["a-text-alone.png"], "tied 10") == [(10, 85)]


def test_names_cover_neither_points_nor_names(tmp_path: Path) -> None:
    plot = Plot("x", "y")
    random = np.random.default_rng(0)
    points = {f"model number {i}": (float(x), float(y)) for i, (x, y) in enumerate(random.random((12, 2)))}
    points["at the right edge, with a name that is long"] = (1.1, 0.5)
    plot.axes.plot(*zip(*points.values(), strict=True), "o")
    plot.name_points(points)
    plot.save(tmp_path / "plot.png")
    renderer = FigureCanvasAgg(plot.figure).get_renderer()
    boxes = {text.get_text(): text.get_window_extent(renderer) for text in plot.axes.texts}
    assert [*boxes] == [*points]
    page = plot.axes.get_window_extent(renderer)
    for name, box in boxes.items():
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert not any(box.overlaps(other) for others, other in boxes.items() if others != name)
        assert not any(box.contains(*plot.axes.transData.transform(point)) for point in points.values())

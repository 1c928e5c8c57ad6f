"""The plots of a comparison, from the facts of finished runs; everything here is a function of those."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..models.sizes import human_bytes, human_count
from ..plot import Plot, Point
from ..registry import KINDS
from .tables import ALONE, PACKED, PARAMETERS, TEST, VALID, Column, Facts, Layout, ModelRow, family_name, mean, of

Found = Mapping[str, list[Facts]]  # the finished runs of each model
Groups = list[tuple[str, list[str]]]  # label, models

COLOURS = 10  # of lines in a plot, before the first comes again, with another marker
MARKERS = "o^sDv"
MANY = 4  # networks of a family, whose sizes are worth a plot of their own


def plots(layout: Layout, runs: Sequence[Facts], folder: Path, file_name: Callable[[str], str]) -> list[Path]:
    """For each corpus, CORPUS-time.png and CORPUS-size.png in `folder`, CORPUS-bytes.png of those whose bytes in one
    file are known, and CORPUS-alone.png where networks differ in their words alone and nothing else; file_name makes a
    file's name of a corpus's."""
    paths = []
    for corpus in layout.corpora:
        found = {model.name: runs_of for model in layout.models if (runs_of := of(runs, corpus, model.name))}
        if found:
            path = folder / f"{file_name(corpus)}-time.png"
            paths.append(_time_plot(_groups(layout, found, by_family=len(found) > COLOURS), found, path))
            paths.append(_size_plot(layout, found, PARAMETERS, path.with_name(f"{file_name(corpus)}-size.png")))
            packed = {name: runs for name, runs in found.items() if mean(runs, PACKED.measure) is not None}
            if packed:
                paths.append(_size_plot(layout, packed, PACKED, path.with_name(f"{file_name(corpus)}-bytes.png")))
            if curves := _alone_curves(layout, found):
                paths.append(_alone_plot(curves, found, path.with_name(f"{file_name(corpus)}-alone.png")))
    return paths


def _groups(layout: Layout, found: Found, *, by_family: bool) -> Groups:
    """What has a colour and a label, of what has run: every model, or families of networks."""
    groups = [(model.name, [model.name]) for model in layout.models]
    if by_family:
        families: dict[str, list[str]] = {}  # those of one name look alike
        for family in layout.families:
            families.setdefault(family_name(family), []).extend(model.name for model in family)
        others = [(model.name, [model.name]) for model in layout.models if model not in layout.networks]
        groups = [*families.items(), *others]
    return [(label, models) for label, models in groups if any(model in found for model in models)]


def _look(index: int) -> dict[str, Any]:
    """Colour and marker of the so-many-th group."""
    return {"color": f"C{index % COLOURS}", "marker": MARKERS[index // COLOURS % len(MARKERS)]}


def _time_plot(groups: Groups, found: Found, path: Path) -> Path:
    """Validation perplexity against seconds, a line for each run; an n-gram model is a level."""
    plot = Plot("seconds", "validation perplexity")
    for index, (label, models) in enumerate(groups):
        for number, run in enumerate(run for model in models for run in found.get(model, [])):
            look, name = _look(index), None if number else label
            if run["curve"]:
                points = [(point["seconds"], point["perplexity"]) for point in run["curve"]]
                plot.axes.plot(*zip(*points, strict=True), linestyle="-", markersize=4, label=name, **look)
            else:
                plot.axes.axhline(run["valid"], linestyle="--", color=look["color"], label=name)
    plot.axes.set_yscale("log")
    return plot.save(path)


def _size_plot(layout: Layout, found: Found, size: Column, path: Path) -> Path:
    """Test perplexity against parameters, or bytes of one file, means over seeds; networks that have a table are stars.
    Where there are many sizes of a kind, by families, with the frontier of all networks; else each has its name."""
    plot = Plot("bytes of one file, words included" if size is PACKED else size.name, "test perplexity")
    points = {model: (_figure(runs, size), _figure(runs, TEST)) for model, runs in found.items()}
    ours = {model.name for model in layout.networks if KINDS[model.kind].has_table}
    many = any(len(family) >= MANY for family in layout.families)
    for index, (label, models) in enumerate(_groups(layout, found, by_family=many)):
        there = [points[model] for model in models if model in points]
        look = _look(index) if many else {"color": "C0", "marker": MARKERS[0]}
        if models[0] in ours:
            look |= {"marker": "*", "markersize": 13} | ({} if many else {"color": "C3"})
        plot.axes.plot(*zip(*there, strict=True), linestyle="", label=label if many else None, **look)
    plot.axes.set_yscale("log")
    _count_along_x(plot, human_bytes if size is PACKED else human_count)
    if not many:
        plot.name_points(points)
    elif networks := {model.name: points[model.name] for model in layout.networks if model.name in points}:
        best = frontier(networks)
        plot.axes.plot(*zip(*best.values(), strict=True), "-", color="grey", zorder=1, label="frontier")
        plot.name_points(best, points.values())
    return plot.save(path)


def frontier(points: Mapping[str, Point]) -> dict[str, Point]:
    """Those that none of as many parameters, up to a tenth more, or of fewer is below; by growing parameters. Or bytes
    in their place."""
    return {
        model: point
        for model, point in sorted(points.items(), key=lambda item: item[1])
        if point[1] <= min(other[1] for other in points.values() if other[0] <= 1.1 * point[0])
    }


def _alone_curves(layout: Layout, found: Found) -> list[list[ModelRow]]:
    """Networks that are finished and alike but for their words alone, where there are some and many such networks."""
    curves = []
    for family in layout.families:
        for sizes in dict.fromkeys((model.embedding_size, model.hidden_size) for model in family):
            alike = [model for model in family if (model.embedding_size, model.hidden_size) == sizes]
            there = [model for model in alike if mean(found.get(model.name, []), ALONE.measure) is not None]
            if len(alike) >= MANY and there:
                curves.append(there)
    return curves


def _alone_plot(curves: list[list[ModelRow]], found: Found, path: Path) -> Path:
    """Validation perplexity against how many words stand alone, means over seeds; what chose their number is named."""
    plot = Plot("words alone", "validation perplexity")
    named: dict[str, Point] = {}
    drawn: list[Point] = []
    for models in curves:
        points = {model: (_figure(found[model.name], ALONE), _figure(found[model.name], VALID)) for model in models}
        plot.axes.plot(*zip(*sorted(points.values()), strict=True), "o-", label=family_name(models))
        named |= {model.name: point for model, point in points.items() if isinstance(model.alone, str)}
        drawn.extend(points.values())
    _count_along_x(plot)
    plot.name_points(named, drawn)
    return plot.save(path)


def _count_along_x(plot: Plot, shown: Callable[[float], str] = human_count) -> None:
    """A logarithmic axis of counts: 200K, 500K, 1M."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plot.axes.set_xscale("log")
    plot.axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    plot.axes.xaxis.set_major_formatter(FuncFormatter(lambda count, position: shown(count)))
    plot.axes.xaxis.set_minor_formatter(NullFormatter())


def _figure(runs: Sequence[Facts], column: Column) -> float:
    """One that every run has."""
    found = mean(runs, column.measure)
    assert found is not None
    return found

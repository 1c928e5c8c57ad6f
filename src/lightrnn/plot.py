"""A plot as all of ours are drawn. matplotlib, an extra, is imported when one is."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import LightRNNError
from .files import atomic_file

Point = tuple[float, float]

BESIDE = 6  # labels of a plot, beyond which they stand beside it and not in it
PLACES = (  # of a name, from its point: points of the page to the right and up, and which of its sides are there
    (9, 0, "left", "center"),
    (-9, 0, "right", "center"),
    (0, 8, "center", "bottom"),
    (0, -8, "center", "top"),
    (7, 7, "left", "bottom"),
    (7, -7, "left", "top"),
    (-7, 7, "right", "bottom"),
    (-7, -7, "right", "top"),
)


def check_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise LightRNNError("plots need matplotlib; install it with: pip install 'lightrnn[plots]'")


class Plot:
    """One pair of axes, with the refinements, if there are any, as dotted lines."""

    def __init__(self, x: str, y: str, refinements: Sequence[float] = ()) -> None:
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(7, 4.2), layout="constrained")
        self.axes: Any = self.figure.subplots()
        self.axes.set(xlabel=x, ylabel=y)
        self.axes.grid(alpha=0.25)
        self.axes.spines[["top", "right"]].set_visible(False)
        for index, epoch in enumerate(refinements):
            self.axes.axvline(epoch, color="grey", linestyle=":", label="table refined" if index == 0 else None)

    def name_points(self, points: Mapping[str, Point], others: Iterable[Point] = ()) -> None:
        """A name beside each point, in the first of PLACES in which it covers no point and no name; the axes are final
        by now."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.transforms import Bbox

        canvas: Any = FigureCanvasAgg(self.figure)
        renderer = canvas.get_renderer()
        self._round_numbers()
        self.figure.draw_without_rendering()  # which lays everything out
        page = self.axes.get_window_extent(renderer)
        drawn = map(self.axes.transData.transform, [*points.values(), *others])
        taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in drawn]
        for name, point in points.items():
            boxes = {}
            for *offset, across, up in PLACES:
                text = self.axes.annotate(
                    name, point, offset, textcoords="offset points", ha=across, va=up, fontsize=8, in_layout=False
                )
                boxes[text] = text.get_window_extent(renderer)
            free = [
                text
                for text, box in boxes.items()
                if page.x0 <= box.x0 and box.x1 <= page.x1 and not any(box.overlaps(other) for other in taken)
            ]
            kept = (free or [*boxes])[0]
            taken.append(boxes[kept])
            for text in boxes:
                if text is not kept:
                    text.remove()

    def _round_numbers(self) -> None:
        """On a logarithmic axis."""
        from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, ScalarFormatter

        if self.axes.get_yscale() == "log":
            low, high = self.axes.get_ylim()
            round_numbers = MaxNLocator(7, steps=[1, 2, 2.5, 5, 10])
            self.axes.yaxis.set_major_locator(round_numbers if high < 10 * low else LogLocator(subs=(1, 2, 5)))
            self.axes.yaxis.set_major_formatter(ScalarFormatter())
            self.axes.yaxis.set_minor_locator(NullLocator())

    def save(self, path: Path) -> Path:
        self._round_numbers()
        labels = len(self.axes.get_legend_handles_labels()[1])
        if labels > BESIDE:
            self.figure.set_figwidth(9.5)
            self.axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
        elif labels:
            self.axes.legend(frameon=False)
        with atomic_file(path) as file:
            self.figure.savefig(file, dpi=150, format="png")
        return path

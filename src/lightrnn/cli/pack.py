"""lightrnn pack"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..errors import LightRNNError
from ..outputs import replace_output
from . import screen
from .options import ForceOption, JsonOption, choice

if TYPE_CHECKING:
    from ..packed.weights import Precision

Sizes = dict[str, int]  # bytes by part


def _packed(model: Path, out: Path, precision: Precision) -> Sizes:
    from ..container import part_sizes
    from ..packed.model import Network, write

    data = write(Network.load(model), precision)
    out.write_bytes(data)
    return part_sizes(data)


def _page(model: Path, out: Path, precision: Precision) -> Sizes:
    from ..container import part_sizes
    from ..packed.model import Network, write
    from ..packed.page import packed_page

    data = write(Network.load(model), precision)
    out.write_text(packed_page(data, model.resolve().name), encoding="utf-8")
    return part_sizes(data)


def _onnx(model: Path, out: Path, precision: Precision) -> Sizes:
    from ..packed.model import Network
    from ..packed.onnx_export import export, part_sizes

    graph = export(Network.load(model), precision)
    out.write_bytes(graph.SerializeToString())
    return part_sizes(graph)


FORMATS: dict[str, Callable[[Path, Path, Precision], Sizes]] = {  # by the ending of -o: model folder, file, precision
    ".lightrnn": _packed,
    ".html": _page,
    ".onnx": _onnx,
}


def pack(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder of `lightrnn train`, or a packed file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help=f"The file to make: {', '.join(FORMATS)}.")],
    precision: Annotated[
        str,
        typer.Option(
            "--precision", metavar="float32|float16|int8", help="Of a weight; int8: with a scale for each vector."
        ),
    ] = "int8",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """A trained LightRNN as one small file that needs no PyTorch: weights, words, table, text rules.

    next, generate, score, rescore, evaluate, info, mix, table and vectors take the file where they take the folder.
    What it is not good for is training: keep the folder for that. The layout is in docs/packed-format.md. As .html it
    is one page that runs the model inside a browser, with no server and no network: docs/page.md. As .onnx it is a
    file for ONNX runtimes: docs/onnx.md.

      lightrnn pack model -o words.lightrnn
      lightrnn next words.lightrnn "it was a"
      lightrnn pack model -o page.html
    """
    from ..models.folder import TABLE, VOCABULARY, WEIGHTS
    from ..models.sizes import human_bytes
    from ..packed.weights import Precision

    choice("--precision", precision, Precision)
    if (ending := out.suffix) not in FORMATS:
        raise LightRNNError(f"-o must end in {' or '.join(FORMATS)}, got {out.name!r}")
    with replace_output(out, "file", inputs=[model], force=force) as stage:
        parts = FORMATS[ending](model, stage, cast(Precision, precision))
        total = stage.stat().st_size
    files = [model] if model.is_file() else [model / name for name in (WEIGHTS, TABLE, VOCABULARY)]
    source = sum(file.stat().st_size for file in files if file.exists())
    if as_json:
        screen.print_json({"file": str(out), "precision": precision, "bytes": total, "parts": parts, "source": source})
        return
    rows = [[name, human_bytes(size)] for name, size in parts.items()]
    made_from = f"{model}: " + ", ".join(file.name for file in files) if model.is_dir() else str(model)
    rows += [[str(out), human_bytes(total)], [made_from, human_bytes(source)]]
    screen.out.print(screen.table(None, "part", "size", rows=rows))

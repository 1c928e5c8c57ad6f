"""lightrnn info"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import ModelConfig, Recipe, recipe_names
from ..errors import LightRNNError
from . import screen
from .options import JsonOption, with_settings


@with_settings(ModelConfig)
def info(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A folder of `lightrnn train` or `mix`.")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", help=f"Without MODEL: {', '.join(recipe_names())}, or a file.toml."),
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option("--vocab-size", min=2, max=10**12, help="Without MODEL: the number of words."),
    ] = None,
    as_json: JsonOption = False,
    **overrides: Any,
) -> None:
    """How large a model is, part by part, beside a conventional one of the same shape.

    lightrnn info model
    lightrnn info --recipe paper-billionw --vocab-size 793471
    lightrnn info --vocab-size 10000000 --hidden-size 1024
    """
    from ..inference.loading import is_mix
    from ..models.folder import TABLE, VOCABULARY, WEIGHTS, load_vocabulary, read_config
    from ..models.kind import Size, kind_of
    from ..models.sizes import conventional_parameters, human_bytes

    files: dict[str, int] = {}
    config: dict[str, Any] = {}
    if folder is not None:
        if recipe is not None or vocab_size is not None or overrides:
            raise LightRNNError("give either MODEL, or --recipe and --vocab-size, not both")
        if folder.is_file():
            raise LightRNNError(f"{folder} is a file; info is for folders of lightrnn train or mix")
        if is_mix(folder):
            _mix_info(folder, as_json)
            return
        config = read_config(folder)
        settings = ModelConfig.from_dict(config["model"], str(folder))
        shape = tuple(config["table_shape"]) if "table_shape" in config else None
        size = Size(int(config["vocabulary_size"]), shape, len(load_vocabulary(folder).alphabet))
        files = {
            name: (folder / name).stat().st_size for name in (WEIGHTS, TABLE, VOCABULARY) if (folder / name).exists()
        }
    elif vocab_size is None:
        raise LightRNNError("give a MODEL, or --vocab-size (with --recipe or fields such as --hidden-size)")
    else:
        settings = Recipe.load(recipe or "small").override(overrides).model
        kind = kind_of(settings)
        size = Size(vocab_size, kind.start_shape(settings, vocab_size) if kind.has_table else None)
    parts = kind_of(settings).parameters(settings, size)
    full = conventional_parameters(replace(settings, model="full"), size.words)
    if as_json:
        facts = {
            "model": settings.model,
            "vocabulary_size": size.words,
            "table_shape": list(size.shape) if size.shape else None,
            "parameters": parts,
            "conventional": full,
        }
        screen.print_json(facts | {"files": files, "training": config.get("training", {})})
        return
    described = f"table {' × '.join(map(str, size.shape))}" if size.shape else settings.model
    screen.out.print(
        f"vocabulary {size.words:,}, {described}, {settings.layers} × {settings.hidden_size} {settings.cell}, "
        f"input vectors of {settings.input_size}"
    )
    if perplexity := config.get("training", {}).get("valid_perplexity"):
        screen.out.print(f"validation perplexity {perplexity:.2f}")
    screen.out.print()
    screen.out.print(size_table(parts, full, settings.model))
    if files:
        screen.out.print()
        rows = [[name, human_bytes(count)] for name, count in files.items()]
        screen.out.print(screen.table(None, "file", "size", rows=rows))


def _mix_info(folder: Path, as_json: bool) -> None:
    """The models of a mix and their weights, whether they are there or not."""
    from ..inference.loading import read_mix

    paths, weights = read_mix(folder)
    total = sum(weights)
    names = [os.path.normpath(path).encode(errors="backslashreplace").decode() for path in paths]
    members = [{"model": name, "weight": weight / total} for name, weight in zip(names, weights, strict=True)]
    if as_json:
        screen.print_json({"model": "mix", "members": members})
        return
    screen.out.print(f"a mix of {len(members)} models")
    screen.out.print()
    rows = [[name, f"{weight / total:.3f}"] for name, weight in zip(names, weights, strict=True)]
    screen.out.print(screen.table(None, "model", "weight", rows=rows))


def size_table(parts: dict[str, int], full: dict[str, int], name: str = "lightrnn") -> Any:
    """Parameters and bytes of the model called `name`, beside a conventional one."""

    from ..models.sizes import BYTES, human_bytes, human_count

    def row(part: str, one: int, other: int) -> list[str]:
        return [
            part,
            human_count(one),
            human_bytes(BYTES * one),
            human_count(other),
            human_bytes(BYTES * other),
        ]

    vectors = ("input vectors", "output vectors")
    rows = [row(part, parts[part], full.get(part, 0)) for part in parts]
    rows.append(row("word vectors in all", *(sum(model.get(part, 0) for part in vectors) for model in (parts, full))))
    rows.append(row("total", sum(parts.values()), sum(full.values())))
    return screen.table(None, "parameters", name, "", "conventional", "", rows=rows)

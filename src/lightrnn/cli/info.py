"""lightrnn info"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import ModelConfig, Recipe, recipe_names
from ..errors import LightRNNError
from ..inference.loading import is_mix, read_mix
from ..models.characters import alphabet
from ..models.checkpoint import TABLE, VOCABULARY, WEIGHTS, load_vocabulary, read_config
from ..models.sizes import (
    BYTES,
    CHARACTERS,
    conventional_parameters,
    human_bytes,
    human_count,
    lightrnn_parameters,
    opponent_parameters,
)
from ..table.word_table import table_shape
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
    files: dict[str, int] = {}
    config: dict[str, Any] = {}
    shape: tuple[int, ...] | None = None
    characters = CHARACTERS
    if folder is not None:
        if recipe is not None or vocab_size is not None or overrides:
            raise LightRNNError("give either MODEL, or --recipe and --vocab-size, not both")
        if is_mix(folder):
            _mix_info(folder, as_json)
            return
        config = read_config(folder)
        settings, size = ModelConfig.from_dict(config["model"], str(folder)), int(config["vocabulary_size"])
        if settings.model == "lightrnn":
            shape = tuple(config["table_shape"])
        elif settings.model == "chsm":
            characters = len(alphabet(load_vocabulary(folder)))
        files = {
            name: (folder / name).stat().st_size for name in (WEIGHTS, TABLE, VOCABULARY) if (folder / name).exists()
        }
    elif vocab_size is None:
        raise LightRNNError("give a MODEL, or --vocab-size (with --recipe or fields such as --hidden-size)")
    else:
        settings, size = Recipe.load(recipe or "small").override(overrides).model, vocab_size
        if settings.model == "lightrnn":
            shape = table_shape(size, settings.components, settings.rows)
    parts = lightrnn_parameters(settings, shape) if shape else opponent_parameters(settings, size, characters)
    full = conventional_parameters(replace(settings, model="full"), size)
    if as_json:
        facts = {
            "model": settings.model,
            "vocabulary_size": size,
            "table_shape": list(shape) if shape else None,
            "parameters": parts,
            "conventional": full,
        }
        screen.out.print_json(json.dumps(facts | {"files": files, "training": config.get("training", {})}))
        return
    kind = f"table {' × '.join(map(str, shape))}" if shape else settings.model
    screen.out.print(
        f"vocabulary {size:,}, {kind}, {settings.layers} × {settings.hidden_size} {settings.cell}, "
        f"input vectors of {settings.input_size}",
        highlight=False,
    )
    if perplexity := config.get("training", {}).get("valid_perplexity"):
        screen.out.print(f"validation perplexity {perplexity:.2f}", highlight=False)
    screen.out.print()
    screen.out.print(size_table(parts, full, settings.model))
    if files:
        screen.out.print()
        rows = [[name, human_bytes(count)] for name, count in files.items()]
        screen.out.print(screen.table(None, "file", "size", rows=rows))


def _mix_info(folder: Path, as_json: bool) -> None:
    """The models of a mix and their weights, whether they are there or not."""
    paths, weights = read_mix(folder)
    total = sum(weights)
    names = [str(path).encode(errors="backslashreplace").decode() for path in paths]
    members = [{"model": name, "weight": weight / total} for name, weight in zip(names, weights, strict=True)]
    if as_json:
        screen.out.print_json(json.dumps({"model": "mix", "members": members}))
        return
    screen.out.print(f"a mix of {len(members)} models", highlight=False)
    screen.out.print()
    rows = [[name, f"{weight / total:.3f}"] for name, weight in zip(names, weights, strict=True)]
    screen.out.print(screen.table(None, "model", "weight", rows=rows))


def size_table(parts: dict[str, int], full: dict[str, int], name: str = "lightrnn") -> Any:
    """Parameters and bytes of the model called `name`, beside a conventional one."""

    def row(part: str, one: int, other: int) -> list[str]:
        return [
            part,
            human_count(one),
            human_bytes(BYTES * one),
            human_count(other),
            human_bytes(BYTES * other),
        ]

    vectors = ("input vectors", "output vectors")
    rows = [row(part, parts[part], full[part]) for part in parts]
    rows.append(row("word vectors in all", *(sum(model[part] for part in vectors) for model in (parts, full))))
    rows.append(row("total", sum(parts.values()), sum(full.values())))
    return screen.table(None, "parameters", name, "", "conventional", "", rows=rows)

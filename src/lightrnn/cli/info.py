"""lightrnn info"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import ModelConfig, Recipe, recipe_names
from ..errors import LightRNNError
from . import screen
from .options import JsonOption, with_settings

if TYPE_CHECKING:
    from ..table.word_table import WordTable
    from ..text.vocabulary import Vocabulary


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

    --json has table_shape, with a row for each of the words that stand alone; alone, how many do; shared_shape, of the
    table of the others; steps_a_word, how many recurrent steps a word of the training text takes on average, null
    where no text is known; and parameters by part, where the output vectors of a tied model are what it adds to the
    input's: biases, and a projection if the two sizes differ.

      lightrnn info model
      lightrnn info --recipe paper-billionw --vocab-size 793471
      lightrnn info --vocab-size 10000000 --hidden-size 1024
    """
    from ..inference.loading import is_mix
    from ..models.folder import TABLE, VOCABULARY, WEIGHTS, load_table, load_vocabulary, read_config
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
        vocabulary = load_vocabulary(folder)
        table = load_table(folder, vocabulary) if kind_of(settings).has_table else None
        size = Size(len(vocabulary), table.shape if table else None, len(vocabulary.alphabet))
        alone, steps = table.alone if table else 0, steps_a_word(table, vocabulary)
        files = {
            name: (folder / name).stat().st_size for name in (WEIGHTS, TABLE, VOCABULARY) if (folder / name).exists()
        }
    elif vocab_size is None:
        raise LightRNNError("give a MODEL, or --vocab-size (with --recipe or fields such as --hidden-size)")
    else:
        settings = Recipe.load(recipe or "small").override(overrides).model
        if settings.alone == "auto":
            screen.note("--alone auto goes by the words' counts, which are not known here: none alone; give --alone N")
            settings = replace(settings, alone=0)
        kind = kind_of(settings)
        size = Size(vocab_size, kind.start_shape(settings, vocab_size) if kind.has_table else None)
        alone = min(int(settings.alone), vocab_size) if kind.has_table else 0
        codes = 1 if alone or size.shape is None else len(size.shape)
        steps = None if 0 < alone < vocab_size else float(codes)
    shared = (size.shape[0] - alone, *size.shape[1:]) if size.shape else None
    parts = kind_of(settings).parameters(settings, size)
    full = conventional_parameters(replace(settings, model="full"), size.words)
    if as_json:
        facts = {
            "model": settings.model,
            "vocabulary_size": size.words,
            "table_shape": list(size.shape) if size.shape else None,
            "alone": alone,
            "shared_shape": list(shared) if shared else None,
            "steps_a_word": steps,
            "tied": settings.tied,
            "embedding_size": settings.input_size,
            "parameters": parts,
            "conventional": full,
        }
        screen.print_json(facts | {"files": files, "training": config.get("training", {})})
        return
    words = f"vocabulary {size.words:,}"
    if alone:
        words += f" with {alone:,} alone" if alone < size.words else ", all alone"
    if alone < size.words:
        words += f", table {' × '.join(map(str, shared))}" if shared else f", {settings.model}"
    screen.out.print(
        f"{words}, {settings.layers} × {settings.hidden_size} {settings.cell}, "
        f"{'tied' if settings.tied else 'input'} vectors of {settings.input_size}"
    )
    if alone and steps is not None:
        screen.out.print(f"{steps:.2f} recurrent steps a word of the training text")
    if perplexity := config.get("training", {}).get("valid_perplexity"):
        screen.out.print(f"validation perplexity {perplexity:.2f}")
    screen.out.print()
    screen.out.print(size_table(parts, full, settings))
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


def steps_a_word(table: WordTable | None, vocabulary: Vocabulary) -> float:
    """How many recurrent steps a word of the training text takes on average: one for each of its codes."""
    if table is None:
        return 1.0
    counts, lengths = vocabulary.counts, (table.codes >= 0).sum(axis=1)
    return float(counts @ lengths) / max(int(counts.sum()), 1)


def size_table(parts: dict[str, int], full: dict[str, int], settings: ModelConfig) -> Any:
    """Parameters and bytes of a model with these settings, beside a conventional one."""

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
    projected = " and projection" if settings.input_size != settings.hidden_size else ""
    names = {"input vectors": "tied vectors", "output vectors": f"biases{projected}"} if settings.tied else {}
    rows = [row(names.get(part, part), parts[part], full.get(part, 0)) for part in parts]
    rows.append(row("word vectors in all", *(sum(model.get(part, 0) for part in vectors) for model in (parts, full))))
    rows.append(row("total", sum(parts.values()), sum(full.values())))
    return screen.table(None, "parameters", settings.model, "", "conventional", "", rows=rows)

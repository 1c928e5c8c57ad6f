"""lightrnn info"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import ModelConfig, Recipe, option_name, recipe_names
from ..errors import LightRNNError
from . import screen
from .options import JsonOption, with_settings

if TYPE_CHECKING:
    from ..models.kind import Size
    from ..table.word_table import WordTable
    from ..text.vocabulary import Vocabulary


@with_settings(ModelConfig)
def info(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MODEL]", help="A folder of `lightrnn train` or `mix`, or a file of `lightrnn pack` or `ngram`."
        ),
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
    """How large a model is, part by part, beside a conventional one of the same shape; or what a recipe says.

    --json has table_shape, with a row for each of the words that stand alone; alone, how many do; shared_shape, of the
    table of the others; steps_a_word, how many recurrent steps a word of the training text takes on average, null
    where no text is known; and parameters by part, where the output vectors of a tied model are what it adds to the
    input's: biases, and a projection if the two sizes differ.

      lightrnn info model
      lightrnn info words.lightrnn
      lightrnn info --recipe small
      lightrnn info --recipe paper-billionw --vocab-size 793471
      lightrnn info --recipe plain --vocab-size 10000000 --hidden-size 1024
    """
    from ..inference.loading import is_mix
    from ..models.folder import TABLE, VOCABULARY, WEIGHTS, read_config
    from ..models.kind import kind_of
    from ..models.sizes import conventional_parameters
    from ..ngram.packed import KIND as NGRAM

    files: dict[str, int] = {}
    config: dict[str, Any] = {}
    if folder is not None:
        if recipe is not None or vocab_size is not None or overrides:
            raise LightRNNError("give either MODEL, or --recipe and --vocab-size, not both")
        if is_mix(folder):
            _mix_info(folder, as_json)
            return
        if folder.is_file():
            stored, config, files = _packed(folder)
            if config["kind"] == NGRAM:
                _ngram_info(config, files, as_json)
                return
            told = _packed_network(folder, stored, config)
        else:
            config = read_config(folder)
            told = _trained(folder, ModelConfig.from_dict(config["model"], str(folder)))
            names = (WEIGHTS, TABLE, VOCABULARY)
            files = {name: (folder / name).stat().st_size for name in names if (folder / name).exists()}
    elif vocab_size is None:
        _recipe_info(recipe, overrides, as_json)
        return
    else:
        told = _untrained(Recipe.load(recipe or "small").override(overrides).model, vocab_size)
    settings, size = told.settings, told.size
    parts = kind_of(settings).parameters(settings, size)
    full = conventional_parameters(replace(settings, model="full"), size.words)
    if as_json:
        facts = told.facts | {"parameters": parts, "conventional": full}
        screen.print_json(facts | {"files": files, "training": config.get("training", {})})
        return
    for line in told.lines:
        screen.out.print(line)
    if perplexity := config.get("training", {}).get("valid_perplexity"):
        screen.out.print(f"validation perplexity {perplexity:.2f}")
    screen.out.print()
    screen.out.print(size_table(parts, full, settings))
    if files:
        _print_sizes(f"part, weights in {config['precision']}" if "precision" in config else "file", files)


def _recipe_info(name: str | None, overrides: dict[str, Any], as_json: bool) -> None:
    """Every field of a recipe, as the options of `lightrnn train` are called."""
    if name is None:
        raise LightRNNError("give a MODEL, a --recipe, or --vocab-size (with fields such as --hidden-size)")
    sections = Recipe.load(name).override(overrides).to_dict()
    if as_json:
        screen.print_json(sections)
        return
    rows = [[section, option_name(name), str(value)] for section, of in sections.items() for name, value in of.items()]
    screen.out.print(screen.table(None, "section", "option", "value", rows=rows))


@dataclass(frozen=True)
class Told:
    """A model before it is weighed. alone: words that stand alone; steps: recurrent ones a word of the training text
    takes on average, None where that is not known."""

    settings: ModelConfig
    size: Size
    alone: int
    steps: float | None

    @property
    def shared(self) -> tuple[int, ...] | None:
        """The shape of the table that the other words share."""
        return (self.size.shape[0] - self.alone, *self.size.shape[1:]) if self.size.shape else None

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "model": self.settings.model,
            "vocabulary_size": self.size.words,
            "table_shape": list(self.size.shape) if self.size.shape else None,
            "alone": self.alone,
            "shared_shape": list(self.shared) if self.shared else None,
            "steps_a_word": self.steps,
            "tied": self.settings.tied,
            "embedding_size": self.settings.input_size,
        }

    @property
    def lines(self) -> list[str]:
        settings = self.settings
        words = f"vocabulary {self.size.words:,}"
        described = f"table {' × '.join(map(str, self.shared))}" if self.shared else settings.model
        if self.alone == self.size.words:
            described = "all alone"
        elif self.alone:
            words += f" with {self.alone:,} alone"
        vectors = f"{'tied' if settings.tied else 'input'} vectors of {settings.input_size}"
        lines = [f"{words}, {described}, {settings.layers} × {settings.hidden_size} {settings.cell}, {vectors}"]
        if self.alone and self.steps is not None:
            lines.append(f"{self.steps:.2f} recurrent steps a word of the training text")
        return lines


def _trained(folder: Path, settings: ModelConfig) -> Told:
    from ..models.folder import load_table, load_vocabulary
    from ..models.kind import Size, kind_of

    vocabulary = load_vocabulary(folder)
    size = Size(len(vocabulary), characters=len(vocabulary.alphabet))
    if not kind_of(settings).has_table:
        return Told(settings, size, 0, 1.0)
    table = load_table(folder, vocabulary)
    return Told(settings, replace(size, shape=table.shape), table.alone, _steps(vocabulary, table))


def _packed(path: Path) -> tuple[dict[str, bytes], dict[str, Any], dict[str, int]]:
    """The parts of a packed file, what it says of itself, and the bytes of each part."""
    from ..container import is_packed, part_sizes, read_about, read_parts

    if not is_packed(path):
        raise LightRNNError(f"{path} is no packed model; info is for folders of lightrnn train or mix and packed files")
    data = path.read_bytes()
    parts = read_parts(data, str(path))
    return parts, read_about(parts, str(path)), part_sizes(data)


def _packed_network(path: Path, parts: dict[str, bytes], about: dict[str, Any]) -> Told:
    from ..models.kind import Size
    from ..packed.model import unpack

    network = unpack(parts, about, str(path))
    size, steps = Size(len(network.vocabulary), network.table.shape), _steps(network.vocabulary, network.table)
    return Told(network.config, size, network.table.alone, steps)


def _ngram_info(about: dict[str, Any], sizes: dict[str, int], as_json: bool) -> None:
    """How many n-grams a packed n-gram model has."""
    counts = about["ngrams"]
    if as_json:
        facts = {"model": about["kind"], "vocabulary_size": about["vocabulary_size"], "ngrams": counts, "files": sizes}
        screen.print_json(facts)
        return
    screen.out.print(f"vocabulary {about['vocabulary_size']:,}, n-grams up to order {len(counts)}")
    screen.out.print()
    rows = [[str(order), f"{count:,}"] for order, count in enumerate(counts, 1)]
    screen.out.print(screen.table(None, "order", "n-grams", rows=rows))
    _print_sizes("part", sizes)


def _print_sizes(heading: str, sizes: dict[str, int]) -> None:
    from ..models.sizes import human_bytes

    screen.out.print()
    rows = [[name, human_bytes(count)] for name, count in (sizes | {"in all": sum(sizes.values())}).items()]
    screen.out.print(screen.table(None, heading, "size", rows=rows))


def _steps(vocabulary: Vocabulary, table: WordTable) -> float:
    """Recurrent ones that a word of the training text takes on average."""
    return float(vocabulary.counts @ (table.codes >= 0).sum(axis=1)) / max(int(vocabulary.counts.sum()), 1)


def _untrained(settings: ModelConfig, words: int) -> Told:
    from ..models.kind import Size, kind_of
    from ..table.shapes import words_alone, zipf_counts

    if settings.alone == "auto":
        settings = replace(settings, alone=len(words_alone(zipf_counts(words), "auto")))
        screen.note(f"--alone auto goes by counts; by Zipf's law {settings.alone:,} words would stand alone")
    kind, alone = kind_of(settings), min(int(settings.alone), words)
    if not kind.has_table:
        return Told(settings, Size(words), 0, 1.0)
    steps = None if 0 < alone < words else 1.0 if alone else float(settings.components)
    return Told(settings, Size(words, kind.start_shape(settings, words)), alone, steps)


def _mix_info(folder: Path, as_json: bool) -> None:
    """The models of a mix and their weights, whether they are there or not."""
    from ..inference.loading import read_mix

    paths, weights = read_mix(folder)
    total = sum(weights)
    names = [os.path.normpath(str(path)).encode(errors="backslashreplace").decode() for path in paths]
    members = [{"model": name, "weight": weight / total} for name, weight in zip(names, weights, strict=True)]
    if as_json:
        screen.print_json({"model": "mix", "members": members})
        return
    screen.out.print(f"a mix of {len(members)} models")
    screen.out.print()
    rows = [[name, f"{weight / total:.3f}"] for name, weight in zip(names, weights, strict=True)]
    screen.out.print(screen.table(None, "model", "weight", rows=rows))


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

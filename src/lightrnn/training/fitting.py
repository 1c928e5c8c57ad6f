"""What a given table or model makes of a recipe, and what contradicts it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..config import Recipe, TrainingConfig, option_name
from ..errors import LightRNNError
from ..inference.network import NetworkLM
from ..inference.new_words import Wanted
from ..models.base import RecurrentModel
from ..models.kind import kind_of
from ..registry import CELLS, KINDS, REFINEMENTS
from ..runtime import Progress, silent
from ..table.shapes import words_alone
from ..table.word_table import WordTable
from ..text.corpus import Corpus
from ..text.rare import expected_counts
from ..text.vocabulary import Vocabulary
from .refinement import NOTHING_TO_REFINE
from .teaching import Teacher, check_student

Init = tuple[RecurrentModel, Vocabulary]  # a model to go on from, as load_model gives it


def fitted(
    recipe: Recipe,
    corpus: Corpus,
    *,
    table: WordTable | None = None,
    init: Init | None = None,
    teacher: Teacher | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> Recipe:
    """The recipe of a run on this corpus, which may start from a given table, or go on from a model, or have a teacher.

    `chosen` are the fields that a person asked for; the others give way, and a given table stays as it is unless a
    refinement was asked for. Without `chosen` the whole recipe was. Refused are a table for a model that has none, a
    shape other than the given one's, another vocabulary than the model's or the teacher's, a student without words
    alone, a refinement where all words stand alone, and chosen fields that would change nothing.
    """
    check_rounds(recipe)
    asked = chosen if chosen is not None else {}
    if table is not None and init is not None:
        raise LightRNNError("--table and --init cannot be used together: a model comes with its table")
    if table is not None:
        recipe = _with_table(recipe, table, chosen)
    if init is not None:
        recipe = _with_model(recipe, init[0], chosen)
        if init[1].digest != corpus.vocabulary.digest:
            raise LightRNNError(
                f"{corpus.path} has another vocabulary or other text rules than the --init model; train from the text "
                "itself, or prepare it with --vocab MODEL"
            )
    if kind_of(recipe.model).has_table:
        settled = with_words_alone({"alone": recipe.model.alone}, corpus.vocabulary, recipe.training.unk_rate)
        recipe = replace(recipe, model=replace(recipe.model, **settled))
    if teacher is not None:
        check_student(recipe.model, teacher, corpus.vocabulary)
    elif "teacher_share" in asked:
        raise LightRNNError("--teacher-share changes nothing without --teacher; leave it out")
    all_alone = recipe.model.alone == len(corpus.vocabulary)
    if (table or init or all_alone) and chosen is not None and recipe.bootstrap.refinements and "refine" not in asked:
        recipe = recipe.override({"refine": "none"})
    if all_alone and recipe.bootstrap.refinements:
        raise LightRNNError(NOTHING_TO_REFINE)
    _refuse_idle(asked, recipe, "--table" if table is not None else "--init" if init is not None else "")
    return recipe


def with_words_alone(values: Mapping[str, Any], vocabulary: Vocabulary, unk_rate: float) -> dict[str, Any]:
    """Fields of a recipe in which `alone`, if it is among them, is the number that it comes to."""
    if "alone" not in values:
        return dict(values)
    alone = words_alone(expected_counts(vocabulary, unk_rate), values["alone"])
    return {**values, "alone": len(alone)}


def with_words_of(corpus: Corpus, init: Init, progress: Progress = silent) -> Init:
    """A model to go on from with the words that a corpus has after the model's own, as `prepare` adds them."""
    model, known = init
    words, counts = corpus.vocabulary.words[len(known) :], corpus.vocabulary.counts[len(known) :]
    text, lm = corpus.split("train"), NetworkLM(model, known)
    lm.take_in(Wanted(known.with_words(words, counts), len(text), text), progress)
    return lm.model, lm.vocabulary


def _with_table(recipe: Recipe, table: WordTable, chosen: Mapping[str, Any] | None) -> Recipe:
    kind = kind_of(recipe.model)
    if not kind.has_table and kind.start_shape(recipe.model, len(table)) == table.shape:
        return recipe  # its classes are the table's rows
    if not kind.has_table:
        kinds = " and ".join(kind for kind in KINDS if KINDS[kind].has_table)
        raise LightRNNError(f"--table is for --model {kinds}, got it with --model {recipe.model.model}; leave it out")
    shape = {"components": table.components, "alone": table.alone, "rows": table.shared.shape[0]}
    asked = chosen if chosen is not None else {"components": recipe.model.components}
    for name, value in shape.items():
        if asked.get(name, value) != value:
            raise LightRNNError(f"--{name} cannot differ from --table's, which has {value}")
    return recipe.override(shape)


def _with_model(recipe: Recipe, init: RecurrentModel, chosen: Mapping[str, Any] | None) -> Recipe:
    """The network's shape is the old model's; only its dropout may change."""
    shape = init.config.to_dict() | {"dropout": recipe.model.dropout}
    for name, value in (recipe.model.to_dict() if chosen is None else chosen).items():
        if name in shape and shape[name] != value:
            raise LightRNNError(f"{option_name(name)} cannot change with --init: the model has {shape[name]}")
    return replace(recipe, model=replace(init.config, dropout=recipe.model.dropout))


def _refuse_idle(chosen: Mapping[str, Any], recipe: Recipe, origin: str) -> None:
    """An option that would change nothing is a mistake; origin: the option that table or model came with, if any."""
    bootstrap, local = recipe.bootstrap, recipe.training.local_steps
    refinement = REFINEMENTS[bootstrap.refine]
    restarts = refinement is not None and refinement.restarts
    clusters = refinement is not None and refinement.uses_clustering
    weights = origin if origin == "--init" and not restarts else ""  # they are given
    refine = f"--refine {bootstrap.refine}"
    in_the_way = {
        "start": origin,
        "start_vectors": weights or "--start random" * (bootstrap.start == "random"),
        "bigram_vectors": weights,
        "forget_bias": weights or f"--cell {recipe.model.cell}" * (CELLS[recipe.model.cell].forget_gate is None),
        "weight_init": weights,
        "word_bias": "--no-output-bias" * (not recipe.model.output_bias),
        "exchange": f"--local-steps {local}" * (local > 1),
        "dropout_from": "--dropout 0" * (recipe.model.dropout == 0),
        "head": "--alone 0" * (recipe.model.head > 0 and recipe.model.alone == 0),
        "least_gain": "--patience 0" * (not recipe.training.patience and recipe.training.schedule != "halve"),
        "rounds": refine * (refinement is None),
        "round_share": refine * (refinement is None),
        "solver": refine * (refinement is None or not refinement.uses_solver),
        "sample": refine * (not clusters),
        "clustering": (origin or "--start random" * (bootstrap.start == "random")) * (not clusters),
    }
    for name, value in chosen.items():
        if in_the_way.get(name) and value is not False:
            raise LightRNNError(f"{option_name(name)} changes nothing with {in_the_way[name]}; leave it out")


def check_rounds(recipe: Recipe) -> None:
    """Refuse refinements that would use up the budget."""
    config = recipe.bootstrap
    if config.refinements and config.refinements * config.round_share >= 1:
        raise LightRNNError(
            f"--rounds {config.rounds} of --round-share {config.round_share:g} leave nothing of the budget "
            "for the last round; lower one of them"
        )


def round_budget(recipe: Recipe, round_number: int, spent: float = 0.0) -> TrainingConfig:
    """A round's share of the budget: round_share before each refinement, the rest after the last.

    Minutes are those of the clock, so that tables use them up too: of what `spent` seconds have left, a round has its
    share and leaves the later ones theirs.
    """
    config, training = recipe.bootstrap, recipe.training
    left = 1 - round_number * config.round_share
    share = config.round_share if round_number < config.refinements else left
    minutes = max(share / left * (training.minutes - spent / 60), 0.001) if training.minutes else 0.0
    return replace(training, epochs=max(round(share * training.epochs, 9), 0.001), minutes=minutes)

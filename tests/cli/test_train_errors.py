"""What train refuses: recipes, damaged data, tables, models to go on from, options that fit nothing, losses."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import fields
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import SMALL, Call, Refusal, World, flip_bit, hidden, refused, set_fields, snapshot, train_small
from lightrnn.config import BootstrapConfig, ModelConfig, option_name
from lightrnn.inference.loading import save_mix
from lightrnn.models.checkpoint import load_model, load_training, save_model
from lightrnn.models.folder import read_config
from lightrnn.models.lightrnn import LightRNN
from lightrnn.registry import KINDS
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus, prepare

# --- the recipe


def test_unknown_recipe(refuse: Refusal, world: World) -> None:
    message = refuse("train", world.data, "--recipe", "huge", "-o", "out")
    assert "'huge'" in message
    assert "paper-aclw" in message


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (b"[model]\nhiden_size = 8\n", "'hiden_size'"),
        (b"[modell]\nhidden_size = 8\n", "'modell'"),
        (b"hidden_size = 8\n", "'hidden_size'"),
        (b"[model]\nhidden_size = '8'\n", "--hidden-size"),
        (b"[model]\nhidden_size = 8.0\n", "--hidden-size"),
        (b"[model]\nhidden_size = true\n", "--hidden-size"),
        (b"[model]\noutput_bias = 1\n", "--output-bias"),
        (b"[model]\ncell = ['lstm']\n", "--cell"),
        (b"[training]\nlearning_rate = nan\n", "--learning-rate"),
        (b"[training]\nlearning_rate = 1" + b"0" * 400 + b"\n", "--learning-rate"),
        (b"[model\n", "not valid TOML"),
        (b"[model]\nlayers = 1\nlayers = 2\n", "not valid TOML"),
        (b"# \xff\n", "edited.toml"),
    ],
    ids=lambda value: value[:30].decode(errors="replace") if isinstance(value, bytes) else None,
)
def test_bad_recipe(refuse: Refusal, world: World, tmp_path: Path, toml: bytes, message: str) -> None:
    (tmp_path / "edited.toml").write_bytes(toml)
    assert message in refuse("train", world.data, "--recipe", "edited.toml", "-o", "out")


def test_missing_recipe_file(refuse: Refusal, world: World) -> None:
    assert "nowhere.toml" in refuse("train", world.data, "--recipe", "nowhere.toml", "-o", "out")


# --- damaged data folders


def test_data_of_a_newer_version(refuse: Refusal, world: World, data: Path) -> None:
    set_fields(data / "data.json", format=99)
    for arguments in (("train", data, "-o", "out", *SMALL), ("evaluate", world.model, data)):
        message = refuse(*arguments)
        assert "newer lightrnn (data format 99" in message
        assert "upgrade" in message


@pytest.mark.parametrize("name", ["data.json", "vocab.tsv", "train.npy", "valid.npy"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage"])
def test_damaged_data(refuse: Refusal, data: Path, name: str, damage: str) -> None:
    content = (data / name).read_bytes()
    (data / name).write_bytes({"empty": b"", "truncated": content[: len(content) // 2], "garbage": b"?\n" * 99}[damage])
    assert name in refuse("train", data, "-o", "out", *SMALL)


@pytest.mark.parametrize("name", ["vocab.tsv", "train.npy", "valid.npy"])
def test_data_that_lacks_a_file_or_has_that_of_another(refuse: Refusal, world: World, data: Path, name: str) -> None:
    shutil.copy(world.other_data / name, data / name)
    assert name in refuse("train", data, "-o", "out", *SMALL)
    (data / name).unlink()
    assert name in refuse("train", data, "-o", "out", *SMALL)


def test_counts_that_were_edited(refuse: Refusal, data: Path) -> None:
    path = data / "vocab.tsv"
    word, _, rest = path.read_text(encoding="utf-8").partition("\t")
    path.write_text(f"{word}\t9{rest}", encoding="utf-8")
    assert "vocab.tsv is not the one this data was made with" in refuse("train", data, "-o", "out", *SMALL)


def test_data_with_ids_outside_the_vocabulary(refuse: Refusal, data: Path) -> None:
    np.save(data / "train.npy", np.load(data / "train.npy") + np.int32(1000))
    assert "train.npy" in refuse("train", data, "-o", "out", *SMALL)


@pytest.mark.parametrize(
    "changes",
    [{"format": None}, {"format": "1"}, {"rules": None}, {"vocabulary_digest": None}, {"splits": None}, {"splits": {}}],
    ids=str,
)
def test_data_json_that_was_edited(refuse: Refusal, data: Path, changes: dict[str, Any]) -> None:
    set_fields(data / "data.json", **changes)
    assert str(data) in refuse("train", data, "-o", "out", *SMALL)


# --- --table, --init, --resume


def _swap_place(lines: list[str]) -> list[str]:
    word = lines[2].split("\t")[0]
    return [*lines[:2], "\t".join([word, *lines[3].split("\t")[1:]]), *lines[3:]]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda lines: [], "edited.tsv is no word table"),
        (lambda lines: ["# something else", *lines[1:]], "edited.tsv is no word table"),
        (lambda lines: lines[1:], "edited.tsv is no word table"),
        (lambda lines: [lines[0].replace("x", "by"), *lines[1:]], "edited.tsv line 1"),
        (lambda lines: ["# lightrnn table, shape 60x60", *lines[1:]], "shape"),
        (lambda lines: ["# lightrnn table, shape -6x-6", *lines[1:]], "shape"),
        (lambda lines: ["# lightrnn table, shape 6x6x6", *lines[1:]], "edited.tsv line 3"),
        (_swap_place, "bijection"),
        (lambda lines: lines[:-1], "edited.tsv has no place for"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t0\t0", *lines[2:]], "edited.tsv line"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t-1\t0", *lines[3:]], "edited.tsv line 3"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t0", *lines[3:]], "edited.tsv line 3"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t0\t6", *lines[3:]], "outside"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t0\t" + "9" * 30, *lines[3:]], "999"),
        (lambda lines: [*lines, "stranger\t0\t0"], "'stranger' is not in the vocabulary"),
    ],
    ids=[
        "empty",
        "header",
        "no-header",
        "shape",
        "too-large",
        "negative-shape",
        "three-components",
        "one-place-twice",
        "missing-word",
        "word-in-two-places",
        "negative",
        "short-line",
        "outside",
        "huge",
        "stranger",
    ],
)
def test_bad_table(
    refuse: Refusal, world: World, tmp_path: Path, edit: Callable[[list[str]], list[str]], message: str
) -> None:
    lines = (world.model / "table.tsv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "edited.tsv").write_text("\n".join(edit(lines)) + "\n", encoding="utf-8")
    assert message in refuse("train", world.data, "--table", "edited.tsv", "-o", "out", *SMALL)


def test_table_of_another_vocabulary(refuse: Refusal, world: World) -> None:
    table = world.other_model / "table.tsv"
    message = refuse("train", world.data, "--table", table, "-o", "out", *SMALL)
    assert f"{table} line" in message
    assert "is not in the vocabulary" in message


def test_missing_table(refuse: Refusal, world: World) -> None:
    assert "nowhere.tsv" in refuse("train", world.data, "--table", "nowhere.tsv", "-o", "out", *SMALL)


@pytest.mark.parametrize("option", ["--components", "--rows"])
def test_table_of_another_shape(refuse: Refusal, world: World, option: str) -> None:
    message = refuse("train", world.data, "--table", world.model / "table.tsv", option, "3", "-o", "out", *SMALL)
    assert f"{option} cannot differ from --table's" in message


def test_table_and_init(refuse: Refusal, world: World) -> None:
    table = world.model / "table.tsv"
    message = refuse("train", world.data, "--table", table, "--init", world.model, "-o", "out", *SMALL)
    assert "--table and --init" in message


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--hidden-size", "16"),
        ("--layers", "2"),
        ("--cell", "gru"),
        ("--components", "3"),
        ("--rows", "3"),
        ("--embedding-size", "4"),
        ("--no-output-bias", None),
    ],
)
def test_init_with_another_shape(refuse: Refusal, world: World, option: str, value: str | None) -> None:
    given = [option, value] if value else [option]
    message = refuse("train", world.data, "--init", world.model, "-o", "out", *given)
    assert f"{option.replace('--no-', '--')} cannot change with --init" in message


def test_init_and_data_of_another_vocabulary(refuse: Refusal, world: World) -> None:
    assert "another vocabulary" in refuse("train", world.other_data, "--init", world.model, "-o", "out", *SMALL)


# --- --teacher


@pytest.fixture(scope="module")
def teacher(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in which words stand alone."""
    return train_small(Corpus.load(world.data), tmp_path_factory.mktemp("teacher") / "teacher", alone=9, head=5)


def test_a_teacher_of_other_words(refuse: Refusal, world: World, teacher: Path) -> None:
    message = refuse("train", world.other_data, "--teacher", teacher, "-o", "out", *SMALL)
    assert "teacher has other words than the data" in message
    assert "prepare the text with --vocab" in message


@pytest.mark.parametrize("kind", ["model", "opponent", "n-gram", "cache", "nowhere"])
def test_models_that_cannot_teach(
    call: Call, refuse: Refusal, world: World, teacher: Path, tmp_path: Path, kind: str
) -> None:
    paths = {"model": world.model, "opponent": world.opponent, "n-gram": tmp_path / "kn.arpa"}
    paths |= {"cache": tmp_path / "mix", "nowhere": tmp_path / "nowhere"}
    if kind == "n-gram":
        assert call("ngram", world.data, "-o", paths[kind]).code == 0
    if kind == "cache":
        save_mix(paths[kind], [teacher, "cache:50"], [0.5, 0.5])
    told = dict.fromkeys(paths, "is no LightRNN or mix of LightRNNs, which a teacher must be") | {
        "model": "no words stand alone, which a teacher needs; train one with --alone auto",
        "nowhere": "nowhere does not exist",
    }
    assert told[kind] in refuse("train", world.data, "--teacher", paths[kind], "-o", "out", *SMALL)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--teacher", "TEACHER", "--alone", "0"), "give it --alone N or auto"),
        (("--teacher", "TEACHER", "--model", "hsm"), "--teacher is for LightRNNs"),
        (("--teacher", "TEACHER", "--teacher-share", "1.5"), "--teacher-share"),
        (("--teacher-share", "0.5"), "--teacher-share changes nothing without --teacher"),
    ],
)
def test_a_teacher_and_what_does_not_go_with_it(
    refuse: Refusal, world: World, teacher: Path, options: tuple[str, ...], told: str
) -> None:
    given = [str(teacher) if option == "TEACHER" else option for option in options]
    assert told in refuse("train", world.data, "-o", "out", "--epochs", "1", *given)


def test_a_teacher_is_not_replaced_by_its_student(refuse: Refusal, world: World, teacher: Path, tmp_path: Path) -> None:
    shutil.copytree(teacher, tmp_path / "teacher")
    message = refuse("train", world.data, "--teacher", "teacher", "-o", "teacher", "--force", "--alone", "9", *SMALL)
    assert "is in the folder that would be replaced" in message


def test_resume_has_its_own_teacher(call: Call, refuse: Refusal, world: World, teacher: Path, tmp_path: Path) -> None:
    shutil.copytree(teacher, tmp_path / "teacher")
    started = call("train", world.data, "-o", "m", "--teacher", "teacher", "--alone", "9", *SMALL)
    assert "taught by teacher" in started.err
    resume = ("train", world.data, "-o", "m", "--resume", "--epochs", "2")
    assert "--teacher cannot be used with --resume" in refuse(*resume, "--teacher", "teacher")
    assert "--teacher-share cannot change on --resume" in refuse(*resume, "--teacher-share", "0.9")
    (tmp_path / "teacher").rename(tmp_path / "away")
    assert "learns from a teacher that cannot be read" in refuse(*resume)
    shutil.copytree(world.model, tmp_path / "teacher")
    assert "learns from a teacher that cannot be read" in refuse(*resume)
    shutil.rmtree(tmp_path / "teacher")
    (tmp_path / "away").rename(tmp_path / "teacher")
    assert call(*resume).code == 0


def test_prepared_data_and_a_validation_text(refuse: Refusal, world: World) -> None:
    assert "--valid" in refuse("train", world.data, "--valid", world.valid, "-o", "out", *SMALL)


@pytest.mark.parametrize("out", ["nowhere", "empty-folder", "data"])
def test_resume_where_nothing_is(refuse: Refusal, world: World, data: Path, tmp_path: Path, out: str) -> None:
    (tmp_path / "empty-folder").mkdir()
    told = f"{out} does not exist" if out == "nowhere" else f"{out} is not a model folder"
    assert told in refuse("train", world.data, "--resume", "-o", out)


def test_resume_without_a_training_state(refuse: Refusal, world: World, model: Path) -> None:
    (model / "training.safetensors").unlink()
    assert "training.safetensors" in refuse("train", world.data, "--resume", "-o", model)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_resume_from_a_truncated_training_state(refuse: Refusal, world: World, model: Path, share: float) -> None:
    content = (model / "training.safetensors").read_bytes()
    (model / "training.safetensors").write_bytes(content[: int(share * len(content))])
    message = refuse("train", world.data, "--resume", "--epochs", "2", "-o", model)
    assert "training.safetensors is damaged" in message
    assert f"--init {model}" in message


@pytest.mark.parametrize("place", [0.1, 0.5, 0.99])
def test_resume_from_a_training_state_with_a_flipped_bit(
    refuse: Refusal, world: World, model: Path, place: float
) -> None:
    state = model / "training.safetensors"
    flip_bit(state, int(place * state.stat().st_size))
    assert "training.safetensors" in refuse("train", world.data, "--resume", "--epochs", "2", "-o", model)


def test_resume_with_a_foreign_training_state(refuse: Refusal, world: World, model: Path) -> None:
    for source in (world.model / "weights.safetensors", world.other_model / "training.safetensors"):
        shutil.copy(source, model / "training.safetensors")
        refuse("train", world.data, "--resume", "--epochs", "2", "-o", model)


def test_resume_with_other_data(refuse: Refusal, world: World, model: Path) -> None:
    message = refuse("train", world.other_data, "--resume", "--epochs", "2", "-o", model)
    assert f"{world.other_data} is not the data" in message


def test_resume_with_text_that_was_never_prepared(refuse: Refusal, world: World, model: Path) -> None:
    refuse("train", world.train, "--resume", "--epochs", "2", "-o", model)


def test_resume_with_other_words_of_the_same_ids(refuse: Refusal, world: World, model: Path, tmp_path: Path) -> None:
    for name in ("train", "valid"):
        renamed = (world.root / name).read_text(encoding="utf-8").replace("w", "v")
        (tmp_path / name).write_text(renamed, encoding="utf-8")
    prepare([str(tmp_path / "train")], tmp_path / "renamed", valid=[str(tmp_path / "valid")])
    assert (tmp_path / "renamed" / "train.npy").read_bytes() == (world.data / "train.npy").read_bytes()
    assert "is not the data" in refuse("train", "renamed", "--resume", "--epochs", "2", "-o", model)


def test_resume_a_run_from_text_with_other_data(call: Call, refuse: Refusal, world: World) -> None:
    assert call("train", world.train, "-o", "model", *SMALL).code == 0
    assert "is not the data" in refuse("train", world.other_data, "--resume", "--epochs", "2", "-o", "model")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--hidden-size", "16"),
        ("--cell", "gru"),
        ("--learning-rate", "0.5"),
        ("--batch-size", "5"),
        ("--seed", "7"),
        ("--dropout", "0.5"),
    ],
)
def test_resume_with_a_changed_field(refuse: Refusal, world: World, model: Path, option: str, value: str) -> None:
    message = refuse("train", world.data, "--resume", "-o", model, "--epochs", "2", option, value)
    assert "cannot change on --resume" in message
    assert option in message


@pytest.mark.parametrize(
    ("options", "with_what"),
    [
        (("--rounds", "3"), "--refine none"),
        (("--round-share", "0.3"), "--refine none"),
        (("--solver", "half"), "--refine none"),
        (("--refine", "cluster", "--solver", "half"), "--refine cluster"),
        (("--refine", "matching", "--sample", "1000"), "--refine matching"),
        (("--start", "random", "--start-vectors"), "--start random"),
        (("--start", "random", "--clustering", "bisection"), "--start random"),
        (("--init", "MODEL", "--clustering", "bisection"), "--init"),
        (("--cell", "gru", "--forget-bias", "0"), "--cell gru"),
        (("--init", "MODEL", "--start", "random"), "--init"),
        (("--init", "MODEL", "--forget-bias", "2"), "--init"),
        (("--init", "MODEL", "--weight-init", "0.2"), "--init"),
        (("--no-output-bias", "--word-bias"), "--no-output-bias"),
        (("--dropout", "0", "--dropout-from", "1"), "--dropout 0"),
        (("--local-steps", "4", "--exchange", "bfloat16"), "--local-steps 4"),
        (("--alone", "0", "--head", "5"), "--alone 0"),
        (("--least-gain", "0.01"), "--patience 0"),
    ],
)
def test_options_that_would_change_nothing(
    refuse: Refusal, world: World, model: Path, options: tuple[str, ...], with_what: str
) -> None:
    given = [str(model) if option == "MODEL" else option for option in options]
    message = refuse("train", world.data, "-o", "out", *given)
    assert f"changes nothing with {with_what}; leave it out" in message


def test_start_vectors_for_an_opponent_that_has_vectors(refuse: Refusal, world: World) -> None:
    message = refuse("train", world.data, "-o", "out", "--init", world.opponent, "--bigram-vectors")
    assert "--bigram-vectors changes nothing with --init; leave it out" in message
    message = refuse("train", world.data, "-o", "out", "--init", world.opponent, "--tied")
    assert "--tied is for --model " in message


# --- models without a table

MEANT_FOR = {
    field.name: kinds
    for section in (ModelConfig, BootstrapConfig)
    for field in fields(section)
    if (kinds := [kind for kind in KINDS if field.name in KINDS[kind].settings])
}
VALUES = {"components": 3, "classes": "frequency", "start": "random", "refine": "none", "rounds": 2, "round_share": 0.1}
SWITCHES = ("output_bias", "word_bias", "start_vectors", "tied", "bigram_vectors")
VALUES |= {
    "alone": 5,
    "head": 3,
    "embedding_size": 9,
    "rows": 9,
    "forget_bias": 0.5,
    "solver": "half",
    "clustering": "bisection",
    "sample": 5,
    "blackout_samples": 9,
    "blackout_alpha": 0.5,
}


@pytest.mark.parametrize("name", MEANT_FOR)
def test_fields_that_mean_nothing_to_the_model(refuse: Refusal, world: World, name: str) -> None:
    option = (f"--no-{option_name(name)[2:]}",) if name in SWITCHES else (option_name(name), VALUES[name])
    for kind in sorted(set(KINDS) - set(MEANT_FOR[name])):
        message = refuse("train", world.data, "-o", "out", "--model", kind, *option)
        assert f"{option_name(name)} is for --model {' and '.join(MEANT_FOR[name])}, got it with" in message
    message = refuse("train", world.data, "-o", "out", "--model", "no-such", *option)
    assert message.startswith("error: model (--model) must be one of lightrnn, full, hsm")


def test_commands_that_need_a_table(refuse: Refusal, world: World) -> None:
    for command in (
        ("table", world.opponent),
        ("reallocate", world.opponent, world.data, "-o", "out"),
    ):
        assert "is a model of kind hsm, which has no word table" in refuse(*command)
    table = world.model / "table.tsv"
    message = refuse("train", world.data, "-o", "out", "--table", table, "--model", "full", "--epochs", "1")
    assert "--table is for --model lightrnn" in message
    assert "--refine is for" in refuse(
        "train", world.data, "-o", "out", "--init", world.opponent, "--refine", "cluster", "--model", "hsm"
    )
    assert "--refine is for" in refuse(
        "train", world.data, "-o", "out", "--init", world.opponent, "--refine", "cluster"
    )


def test_the_kind_stays_when_training_goes_on(refuse: Refusal, world: World) -> None:
    message = refuse("train", world.data, "-o", "out", "--init", world.opponent, "--model", "full")
    assert "--model cannot change with --init: the model has hsm" in message
    assert "--model cannot change on --resume" in refuse(
        "train", world.data, "-o", world.opponent, "--resume", "--model", "full"
    )


# --- losses that are not finite


def make_bomb(folder: Path, text: str, valid: str) -> tuple[Path, Path]:
    """Data, and a model for it; see `explosive`."""
    (folder / "text").write_text(text, encoding="utf-8")
    (folder / "valid").write_text(valid, encoding="utf-8")
    (folder / "words").write_text("</s>\na\nb\nc\nd\ne\n<unk>\nboom\n", encoding="utf-8")
    corpus = prepare(
        [str(folder / "text")], folder / "data", valid=[str(folder / "valid")], vocabulary=folder / "words"
    )
    assert not any(facts["unknown"] for facts in corpus.info["splits"].values())
    torch.manual_seed(1)
    model = LightRNN(ModelConfig(hidden_size=8), WordTable.from_places(np.arange(8), (3, 3)))
    save_model(folder / "bomb", model, corpus.vocabulary, {})
    return folder / "data", folder / "bomb"


@pytest.fixture
def explosive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models give finite figures until the word "boom", the last of eight, is read."""
    calm = LightRNN.code_log_probs

    def code_log_probs(self: LightRNN, codes: torch.Tensor, state: Any = None) -> Any:
        parts, after = calm(self, codes, state)
        row, column = self.spelling.codes[7]  # type: ignore[index]
        boom = (codes[:, :-2] == row) & (codes[:, 1:-1] == column)
        return parts.masked_fill(boom[..., None], torch.nan), after

    monkeypatch.setattr(LightRNN, "code_log_probs", code_log_probs)


CALM = "a b c\nd e\n" * 30
BOMB_OPTIONS = ("--epochs", "2", "--batch-size", "1", "--window", "20", "--validate-every", "1", "--threads", "1")


@pytest.mark.usefixtures("explosive")
def test_loss_that_is_not_finite(call: Call, tmp_path: Path) -> None:
    data, bomb = make_bomb(tmp_path, text=CALM + "boom a\n", valid=CALM)
    before = snapshot(bomb)
    told = refused(call("train", data, "--init", bomb, "-o", "out", *BOMB_OPTIONS), notes=True)
    assert re.match(r"error: the loss became (nan|inf) .* at mini-batch \d+ .*--learning-rate", told)
    assert snapshot(bomb) == before
    assert not hidden(tmp_path)
    out = tmp_path / "out"
    best = read_config(out)["training"]
    assert best["steps"] > 1  # some were finite
    assert isfinite(best["valid_perplexity"])
    evaluated = call("evaluate", out, tmp_path / "valid", "--json")
    assert json.loads(evaluated.out)["perplexity"] == pytest.approx(best["valid_perplexity"])
    _, facts = load_training(out)
    assert facts["position"]["best_perplexity"] == best["valid_perplexity"]


@pytest.mark.usefixtures("explosive")
def test_validation_that_is_not_finite(call: Call, tmp_path: Path) -> None:
    data, bomb = make_bomb(tmp_path, text=CALM, valid=CALM + "boom a\n")
    told = refused(call("train", data, "--init", bomb, "-o", "out", *BOMB_OPTIONS), notes=True)
    assert re.match(r"error: .*valid.*nan|error: .*nan.*valid", told)
    assert read_config(tmp_path / "out")["training"]["valid_perplexity"] is None
    load_model(tmp_path / "out")

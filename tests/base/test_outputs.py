"""Outputs: what is refused, what is replaced and how, and what a kill at any moment leaves behind."""

import errno
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

import lightrnn
from helpers import CPU, SMALL_RECIPE, Call, hidden, made_up_text, refused, run_apart, snapshot, started
from lightrnn import outputs
from lightrnn.errors import LightRNNError
from lightrnn.inference.loading import save_mix
from lightrnn.models.checkpoint import load_model
from lightrnn.models.folder import read_config
from lightrnn.outputs import check_output, locked, replace_output
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.training import bootstrap

SMALL = ("--hidden-size", "8", "--epochs", "0.1", "--batch-size", "4", "--window", "10", "--refine", "none")
RECIPE = SMALL_RECIPE.override({"epochs": 0.1, "start": "random"})


@pytest.fixture(scope="module")
def trained(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    bootstrap.train(tiny, RECIPE, folder, device=CPU)
    return folder


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    """A copy of a model, to replace."""
    return Path(shutil.copytree(trained, tmp_path / "model"))


def dead_process() -> int:
    """The number of a process that has ended."""
    with started(script="pass") as process:
        process.wait()
        return process.pid


# --- what is read is not replaced


def test_a_mix_does_not_replace_its_own_models(call: Call, tiny: Corpus, trained: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        shutil.copytree(trained, tmp_path / name)
    assert call("mix", "a", "b", "--tune", tiny.path, "-o", "mixed").code == 0
    before = snapshot(tmp_path)
    for options in ((), ("--force",)):
        message = refused(call("mix", "a", "b", "--tune", tiny.path, "-o", "a", *options))
        assert "a is in the folder that would be replaced; choose another -o" in message
        refused(call("mix", "mixed", "c", "--tune", tiny.path, "-o", "b", *options))  # a member of a member
        with pytest.raises(LightRNNError, match="that would be replaced"):
            save_mix(tmp_path / "a", ["a", "b"], [0.5, 0.5], force=bool(options))
    assert snapshot(tmp_path) == before
    assert lightrnn.load(tmp_path / "mixed").score("w1 w2") < 0


def test_other_commands_do_not_replace_what_they_read(call: Call, tiny: Corpus, model: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(tiny.path, tmp_path / "data"))
    (tmp_path / "text.arpa").write_text("w1 w2\n" * 20, encoding="utf-8")
    before = snapshot(tmp_path)
    for arguments in (
        ("reallocate", model, data, "-o", model),
        ("prepare", data / "vocab.tsv", "-o", data),
        ("prepare", "data/*.tsv", "-o", "data"),
        ("prepare", "text.arpa", "--vocab", data / "vocab.tsv", "-o", data),
        ("ngram", "text.arpa", "-o", "text.arpa"),
    ):
        assert "that would be replaced; choose another" in refused(call(*arguments, "--force"))
    with pytest.raises(LightRNNError, match="that would be replaced"):
        prepare([str(data / "vocab.tsv")], data, force=True)
    for name in ("config.json", "weights.safetensors", "training.safetensors", "table.tsv"):
        assert "is a file that lightrnn keeps" in refused(call("vectors", model, "-o", model / name, "--force"))
        message = refused(call("table", model, "--html", model / name, "--force"))
        assert "is a file that lightrnn keeps in that folder; choose another --html" in message
    assert snapshot(tmp_path) == before
    assert call("vectors", model, "-o", model / "vectors.txt").code == 0


def test_only_what_can_be_replaced_is(call: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text(made_up_text(300, 20, seed=1), encoding="utf-8")
    assert "model exists and is no data folder of lightrnn" in refused(call("prepare", text, "-o", "model", "--force"))
    os.mkfifo(tmp_path / "pipe")
    assert "pipe is a pipe or a device" in refused(call("vectors", model, "-o", "pipe", "--force"))
    assert "model is a folder; name a file" in refused(call("table", model, "--html", model, "--force"))
    (model / "data").mkdir()
    monkeypatch.chdir(model / "data")
    for here in (".", "..", "../../model", "/"):
        assert "current folder" in refused(call("train", text, "-o", here, "--force", *SMALL))


# --- --force replaces, the same everywhere


def test_a_replaced_model_cannot_be_resumed_over(call: Call, tiny: Corpus, trained: Path, model: Path) -> None:
    assert (model / "training.safetensors").exists()
    assert call("reallocate", trained, tiny.path, "-o", model, "--force").code == 0
    assert sorted(path.name for path in model.iterdir()) == [
        "config.json", "table.tsv", "vocab.tsv", "weights.safetensors",
    ]  # fmt: skip
    before = snapshot(model)
    assert "has no training.safetensors" in refused(call("train", tiny.path, "-o", model, "--resume", "--epochs", "9"))
    assert snapshot(model) == before
    assert call("mix", trained, trained, "--tune", tiny.path, "-o", model, "--force").code == 0
    assert [path.name for path in model.iterdir()] == ["config.json"]
    assert call("train", tiny.path, "-o", model, "--force", *SMALL).code == 0
    assert read_config(model)["kind"] == "lightrnn"


def test_a_page_needs_force_to_be_replaced(call: Call, trained: Path, tmp_path: Path) -> None:
    assert call("table", trained, "--html", "page.html").code == 0
    (tmp_path / "page.html").write_text("notes", encoding="utf-8")
    message = refused(call("table", trained, "--html", "page.html"))
    assert "page.html exists; choose another --html, or replace it with --force" in message
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "notes"
    assert call("table", trained, "--html", "page.html", "--force").code == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!")


def test_python_callers_are_refused_too(tiny: Corpus, trained: Path, tmp_path: Path) -> None:
    """Paths may be str or Path; an empty folder is as good as none."""
    text = tmp_path / "text.txt"
    text.write_text(made_up_text(300, 20, seed=1), encoding="utf-8")
    ngram = lightrnn.ngram.kneser_ney.estimate(tiny.split("train"), tiny.vocabulary, 2)
    calls = {
        "data": lambda out, **force: prepare([str(text)], out, **force),
        "model": lambda out, **force: bootstrap.train(tiny, RECIPE, out, device=CPU, **force),
        "mixed": lambda out, **force: save_mix(out, [str(trained), trained], [1, 1], **force),
        "lm.arpa": lambda out, **force: lightrnn.write_arpa(ngram, out, **force),
    }
    for name, write in calls.items():
        if name != "lm.arpa":
            (tmp_path / name).mkdir()
        write(str(tmp_path / name))
        before = snapshot(tmp_path)
        with pytest.raises(LightRNNError, match=rf"{name} exists; choose another \w+, or replace it with force=True"):
            write(tmp_path / name)
        assert snapshot(tmp_path) == before
        write(tmp_path / name, force=True)
        assert not hidden(tmp_path)
    lightrnn.load(str(tmp_path / "mixed"))
    Corpus.load(str(tmp_path / "data"))
    with pytest.raises(LightRNNError, match="mixed exists and is no data folder"):
        prepare([str(text)], tmp_path / "mixed", force=True)


def test_a_link_is_written_through(call: Call, trained: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("model", target_is_directory=True)
    (tmp_path / "far").mkdir()
    (tmp_path / "mixed").symlink_to("far/mixed", target_is_directory=True)
    shutil.copytree(trained, tmp_path / "other")
    with replace_output("link", "model", force=True) as stage:
        shutil.copytree(trained, stage, dirs_exist_ok=True)
        (stage / "new").touch()
    assert (tmp_path / "link").is_symlink()
    assert (model / "new").exists()
    save_mix("mixed", ["model", "other"], [0.5, 0.5])
    listed = json.loads((tmp_path / "far" / "mixed" / "config.json").read_text(encoding="utf-8"))["members"]
    assert [member["path"] for member in listed] == ["../../model", "../../other"]
    lightrnn.load(tmp_path / "mixed")


def test_a_refusal_leaves_no_new_folders(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    assert "recipe" in refused(call("train", tiny.path, "-o", "a/b/model", "--recipe", "nowhere"))
    assert "not exist" in refused(call("vectors", "nothing", "-o", "a/b/vectors.txt"))
    with pytest.raises(KeyboardInterrupt), replace_output(tmp_path / "a" / "b" / "model", "model"):
        raise KeyboardInterrupt
    assert not snapshot(tmp_path)


# --- kills

KILLED = """
import os, signal, sys
from pathlib import Path
from lightrnn.cli import main

moment, rename = sys.argv.pop(1), Path.rename

def deadly(self, target):
    here = Path(target).parent == Path.cwd()
    retires, arrives = (here and path.suffix in (".old", ".tmp") for path in (Path(target), self))
    if (moment, True) in (("before", retires), ("between", arrives)):
        os.kill(os.getpid(), signal.SIGKILL)
    done = rename(self, target)
    if (moment, True) == ("after", arrives):
        os.kill(os.getpid(), signal.SIGKILL)
    return done

Path.rename = deadly
main()
"""


def killed(moment: str, folder: Path, *arguments: object) -> None:
    """Run the program in a folder and kill it at a moment of the swap."""
    result = run_apart(moment, *arguments, script=KILLED, folder=folder)
    assert result.code == -signal.SIGKILL, result.err
    assert hidden(folder)


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_kill_of_train_leaves_the_old_or_the_new_model(
    call: Call, trained: Path, tmp_path: Path, moment: str
) -> None:
    """For whoever comes next: a reader, Python, a writer that is refused, one that is not."""
    text = tmp_path / "text.txt"
    text.write_text(made_up_text(300, 20, seed=1), encoding="utf-8")
    shutil.copytree(trained, tmp_path / "0" / "model")
    killed(moment, tmp_path / "0", "train", text, "-o", "model", "--force", *SMALL)
    assert (tmp_path / "0" / "model").exists() == (moment != "between")
    for name in "123":
        shutil.copytree(tmp_path / "0", tmp_path / name)
    assert call("info", "0/model").code == 0
    load_model(tmp_path / "1" / "model")
    assert "2/model exists and holds a run; go on with it" in refused(call("train", text, "-o", "2/model", *SMALL))
    itself = refused(call("train", text, "-o", "2/model", "--init", "2/model", *SMALL))
    assert "2/model is in the folder that would be replaced" in itself
    for name in "012":
        model = tmp_path / name / "model"
        if moment == "after":  # the new run is whole: its model, its data, where it stands
            assert call("train", text, "-o", model, "--resume").code == 0
            assert Corpus.load(model / "data").path == model / "data"
        else:
            assert snapshot(model) == snapshot(trained)
    for name in "23":
        assert call("train", text, "-o", tmp_path / name / "model", "--force", *SMALL).code == 0
        assert [path.name for path in (tmp_path / name).iterdir()] == ["model"]
        assert Corpus.load(tmp_path / name / "model" / "data").vocabulary


def test_a_kill_of_prepare_leaves_the_old_data(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(made_up_text(300, 20, seed=1), encoding="utf-8")
    shutil.copytree(tiny.path, tmp_path / "killed" / "data")
    killed("between", tmp_path / "killed", "prepare", text, "-o", "data", "--force")
    assert not (tmp_path / "killed" / "data").exists()
    data = tmp_path / "folder" / "data"
    for arguments in (
        (),
        ("ngram", data, "--order", "2", "-o", "lm.arpa"),
        ("train", data, "-o", "model", *SMALL),
        ("evaluate", "model", data),
        ("prepare", text, "--vocab", data / "vocab.tsv", "-o", "other"),
    ):
        shutil.rmtree(tmp_path / "folder", ignore_errors=True)
        shutil.copytree(tmp_path / "killed", tmp_path / "folder")
        assert not arguments or call(*arguments).code == 0
        assert Corpus.load(data).info == tiny.info
    assert call("prepare", text, "-o", data, "--force").code == 0
    assert Corpus.load(data).info != tiny.info
    assert [path.name for path in data.parent.iterdir()] == ["data"]


def test_what_fails_before_the_swap_leaves_the_old_model(
    call: Call, tiny: Corpus, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(model.parent)

    def broken(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("choose_start", "save", "save_best"):
        with monkeypatch.context() as patch:
            patch.setattr(bootstrap, name, broken)
            assert "No space left" in call("train", tiny.path, "-o", model, "--force", *SMALL).err
        assert snapshot(model.parent) == before


def test_an_interrupt_between_the_renames_puts_the_old_folder_back(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rename = snapshot(tmp_path), Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        if self.suffix == ".tmp":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), replace_output(model, "model", force=True):
        pass
    assert snapshot(tmp_path) == before


# --- what dead processes left


def test_writers_sweep_what_dead_processes_left(call: Call, tiny: Corpus, model: Path, tmp_path: Path) -> None:
    dead, alive = dead_process(), os.getppid()
    names = (f".model.{dead}.tmp", f".model.{dead}.old")
    for name in (*names, f".model.{alive}.tmp", f".other.{dead}.tmp", f".model.v2.{dead}.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    inside = (f".training.safetensors.{dead}.tmp", "weights.safetensors.new", f".perplexity.png.{alive}.tmp")
    for name in inside:
        (model / name).touch()
    (tmp_path / ".model.lock").write_text(str(dead), encoding="utf-8")
    load_model(model)
    assert len(hidden(tmp_path)) == 8  # a reader takes nothing away
    assert call("train", tiny.path, "-o", model, "--resume", "--epochs", "0.2").code == 0
    assert hidden(tmp_path) == sorted(
        [f".model.{alive}.tmp", f".other.{dead}.tmp", f".model.v2.{dead}.old", inside[-1]]
    )
    assert not (model / "weights.safetensors.new").exists()


def test_a_folder_of_another_name_is_not_put_back(trained: Path, tmp_path: Path) -> None:
    """`.model.v2.PID.old` was model.v2, not model."""
    shutil.copytree(trained, tmp_path / f".model.v2.{dead_process()}.old")
    with pytest.raises(LightRNNError, match="does not exist"):
        lightrnn.load(tmp_path / "model")
    read_config(tmp_path / "model.v2")


def test_the_number_of_a_dead_process_may_belong_to_another_now(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / f".model.{os.getppid()}.old")
    read_config(tmp_path / "model")


def test_without_locks_everything_else_works(
    call: Call, tiny: Corpus, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "fcntl", None)
    assert "model exists" in refused(call("train", tiny.path, "-o", "model", *SMALL))
    assert call("train", tiny.path, "-o", "model", "--force", *SMALL).code == 0
    assert call("train", tiny.path, "-o", "model", "--resume", "--epochs", "0.2").code == 0
    assert not hidden(tmp_path)


@pytest.mark.parametrize("error", [OSError(number, "no") for number in (errno.EACCES, errno.EROFS, errno.ENOLCK)])
def test_where_nothing_can_be_locked_nothing_is(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> int:
        raise error

    monkeypatch.setattr(*((outputs.fcntl, "flock") if error.errno == errno.ENOLCK else (os, "open")), broken)
    ran = False
    with locked(tmp_path / "x"):
        ran = True
    assert ran
    assert not any(tmp_path.iterdir())


def test_a_check_is_only_a_check(tmp_path: Path) -> None:
    check_output(tmp_path / "a" / "b", "model", inputs=["-", tmp_path])
    with locked(tmp_path / "a" / "b"):
        check_output(tmp_path / "a" / "b", "model")
    assert not snapshot(tmp_path)

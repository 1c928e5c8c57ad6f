"""Memory and disks that are full: one sentence, and what was there before is there still."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from helpers import SMALL, Call, Result, World, hidden, refused, run_apart, snapshot
from lightrnn.text.corpus import Corpus

PAGE = 4096


def limit(kind: str, size: int) -> str:
    """The program with a limit on what it may take."""
    return f"""
import resource
resource.setrlimit(resource.{kind}, ({size}, {size}))
from lightrnn.cli import main
main()
"""


@pytest.mark.skipif(
    sys.platform != "linux" or torch.cuda.is_available(), reason="limits the address space, of which CUDA takes much"
)
def test_network_too_large_for_the_memory(world: World, tmp_path: Path) -> None:
    arguments = ("train", world.train, "-o", tmp_path / "out", "--hidden-size", 65536)
    result = run_apart(*arguments, script=limit("RLIMIT_AS", 8 << 30))  # far more than the program itself takes
    assert refused(result, notes=True).startswith("error: out of memory; lower")
    assert snapshot(tmp_path) == {}


def test_prepare_when_files_cannot_grow(world: World, tmp_path: Path) -> None:
    result = run_apart("prepare", world.train, "-o", tmp_path / "out", script=limit("RLIMIT_FSIZE", 1024))
    assert "File too large" in refused(result)
    assert snapshot(tmp_path) == {}


def test_resume_when_files_cannot_grow(call: Call, world: World, model: Path) -> None:
    before = snapshot(model)
    size = (model / "training.safetensors").stat().st_size - 1000
    arguments = ("train", world.data, "-o", model, "--resume", "--epochs", "3")
    result = run_apart(*arguments, script=limit("RLIMIT_FSIZE", size))
    assert "File too large" in refused(result, notes=True)
    assert not hidden(model)
    after = snapshot(model)
    assert {name: after.get(name) for name in before} == before
    assert call("evaluate", model, world.data).code == 0
    assert call(*arguments).code == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a tiny disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tiny disk: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def leave_free(disk: Path, pages: int) -> None:
    """Fill the disk up to some free pages."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    state = os.statvfs(disk)
    filler.write_bytes(bytes(state.f_bavail * state.f_frsize - pages * PAGE))
    assert os.statvfs(disk).f_bavail * state.f_frsize == pages * PAGE


def test_full_disk_in_a_real_process(world: World, disk: Path) -> None:
    leave_free(disk, 2)
    before = snapshot(disk)
    assert "No space left on device" in refused(run_apart("prepare", world.train, "-o", disk / "out"))
    assert snapshot(disk) == before


def test_preparing_on_disks_of_every_size(call: Call, world: World, disk: Path) -> None:
    shutil.copytree(world.other_data, disk / "data")
    arguments = ("prepare", world.train, "--valid", world.valid, "--test", world.valid, "-o", disk / "data", "--force")
    for pages in range(40):
        leave_free(disk, pages)
        before = snapshot(disk)
        result = call(*arguments)
        if result.code == 0:
            break
        assert "No space left on device" in refused(result)
        assert snapshot(disk) == before
    assert 1 < pages < 39  # it failed on some sizes, and fits on a small disk
    assert Corpus.load(disk / "data").info == Corpus.load(world.data).info
    assert {path.name for path in disk.iterdir()} == {"data", "filler"}


def assert_disk_was_full(result: Result) -> None:
    assert "No space left on device" in refused(result, notes=True)


@pytest.mark.parametrize("source", ["train", "data"])
@pytest.mark.parametrize("existing", [False, True], ids=["new-folder", "empty-folder"])
def test_starting_on_disks_of_every_size(call: Call, world: World, disk: Path, source: str, existing: bool) -> None:
    folder = disk / "model"
    for pages in range(80):
        shutil.rmtree(folder, ignore_errors=True)
        if existing:
            folder.mkdir()
        leave_free(disk, pages)
        before = snapshot(disk)
        result = call("train", world.root / source, "-o", folder, *SMALL)
        if result.code == 0:
            break
        assert_disk_was_full(result)
        assert not hidden(disk)
        if snapshot(disk) != before:  # it got as far as a whole model
            assert call("evaluate", folder, world.valid).code == 0
    assert 1 < pages < 79  # the same


def test_resuming_on_disks_of_every_size(call: Call, world: World, disk: Path) -> None:
    folder, filler = disk / "model", disk / "filler"
    arguments = ("train", world.data, "-o", folder, "--resume", "--epochs", "3")
    results = set()
    for pages in range(80):
        shutil.rmtree(folder, ignore_errors=True)
        filler.unlink(missing_ok=True)
        shutil.copytree(world.model, folder)
        leave_free(disk, pages)
        result = call(*arguments)
        if result.code != 0:
            assert_disk_was_full(result)
            assert not hidden(folder)
            assert call("evaluate", folder, world.data).code == 0
            filler.unlink()
            assert call(*arguments).code == 0
        results.add((folder / "weights.safetensors").read_bytes())
        if result.code == 0:
            break
    assert 1 < pages < 79  # the same
    assert len(results) == 1  # a full disk on the way changes nothing in the end
    assert results != {(world.model / "weights.safetensors").read_bytes()}

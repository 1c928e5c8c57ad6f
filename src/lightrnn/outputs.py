"""Outputs: the one way in which a file or a folder is made, whoever makes it. Knows nothing of language models.

What is made is written under a hidden name beside its place and takes the place when it is whole; what it replaces goes
as a whole. Beside PARENT/NAME there may be, for a while:

    .NAME.PID.tmp   what the process PID is writing
    .NAME.PID.old   what NAME was, while the new one takes its place; where NAME is missing, a kill came in between
    .NAME.lock      the number of the process that writes NAME; the system frees the lock when that process ends

Whoever writes or reads NAME next puts back what a kill took away; whoever writes it removes what dead processes left.
"""

import contextlib
import errno
import fnmatch
import glob
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from .errors import LightRNNError
from .files import read_json

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is locked and nothing swept
    fcntl = None  # type: ignore[assignment]

Sort = Literal["model", "data", "file"]

MARKERS = {  # what tells a folder of ours: a file, and some keys of it
    "model": ("config.json", {"format", "kind", "files"}),
    "data": ("data.json", {"format", "vocabulary_digest", "splits"}),
}
FILES = re.compile(r"(config|data)\.json|(vocab|table)\.tsv|\w+\.safetensors|\w+\.npy|metrics\.jsonl")  # its files
UNLOCKABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOLCK, errno.ENOTSUP}
SWAP_SECONDS = 1.0  # how long a reader waits for a process between two renames


class InUse(LightRNNError):
    """Another process, the `holder`, is writing what this one is to write."""

    def __init__(self, path: str | Path, holder: str) -> None:
        super().__init__(f"{path} is being written by {holder}; wait until it has finished, or stop it")
        self.holder = holder


class _Held(threading.local):
    """The places that this thread has locked."""

    def __init__(self) -> None:
        self.places: set[Path] = set()


_held = _Held()


@contextlib.contextmanager
def replace_output(
    path: str | Path, sort: Sort, *, inputs: Sequence[str | Path] = (), force: bool = False, option: str = "-o"
) -> Iterator[Path]:
    """Write the yielded path (a new folder, or the name of a file); it takes the place `path` when the block ends well.

    Refuses what `check_output` refuses. Nobody else can write `path` during the block; to go on writing it after the
    block, hold `locked(path)` around it.
    """
    check_output(path, sort, inputs=inputs, force=force, option=option)
    with locked(path):
        check_output(path, sort, inputs=inputs, force=force, option=option)  # again, now that no one can change it
        target = _target(path)
        stage = target.parent / f".{target.name}.{os.getpid()}.tmp"
        _remove(stage)
        if sort != "file":
            stage.mkdir()
        try:
            yield stage
            _put_in_place(stage, target)
        finally:
            _remove(stage)


def check_output(
    path: str | Path, sort: Sort, *, inputs: Sequence[str | Path] = (), force: bool = False, option: str = "-o"
) -> None:
    """Refuse to write over something: with `force` only over a file, or a folder of our own of the same kind.

    inputs: files and folders that are read, which must outlast the writing; "-" and globs may be among them.
    option: by which the path was given, for the messages.
    """
    target = _target(path)
    if str(path) == "-" or (Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir())):
        raise LightRNNError(
            f"{path} is a pipe or a device, and what is written takes its place when it is whole; name a {sort} "
            f"{'' if sort == 'file' else 'folder '}with {option}"
        )
    if sort == "file":
        _check_file(path, target, option)
    elif Path.cwd().is_relative_to(target):
        raise LightRNNError(f"{option} is or holds the current folder, so it cannot be replaced; name a folder to make")
    elif target.exists():
        if target.is_dir() and not any(target.iterdir()):
            return
        if not _is_ours(target, sort):
            raise LightRNNError(f"{path} exists and is no {sort} folder of lightrnn; choose another {option}")
    if not target.exists():
        return
    for source in inputs:
        if _target(source).is_relative_to(target):
            place = "the file" if sort == "file" else "in the folder"
            raise LightRNNError(f"{source} is {place} that would be replaced; choose another {option}")
    if not force:
        replace = "--force" if option.startswith("-") else "force=True"
        raise LightRNNError(f"{path} exists; choose another {option}, or replace it with {replace}")


def refuse_foreign(folder: Path, option: str = "-o") -> None:
    """Refuse to put things into a folder that somebody may replace as a whole."""
    for sort in MARKERS:
        if _is_ours(folder, sort):
            raise LightRNNError(f"{folder} is a {sort} folder of lightrnn; choose another {option}")


def _check_file(path: str | Path, target: Path, option: str) -> None:
    if target.is_dir():
        raise LightRNNError(f"{path} is a folder; name a file with {option}")
    if not target.parent.is_dir():
        raise LightRNNError(f"the folder {Path(path).parent} does not exist; make it, or choose another {option}")
    if FILES.fullmatch(target.name) and any(_is_ours(target.parent, sort) for sort in MARKERS):
        raise LightRNNError(f"{path} is a file that lightrnn keeps in that folder; choose another {option}")


def _is_ours(folder: Path, sort: str) -> bool:
    marker, keys = MARKERS[sort]
    try:
        return (folder / marker).is_file() and keys <= read_json(folder / marker).keys()
    except LightRNNError as error:
        raise LightRNNError(f"{error}; or remove {folder} yourself, it is not replaced as it is") from None


@contextlib.contextmanager
def locked(path: str | Path, *, wait: bool = False) -> Iterator[None]:
    """Nobody else writes `path` during the block; if somebody does already, InUse, or with `wait` only patience.

    Where a file system has no locks, or does not let us write beside `path`, the block runs without one.
    """
    target = _target(path)
    if target in _held.places:
        yield
        return
    missing = [folder for folder in target.parents if not folder.exists()]  # the innermost first
    try:
        with _acquired(path, target.parent / f".{target.name}.lock", wait) as sure:
            _held.places.add(target)
            try:
                _put_back(target, sure)
                sweep(target.parent, glob.escape(target.name))
                yield
            finally:
                _held.places.remove(target)
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):  # there is something in it now
                folder.rmdir()


@contextlib.contextmanager
def _acquired(path: str | Path, lock: Path, wait: bool) -> Iterator[bool]:
    """Whether there is a lock, which is held during the block and whose file is gone after it."""
    with contextlib.ExitStack() as release:
        failures = 0
        while fcntl is not None:
            try:
                descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:
                failures += 1
                if failures > 100:  # it is not that others remove the folder: nothing can be made in there
                    raise
                lock.parent.mkdir(parents=True, exist_ok=True)
                continue
            except OSError as error:
                if error.errno not in UNLOCKABLE:
                    raise
                break
            release.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise InUse(path, _holder(descriptor)) from None
            except OSError as error:
                lock.unlink(missing_ok=True)
                if error.errno not in UNLOCKABLE:
                    raise
                break
            if _is_open(descriptor, lock):  # else its last holder removed it before we had it
                release.callback(lock.unlink, missing_ok=True)
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                yield True
                return
            release.close()
        yield False


def _is_open(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    """Who holds a lock, as its file tells; it may not have been written yet."""
    for _ in range(20):
        if number := os.pread(descriptor, 32, 0):
            return f"process {number.decode()}"
        time.sleep(0.005)
    return "another process"


def settle(path: str | Path) -> None:
    """Call it before reading a place: where a kill cut off its replacement, the old folder is put back."""
    target = _target(path)
    for place in (target, *target.parents):
        if place.exists():
            return
        deadline = time.monotonic() + SWAP_SECONDS
        while _retired(place) and not place.exists() and time.monotonic() < deadline:
            with contextlib.suppress(InUse, OSError), locked(place):
                break
            time.sleep(0.005)  # its writer is alive and between two renames


def sweep(folder: Path, names: str = "*") -> None:
    """Remove what dead processes were writing in a folder of ours, under names that fit a glob."""
    for path, process in _hidden(folder, names, "tmp"):
        if not _alive(process):
            with contextlib.suppress(OSError):  # it may be another person's
                _remove(path)


def _put_in_place(stage: Path, target: Path) -> None:
    if not stage.is_dir():
        with stage.open("rb") as file:
            os.fsync(file.fileno())
        stage.replace(target)
        return
    if not target.exists():
        stage.rename(target)
        return
    retired = target.parent / f".{target.name}.{os.getpid()}.old"
    _remove(retired)
    try:
        target.rename(retired)
        stage.rename(target)
    except BaseException:
        if not target.exists():
            retired.rename(target)
        raise
    _remove(retired)


def _put_back(target: Path, sure: bool) -> None:
    """Undo a replacement that was cut off, or finish it where only the old folder was not removed yet.

    sure: nobody is writing, so that the number of the process that was is of no interest.
    """
    for retired, process in _retired(target):
        if not target.exists() and (sure or not _alive(process)):
            retired.rename(target)
        elif not _alive(process):
            _remove(retired)


def _retired(target: Path) -> list[tuple[Path, int]]:
    return _hidden(target.parent, glob.escape(target.name), "old")


def _hidden(folder: Path, names: str, ending: str) -> list[tuple[Path, int]]:
    """The temporaries of some names in a folder, and the numbers of their processes."""
    found = ((path, re.fullmatch(r"\.(.+)\.(\d+)", path.stem)) for path in folder.glob(f".*.{ending}"))
    return [(path, int(match[2])) for path, match in found if match and fnmatch.fnmatchcase(match[1], names)]


def _alive(process: int) -> bool:
    if fcntl is None:
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _target(path: str | Path) -> Path:
    """Where a path leads in the end: through a link, its target is written."""
    return Path(path).resolve()

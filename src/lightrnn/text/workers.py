"""Processes that read text side by side, each some pieces of it at a time, into segments on disk.

A process is told what to read on its stdin, a JSON list a line, and tells on its stdout how far it is, what it has
written and what went wrong, which is raised here as it was there. Nothing but these lines passes between them. It runs
`serve` in a Python of its own and knows nothing of the program that started it, whose main module may be anything. When
that program goes, however it goes, so do they: their pipes break.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..errors import LightRNNError
from ..runtime import BLAS_VARIABLES, Progress, threads
from .rules import TextRules
from .segments import Piece, Segment, Tell, pieces_of, size_of, write_segments

WORTHWHILE_BYTES = 1 << 23  # files with less than this together are read by the time that processes have started
PIECE_BYTES = 1 << 25  # that one process reads at a time, where there are many more; of compressed files, a whole one
PIECES = 4  # for each process, so that all have something to do until the end
LEAST_BYTES = 1 << 20  # of a piece, however many processes there may be
PATIENCE = 0.1  # seconds between two looks at how far the others are
SERVE = "from lightrnn.text.workers import serve; serve()"

Lot = Sequence[Piece]  # what one process reads at a time


def read_segments(
    files: Sequence[str], rules: TextRules, folder: Path, progress: Progress
) -> Generator[Segment, None, None]:
    """The text of some files in order, as segments in a folder; read on as many cores as `threads` allows."""
    size = sum(map(size_of, files))
    beside = threads() if size >= WORTHWHILE_BYTES and sys.executable else 1
    most = min(PIECE_BYTES, max(LEAST_BYTES, size // (PIECES * beside)))
    pieces = [piece for file in files for piece in pieces_of(file, most)]
    lots = list(_lots(pieces, most)) if beside > 1 else [pieces]
    stems = [str(folder / str(number)) for number in range(len(lots))]
    tally = _Tally(size, progress)
    with _Workers(rules, beside, tally.add) as workers:
        futures = [
            workers.submit(lot, stem) if len(lots) > 1 and all(map(_is_seen_by_all, lot)) else None
            for lot, stem in zip(lots, stems, strict=True)
        ]
        for lot, stem, future in zip(lots, stems, futures, strict=True):
            if future is None:
                yield from write_segments(lot, rules, stem, tally.add_and_show)
            else:
                while wait([future], PATIENCE).not_done:
                    tally.show()
                yield from future.result()


def _lots(pieces: Iterable[Piece], most: int) -> Iterator[Lot]:
    """Pieces that follow each other, as many as have so many bytes; what only this process can read by itself."""
    lot: list[Piece] = []
    size = 0
    for piece in pieces:
        if lot and (size + piece.size > most or not (_is_seen_by_all(piece) and _is_seen_by_all(lot[-1]))):
            yield lot
            lot, size = [], 0
        lot.append(piece)
        size += piece.size
    if lot:
        yield lot


def _is_seen_by_all(piece: Piece) -> bool:
    """Whether it is a file to any process: stdin is not, nor is what is named by the number of a descriptor."""
    return piece.file != "-" and not piece.file.startswith(("/dev/", "/proc/"))


class _Tally:
    """How much was read, by whoever read it, of how much in all as far as that can be told."""

    def __init__(self, size: int, progress: Progress) -> None:
        self._size, self._progress = size, progress
        self._words = self._words_done = self._done = 0
        self._lock = threading.Lock()

    def add(self, words: int, done: int = 0, words_done: int = 0) -> None:
        with self._lock:
            self._words += words
            self._done += done
            self._words_done += words_done

    def add_and_show(self, words: int, done: int = 0, words_done: int = 0) -> None:
        self.add(words, done, words_done)
        self.show()

    def show(self) -> None:
        """Tell it, with an estimate of three digits."""
        total = self._words_done * self._size // self._done if self._done else 0
        total = round(total, 3 - len(str(total)))
        self._progress("reading", self._words, max(total, self._words) if total else 0)


class _Workers:
    """Processes that read lots, and a thread for each that waits for what it tells."""

    def __init__(self, rules: TextRules, most: int, tell: Tell) -> None:
        self._rules, self._most, self._tell = rules, most, tell
        self._pool = ThreadPoolExecutor(most)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        self._pool.shutdown()  # its threads see the ends of the pipes
        for process in self._processes:
            with contextlib.suppress(BrokenPipeError), process:  # there may be something that it was not told
                pass

    def submit(self, lot: Lot, stem: str) -> "Future[list[Segment]]":
        if len(self._processes) < self._most:
            self._processes.append(_start())
            self._idle.put(self._processes[-1])
        return self._pool.submit(self._read, lot, stem)

    def _read(self, lot: Lot, stem: str) -> list[Segment]:
        process = self._idle.get()
        try:
            return list(self._told(process, lot, stem))
        finally:
            self._idle.put(process)

    def _told(self, process: "subprocess.Popen[bytes]", lot: Lot, stem: str) -> Iterator[Segment]:
        assert process.stdin
        assert process.stdout
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps([self._rules.to_dict(), lot, stem]).encode() + b"\n")
            process.stdin.flush()
        while line := process.stdout.readline():
            kind, *facts = json.loads(line)
            if kind == "read":
                self._tell(*facts)
            elif kind == "segment":
                yield Segment(*facts)
            elif kind == "done":
                return
            else:
                raise _error(kind, facts)
        raise LightRNNError(f"a process that read {lot[0].file} {_end(process.wait())}")


def _start() -> "subprocess.Popen[bytes]":
    """A process that serves, out of reach of a Ctrl-C, which is for the one that started it."""
    environment = os.environ | dict.fromkeys(BLAS_VARIABLES, "1")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        process_group=0,
    )


def _end(code: int) -> str:
    if code == -getattr(signal, "SIGKILL", 9):
        return "was killed, as it happens where memory runs out; prepare again, with fewer --threads"
    return f"ended with code {code}; prepare again, with --threads 1 if it does so again"


def _error(kind: str, facts: list[Any]) -> Exception:
    if kind == "memory":
        return MemoryError()
    return OSError(*facts) if kind == "system" else LightRNNError(*facts)


# --- in the other process


def serve() -> None:
    """Read what each line of stdin asks for, until there is none."""
    for line in sys.stdin.buffer:
        rules, pieces, stem = json.loads(line)
        try:
            lot = [Piece(*piece) for piece in pieces]
            for segment in write_segments(lot, TextRules(**rules), stem, _tell_read):
                _tell("segment", segment.stem, segment.tokens)
            _tell("done")
        except LightRNNError as error:
            _tell("refused", str(error))
        except OSError as error:
            _tell("system", error.errno, error.strerror or str(error), error.filename)
        except MemoryError:
            _tell("memory")


def _tell_read(words: int, done: int = 0, words_done: int = 0) -> None:
    _tell("read", words, done, words_done)


def _tell(*facts: object) -> None:
    try:
        os.write(1, json.dumps(facts).encode() + b"\n")
    except BrokenPipeError:
        raise SystemExit(1) from None  # nobody is there any more

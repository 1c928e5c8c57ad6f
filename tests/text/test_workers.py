"""Text that several processes read: the same bytes as from one, errors that arrive as they are, kills, memory."""

import gzip
import lzma
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from helpers import Call, made_up_text, printed, refused, run_apart, snapshot, started, wait_for, write
from lightrnn.errors import LightRNNError
from lightrnn.runtime import silent
from lightrnn.text import segments, workers
from lightrnn.text.corpus import prepare
from lightrnn.text.reading import word_blocks
from lightrnn.text.rules import TextRules
from lightrnn.text.segments import NumberedText, WordCounts, pieces_of
from lightrnn.text.workers import read_segments
from oracle import plain_words

PACK = {"txt": bytes, "gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.compress}


def shards(folder: Path, count: int = 9) -> Path:
    """A folder of shards of all compressions, some of them empty, one without a last line end; many words tie."""
    (folder / "shards").mkdir()
    for number in range(count):
        text = made_up_text(400, 150, seed=number).replace("w1", "é")
        suffix = list(PACK)[number % len(PACK)]
        data = b"" if number in (3, 4) else text.rstrip("\n").encode() if number == 5 else text.encode()
        (folder / "shards" / f"{number:03}.{suffix}").write_bytes(PACK[suffix](data))
    return folder / "shards"


@pytest.fixture
def side_by_side(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes so many processes read, however short the text, in pieces of so many bytes."""

    def use(processes: int, piece_bytes: int = 1000) -> None:
        monkeypatch.setattr(workers, "threads", lambda: processes)
        monkeypatch.setattr(workers, "WORTHWHILE_BYTES", 0)
        monkeypatch.setattr(workers, "PIECE_BYTES", piece_bytes)

    return use


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were started."""
    found: list[int] = []

    def start() -> "subprocess.Popen[bytes]":
        process = start_one()
        found.append(process.pid)
        return process

    start_one = workers._start
    monkeypatch.setattr(workers, "_start", start)
    return found


# --- the same bytes


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min_count": 3, "max_words": 40},
        {"preset": "billionw", "valid": "shards/000.txt"},
        {"rules": TextRules(lowercase=True, normalize="nfkc", convention="sentence"), "test": "shards/001.gz"},
        {"vocabulary": "words"},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_any_number_of_processes_writes_the_same_bytes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    side_by_side: Any,
    starts: list[int],
    options: dict[str, Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words").write_text("w3\nw2\nw777\né\n", encoding="utf-8")
    files = sorted(map(str, shards(tmp_path).iterdir()))
    prepare(files, "one", **options)
    assert not starts
    for processes in (2, 3):
        side_by_side(processes)
        prepare(files, f"by-{processes}", **options)
        assert snapshot(Path(f"by-{processes}")) == snapshot(Path("one"))
    assert len(starts) >= 2 + 3


def test_segments_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a plain count: whatever the number of words after which a segment ends."""
    files = sorted(map(str, shards(tmp_path).iterdir()))
    monkeypatch.setattr("lightrnn.files.BLOCK_BYTES", 100)
    words = [word for file in files for block in word_blocks(file, TextRules()) for word in block]
    for number, most in enumerate((1, 7, 60, 10**6)):
        monkeypatch.setattr(segments, "SEGMENT_WORDS", most)
        (folder := tmp_path / str(number)).mkdir()
        seen, text = WordCounts(), NumberedText()
        for segment in read_segments(files, TextRules(), folder, silent):
            text.append(segment, seen.add(segment.words(), segment.counts()))
        named = list(seen.numbers)
        assert named == list(dict.fromkeys(words))
        assert dict(zip(named, seen.counts().tolist(), strict=True)) == Counter(words)
        assert [named[i] for chunk in text.chunks(5, 900) for i in chunk] == words[5:900]
        backwards = np.arange(len(named), dtype=np.int32)[::-1]
        taken = [chunk for size in (700, 1, text.tokens - 701) for chunk in text.take(size, backwards)]
        assert [named[-1 - i] for i in np.concatenate(taken)] == words
        assert not list(folder.iterdir())  # what is taken is gone


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize(
    "text", ["", "a", "\n\n\n", "one two\nthree\n\nfour five six\nseven", "no line end at all " * 9]
)
def test_pieces_of_a_file_are_its_lines(tmp_path: Path, text: str, size: int) -> None:
    file = write(tmp_path, "text", text)
    pieces = pieces_of(file, size)
    found = [
        word.decode()
        for piece in pieces
        for block in word_blocks(file, TextRules(), piece.begin, piece.end)
        for word in block
    ]
    assert found == (plain_words(text) if text else [])
    assert [piece.begin for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert sum(piece.size for piece in pieces) == len(text)
    assert len(pieces) <= max(1, -(-len(text) // size))


def test_a_pipe_among_files(tmp_path: Path, call: Call, side_by_side: Any, starts: list[int]) -> None:
    write(tmp_path, "a.txt", "one two\n" * 300)
    write(tmp_path, "b.txt", "three two\n" * 300)
    write(tmp_path, "all.txt", "one two\n" * 300 + "four one\n" * 300 + "three two\n" * 300)
    printed(call("prepare", "all.txt", "-o", "one"))
    side_by_side(2)
    printed(call("prepare", "a.txt", "-", "b.txt", "-o", "two", stdin=b"four one\n" * 300))
    assert starts
    for name in ("train.npy", "valid.npy", "vocab.tsv"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


def test_the_main_module_may_be_anything(tmp_path: Path) -> None:
    """A script without a guard, read from stdin: it is not run again by the processes that it starts."""
    script = (
        "from lightrnn.text import workers\nfrom lightrnn.runtime import use_threads\n"
        "from lightrnn.text.corpus import prepare\n"
        "workers.WORTHWHILE_BYTES, workers.LEAST_BYTES = 0, 1\nuse_threads(2)\n"
        f"print(len(prepare({str(shards(tmp_path))!r}, {str(tmp_path / 'out')!r}).vocabulary))\n"
    )
    done = subprocess.run([sys.executable, "-"], input=script.encode(), capture_output=True, check=True)
    assert done.stdout.split() == [str(len((tmp_path / "out" / "vocab.tsv").read_bytes().splitlines())).encode()]


# --- errors


def test_the_first_error_of_the_text_arrives_as_itself(
    tmp_path: Path, call: Call, side_by_side: Any, starts: list[int]
) -> None:
    line = "some words of a line\n"
    text = bytearray((line * 4000).encode())
    text[50_000] = text[70_000] = 0xFF
    (tmp_path / "a.txt").write_bytes((line * 2000).encode())
    (tmp_path / "b.txt").write_bytes(text)
    (tmp_path / "c.gz").write_bytes(gzip.compress(line.encode())[:-3])
    before = snapshot(tmp_path)
    for processes in (1, 3):
        side_by_side(processes, 8000)
        sentence = refused(call("prepare", "a.txt", "b.txt", "c.gz", "-o", "out"))
        assert "b.txt is not UTF-8: byte 0xff at offset 50,000;" in sentence
        assert "c.gz is not a complete .gz file" in refused(call("prepare", "a.txt", "c.gz", "b.txt", "-o", "out"))
        assert snapshot(tmp_path) == before
    assert len(starts) == 6


def test_errors_of_the_system_arrive_as_they_are(tmp_path: Path, side_by_side: Any, starts: list[int]) -> None:
    (tmp_path / "gone").mkdir()
    files = [write(tmp_path, f"{name}.txt", "a b\n" * 300) for name in "ab"]
    side_by_side(2)
    found = read_segments(files, TextRules(), tmp_path / "gone", silent)
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError) as error:
        next(found)
    assert error.value.filename == str(tmp_path / "gone" / "0-0.ids")
    assert len(starts) == 2


# --- kills


def workers_of(process: "subprocess.Popen[str]", folder: Path) -> list[int]:
    """The processes that read for another one that writes in a folder, when both have begun."""
    wait_for(lambda: len(list(folder.glob(".out.*/segments/*.ids"))) >= 2, process)
    return [int(n) for n in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Two shards that are worth a process each; they take longer to read than processes take to start."""
    (tmp_path / "in").mkdir()
    for name in "ab":
        write(tmp_path / "in", name, "all work and no play makes jack a dull boy\n" * 120_000)
    return tmp_path / "in"


on_linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc that tells the children")


@on_linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_ends_the_preparation(large: Path, tmp_path: Path, number: int) -> None:
    with started("prepare", large, "-o", tmp_path / "out", "--threads", "2", folder=tmp_path) as process:
        first, second = workers_of(process, tmp_path)
        os.kill(first, number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"error: a process that read {large}" in told
    assert ("was killed" in told) == (number == signal.SIGKILL)
    assert len(told.splitlines()) == 1
    assert not is_running(second)
    assert names(tmp_path) == ["in"]


@on_linux
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_leaves_nothing_behind(large: Path, tmp_path: Path, number: int, code: int) -> None:
    with started("prepare", large, "-o", tmp_path / "out", "--threads", "2", folder=tmp_path) as process:
        others = workers_of(process, tmp_path)
        for other in others:
            os.kill(other, signal.SIGSTOP)  # they would go on for ever
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == code
    assert not any(map(is_running, others))
    assert names(tmp_path) == ["in"]


@on_linux
def test_workers_end_when_the_program_is_killed(large: Path, tmp_path: Path) -> None:
    with started("prepare", large, "-o", tmp_path / "out", "--threads", "2", folder=tmp_path) as process:
        others = workers_of(process, tmp_path)
        process.kill()
        process.wait()
    deadline = time.monotonic() + 30
    while any(map(is_running, others)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    printed(run_apart("prepare", large / "a", "-o", tmp_path / "out", "--threads", "1"))
    assert names(tmp_path) == ["in", "out"]


# --- memory and progress

MEMORY = """
import re, resource, sys
from pathlib import Path
from lightrnn.runtime import use_threads
from lightrnn.text import workers
from lightrnn.text.corpus import prepare
workers.WORTHWHILE_BYTES, workers.LEAST_BYTES = 0, 1
use_threads(2)
prepare(sys.argv[1:3], sys.argv[3])
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


@on_linux
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """Of the program and of the processes that read for it."""
    line = " ".join(f"w{number}" for number in range(1000)) + "\n"
    peaks = []
    for lines in (1200, 7200):  # the shorter one fills all that is read at once
        files = [tmp_path / f"{name}{lines}.gz" for name in "ab"]
        for file in files:
            file.write_bytes(gzip.compress(line.encode() * lines, 1))
        peaks.append(printed(run_apart(*files, tmp_path / f"out{lines}", script=MEMORY)).split())
    for short, long in zip(*peaks, strict=True):
        assert int(long) < int(short) + 20  # MB: what is freed comes back in pieces; the ids alone would take 24 each


def test_progress_over_all_that_is_read(tmp_path: Path, side_by_side: Any) -> None:
    told = []
    side_by_side(2)
    prepare(str(shards(tmp_path)), tmp_path / "out", progress=lambda *facts: told.append(facts))
    reading = [facts[1:] for facts in told if facts[0] == "reading"]
    assert [done for done, _ in reading] == sorted(done for done, _ in reading)
    assert all(total == 0 or total >= done for done, total in reading)
    what, done, total = told[-1]
    assert what == "numbering"
    assert done == total > 2500


def test_a_word_that_is_too_long_is_told_by_its_place(tmp_path: Path, side_by_side: Any) -> None:
    files = [write(tmp_path, "a.txt", "a b\n" * 300), write(tmp_path, "b.txt", "a b\n" * 300 + "x" * (1 << 20) + "y\n")]
    side_by_side(2)
    with pytest.raises(LightRNNError, match=r"b\.txt has a word of more than 1,048,576 bytes at offset 1,200;"):
        prepare(files, tmp_path / "out")

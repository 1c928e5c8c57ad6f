"""Files: compressed reading, atomic writing, digests. Knows nothing of language models."""

import contextlib
import glob
import gzip
import hashlib
import json
import lzma
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from .border import Rule, check, parse_json, record
from .errors import LightRNNError

BLOCK_BYTES = 1 << 20
REMEMBERED_BYTES = 1 << 24  # files from this size on are not hashed again until they change

Sources = str | Path | Sequence[str | Path]  # one file, glob or folder, or several


def _zst_blocks(path: Path) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise LightRNNError(
            f"{path} is zstandard-compressed and the zstandard package is not installed; "
            "install it with: pip install 'lightrnn[zst]'"
        ) from None
    frame = zstandard.ZstdDecompressor().decompressobj()
    with path.open("rb") as file:
        for part in _zst_parts(file):
            if frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
            if block := frame.decompress(part):
                yield block
    if not frame.eof:
        raise EOFError("it ends in the middle of a frame")


def _zst_parts(file: IO[bytes]) -> Iterator[bytes]:
    """A zstandard file part by part (headers, blocks, checksums: RFC 8878), as each unfolds to 128 KiB at most.

    The decompressor gives all that its input holds at once: some thousand times as much, where someone means harm.
    """
    while start := file.read(5):
        if len(start) == 5 and start[1:4] == b"\x2a\x4d\x18":  # a frame to be skipped
            size = start[4:] + file.read(3)
            yield start[:4] + size
            left = int.from_bytes(size, "little")
            while data := file.read(min(left, BLOCK_BYTES)):
                yield data
                left -= len(data)
            continue
        flags = start[-1]
        single = flags >> 5 & 1
        content_size = (single, 2, 4, 8)[flags >> 6]
        yield start + file.read((1 - single) + (0, 1, 2, 4)[flags & 3] + content_size)
        is_last = False
        while not is_last and (head := file.read(3)):
            block = int.from_bytes(head, "little")
            is_last = bool(block & 1)
            yield head + file.read(1 if block >> 1 & 3 == 1 else block >> 3)  # of a repeated byte there is one
        if flags >> 2 & 1:
            yield file.read(4)


_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
}


def is_compressed(path: str | Path) -> bool:
    """Whether a file is unfolded as it is read, as its name says."""
    return Path(path).suffix in {".zst", *_OPENERS}


def read_blocks(source: str | Path, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The (decompressed) bytes of a file, or of stdin for "-", in blocks of at most BLOCK_BYTES.

    What a pipe holds is given at once, without waiting for more. begin, end: these bytes only, of a plain file.
    """
    name = str(source)
    path = Path(source)
    try:
        if path.suffix == ".zst":
            yield from _zst_blocks(path)
            return
        opener = _OPENERS.get(path.suffix)
        stream: Any = opener(path) if opener else sys.stdin.buffer if name == "-" else path.open("rb")
        read = stream.read if opener else stream.read1  # read1 does not wait until a block is full
        with contextlib.nullcontext() if name == "-" else stream:
            if begin:
                stream.seek(begin)
            left = sys.maxsize if end is None else end - begin
            while block := read(min(BLOCK_BYTES, left)):
                yield block
                left -= len(block)
    except _corruption_errors() as error:
        if "too much memory" in str(error):
            raise LightRNNError(
                f"{name} takes more than 128 MB to unfold, as zstd --long makes files; compress it without that"
            ) from None
        raise LightRNNError(f"{name} is not a complete {path.suffix} file ({error}); fetch it again") from None
    except IsADirectoryError:
        raise LightRNNError(f"{name} is a folder, where a file is needed; give a file in it") from None
    except OSError as error:
        raise LightRNNError(f"cannot read {name}: {error.strerror or error}; give a file that can be read") from None


def _corruption_errors() -> tuple[type[Exception], ...]:
    zstandard = sys.modules.get("zstandard")
    extra = (zstandard.ZstdError,) if zstandard else ()
    return (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, *extra)


def is_text_shard(path: Path) -> bool:
    """Whether a file inside a folder of shards is text of the corpus (not hidden, not a note about it)."""
    return path.is_file() and not path.name.startswith(".") and path.suffix not in {".md", ".json"}


def listed(sources: Sources) -> list[str]:
    """One source, or several, as a list of names."""
    return [str(sources)] if isinstance(sources, str | Path) else [str(source) for source in sources]


def refuse_no_text(folder: Path) -> None:
    """A folder of shards holds text, not what was made of it."""
    for marker, kind in (("config.json", "model"), ("data.json", "data")):
        if (folder / marker).is_file() and (folder / "vocab.tsv").is_file():
            raise LightRNNError(f"{folder} is a {kind} folder, where text is needed; give the text")


def expand(sources: Sources) -> list[str]:
    """Files, globs, folders of shards and "-" as a list of files; each must match something."""
    found: list[str] = []
    for source in listed(sources):
        path = Path(source)
        if source == "-" or path.is_file():
            matches = [source]
        elif path.is_dir():
            refuse_no_text(path)
            matches = [str(p) for p in sorted(path.iterdir()) if is_text_shard(p)]
        else:
            matches = sorted(p for p in glob.glob(source, recursive=True) if Path(p).is_file())  # noqa: PTH207
        if not matches:
            if path.is_dir():
                raise LightRNNError(f"{source} is a folder without text files; name the files or another folder")
            if path.exists():
                raise LightRNNError(f"{source} is a pipe or a device, which is read once only; give it on stdin, as -")
            raise LightRNNError(f"{source} does not exist; give a file, a glob, a folder of shards or -")
        found.extend(matches)
    return found


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_sha256(path: Path, digest: str, also: Callable[[], bool] = lambda: True) -> bool:
    """Whether a file has this digest; a large one is read once for each time of change, and then remembered.

    also: what else must hold of the file, asked whenever it is read.

    What is remembered is a line in a small file of the user's cache folder. A file that changed in the last seconds is
    not remembered, as a clock may give a further change the same time.
    """
    found = path.stat()
    if found.st_size < REMEMBERED_BYTES:
        return sha256(path) == digest and also()
    place = path.resolve()
    line = f"{place} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {digest}"
    note = _cache_folder() / "verified" / hashlib.sha256(os.fsencode(place)).hexdigest()
    with contextlib.suppress(OSError):
        if note.read_bytes() == os.fsencode(line):
            return True
    is_same = sha256(path) == digest and also()
    if is_same and time.time() - max(found.st_mtime, found.st_ctime) > 5:
        with contextlib.suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(note) as file:
                file.write(os.fsencode(line))
    return is_same


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "lightrnn"


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Write to a temporary neighbour; it takes the name `path` only when it is complete and on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    with atomic_file(path) as file:
        file.write((json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


ANY_OBJECT = record({})


def read_json(path: Path, rule: Rule = ANY_OBJECT, remedy: str = "restore it or make it again") -> dict[str, Any]:
    """The object in a file, which the rule has nothing against."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LightRNNError(f"cannot read {path}: {error.strerror or error}") from None
    value: dict[str, Any] = check(parse_json(data, str(path), remedy), rule, str(path), remedy)
    return value

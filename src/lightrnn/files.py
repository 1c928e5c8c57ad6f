"""Files: compressed reading, atomic writing, digests. Knows nothing of language models."""

import contextlib
import glob
import gzip
import hashlib
import json
import lzma
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from .border import Rule, check, parse_json, record
from .errors import LightRNNError

BLOCK_BYTES = 1 << 20


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
        while data := file.read(BLOCK_BYTES >> 4):
            while data:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                if block := frame.decompress(data):
                    yield block
                data = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise EOFError("it ends in the middle of a frame")


_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
}


def read_blocks(source: str | Path) -> Iterator[bytes]:
    """The (decompressed) bytes of a file, or of stdin for "-", in blocks of at most about a megabyte.

    What a pipe holds is given at once, without waiting for more.
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
            while block := read(BLOCK_BYTES):
                yield block
    except _corruption_errors() as error:
        raise LightRNNError(f"{name} is not a complete {path.suffix} file ({error}); fetch it again") from None
    except OSError as error:
        raise LightRNNError(f"cannot read {name}: {error.strerror or error}") from None


def _corruption_errors() -> tuple[type[Exception], ...]:
    zstandard = sys.modules.get("zstandard")
    extra = (zstandard.ZstdError,) if zstandard else ()
    return (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, *extra)


def is_text_shard(path: Path) -> bool:
    """Whether a file inside a folder of shards is text of the corpus (not hidden, not a note about it)."""
    return path.is_file() and not path.name.startswith(".") and path.suffix not in {".md", ".json"}


def expand(sources: Sequence[str | Path]) -> list[str]:
    """Files, globs, folders of shards and "-" as a list of files; each must match something."""
    found: list[str] = []
    for source in map(str, sources):
        path = Path(source)
        if source == "-" or path.is_file():
            matches = [source]
        elif path.is_dir():
            matches = [str(p) for p in sorted(path.iterdir()) if is_text_shard(p)]
        else:
            matches = sorted(p for p in glob.glob(source, recursive=True) if Path(p).is_file())  # noqa: PTH207
        if not matches:
            if path.is_dir():
                raise LightRNNError(f"{source} is a folder without text files; name the files or another folder")
            raise LightRNNError(f"{source} does not exist; give a file, a glob, a folder of shards or -")
        found.extend(matches)
    return found


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Fill a temporary folder; it takes the name `path` only when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if path.exists():
            retired = path.with_name(f".{path.name}.{os.getpid()}.old")
            path.rename(retired)
            temporary.rename(path)
            shutil.rmtree(retired, ignore_errors=True)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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

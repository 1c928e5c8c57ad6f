"""What a run needs of the machine, and how it tells what it is doing: threads, devices, memory, progress."""

import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .errors import LightRNNError
from .processes import local_rank

if TYPE_CHECKING:
    import torch

MOST_TRACKS = 65536
BATCH_SIZE = 64  # tracks or sentences that are scored side by side, unless told otherwise
BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h

_limit = 0  # threads that use_threads() allowed; 0: not told


class Progress(Protocol):
    """Called with what is being done and how far it is, of how much where that is known (else 0)."""

    def __call__(self, what: str, done: int = 0, total: int = 0, /) -> None: ...


def silent(what: str, done: int = 0, total: int = 0, /) -> None:
    """Progress for nobody."""


def use_threads(count: int) -> None:
    """Hold every computation to so many CPU threads, PyTorch's and those of NumPy's and SciPy's BLAS; 0: no change."""
    global _limit  # noqa: PLW0603
    _limit = count
    if count:
        from threadpoolctl import threadpool_limits

        os.environ |= dict.fromkeys(BLAS_VARIABLES, str(count))  # for libraries that are loaded later
        threadpool_limits(count)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(count)


def keep_memory() -> None:
    """Large tensors that are freed are kept for the next ones, not given back to the system at once.

    A step of training makes and frees some of ten megabytes; having their pages mapped and cleared each time takes a
    good part of its time (benchmarks/memory.py). Only glibc's allocator is told; others are left as they are.
    """
    import ctypes

    tune = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if tune is not None:
        tune(M_TRIM_THRESHOLD, 2**31 - 1)
        tune(M_MMAP_THRESHOLD, 2**30) or tune(M_MMAP_THRESHOLD, 2**25)  # all that older ones allow


def threads() -> int:
    """How many threads a computation may use: what use_threads() was told, else PyTorch's number, else the cores."""
    torch = sys.modules.get("torch")
    return _limit or (torch.get_num_threads() if torch else _cores())


def _cores() -> int:
    """Those that this process may use, which may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(solve: Callable[[int], float], tasks: int) -> list[float]:
    """solve(0), solve(1), … on threads() threads, BLAS held to one in each; solvers release the interpreter's lock."""
    if tasks == 1 or threads() == 1:
        return [solve(task) for task in range(tasks)]
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(solve, range(tasks)))


def choose_device(name: str = "auto") -> "torch.device":
    """The device to compute on: CUDA if there is one, of several processes on a host each its own; else the CPU."""
    import torch

    own = torch.device("cuda", local_rank())
    if name == "auto":
        return own if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = own if name == "cuda" else torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError):
        raise LightRNNError(f"--device {name} cannot be used here; use auto, cpu, or cuda where there is one") from None
    return device


def multiplies_bfloat16(device: "torch.device") -> bool:
    """Whether the device has instructions for products of bfloat16 numbers, so that they are faster than float32's."""
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    told: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # older PyTorch does not tell
    return bool(told.get("avx512_bf16") or told.get("amx_bf16"))


def free_memory() -> float:
    """Bytes that can be had, those of cached files among them where the system tells; else no limit."""
    listing = Path("/proc/meminfo")
    if listing.exists():
        told = re.search(r"^MemAvailable:\s+(\d+) kB$", listing.read_text(encoding="ascii"), re.MULTILINE)
        if told:
            return 1024.0 * int(told[1])
    if "SC_AVPHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return float("inf")
    return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def refuse_beyond_memory(what: str, needed: int, advice: str) -> None:
    """Fail before a large array is made, where the system tells how much memory is free."""
    available = free_memory()
    if needed > available:
        raise LightRNNError(f"{what} needs {needed / 1e9:.1f} GB and {available / 1e9:.1f} GB are free; {advice}")

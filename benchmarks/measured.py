"""A command of the product, run to its end: how long it took and how much memory it and all that it started had."""

import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

INTERVAL = 0.2  # seconds between two looks at the memory


@dataclass(frozen=True)
class Cost:
    """memory: the most that all processes had at one time, in MB, pages of mapped files counted; own: without these;
    largest: the most that one process had, as the system tells at its end."""

    seconds: float
    memory: float
    own: float
    largest: float
    out: str


def lightrnn(*arguments: object) -> Cost:
    """Run `lightrnn …`; its notes and progress go to this program's stderr. What fails ends this program too."""
    command = [sys.executable, "-m", "lightrnn", *map(str, arguments)]
    print(textwrap.shorten(f"$ lightrnn {' '.join(map(str, arguments))}", 150), file=sys.stderr, flush=True)
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
    peaks, ended = [0.0, 0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(INTERVAL):
            for index, now in enumerate(_memory(process.pid)):
                peaks[index] = max(peaks[index], now)

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stdout
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begin
    ended.set()
    watcher.join()
    if process.returncode:
        sys.exit(f"lightrnn {arguments[0]} ended with code {process.returncode}")
    largest = usage.ru_maxrss / 1024
    return Cost(seconds, max(peaks[0], largest), peaks[1], largest, out)


def _memory(process: int) -> tuple[float, float]:
    """MB of a process and all below it: in memory, and without what files are mapped."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0, 0.0
    sizes = [re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "RssAnon")]
    whole, own = (int(size[1]) / 1024 if size else 0.0 for size in sizes)
    below = [_memory(int(child)) for child in children]
    return whole + sum(one for one, _ in below), own + sum(one for _, one in below)

"""What several processes bring: two of one thread against one, and two hosts with a network between them.

    python benchmarks/distributed.py                 # both parts
    python benchmarks/distributed.py --parts hosts --kinds hsm full --rates 1gbit 100mbit --local-steps 8

The model is stepped by the product's own Trainer, over a text of words drawn from a Zipf distribution; processes are
pinned to a core each, with one thread.

Part `processes`: words/s of one process, of two that train one model together (the same batch, shared between them),
and of two that know nothing of each other, together: the last is what the machine can give. Taken in turns; medians.

Part `hosts`: two network namespaces, each a host of one process, joined by a veth pair whose rate `tc … tbf` limits:
words/s without a limit and with, the share that is kept, and the bytes that go over the wire in a step (both ways, as
the interface counts them), for LightRNN, the hierarchical and the full softmax, with and without --local-steps (which
keep a share of the speed that there is without a limit and without them). Beside each stands what the model of
docs/scale.md predicts. Namespaces need root and the programs `ip` and `tc`; where they
cannot be made, the part is skipped and says why. They are removed at the end.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lightrnn.models.sizes import human_bytes
from lightrnn.processes import joined
from lightrnn.runtime import keep_memory, use_threads
from throughput import made_up_words, trainer_of, with_words_alone

CPU = torch.device("cpu")
LIGHTRNN = "lightrnn"
NO_LIMIT = "none"
UNITS = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3}
INTERFACE = "lrnn"  # in each namespace
WARM_UP = 3  # steps, or as many as fit into a fifth of the seconds
SLOW = 10.0  # seconds: a model whose steps take longer is measured with --local-steps at the last rate only
Facts = dict[str, Any]


# --- one process


def worker(task: Facts) -> Facts:
    """Steps for so many seconds, after some that are not counted; words/s of the whole batch, and bytes a step."""
    os.sched_setaffinity(0, {task["core"]})
    use_threads(1)
    keep_memory()
    fields = task["fields"] | {"validate_every": 10**9, "epochs": 1e5, "minutes": 0.0, "schedule": "constant"}
    vocabulary = made_up_words(task["vocabulary"])
    with joined(CPU) as processes:
        torch.manual_seed(1)
        events = iter(trainer_of(vocabulary, fields).run())
        begin = time.perf_counter()
        for _ in range(WARM_UP):
            next(events)
            if not processes.told(time.perf_counter() - begin < task["seconds"] / 5):
                break
        before, start, words, steps = wire_bytes(), time.perf_counter(), 0, 0
        while processes.told(time.perf_counter() - start < task["seconds"] or steps % task["round"] > 0 or not steps):
            words += next(events).tokens  # type: ignore[union-attr]
            steps += 1
        seconds = time.perf_counter() - start
        return {"words_per_second": words / seconds, "step": seconds / steps, "bytes": (wire_bytes() - before) / steps}


def wire_bytes() -> int:
    """Sent and received by this host so far; 0 where it is no namespace of ours."""
    counters = Path(f"/sys/class/net/{INTERFACE}/statistics")
    return sum(int((counters / f"{way}_bytes").read_text()) for way in ("tx", "rx")) if counters.exists() else 0


def start(task: Facts, rank: int, size: int, port: int, host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> Any:
    settings = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    settings |= {"MASTER_ADDR": host, "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": INTERFACE if prefix else "lo"}
    command = [*prefix, sys.executable, __file__, "--worker", json.dumps(task)]
    return subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True)


def finished(processes: Sequence[Any]) -> list[Facts]:
    """What each has printed; the others are ended when one fails."""
    try:
        results = []
        for process in processes:
            out, _ = process.communicate()
            if process.returncode:
                raise SystemExit(f"a process ended with code {process.returncode}")
            results.append(json.loads(out))
        return results
    finally:
        for process in processes:
            process.kill()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# --- two processes against one


def compare_processes(task: Facts, cores: list[int], repeats: int) -> None:
    fields = task["fields"]
    print(f"{fields['hidden_size']} units, batch {fields['batch_size']}, V = {task['vocabulary']:,}, one thread each")
    found: dict[str, list[float]] = {"one process": [], "two together": [], "two independent": []}
    tasks = [task | {"core": core} for core in cores[:2]]
    for _ in range(repeats):
        found["one process"].append(finished([start(tasks[0], 0, 1, 0)])[0]["words_per_second"])
        port = free_port()
        together = finished([start(tasks[rank], rank, 2, port) for rank in (0, 1)])
        found["two together"].append(together[0]["words_per_second"])
        apart = finished([start(each, 0, 1, 0) for each in tasks])
        found["two independent"].append(sum(facts["words_per_second"] for facts in apart))
    one = statistics.median(found["one process"])
    for name, speeds in found.items():
        median = statistics.median(speeds)
        print(f"  {name:16} {median:10,.0f} words/s  {median / one:5.2f} times", flush=True)


# --- two hosts


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.returncode}")


@contextmanager
def two_hosts() -> Iterator[list[str]]:
    """The names of two namespaces that see each other as 10.77.0.1 and 10.77.0.2."""
    hosts = [f"lrnn-{os.getpid()}-{number}" for number in (1, 2)]
    ends = [f"lr{os.getpid() % 10**6}{letter}" for letter in "ab"]
    try:
        for host in hosts:
            run("ip", "netns", "add", host)
        run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for number, (host, end) in enumerate(zip(hosts, ends, strict=True), 1):
            run("ip", "link", "set", end, "netns", host)
            run("ip", "-n", host, "link", "set", end, "name", INTERFACE)
            run("ip", "-n", host, "addr", "add", f"10.77.0.{number}/24", "dev", INTERFACE)
            for device in (INTERFACE, "lo"):
                run("ip", "-n", host, "link", "set", device, "up")
        yield hosts
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", ends[0]], capture_output=True, check=False)


def limit(hosts: list[str], rate: str) -> None:
    """What each host can send; the bucket holds a hundredth of a second."""
    for host in hosts:
        subprocess.run(
            ["ip", "netns", "exec", host, "tc", "qdisc", "del", "dev", INTERFACE, "root"],
            capture_output=True,
            check=False,
        )
        if rate != NO_LIMIT:
            bucket = max(int(bits_per_second(rate) / 8 / 100), 32_000)
            shape = ("rate", rate, "burst", str(bucket), "latency", "100ms")
            run("ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf", *shape)


def bits_per_second(rate: str) -> float:
    unit = next(unit for unit in UNITS if rate.endswith(unit))
    return float(rate.removesuffix(unit)) * UNITS[unit]


def why_not() -> str:
    """Why there can be no namespaces here, or an empty string."""
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    if missing:
        return f"{' and '.join(missing)} not found (Debian: apt-get install iproute2)"
    try:
        with two_hosts() as hosts:
            limit(hosts, "1gbit")
    except OSError as error:
        return str(error)
    return ""


def compare_hosts(tasks: dict[str, Facts], rates: list[str], steps: int, cores: list[int]) -> None:
    if reason := why_not():
        print(f"two hosts: skipped, {reason}")
        return
    print(
        f"two hosts, V = {next(iter(tasks.values()))['vocabulary']:,}: words/s by rate, kept, predicted, bytes a step"
    )
    with two_hosts() as hosts:
        for name, task in tasks.items():
            limit(hosts, NO_LIMIT)
            free = over(hosts, task, cores)
            _tell(name, NO_LIMIT, free, free)
            for rate in rates:
                limit(hosts, rate)
                _tell(name, rate, over(hosts, task, cores), free)
            at = rates[-1:] if free["step"] > SLOW else rates
            for rate in at if steps else []:
                limit(hosts, rate)
                local = {"fields": task["fields"] | {"local_steps": steps}, "round": steps}
                _tell(f"{name}, {steps} local", rate, over(hosts, task | local, cores), free)


def _tell(name: str, rate: str, facts: Facts, free: Facts) -> None:
    """One line; what a host sends is half of what it sends and receives."""
    expected = ""
    if rate != NO_LIMIT:
        sending = facts["bytes"] / 2 * 8 / bits_per_second(rate)
        expected = f"  predicted {free['step'] / (free['step'] + sending):5.2f}"
    kept = facts["words_per_second"] / free["words_per_second"]
    print(
        f"  {name:34} {rate:>8} {facts['words_per_second']:10,.0f} words/s  kept {kept:5.2f}{expected:18}"
        f"  {human_bytes(int(facts['bytes'])):>9} a step of {facts['step']:.3f} s",
        flush=True,
    )


def over(hosts: list[str], task: Facts, cores: list[int]) -> Facts:
    prefixes = [("ip", "netns", "exec", host) for host in hosts]
    each = [task | {"core": core} for core in cores[:2]]
    return finished([start(each[rank], rank, 2, 29_500, "10.77.0.1", prefixes[rank]) for rank in (0, 1)])[0]


def models(vocabulary: int, shared: Facts, units: int, opponent_units: int, kinds: list[str]) -> dict[str, Facts]:
    """Fields by name, those of some kinds; LightRNN at both sizes, opponents at their own."""
    found: dict[str, Facts] = {}
    for kind in kinds:
        if kind != LIGHTRNN:
            found[f"{kind} {opponent_units}"] = {"hidden_size": opponent_units, "model": kind}
            continue
        for size in dict.fromkeys((units, opponent_units)):
            found[f"{kind} {size}"] = {"hidden_size": size}
            found[f"{kind} {size}, words alone"] = {"hidden_size": size, **with_words_alone(vocabulary, size)}
    return {name: shared | fields for name, fields in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=["processes", "hosts"], default=["processes", "hosts"])
    parser.add_argument("--vocabulary", type=int, default=793_881)
    parser.add_argument("--units", type=int, default=650)
    parser.add_argument("--opponent-units", type=int, default=200, help="so that two full softmaxes fit into memory")
    parser.add_argument("--kinds", nargs="*", default=[LIGHTRNN, "hsm", "full"], help="between hosts")
    parser.add_argument("--batch-size", type=int, default=40)
    parser.add_argument("--window", type=int, default=35)
    parser.add_argument("--rates", nargs="*", default=["1gbit", "100mbit"])
    parser.add_argument("--exchange", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--local-steps", type=int, default=8, help="0: none are measured")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(worker(json.loads(arguments.worker))))
        return
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that namespaces are removed
    cores = sorted(os.sched_getaffinity(0))
    cores = cores if len(cores) > 1 else cores * 2  # two processes on one core: to try the script, not to measure
    shared = {"batch_size": arguments.batch_size, "window": arguments.window, "optimizer": "adam"}
    shared["exchange"] = arguments.exchange
    sizes = arguments.vocabulary, shared, arguments.units, arguments.opponent_units
    base = {"vocabulary": arguments.vocabulary, "seconds": arguments.seconds, "round": 1}
    if "processes" in arguments.parts:
        fields = models(*sizes, [LIGHTRNN])[f"{LIGHTRNN} {arguments.units}"]
        compare_processes(base | {"fields": fields}, cores, arguments.repeats)
    if "hosts" in arguments.parts:
        tasks = {name: base | {"fields": chosen} for name, chosen in models(*sizes, arguments.kinds).items()}
        compare_hosts(tasks, arguments.rates, arguments.local_steps, cores)


if __name__ == "__main__":
    main()

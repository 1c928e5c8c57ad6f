"""The processes that train together, and what they tell each other.

Started by torchrun, or by anything that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, a process joins the others
(`joined`), and whoever asks `here()` finds itself one of several. A process by itself has nobody to tell: all that is
asked then gives back what it was given, and costs nothing.

Process 0 leads: it decides, reads and writes, and the others follow. What they tell each other is JSON and numbers:
nothing is pickled. PyTorch is imported where there are others.
"""

import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import LightRNNError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

JOIN = timedelta(seconds=120)  # for all processes to appear and connect
WAIT = timedelta(days=7)  # for the leader, who may be making a table; a process that ends is noticed at once
SHORT = 248  # bytes of JSON that go with the first message

T = TypeVar("T")


class ToldElsewhere(LightRNNError):
    """A mistake that another process tells: this one ends without a word."""


@dataclass(frozen=True)
class Share:
    """The tracks of a batch that are this process's, of so many in all; at least one, which counts nothing (weight 0)
    where there are more processes than tracks."""

    tracks: slice
    of: int
    weight: float = 1.0

    @property
    def size(self) -> int:
        return int(self.tracks.stop - self.tracks.start)

    @property
    def is_all(self) -> bool:
        return self.size == self.of


class Processes:
    """A process by itself, and what it has in common with one of several."""

    rank = 0
    size = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def bounds(self, total: int) -> tuple[int, int]:
        """Where this process's part of so many things begins and ends; the parts are of one size, but for one."""
        return total * self.rank // self.size, total * (self.rank + 1) // self.size

    def share(self, tracks: int) -> Share:
        begin, stop = self.bounds(tracks)
        return Share(slice(begin, stop), tracks) if begin < stop else Share(slice(0, 1), tracks, weight=0.0)

    def error(self, message: str) -> LightRNNError:
        """For a mistake that all processes find alike: only the leader tells it."""
        return LightRNNError(message) if self.leads else ToldElsewhere(message)

    def led(self, decide: Callable[[], T]) -> T:
        """What the leader decides or finds, and the others hear; something that JSON can say."""
        return decide()

    def told(self, value: T) -> T:
        """The leader's value."""
        return self.led(lambda: value)

    def heard(self, value: T) -> list[T]:
        """The values of all, by rank; something that JSON can say."""
        return [value]

    def call(self, what: str, **settings: Any) -> None:
        """The leader asks the others, who wait in `called`, to do their part of something."""

    def called(self) -> tuple[str, dict[str, Any]]:
        raise AssertionError("a process by itself leads")

    def sent(self, tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
        """The leader's tensors, by name; what the others give is of no interest."""
        return dict(tensors)

    def add(self, tensors: "Sequence[Tensor]") -> None:
        """Put the sum over all processes in the place of each of these tensors, dense or sparse."""

    def add_up(self, tensor: "Tensor") -> None:
        """The same of one tensor, for the leader only: what the others keep is undefined."""

    def collected(self, array: "NDArray[np.generic]") -> "list[NDArray[Any]]":
        """The leader gets the arrays of all by rank, one dimension, one type; the others only their own."""
        return [array]


_here = Processes()


def here() -> Processes:
    """The processes as this one sees them."""
    return _here


def local_rank() -> int:
    """Which of its host's processes this one is."""
    return _from_environment("LOCAL_RANK", 0)


def restarts() -> int:
    """How often torchrun has started this job anew after a process died."""
    return _from_environment("TORCHELASTIC_RESTART_COUNT", 0)


@contextmanager
def joined(device: "torch.device") -> Iterator[Processes]:
    """During the block this process is one of those that were started together; where none were, it is by itself."""
    global _here  # noqa: PLW0603
    size = _from_environment("WORLD_SIZE", 1)
    if size < 2:
        yield _here
        return
    try:
        _here = several = _connected(_from_environment("RANK", None), size, device.type == "cuda")
    except LightRNNError as error:
        raise error if local_rank() == 0 else ToldElsewhere(str(error)) from None
    try:
        yield several
        several.heard(None)  # nobody leaves while others are still at it
    finally:
        several.leave()
        _here = Processes()


def _connected(rank: int, size: int, on_cuda: bool) -> "_Several":
    from torch import distributed

    store, backend = _store(rank, size), "cpu:gloo,cuda:nccl" if on_cuda else "gloo"
    try:
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=JOIN)
        distributed.barrier()
        group = distributed.new_group(timeout=WAIT, backend=backend)  # the same, now that all are known to answer
    except (RuntimeError, ValueError) as error:
        raise LightRNNError(
            f"the {size} processes cannot connect to each other ({_first_line(error)}); name the network interface of "
            "each host with GLOO_SOCKET_IFNAME, and check that firewalls let them through"
        ) from None
    return _Several(rank, size, group)


def _from_environment(name: str, default: int | None) -> int:
    value = os.environ.get(name, "" if default is None else str(default))
    if not value.isdecimal():
        raise LightRNNError(f"{name} must be a whole number beside WORLD_SIZE, got {value!r}; start with torchrun")
    return int(value)


def _store(rank: int, size: int) -> Any:
    """Where the processes find each other: torchrun's, or at MASTER_ADDR and MASTER_PORT the leader's own."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    host, port = os.environ.get("MASTER_ADDR", ""), _from_environment("MASTER_PORT", None)
    try:
        socket.getaddrinfo(host or None, port)
    except (OSError, UnicodeError) as error:
        raise LightRNNError(
            f"MASTER_ADDR {host!r} is no address that this host can resolve ({error}); give the address of the host of "
            "process 0, with torchrun --master-addr or --rdzv-endpoint"
        ) from None
    is_torchruns = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        store = TCPStore(host, port, size, is_master=rank == 0 and not is_torchruns, timeout=JOIN)
    except (RuntimeError, ValueError) as error:
        if "EADDRINUSE" in str(error) or "already in use" in str(error):
            reason = f"port {port} is in use on this host; choose another MASTER_PORT, with torchrun --master-port"
        else:
            reason = (
                f"not all of the {size} processes came to {host}:{port} within {JOIN.seconds} s "
                f"({_first_line(error)}); start all of them, and check address, port and firewalls"
            )
        raise LightRNNError(reason) from None
    return PrefixStore(f"lightrnn/{restarts()}", store)


def _first_line(error: BaseException) -> str:
    """What PyTorch says first, without the place in its source."""
    line = str(error).strip().partition("\n")[0]
    return re.sub(r"^\[[^\]]*\]\s*", "", line).partition(". ")[0][:200]


@contextmanager
def _others() -> Iterator[None]:
    """What PyTorch says when another process is not there any more, in our words."""
    try:
        yield
    except RuntimeError as error:
        raise _here.error(
            f"another process has ended ({_first_line(error)}); go on with --resume, or let torchrun --max-restarts N "
            "start all of them again by itself"
        ) from None


class _Several(Processes):
    """One of several. Everything here is called by all of them, in the same order."""

    def __init__(self, rank: int, size: int, group: Any) -> None:
        self.rank, self.size, self._group = rank, size, group

    def leave(self) -> None:
        """Let go of the others. PyTorch ends a group's threads when nobody holds the group any more; a thread that
        outlives Python's own end may abort the process."""
        from torch import distributed

        self._group = None
        distributed.destroy_process_group()

    def led(self, decide: Callable[[], T]) -> T:
        value: T = json.loads(self._said(json.dumps(decide()).encode() if self.leads else b"", leader=0))
        return value

    def heard(self, value: T) -> list[T]:
        said = json.dumps(value).encode()
        return [json.loads(self._said(said, leader)) for leader in range(self.size)]

    def call(self, what: str, **settings: Any) -> None:
        if self.leads:
            self.told((what, settings))

    def called(self) -> tuple[str, dict[str, Any]]:
        asked: tuple[str, dict[str, Any]] = self.told(("", {}))
        return asked

    def sent(self, tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
        import torch

        here = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()} if self.leads else {}
        forms = [(name, str(t.dtype).removeprefix("torch."), list(t.shape)) for name, t in here.items()]
        found = {}
        for name, dtype, shape in self.told(forms):
            found[name] = here[name] if self.leads else torch.empty(shape, dtype=getattr(torch, dtype))
            if found[name].numel():
                self._broadcast(found[name].view(-1).view(torch.uint8), 0)
        return found

    def add(self, tensors: "Sequence[Tensor]") -> None:
        from torch import distributed

        with _others():
            for tensor in tensors:
                distributed.all_reduce(tensor, group=self._group)

    def add_up(self, tensor: "Tensor") -> None:
        from torch import distributed

        with _others():
            distributed.reduce(tensor, 0, group=self._group)

    def collected(self, array: "NDArray[np.generic]") -> "list[NDArray[Any]]":
        import torch
        from torch import distributed

        sizes = self.heard(len(array))
        own = torch.from_numpy(array).contiguous()
        with _others():
            if not self.leads:
                distributed.send(own, 0, group=self._group)
                return [array]
            found = [own, *(torch.empty(size, dtype=own.dtype) for size in sizes[1:])]
            for rank, tensor in enumerate(found[1:], 1):
                distributed.recv(tensor, rank, group=self._group)
        return [tensor.numpy() for tensor in found]

    def _said(self, said: bytes, leader: int) -> bytes:
        """Bytes of one process for all: their number and the first of them, then the rest."""
        first = self._shown(len(said).to_bytes(8, "little") + said[:SHORT].ljust(SHORT, b"\0"), leader)
        length = int.from_bytes(first[:8], "little")
        if length <= SHORT:
            return first[8 : 8 + length]
        return first[8:] + self._shown(said[SHORT:].ljust(length - SHORT, b"\0")[: length - SHORT], leader)

    def _shown(self, said: bytes, leader: int) -> bytes:
        """The leader's bytes, of which all have as many."""
        import torch

        buffer = torch.frombuffer(bytearray(said), dtype=torch.uint8)
        self._broadcast(buffer, leader)
        return buffer.numpy().tobytes()

    def _broadcast(self, tensor: "Tensor", leader: int) -> None:
        from torch import distributed

        with _others():
            distributed.broadcast(tensor, leader, group=self._group)

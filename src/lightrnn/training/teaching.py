"""A teacher: a larger LightRNN, or a mix of some, whose distributions a smaller one learns besides the text.

Shapes: B batch, S codes, K most codes of a word, P places where a word begins, V vocabulary, M words in common, n
outcomes of a model's first softmax, H hidden, F features.

Where a word begins, teacher and student have in common the M words that stand alone in both (where there is a head, in
it), and all others as one: M + 1 outcomes, of which each has exact probabilities, q the teacher's and p the student's.
With o(w) the outcome that word w is, P(w) = p(o(w)) · P(w | o(w)), and a share a of the first part's loss comes from
the teacher (Hinton et al., 2015):

    loss(w) = -(1 - a) · log p(o(w)) - a · Σ_o q(o) · log p(o) - log P(w | o(w))
            = -log P(w) - a · Σ_o (q(o) - [o = o(w)]) · s(o)

with s the scores of which p is the softmax: its normaliser cancels out, so that no softmax of the student is added.
What is among the others, and columns, the student learns from the text alone.

The teacher reads along: the student's codes are put together to words, and the words that ended in a window are what
the teacher reads, in its own codes, after what it read before on the same tracks. So it needs no places in the text and
no pass over it beforehand, sees what the student sees (words read as unknown, sentences that start afresh), has the
tracks that its process has, and does not mind that windows end inside words and that tables change. Its state is not
saved: a run that is resumed has it read the epoch again up to where it was. Where all epochs read the same windows,
what the words were scored by is kept, if it is not too much (KEPT).
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from socket import gethostname
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config import ModelConfig
from ..errors import LightRNNError
from ..inference.lm import LM
from ..inference.loading import load
from ..inference.mixture import Mix, translation
from ..inference.network import NetworkLM
from ..models.base import State, select_state
from ..models.kind import kind_of
from ..models.lightrnn import LightRNN
from ..processes import here
from ..text.spelling import Codes, Ids
from ..text.vocabulary import Vocabulary
from ..text.windows import Window

KEPT = 2e9  # bytes that the features of a text may take in a process

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Member:
    """A network of the teacher's, and its weight; ids may be other than the student's, the words must be the same."""

    network: LightRNN
    vocabulary: Vocabulary
    weight: float


@dataclass(frozen=True)
class Teacher:
    """A trained model as a teacher; digest: of all that its distributions depend on."""

    path: Path
    members: tuple[Member, ...]
    digest: str

    @classmethod
    def load(cls, path: str | Path) -> "Teacher":
        """A model folder, a packed file, or a mix of such, of LightRNNs in which words stand alone."""
        members = tuple(_members(load(path), 1.0, Path(path)))
        hashed = hashlib.sha256()
        for member in members:
            config = member.network.config
            hashed.update(json.dumps([config.cell, config.head, member.vocabulary.digest, member.weight]).encode())
            for name, tensor in sorted(member.network.state_dict().items()):
                hashed.update(name.encode() + tensor.numpy().tobytes())
        return cls(Path(path).absolute(), members, hashed.hexdigest())

    @property
    def facts(self) -> dict[str, str]:
        """What a run remembers it by."""
        return {"path": str(self.path), "digest": self.digest}

    @classmethod
    def remembered(cls, facts: dict[str, str], teacher: "Teacher | None" = None) -> "Teacher":
        """The teacher of a run that goes on, where it was and as it was; teacher: one that may be it."""
        if teacher is not None and teacher.digest == facts["digest"]:
            return teacher
        path, remedy = facts["path"], "put back what it was, or train again into another folder"
        try:
            found = cls.load(path)
        except LightRNNError as error:
            raise LightRNNError(f"the run learns from a teacher that cannot be read ({error}); {remedy}") from None
        if found.digest != facts["digest"]:
            raise LightRNNError(f"{path} is not the teacher any more that the run has learned from; {remedy}")
        return found

    def ids(self, vocabulary: Vocabulary) -> list[Ids]:
        """(V,) of each member: its ids of the words of a vocabulary, which must be its own words."""
        found = []
        for member in self.members:
            ids, _ = translation(vocabulary, member.vocabulary)
            if len(np.unique(ids)) < len(vocabulary) or len(vocabulary) != len(member.vocabulary):
                raise LightRNNError(
                    f"{self.path.name} has other words than the data, and a teacher must have the same; train it on "
                    "the same data folder, or prepare the text with --vocab TEACHER"
                )
            found.append(ids)
        return found


def _members(lm: LM, weight: float, path: Path) -> Iterator[Member]:
    if isinstance(lm, Mix):
        for member, part in zip(lm.members, lm.weights, strict=True):
            yield from _members(member, weight * part, path)
    elif not isinstance(lm, NetworkLM) or not kind_of(lm.config).has_table:
        raise LightRNNError(f"{path} is no LightRNN or mix of LightRNNs, which a teacher must be; give one")
    elif lm.config.alone == 0:
        raise LightRNNError(f"in {path} no words stand alone, which a teacher needs; train one with --alone auto")
    else:
        network = cast(LightRNN, lm.model).eval().requires_grad_(requires_grad=False)
        yield Member(network, lm.vocabulary, weight)


def teacher_of_all(facts: dict[str, str] | None, teacher: Teacher | None) -> Teacher | None:
    """In all processes that train together: each reads the teacher on its host, unless it has it; a mistake is told
    once."""
    if facts is None:
        return None
    mistake = ""
    try:
        teacher = Teacher.remembered(facts, teacher)
    except LightRNNError as error:
        mistake = str(error)
    for rank, (host, told) in enumerate(here().heard([gethostname(), mistake])):
        if told:
            raise here().error(f"{told} (process {rank}, on {host})")
    return teacher


class Lessons:
    """What a teacher makes of a student's mini-batches, one after the other.

    share: a, the teacher's part of the loss. repeated: words of which every epoch reads the same windows, 0 if none.
    """

    def __init__(
        self, teacher: Teacher, student: LightRNN, vocabulary: Vocabulary, share: float, repeated: int = 0
    ) -> None:
        self._student, self._share, self._table = student, share, student.table
        ids = teacher.ids(vocabulary)
        known = [m.network.table.codes[words, 0] for m, words in zip(teacher.members, ids, strict=True)]  # (V,) each
        words = self._table.words[: _apart(student)]
        for member, rows in zip(teacher.members, known, strict=True):
            words = words[rows[words] < _apart(member.network)]
        if len(words) == 0:
            raise LightRNNError(
                "no word stands alone in both the teacher and the student, so that there is nothing to teach; raise "
                "--alone, and --head where it is used"
            )
        device = student.codes.device
        rows = self._table.codes[words, 0]
        self._outcomes = Outcomes(rows, student, device)
        outcome_of = np.full(student.shape[0], len(words))
        outcome_of[rows] = np.arange(len(words))
        self._outcome_of = torch.from_numpy(outcome_of).to(device)  # of each row
        self._readers = [
            _Reader(member, of_words, Outcomes(rows[words], member.network, device), device)
            for member, of_words, rows in zip(teacher.members, ids, known, strict=True)
        ]
        self._keeps = 0 < repeated * sum(4 * reader.width for reader in self._readers) <= KEPT
        self._kept: dict[int, list[Tensor]] = {}  # by the window's number in the epoch

    def losses(self, window: Window, number: int, before: State | None) -> tuple[Tensor, Tensor, State]:
        """The text's losses of a window, (B, S), as RecurrentModel.losses has them; the losses to minimise; the
        student's state. number: which window of its epoch it is."""
        student = self._student
        codes = torch.from_numpy(window.codes).to(student.codes.device)
        features, after = student.features(codes, before)
        targets = codes[:, student.components :]
        where = (targets.flatten() < student.shape[0]).nonzero().squeeze(1)  # (P,)
        scores = student.first_scores(features.flatten(0, 1)[where])  # (P, n)
        losses = -student.scored_together(codes, features, scores).float().squeeze(-1)
        outcomes = self._outcome_of[targets.flatten()[where]][:, None]
        beyond = self._taught(window, number)  # q, from which what the text says is taken: (P, M+1)
        beyond.scatter_add_(1, outcomes, beyond.new_full(outcomes.shape, -1.0))
        lesson = (beyond * self._outcomes(scores).float()).sum(dim=-1)
        taught = losses.flatten().index_add(0, where, -self._share * lesson)
        return losses, taught.view_as(losses), after

    def catch_up(self, windows: Callable[[int], Iterator[Window]], number: int) -> None:
        """Read again what window `number` of an epoch goes on from, or is to be kept: the windows before it, from the
        last on that started; windows: those of the epoch from a number on."""
        starts = [window.starts for window in islice(windows(0), number + 1)]
        goes_on = len(starts) > number and not starts[number]
        if goes_on or (self._keeps and number):
            first = max(at for at in range(number) if starts[at])
            for at, window in enumerate(islice(windows(first), number - first), first):
                self._features(window, at)

    @torch.no_grad()
    def _taught(self, window: Window, number: int) -> Tensor:
        """q: (P, M+1)."""
        q = [r.distributions(f) for r, f in zip(self._readers, self._features(window, number), strict=True)]
        return q[0] if len(q) == 1 else torch.stack(q).sum(dim=0)

    @torch.no_grad()
    def _features(self, window: Window, number: int) -> list[Tensor]:
        """What each member scores the words by that begin in the window: (P, F)."""
        if number in self._kept:
            return self._kept[number]
        words, lengths = self._ended(window.codes)
        found = [reader.read(words, lengths, window.starts) for reader in self._readers]
        if self._keeps:
            self._kept[number] = found
        return found

    def _ended(self, codes: Codes) -> tuple[Numbers, Numbers]:
        """(P,) and (B,): the words that end with a code that the student is fed in a window, track by track, and how
        many each track has. After each of them, and nowhere else, a word begins."""
        K, last = self._table.components, self._student.offsets[-1]
        fed = codes[:, K - 1 : -1]
        ends = (fed < self._table.alone) | (fed >= last)
        tracks, steps = ends.nonzero()
        return self._table.words_of(codes[tracks[:, None], steps[:, None] + np.arange(K)]), ends.sum(axis=1)


def _apart(model: LightRNN) -> int:
    """How many words have an outcome each of the model's first softmax: those of the first rows."""
    return model.head or model.alone


class Outcomes:
    """The scores of the M + 1 outcomes, from those of a model's first softmax, (P, n) → (P, M+1): words by their rows
    (M,), and all others, if there are any, as one."""

    def __init__(self, rows: Numbers, model: LightRNN, device: torch.device) -> None:
        size = model.head + 1 if model.head else model.shape[0]
        others = np.setdiff1d(np.arange(size), rows)
        self._are_these = len(others) <= 1 and np.array_equal(rows, np.arange(len(rows)))
        self._rows, self._others = (torch.from_numpy(numbers).to(device) for numbers in (rows, others))

    def __call__(self, scores: Tensor) -> Tensor:
        if self._are_these:
            return scores
        scores = scores.float()  # sums of thousands
        words = scores[:, self._rows]
        if len(self._others) == 0:
            return words
        return torch.cat([words, scores[:, self._others].logsumexp(dim=1, keepdim=True)], dim=1)


class _Reader:
    """A member of the teacher that reads words along with a student, and its state."""

    def __init__(self, member: Member, ids: Ids, outcomes: Outcomes, device: torch.device) -> None:
        self._network, self._weight = member.network.to(device), member.weight
        self._outcomes = outcomes
        assert member.network.spelling.codes is not None
        self._spelled = member.network.spelling.codes[ids]  # (V, K): of the student's words
        self._state: State = ()
        self.width = self._network.scoring_vectors(0).shape[1]

    def distributions(self, features: Tensor) -> Tensor:
        """(P, F) → (P, M+1), times its weight."""
        found = self._outcomes(self._network.first_scores(features)).float().softmax(dim=-1)
        return found if self._weight == 1 else self._weight * found

    def read(self, words: Numbers, lengths: Numbers, starts: bool) -> Tensor:
        """The features after each of the words (P,), of which the tracks have so many (B,), one track after the other.
        Tracks that start do so with a word that is read whole."""
        network, tracks = self._network, np.repeat(np.arange(len(lengths)), lengths)
        if starts:
            self._state = network.initial_state(len(lengths))
        spelled = self._spelled[words]  # (P, K)
        each = (spelled >= 0).sum(axis=1)
        sizes = np.bincount(tracks, each, minlength=len(lengths)).astype(np.int64)  # codes of each track
        codes = np.zeros((len(lengths), int(sizes.max())), np.int64)
        codes[np.arange(codes.shape[1]) < sizes[:, None]] = spelled[spelled >= 0]
        steps = np.cumsum(each) - (np.cumsum(sizes) - sizes)[tracks] - 1  # a word's last code, counted in its track
        outputs = self._outputs(codes, sizes)
        return cast(Tensor, network.projection(outputs[torch.from_numpy(tracks), torch.from_numpy(steps)]))

    def _outputs(self, codes: Codes, sizes: Numbers) -> Tensor:
        """Feed codes (B, S), of each track as many as its size; returns the outputs (B, S, H).

        What all tracks have is fed at once, then what all but the shortest have, and so on.
        """
        fed = torch.from_numpy(codes).to(self._state[0].device)
        outputs = self._state[0].new_zeros(*codes.shape, self._network.config.hidden_size)
        begin = 0
        for end in np.unique(sizes[sizes > 0]).tolist():
            alive = torch.from_numpy(np.flatnonzero(sizes >= end)).to(fed.device)
            found, after = self._network.read(fed[alive, begin:end], select_state(self._state, alive))
            outputs[alive, begin:end] = found.to(outputs.dtype)
            for tensor, new in zip(self._state, after, strict=True):
                tensor[:, alive] = new.to(tensor.dtype)
            begin = end
        return outputs


def check_student(config: ModelConfig, teacher: Teacher, vocabulary: Vocabulary) -> None:
    """Refuse a student that the teacher has nothing in common with."""
    if not kind_of(config).has_table:
        raise LightRNNError(f"--teacher is for LightRNNs, got it with --model {config.model}; leave it out")
    if config.alone == 0:
        raise LightRNNError("--teacher needs words that stand alone in the student too; give it --alone N or auto")
    teacher.ids(vocabulary)

"""A teacher: what it teaches, against an oracle; that it helps; that a run with one goes on like any other."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import CPU, FAST, network_of, outcome_of, random_lightrnn, vocabulary_of
from lightrnn.config import Recipe
from lightrnn.errors import LightRNNError
from lightrnn.inference.loading import load, save_mix
from lightrnn.models.checkpoint import load_lightrnn
from lightrnn.models.lightrnn import LightRNN
from lightrnn.packed.model import write
from lightrnn.processes import Processes, ToldElsewhere
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary
from lightrnn.text.windows import sentence_windows, stream_windows
from lightrnn.training import bootstrap, teaching
from lightrnn.training.fitting import fitted
from lightrnn.training.teaching import Lessons, Member, Teacher
from lightrnn.training.trainer import Validated, start_state
from oracle import Oracle, oracle_of

V, SHARE = 23, 0.3
PAIRS = {  # student and teachers, each a LightRNN of 23 words; which words stand alone depends on the seed
    "equal heads": ({"alone": 9, "head": 5}, [{"alone": 9, "head": 5, "units": 11}]),
    "the student's head is smaller": ({"alone": 12, "head": 4, "tied": True}, [{"alone": 15, "head": 10, "K": 3}]),
    "the teacher's head is smaller": ({"alone": 15, "head": 14}, [{"alone": 12, "head": 9, "cell": "gru"}]),
    "no heads": ({"alone": 8, "K": 3, "cell": "rnn-sigmoid"}, [{"alone": 13, "layers": 2, "seed": 5}]),
    "all words alone": ({"alone": V}, [{"alone": V, "tied": True}]),
    "others only in the teacher": ({"alone": V}, [{"alone": 14, "bias": False}]),
    "a mix": ({"alone": 14, "head": 9}, [{"alone": 15, "seed": 3}, {"alone": 16, "head": 13, "seed": 4}]),
}


def models_of(pair: str) -> tuple[LightRNN, list[LightRNN]]:
    student, teachers = PAIRS[pair]
    return random_lightrnn(V=V, **student), [random_lightrnn(V=V, **{"seed": 0} | teacher) for teacher in teachers]


def teacher_of(networks: Sequence[LightRNN], vocabulary: Vocabulary) -> Teacher:
    weights = [1.0] if len(networks) == 1 else [0.25, 0.75]
    return Teacher(Path("teacher"), tuple(Member(n, vocabulary, w) for n, w in zip(networks, weights, strict=True)), "")


def row_distributions(oracle: Oracle, words: Sequence[int], whole: bool) -> list[np.ndarray]:
    """P of each row after word 0, after word 1, …; whole: all codes of word 0 are fed, else its last one."""
    state, found = oracle.start(), []
    for place, word in enumerate(words):
        for s, code in enumerate(codes := oracle.codes_of(word)):
            if whole or place or s == len(codes) - 1:
                h, state = oracle.f(oracle.input_vectors[s][code], state)
        found.append(oracle.softmax(0, h, []))
    return found


def apart(oracle: Oracle) -> set[int]:
    """The words whose probability is one of the first softmax's own."""
    alone = [word for word in range(V) if len(oracle.codes_of(word)) == 1]
    return {word for word in alone if not oracle.head or oracle.codes_of(word)[0] < oracle.head}


def outcomes(oracle: Oracle, rows: np.ndarray, words: Sequence[int]) -> np.ndarray:
    """P of each of some words that stand alone, and of all others."""
    found = [rows[oracle.codes_of(word)[0]] for word in words]
    return np.array([*found, max(1 - sum(found), 1e-300)])


def expected_losses(student: Oracle, teachers: list[Oracle], words: Sequence[int], whole: bool) -> np.ndarray:
    """Of words 1, 2, …: the text's loss and the one that is minimised, (T, 2)."""
    common = sorted(set.intersection(*(apart(oracle) for oracle in (student, *teachers))))
    assert common
    p = [outcomes(student, rows, common) for rows in row_distributions(student, words, whole)]
    weights = [1.0] if len(teachers) == 1 else [0.25, 0.75]
    q = np.tensordot(
        weights,
        [[outcomes(oracle, rows, common) for rows in row_distributions(oracle, words, True)] for oracle in teachers],
        axes=1,
    )
    log_probs = student.score(words, None if whole else student.start())[0].sum(axis=1)
    found = []
    for place, word in enumerate(words[1:]):
        known = np.log(p[place][common.index(word) if word in common else -1])
        within = log_probs[place] - known
        taught = -(1 - SHARE) * known - SHARE * (q[place] * np.log(p[place])).sum() - within
        found.append((-log_probs[place], taught))
    return np.array(found)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_stream_is_taught_as_the_oracle_teaches_it(pair: str) -> None:
    """One track, in windows that end inside words."""
    (student, networks), vocabulary = models_of(pair), vocabulary_of(V)
    ids = np.random.default_rng(1).integers(V, size=60).astype(np.int32)
    lessons = Lessons(teacher_of(networks, vocabulary), student, vocabulary, SHARE)
    pieces, state = [], None
    for number, window in enumerate(stream_windows(ids, student.spelling, vocabulary.bos_id, 1, 7)):
        state = start_state(student, window) if window.starts else state
        losses, taught, state = lessons.losses(window, number, state)
        pieces.append(torch.stack([losses, taught], dim=-1)[0].detach().numpy())
    by_code = np.concatenate(pieces)
    by_word = np.add.reduceat(by_code, student.spelling.ends(ids)[:-1])
    words = [vocabulary.bos_id, *ids.tolist()]
    expected = expected_losses(oracle_of(student), [oracle_of(n) for n in networks], words, whole=False)
    np.testing.assert_allclose(by_word, expected, atol=1e-4)  # nats of float32, some up to 20
    assert np.abs(expected[:, 0] - expected[:, 1]).max() > 0.1


@pytest.mark.parametrize("pair", PAIRS)
def test_sentences_are_taught_as_the_oracle_teaches_them(pair: str) -> None:
    """Batches of sentences of unlike lengths, longer ones in several windows."""
    (student, networks), vocabulary = models_of(pair), vocabulary_of(V)
    ids = np.random.default_rng(2).integers(V, size=70).astype(np.int32)
    ids[-1], eos = vocabulary.eos_id, vocabulary.eos_id
    lessons = Lessons(teacher_of(networks, vocabulary), student, vocabulary, SHARE)
    order, found, expected = np.random.default_rng(3), 0.0, 0.0
    state, windows = None, 0
    for window in sentence_windows(ids, student.spelling, vocabulary.bos_id, eos, 3, 5, order):
        state = start_state(student, window) if window.starts else state
        *both, state = lessons.losses(window, 0, state)
        found += np.array([(losses.detach().numpy() * window.mask).sum() for losses in both])
        windows += 1
    for sentence in np.split(ids, np.flatnonzero(ids == eos)[:-1] + 1):
        words = [vocabulary.bos_id, *sentence.tolist()]
        oracles = [oracle_of(n) for n in networks]
        expected += expected_losses(oracle_of(student), oracles, words, whole=True).sum(axis=0)
    assert windows > 3
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_tracks_do_not_mind_each_other() -> None:
    """Tracks begin inside words, and have as many codes, but not as many words."""
    (student, networks), vocabulary = models_of("no heads"), vocabulary_of(V)
    ids = np.random.default_rng(4).integers(V, size=400).astype(np.int32)

    def taught(tracks: slice) -> torch.Tensor:
        lessons, state, found = Lessons(teacher_of(networks, vocabulary), student, vocabulary, SHARE), None, []
        for number, window in enumerate(stream_windows(ids, student.spelling, vocabulary.bos_id, 5, 6)):
            own = window.part(tracks)
            state = start_state(student, own) if own.starts else state
            _, losses, state = lessons.losses(own, number, state)
            found.append(losses.detach())
        return torch.cat(found, dim=1)

    together = taught(slice(0, 5))
    for track in range(5):
        torch.testing.assert_close(taught(slice(track, track + 1))[0], together[track], atol=1e-4, rtol=0)


def test_the_gradient_is_that_of_the_losses_told() -> None:
    (student, networks), vocabulary = models_of("equal heads"), vocabulary_of(V)
    student, networks = student.double(), [network.double() for network in networks]
    ids = np.random.default_rng(5).integers(V, size=30).astype(np.int32)
    window = next(stream_windows(ids, student.spelling, vocabulary.bos_id, 2, 9))
    lessons = Lessons(teacher_of(networks, vocabulary), student, vocabulary, SHARE)

    def minimised() -> torch.Tensor:
        return lessons.losses(window, 0, student.initial_state(2))[1].double().sum()

    minimised().backward()
    for parameter in (student.rest_vector, student.output_bias[0], student.recurrence.weight_hh_l0):
        direction, step = torch.randn_like(parameter), 1e-3  # losses are told in float32
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(direction, alpha=sign * step)
                ends.append(minimised().item())
                parameter.sub_(direction, alpha=sign * step)
        slope = (ends[0] - ends[1]) / (2 * step)
        assert (parameter.grad * direction).sum().item() == pytest.approx(slope, rel=1e-3, abs=1e-2)


# --- runs

LARGE = FAST.override({"hidden_size": 32, "alone": 30, "head": 24, "epochs": 4, "dropout": 0.0})
SMALL = FAST.override({"hidden_size": 6, "alone": 20, "head": 12, "epochs": 1.4})


@pytest.fixture(scope="module")
def sentences(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The tiny corpus in the sentence convention."""
    texts = {split: tiny.path.parent / f"{split}.txt" for split in ("train", "valid")}
    return prepare(out=tmp_path_factory.mktemp("sentences") / "data", rules=TextRules(convention="sentence"), **texts)


@pytest.fixture(scope="module")
def large(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large") / "large"
    bootstrap.train(tiny, LARGE, folder, device=CPU)
    return folder


def train(corpus: Corpus, recipe: Recipe, folder: Path, teacher: Path | None, **options: Any) -> list[Validated]:
    events: list[Any] = []
    given = Teacher.load(teacher) if teacher else None
    options = {"report": lambda run, event: events.append(event)} | options
    bootstrap.train(corpus, recipe, folder, teacher=given, device=CPU, **options)
    return [event for event in events if isinstance(event, Validated)]


def test_a_share_of_nothing_is_no_teacher(tiny: Corpus, large: Path, tmp_path: Path) -> None:
    recipe = SMALL.override({"teacher_share": 0.0})
    train(tiny, recipe, tmp_path / "taught", large)
    train(tiny, recipe, tmp_path / "alone", None)
    taught, alone = outcome_of(tmp_path / "taught"), outcome_of(tmp_path / "alone")
    assert taught.pop("config.json") != alone.pop("config.json")  # it names the teacher
    assert taught == alone


def divergence(teacher: Path, student: Path, ids: np.ndarray) -> float:
    """KL(teacher, student) over all words, in nats a word."""
    lms = [load(path) for path in (teacher, student)]
    states, total = [lm.stream_state() for lm in lms], 0.0
    for word in ids.tolist():
        q, p = (lm.next_log_probs(state) for lm, state in zip(lms, states, strict=True))
        total += float((np.exp(q) * (q - p)).sum())
        states = [lm.read_word(state, word)[1] for lm, state in zip(lms, states, strict=True)]
    return total / len(ids)


def test_a_student_comes_nearer_to_its_teacher(tiny: Corpus, large: Path, tmp_path: Path) -> None:
    recipe = SMALL.override({"hidden_size": 16, "alone": 30, "head": 24, "epochs": 6, "dropout": 0.0})
    train(tiny, recipe.override({"teacher_share": 0.8}), tmp_path / "taught", large)
    train(tiny, recipe, tmp_path / "alone", None)
    alone, taught = (divergence(large, tmp_path / name, tiny.split("valid")[:300]) for name in ("alone", "taught"))
    assert taught < 0.85 * alone  # 0.55 nats without a teacher, 0.37 with one


def test_what_is_told_of_training_is_the_texts_own(tiny: Corpus, large: Path, tmp_path: Path) -> None:
    """At a rate of nearly 0 the weights stay, and so the training perplexity is that without a teacher."""
    recipe = SMALL.override({"learning_rate": 1e-8, "dropout": 0.0, "teacher_share": 1.0, "epochs": 1})
    taught = train(tiny, recipe, tmp_path / "taught", large)[0].train_perplexity
    alone = train(tiny, recipe, tmp_path / "alone", None)[0].train_perplexity
    assert taught == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize(
    ("convention", "fields"),
    [
        ("stream", {}),
        ("stream", {"unk_rate": 0.5, "schedule": "average"}),
        ("stream", {"precision": "bfloat16"}),
        ("stream", {"precision": "bfloat16", "unk_rate": 0.5}),
        ("stream", {"refine": "matching", "round_share": 0.3, "alone": 9, "head": 0}),
        ("sentence", {"window": 6, "epochs": 0.6}),
        ("sentence", {"unk_rate": 0.5, "refine": "cluster", "round_share": 0.3}),
    ],
    ids=str,
)
def test_stopping_anywhere_and_resuming_changes_nothing(
    tiny: Corpus, sentences: Corpus, large: Path, tmp_path: Path, convention: str, fields: dict[str, Any]
) -> None:
    corpus, recipe = {"stream": tiny, "sentence": sentences}[convention], SMALL.override(fields)
    train(corpus, recipe, tmp_path / "whole", large)
    batches = 0

    def stop_now() -> bool:
        nonlocal batches
        batches += 1
        return batches % 23 == 0  # anywhere in an epoch, and between rounds

    teacher = Teacher.load(large)
    outcome = bootstrap.train(corpus, recipe, tmp_path / "parts", teacher=teacher, device=CPU, should_stop=stop_now)
    resumed = 0
    while outcome.interrupted:
        resumed += 1
        torch.manual_seed(resumed)
        outcome = bootstrap.resume(corpus, tmp_path / "parts", {}, device=CPU, should_stop=stop_now)
    assert resumed >= 5
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "parts")


def test_what_is_kept_of_a_text_changes_nothing(
    tiny: Corpus, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny, SMALL, tmp_path / "kept", large)
    monkeypatch.setattr(teaching, "KEPT", 0)
    train(tiny, SMALL, tmp_path / "read", large)
    assert outcome_of(tmp_path / "kept") == outcome_of(tmp_path / "read")


def test_packed_files_and_mixes_teach(tiny: Corpus, large: Path, tmp_path: Path) -> None:
    """A packed file has other ids for the same words; in float32 it has the same weights."""
    packed = tmp_path / "large.lightrnn"
    model, vocabulary = load_lightrnn(large)
    packed.write_bytes(write(network_of(model, vocabulary), "float32"))
    save_mix(tmp_path / "mix", [large, packed], [0.5, 0.5])
    recipe = SMALL.override({"epochs": 1, "dropout": 0.0})
    teachers = (large, packed, tmp_path / "mix")
    runs = [train(tiny, recipe, tmp_path / f"by-{path.name}", path) for path in teachers]
    perplexities = [events[0].validation.perplexity for events in runs]
    assert perplexities == pytest.approx([perplexities[0]] * 3, rel=1e-5)
    assert len({Teacher.load(path).digest for path in teachers}) == 3


# --- refusals


def stopped(corpus: Corpus, folder: Path, teacher: Path) -> Path:
    seen = iter(range(10**9))
    bootstrap.train(
        corpus, SMALL, folder, teacher=Teacher.load(teacher), device=CPU, should_stop=lambda: next(seen) == 5
    )
    return folder


def test_a_teacher_that_is_gone_or_changed_is_refused(tiny: Corpus, large: Path, tmp_path: Path) -> None:
    teacher = Path(shutil.copytree(large, tmp_path / "teacher"))
    run = stopped(tiny, tmp_path / "m", teacher)
    state = (run / "training.safetensors").read_bytes()
    teacher.rename(tmp_path / "elsewhere")
    with pytest.raises(LightRNNError, match=r"a teacher that cannot be read .*put back what it was"):
        bootstrap.resume(tiny, run, {}, device=CPU)
    bootstrap.train(tiny, LARGE.override({"epochs": 0.1}), teacher, device=CPU)
    with pytest.raises(LightRNNError, match="is not the teacher any more that the run has learned from"):
        bootstrap.resume(tiny, run, {}, device=CPU)
    assert (run / "training.safetensors").read_bytes() == state
    shutil.rmtree(teacher)
    shutil.copytree(tmp_path / "elsewhere", teacher)
    assert not bootstrap.resume(tiny, run, {}, device=CPU).interrupted


def test_students_that_cannot_be_taught_are_refused(tiny: Corpus, large: Path, tmp_path: Path) -> None:
    teacher = Teacher.load(large)
    with pytest.raises(LightRNNError, match="stand alone in the student too; give it --alone"):
        fitted(SMALL.override({"alone": 0}), tiny, teacher=teacher)
    with pytest.raises(LightRNNError, match="--teacher is for LightRNNs, got it with --model hsm"):
        fitted(Recipe().override({"model": "hsm"}), tiny, teacher=teacher)
    with pytest.raises(LightRNNError, match="is in the folder that would be replaced"):
        bootstrap.train(tiny, SMALL, large, teacher=teacher, device=CPU, force=True)
    one, other = (random_lightrnn(V=V, alone=1, seed=seed) for seed in (0, 1))
    with pytest.raises(LightRNNError, match="no word stands alone in both"):
        Lessons(teacher_of([other], vocabulary_of(V)), one, vocabulary_of(V), SHARE)


class _Two(Processes):
    """The second of two processes, of which the first has nothing to tell."""

    rank, size = 1, 2

    def heard(self, value: Any) -> list[Any]:
        return [["host1", ""], value]


def test_a_host_without_the_teacher_is_named_once(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the first process: the others end without a word."""
    monkeypatch.setattr(teaching, "here", _Two)
    facts = Teacher.load(large).facts
    found = teaching.teacher_of_all(facts, None)
    assert found is not None
    assert teaching.teacher_of_all(facts, found) is found
    with pytest.raises(ToldElsewhere, match=r"nowhere does not exist.* \(process 1, on "):
        teaching.teacher_of_all(facts | {"path": str(tmp_path / "nowhere")}, None)
    assert teaching.teacher_of_all(None, None) is None

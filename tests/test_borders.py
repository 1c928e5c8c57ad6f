"""Everything that is read back from a file passes a border: fields, kinds, ranges, shapes, finite numbers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

import lightrnn
from conftest import Call
from lightrnn.border import check, list_of, maybe, number, one_field, parse_json, record, text, whole
from lightrnn.compare.runs import read_run
from lightrnn.config import ModelConfig, Recipe, TrainingConfig
from lightrnn.errors import LightRNNError
from lightrnn.files import read_json, sha256
from lightrnn.models.checkpoint import load_model, load_training, save_training
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.run import read_metrics

GOLDEN = Path(__file__).parent / "golden"
RESULTS = Path(__file__).parents[1] / "docs" / "results"
CPU = torch.device("cpu")
Tensors = dict[str, Tensor]


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def refused(result: Any) -> str:
    """The one sentence of a command that must fail."""
    *_, last = result.err.splitlines()
    assert result.code == 2, result
    assert last.startswith("error: "), result.err
    return last


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Folders that version 0.1.0 wrote."""
    return Path(shutil.copytree(GOLDEN / "before", tmp_path / "before"))


# The border itself

POINT = record({"words": whole(1, 9), "names": list_of(text(), least=1)}, {"seconds": maybe(number(least=0))})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "what it holds must be an object, got []"),
        ({"names": ["a"]}, "words is missing"),
        ({"words": True, "names": ["a"]}, "words must be a whole number from 1 to 9, got True"),
        ({"words": 10**9, "names": ["a"]}, "words must be a whole number from 1 to 9, got 1000000000"),
        ({"words": 1, "names": []}, "names must be a list of 1 to 1,000,000 entries, got []"),
        ({"words": 1, "names": ["a", "\ud800"]}, r"names[1] must be a string of at most 1,000 printable characters"),
        ({"words": 1, "names": ["a"], "seconds": -1}, "seconds must be a number at least 0, got -1"),
        ({"words": 1, "names": ["a"], "seconds": float("nan")}, "seconds must be a number at least 0, got nan"),
        ({"words": 1, "names": ["a"], "seconds": 10**400}, "seconds must be a number at least 0, got 1000"),
    ],
)
def test_a_rule_names_file_field_rule_and_value(value: Any, message: str) -> None:
    with pytest.raises(LightRNNError) as caught:
        check(value, POINT, "a.json", "make it again")
    assert str(caught.value).startswith(f"a.json: {message}")
    assert str(caught.value).endswith("; make it again")


def test_a_rule_lets_be_what_it_does_not_name() -> None:
    value = {"words": 1, "names": ["a"], "seconds": None, "more": object()}
    assert check(value, POINT, "a.json", "") is value
    budget = one_field({"epochs": number(), "minutes": number()})
    check({"epochs": 1}, budget, "a.json", "")
    for wrong in ({}, {"hours": 1}, {"epochs": 1, "minutes": 1}, {"epochs": "1"}, 5):
        with pytest.raises(LightRNNError):
            check(wrong, budget, "a.json", "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b"[" * 60 + b"]" * 60, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "4300 digits"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": 1, "a": 2}', "a field is there twice"),
        (b'{"a": "\xff"}', "codec can't decode"),
        (b"", "Expecting value"),
    ],
)
def test_json_that_is_none(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(LightRNNError, match=f"^x is not valid JSON .*{message}.*; restore it$") as caught:
        parse_json(data, "x", "restore it")
    assert "\n" not in str(caught.value)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(LightRNNError, match="cannot read"):
        read_json(tmp_path / "folder.json")


@pytest.mark.parametrize(
    "content", ["a = " + "[" * 5000 + "]" * 5000, "layers = 0x" + "f" * 9000, "a = " + "9" * 5000, "a = nan"]
)
def test_toml_that_is_none(call: Call, tmp_path: Path, content: str) -> None:
    for kind, command in (
        ("recipe", ("info", "--vocab-size", "99", "--recipe")),
        ("grid", ("compare", "-o", "r", "--tables-only")),
    ):
        (tmp_path / f"{kind}.toml").write_text(f"[model]\n{content}\n", encoding="utf-8")
        message = refused(call(*command, f"{kind}.toml"))
        assert f"{kind}.toml" in message
        assert len(message) < 400


# Models


def change_weights(folder: Path, change: Callable[[Tensors], object]) -> None:
    """Other weights, with their digest put right."""
    path = folder / "weights.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors)
    path.write_bytes(safetensors.torch.save(tensors))
    edit(folder / "config.json", lambda config: config["files"].update({path.name: sha256(path)}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["recurrence.weight_hh_l0"].fill_(torch.nan), "recurrence.weight_hh_l0 holds values that are not"),
        (lambda t: t["output_bias.0"].fill_(torch.inf), "output_bias.0 holds values that are not finite"),
        (lambda t: t["output_bias.0"].fill_(1e30), "output_bias.0 holds values that are not finite or above 1e"),
        (lambda t: t.update({"output_bias.0": t["output_bias.0"].double()}), "is float64 of shape .*must be float32"),
        (lambda t: t.update({"output_bias.0": t["output_bias.0"][:-1]}), r"of shape \(22,\).* of shape \(23,\)"),
        (lambda t: t.pop("output_bias.0"), "output_bias.0 is missing"),
        (lambda t: t.update({"extra": torch.zeros(1)}), "'extra' belongs to no part"),
        (lambda t: t.pop("codes"), "codes must be"),
        (lambda t: t.update({"codes": t["codes"].float()}), "codes must be"),
        (lambda t: t["codes"].fill_(0), "no bijection"),
        (lambda t: t["codes"].fill_(-7), "outside a"),
    ],
)
def test_weights_that_do_not_fit(call: Call, before: Path, change: Callable[[Tensors], object], message: str) -> None:
    change_weights(before / "model", change)
    with pytest.raises(LightRNNError, match=message):
        load_model(before / "model")
    assert "restore" in refused(call("evaluate", before / "model", before / "data"))


def test_places_of_words_that_are_no_permutation(before: Path) -> None:
    load_model(before / "hsm")
    change_weights(before / "hsm", lambda tensors: tensors["output.places"].fill_(10**6))
    with pytest.raises(LightRNNError, match=r"output.places does not hold each of the numbers from 0 to 513 once"):
        load_model(before / "hsm")


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 65536, "layers": 64},
        {"embedding_size": 65536},
        {"components": 8},
        {"cell": "gru"},
        {"model": "full"},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["model", "hsm"])
def test_settings_that_the_weights_are_not_of(
    before: Path, monkeypatch: pytest.MonkeyPatch, kind: str, change: dict[str, Any]
) -> None:
    """Nothing beyond the size of the weights that are there is allocated, whatever a damaged file asks for."""
    if kind == "hsm" and "components" in change:
        pytest.skip("which is nothing to this model")
    largest = 0
    zeros = torch.nn.init.uniform_

    def watch(tensor: Tensor, *arguments: Any, **options: Any) -> Tensor:
        nonlocal largest
        largest = max(largest, tensor.numel())
        return zeros(tensor, *arguments, **options)

    monkeypatch.setattr(torch.nn.init, "uniform_", watch)
    edit(before / kind / "config.json", lambda config: config["model"].update(change))
    with pytest.raises(LightRNNError, match=r"config\.json"):
        load_model(before / kind)
    weights = safetensors.torch.load((before / kind / "weights.safetensors").read_bytes())
    assert largest <= sum(tensor.numel() for tensor in weights.values())


@pytest.mark.parametrize("shape", [[1, 10**9], [10**9, 1], [514], [23, 0], [1] * 9, [23, 23.0], [-23, -23], "23x23"])
def test_table_shapes_that_are_none(before: Path, shape: object) -> None:
    edit(before / "model" / "config.json", lambda config: config.update(table_shape=shape))
    with pytest.raises(LightRNNError, match=r"config\.json"):
        load_model(before / "model")


def test_a_table_wider_than_its_words_is_told_at_once() -> None:
    codes = np.stack([np.zeros(4, np.int64), np.array([0, 1, 2, 2**40])], axis=1)
    with pytest.raises(LightRNNError, match="cannot be for 4 words"):
        WordTable(codes, (1, 2**41))
    with pytest.raises(LightRNNError, match="cannot read a shape"):
        WordTable.parse(("# lightrnn table, shape " + "x".join("1" * 9999)).encode(), "t.tsv", None)  # type: ignore[arg-type]


def test_too_little_memory_for_a_model_is_told_as_such(
    call: Call, before: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_arguments: Any) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: 99 bytes")

    monkeypatch.setattr("lightrnn.models.checkpoint.build", build)
    assert "out of memory" in refused(call("evaluate", before / "model", before / "data"))


@pytest.mark.parametrize("rules", [{"eos": 5}, {"eos": []}, {"lowercase": "no"}, {"unk": "</s>"}, {"eos": "\ud800"}])
@pytest.mark.parametrize(("folder", "file"), [("model", "config.json"), ("data", "data.json")])
def test_text_rules_that_are_none(call: Call, before: Path, rules: dict[str, Any], folder: str, file: str) -> None:
    edit(before / folder / file, lambda facts: facts["rules"].update(rules))
    assert file in refused(call("evaluate", before / "model", before / "data"))


def test_info_shows_whatever_was_said_of_the_training(call: Call, before: Path) -> None:
    edit(before / "model" / "config.json", lambda config: config["training"].update(note="\udcff"))
    assert json.loads(call("info", before / "model", "--json").out)["training"]["note"] == "\udcff"
    edit(before / "model" / "config.json", lambda config: config["training"].update(valid_perplexity="low"))
    assert "training.valid_perplexity must be a number at least 0, got 'low'" in refused(call("info", before / "model"))


# Training that goes on


@pytest.fixture
def stopped(tiny: Corpus, tmp_path: Path) -> Path:
    recipe = Recipe(ModelConfig(hidden_size=4), TrainingConfig(epochs=1, batch_size=4, window=8, validate_every=3))
    seen = iter(range(10**9))
    bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, should_stop=lambda: next(seen) == 5)
    return tmp_path / "m"


def test_a_run_of_version_0_1_0_goes_on(before: Path) -> None:
    outcome = bootstrap.resume(Corpus.load(before / "data"), before / "model", {"epochs": 2.1}, device=CPU)
    assert outcome.reason == "the epochs are done"


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.pop("recipe"),
        lambda f: f.pop("position"),
        lambda f: f["position"].pop("words"),
        lambda f: f["position"].update(step="5"),
        lambda f: f["position"].update(epoch=10**9),
        lambda f: f["position"].update(batch=10**9),
        lambda f: f["position"].update(began=1e9),
        lambda f: f["clock"].pop("training"),
        lambda f: f["clock"].update(training=0),
        lambda f: f["position"].update(rate_factor=1e9),
        lambda f: f["position"].update(step=0),
        lambda f: f.update(round=7),
        lambda f: f.update(round=-1),
        lambda f: f.update(best_perplexity=None),
        lambda f: f.update(best_perplexity="12"),
        lambda f: f["clock"].update(refinement=-1),
        lambda f: f.update(table_shape=None),
        lambda f: f.update(table_shape=[8]),
        lambda f: f.update(table_shape="8x8"),
        lambda f: f.update(metrics_bytes=-5),
        lambda f: f.update(metrics_bytes=None),
        lambda f: f.update(data=5),
        lambda f: f["recipe"].update(model=[]),
        lambda f: f["recipe"]["model"].update(hidden_size=5),
        lambda f: f["recipe"]["training"].update(batch_size=3),
    ],
)
def test_facts_of_a_run_that_make_no_sense(
    call: Call, tiny: Corpus, stopped: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    tensors, facts = load_training(stopped)
    change(facts)
    save_training(stopped, tensors, facts)
    state = (stopped / "training.safetensors").read_bytes()
    assert refused(call("train", tiny.path, "-o", stopped, "--resume"))
    assert (stopped / "training.safetensors").read_bytes() == state


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update({"optimizer.0.exp_avg": torch.zeros(2)}),
        lambda t: t.update({"optimizer.0.exp_avg_sq": torch.zeros(2)}),
        lambda t: t.update({"optimizer.0.exp_avg": t["optimizer.0.exp_avg"].double()}),
        lambda t: t.update({"optimizer.0.step": torch.zeros(3)}),
        lambda t: t["optimizer.0.exp_avg_sq"].fill_(-1),
        lambda t: t["optimizer.0.exp_avg"].fill_(torch.nan),
        lambda t: t.pop("optimizer.0.step"),
        lambda t: t.update({"optimizer.0.momentum": torch.zeros(3)}),
        lambda t: t.update({"optimizer.99.step": torch.zeros(())}),
        lambda t: t.update({"optimizer.x.step": torch.zeros(())}),
        lambda t: t.update({"carried.0": torch.zeros(1, 3, 4)}),
        lambda t: t.update({"carried.0": torch.zeros(4)}),
        lambda t: t.pop("carried.1"),
        lambda t: (t.pop("carried.0"), t.pop("carried.1")),
        lambda t: t.pop("random.cpu"),
        lambda t: t.update({"random.cpu": t["random.cpu"][:-1]}),
        lambda t: t["random.cpu"].fill_(255),
        lambda t: t.pop("model.codes"),
        lambda t: t["model.output_bias.0"].fill_(torch.nan),
    ],
)
def test_tensors_of_a_run_that_do_not_fit(tiny: Corpus, stopped: Path, change: Callable[[Tensors], object]) -> None:
    tensors, facts = load_training(stopped)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors)
    save_training(stopped, tensors, facts)
    torch.manual_seed(12345)
    with pytest.raises(LightRNNError, match="does not fit the model that its settings describe now; train again"):
        bootstrap.resume(tiny, stopped, {}, device=CPU)
    assert not torch.equal(torch.get_rng_state(), load_training(stopped)[0].get("random.cpu", torch.zeros(1)))


@pytest.mark.parametrize(
    "line", [b"[]", b"{}", b"{", b'{"refinement": 5}', b'{"valid_perplexity": NaN}', b"\xff", b"[" * 9999]
)
def test_lines_of_metrics_that_are_none(call: Call, before: Path, line: bytes) -> None:
    metrics = before / "model" / "metrics.jsonl"
    whole_lines = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(line + b"\n" + b"".join(whole_lines[1:]))
    assert "metrics.jsonl line 1" in refused(call("train", before / "data", "-o", before / "model", "--resume"))
    with pytest.raises(LightRNNError, match="line 1"):
        read_metrics(before / "model")


# Data


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.replace(b"<i4", b"<i8"),
        lambda d: d.replace(b"<i4", b"|O8"),
        lambda d: d.replace(b"False", b"True "),
        lambda d: d.replace(b"(", b"(" * 60, 1),
        lambda d: d.replace(b"(5992,)", b"(59,)  "),
        lambda d: d + b"\0",
        lambda d: b"PK\x03\x04" + d[4:],
        lambda d: d[:8] + b"\xff\xff" + d[10:],
        lambda d: d[:100],
        lambda d: d[:-4] + b"\xff" * 4,
    ],
)
def test_token_ids_that_are_none(call: Call, before: Path, change: Callable[[bytes], bytes]) -> None:
    path = before / "data" / "train.npy"
    path.write_bytes(change(path.read_bytes()))
    edit(before / "data" / "data.json", lambda facts: facts["splits"]["train"].update(sha256=sha256(path)))
    assert "train.npy" in refused(call("ngram", before / "data", "-o", "lm.arpa"))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["splits"]["train"].pop("tokens"),
        lambda d: d["splits"]["train"].update(tokens="5992"),
        lambda d: d["splits"]["train"].update(files="train.txt"),
        lambda d: d["splits"].update(train=[]),
        lambda d: d.update(splits=[]),
        lambda d: d.update(vocabulary_size=5),
        lambda d: d.update(format=True),
    ],
)
def test_data_json_that_is_none(call: Call, before: Path, change: Callable[[dict[str, Any]], object]) -> None:
    edit(before / "data" / "data.json", change)
    assert "data.json" in refused(call("ngram", before / "data", "-o", "lm.arpa"))


# Mixes and n-gram files


@pytest.mark.parametrize(
    "members",
    [
        [],
        [{"path": "../model"}],
        [{"path": "../model", "weight": -1}],
        [{"path": "../model", "weight": 1e300}],
        [{"path": "../model", "weight": "1"}],
        [{"path": "../model", "weight": 0}],
        [{"path": "\ud800", "weight": 1}],
        [{"path": "../nowhere", "weight": 1}],
        [{"path": ".", "weight": 1}],
        [{"path": "../other", "weight": 1}],
        "../model",
        None,
    ],
    ids=str,
)
def test_damaged_mixes(call: Call, before: Path, members: object) -> None:
    edit(before / "mixed" / "config.json", lambda config: config.update(members=members))
    (before / "other").mkdir()
    mix = {"format": 1, "kind": "mix", "files": {}, "members": [{"path": "../mixed", "weight": 1}]}
    (before / "other" / "config.json").write_text(json.dumps(mix), encoding="utf-8")
    assert "mixed" in refused(call("evaluate", before / "mixed", before / "data")).replace("other", "mixed")


def test_info_says_what_a_mix_is(call: Call, before: Path) -> None:
    told = json.loads(call("info", before / "mixed", "--json").out)
    assert told["model"] == "mix"
    assert [Path(member["model"]).name for member in told["members"]] == ["model", "kn2.arpa"]
    assert sum(member["weight"] for member in told["members"]) == pytest.approx(1)
    shown = call("info", before / "mixed")
    assert shown.code == 0
    assert "0.976" in shown.out
    for command in (("train", before / "data", "-o", "out", "--init"), ("table",)):
        assert "is a mix, where a single model is needed" in refused(call(*command, before / "mixed"))


def test_names_of_files_are_no_markup(call: Call, before: Path, tmp_path: Path) -> None:
    odd = Path("[red]:smile:")
    (tmp_path / odd).mkdir()
    shutil.copytree(before / "mixed", odd / "mix")
    edit(odd / "mix" / "config.json", lambda config: config["members"][0].update(path="[/red]"))
    assert "[/red]" in call("info", odd / "mix").out
    assert "[red]:smile:" in refused(call("evaluate", odd / "mix", before / "data"))


def test_a_file_that_is_no_model_is_told_as_such(call: Call, before: Path, tmp_path: Path) -> None:
    for name, content in (("m.zip", b"PK\x03\x04" + bytes(99)), ("m.bin", b""), ("m.txt", b"\\date\\\n")):
        (tmp_path / name).write_bytes(content)
        assert f"{name} is not a model" in refused(call("score", name, before / "vocab.tsv"))


@pytest.mark.parametrize("name", ["probing", "trie", "no-unk"])
def test_kenlm_binaries_list_their_words(name: str, call: Call, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    arpa, binary = (lightrnn.load(GOLDEN / "kenlm" / file) for file in ("tiny.arpa", f"{name}.binary"))
    assert sorted(binary.vocabulary.words) == sorted(arpa.vocabulary.words)
    for sentence in ("a été", "été a c<unk>", ""):
        assert binary.score(sentence) == pytest.approx(arpa.score(sentence), abs=1e-5)
    (tmp_path / "t.txt").write_text("a été\n", encoding="utf-8")
    assert call("score", GOLDEN / "kenlm" / f"{name}.binary", "t.txt").out.startswith("-1.2")


def test_kenlm_binaries_without_words_or_with_others(call: Call, before: Path, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    assert "built without its words" in refused(call("next", GOLDEN / "kenlm" / "no-words.binary", "a"))
    mixed = call("mix", before / "kn2.arpa", GOLDEN / "kenlm" / "no-words.binary", "--tune", before / "data")
    assert mixed.code == 0, mixed.err
    whole_file = (GOLDEN / "kenlm" / "trie.binary").read_bytes()
    for damaged in (whole_file[:-3], whole_file[:60], whole_file.replace("été".encode(), b"other"), whole_file + b"x"):
        (tmp_path / "lm.binary").write_bytes(damaged)
        assert "lm.binary is a damaged KenLM binary" in refused(call("next", "lm.binary", "a"))


# Comparisons


@pytest.fixture
def compared(call: Call, before: Path, tmp_path: Path) -> Path:
    (tmp_path / "grid.toml").write_text(
        '[[corpus]]\nname = "old"\ndata = "before/data"\nepochs = 1\n[[model]]\nname = "KN"\nkind = "ngram"\n',
        encoding="utf-8",
    )
    assert call("compare", "grid.toml", "-o", "results", "--no-plots").code == 0
    return tmp_path / "results" / "runs" / "old--KN--0.json"


def test_runs_tell_a_flipped_bit(call: Call, compared: Path) -> None:
    tables = ("compare", "grid.toml", "-o", "results", "--tables-only", "--no-plots")
    assert call(*tables).code == 0
    facts = json.loads(compared.read_text())
    edit(compared, lambda run: run.update(test=run["test"] + 1))
    assert "its digest is another" in refused(call(*tables))
    compared.write_text(json.dumps({name: value for name, value in facts.items() if name != "sha256"}))
    assert call(*tables).code == 0  # as files of before the digests


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("recipe"),
        lambda c: c.update(recipe=[]),
        lambda c: c.update(recipe={"model": {"hidden_size": -1}}),
        lambda c: c.update(budget={}),
        lambda c: c.update(budget={"hours": 1}),
        lambda c: c.update(test=None),
        lambda c: c.update(test="12"),
        lambda c: c.update(curve=[{}]),
        lambda c: c.update(mix={}),
        lambda c: c.update(machine=None),
        lambda c: c.update(bytes={}),
        lambda c: c.update(date=5),
        lambda c: c.update(model="another"),
        lambda c: c.update(seed=1),
    ],
)
def test_runs_that_make_no_sense(call: Call, compared: Path, change: Callable[[dict[str, Any]], object]) -> None:
    edit(compared, lambda run: (run.pop("sha256"), change(run)))
    assert compared.name in refused(call("compare", "grid.toml", "-o", "results", "--tables-only", "--no-plots"))


def test_published_runs_are_still_read() -> None:
    runs = [read_run(path) for path in RESULTS.glob("*/runs/*.json")]
    assert len(runs) > 50

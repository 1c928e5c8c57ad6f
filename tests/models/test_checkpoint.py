"""Model folders: what is saved is old or new, never a mixture, and what is read back fits."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from helpers import CPU, FAST, Call, edit_json, random_lightrnn, refused, vocabulary_of
from lightrnn.errors import LightRNNError
from lightrnn.files import sha256
from lightrnn.models import checkpoint
from lightrnn.models.checkpoint import load_model, save_model
from lightrnn.models.folder import load_table
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap

Tensors = dict[str, Tensor]


def change_weights(folder: Path, change: Callable[[Tensors], object]) -> None:
    """Other weights, with their digest put right."""
    path = folder / "weights.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors)
    path.write_bytes(safetensors.torch.save(tensors))
    edit_json(folder / "config.json", lambda config: config["files"].update({path.name: sha256(path)}))


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
        (lambda t: t["codes"][:, 0].fill_(-7), "outside a"),
        (lambda t: t["codes"].fill_(-1), "cannot be for .* words, .* of them alone"),
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
    """Nothing is allocated for settings that ask for more than the weights that are there."""
    if kind == "hsm" and "components" in change:
        pytest.skip("which is nothing to this model")
    weights = safetensors.torch.load((before / kind / "weights.safetensors").read_bytes())
    largest = 0
    uniform = torch.nn.init.uniform_

    def watch(tensor: Tensor, *arguments: Any, **options: Any) -> Tensor:
        nonlocal largest
        if tensor.device.type != "meta":
            largest = max(largest, tensor.numel())
        return uniform(tensor, *arguments, **options)

    monkeypatch.setattr(torch.nn.init, "uniform_", watch)
    edit_json(before / kind / "config.json", lambda config: config["model"].update(change))
    with pytest.raises(LightRNNError, match=r"config\.json"):
        load_model(before / kind)
    assert largest <= sum(tensor.numel() for tensor in weights.values())


@pytest.mark.parametrize("shape", [[1, 10**9], [10**9, 1], [514], [23, 0], [1] * 9, [23, 23.0], [-23, -23], "23x23"])
def test_table_shapes_that_are_none(before: Path, shape: object) -> None:
    edit_json(before / "model" / "config.json", lambda config: config.update(table_shape=shape))
    with pytest.raises(LightRNNError, match=r"config\.json"):
        load_model(before / "model")


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
    edit_json(before / folder / file, lambda facts: facts["rules"].update(rules))
    assert file in refused(call("evaluate", before / "model", before / "data"))


def test_every_step_of_a_save_may_be_the_last(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the power before each rename of a save that replaces weights and table: old or new, never a mixture."""
    old, new = tmp_path / "old", tmp_path / "new"
    bootstrap.train(tiny, FAST.override({"epochs": 1}), old, device=CPU)
    bootstrap.train(tiny, FAST.override({"epochs": 1, "seed": 9}), new, device=CPU)
    model, vocabulary = load_model(new)
    expected = [{name: t.clone() for name, t in load_model(f)[0].state_dict().items()} for f in (old, new)]
    rename = Path.replace
    seen = set()
    for allowed in range(8):
        folder = tmp_path / f"cut{allowed}"
        shutil.copytree(old, folder)
        left = allowed

        def replace(self: Path, target: Path) -> Path:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return rename(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            with contextlib.suppress(KeyboardInterrupt):
                checkpoint.save_model(folder, model, vocabulary, {})
        got = load_model(folder)[0].state_dict()
        which = [all(torch.equal(got[name], e[name]) for name in e) for e in expected]
        assert sum(which) == 1
        assert (load_table(folder, vocabulary).codes == got["codes"].numpy()).all()
        seen.add(which.index(True))
    assert seen == {0, 1}


def test_words_alone_of_settings_and_table_must_agree(tmp_path: Path) -> None:
    model = random_lightrnn(V=23, alone=5, tied=True)
    save_model(tmp_path / "m", model, vocabulary_of(23), {})
    load_model(tmp_path / "m")
    for value in (0, 4, "auto"):
        edit_json(tmp_path / "m" / "config.json", lambda config, value=value: config["model"].update(alone=value))
        with pytest.raises(LightRNNError, match=f"5 words stand alone, and the settings say {value}"):
            load_model(tmp_path / "m")

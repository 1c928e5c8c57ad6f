"""Parameter counts: the paper's nine, its 80 GB example, and the real model's."""

import json

import pytest
import torch

from helpers import Call, printed
from lightrnn.config import ModelConfig, Recipe
from lightrnn.models.kind import Size, kind_of
from lightrnn.models.lightrnn import LightRNN
from lightrnn.models.sizes import conventional_parameters, human_bytes, human_count
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable

PAPER = [  # recipe, fields, vocabulary, the count printed in the paper's tables
    ("paper-aclw", {}, 152_000, "18M"),
    ("paper-aclw", {}, 137_000, "17M"),
    ("paper-aclw", {}, 60_000, "17M"),
    ("paper-aclw", {}, 206_000, "18M"),
    ("paper-aclw", {}, 339_000, "18M"),
    ("paper-aclw", {}, 497_000, "19M"),
    ("paper-billionw", {}, 793_471, "41M"),
    ("paper-aclw", {"hidden_size": 200}, 137_000, "0.9M"),
    ("paper-aclw", {"hidden_size": 600}, 137_000, "7M"),
]


@pytest.mark.parametrize(("recipe", "fields", "vocabulary", "printed"), PAPER)
def test_the_papers_parameter_counts(recipe: str, fields: dict[str, int], vocabulary: int, printed: str) -> None:
    config = Recipe.load(recipe).override(fields).model
    millions = sum(kind_of(config).parameters(config, Size(vocabulary, table_shape(vocabulary))).values()) / 1e6
    assert f"{millions:.1f}M" == printed if "." in printed else f"{millions:.0f}M" == printed


def test_eighty_gigabytes_against_fifty_megabytes(call: Call) -> None:
    """The paper's introduction: V = 10M, n = m = 1024; word vectors in float32."""
    options = ("--recipe", "plain", "--vocab-size", "10000000", "--hidden-size", "1024", "--no-output-bias")
    facts = json.loads(printed(call("info", *options, "--json")))

    def gigabytes(parts: dict[str, int]) -> float:
        return 4 * (parts["input vectors"] + parts["output vectors"]) / 1e9

    assert 80 <= gigabytes(facts["conventional"]) < 83  # the paper rounds
    assert 0.050 <= gigabytes(facts["parameters"]) < 0.053  # the paper rounds


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn-tanh", "rnn-sigmoid"])
@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize(("bias", "word_bias"), [(True, False), (False, False), (True, True), (False, True)])
def test_counts_are_those_of_the_real_model(cell: str, components: int, bias: bool, word_bias: bool) -> None:
    biases = {"output_bias": bias, "word_bias": word_bias}
    config = ModelConfig(cell=cell, layers=3, hidden_size=9, embedding_size=4, components=components, **biases)
    model = LightRNN(config, WordTable.random(101, components, seed=0))
    assert any(p.numel() >= 101 for p in model.output_bias) == (bias and word_bias)
    vectors = model.input_vectors.weight.numel()
    outputs = sum(p.numel() for p in (*model.output_vectors, *model.output_bias))
    recurrence = sum(p.numel() for p in model.recurrence.parameters())
    assert kind_of(config).parameters(config, Size(101, model.shape)) == {
        "input vectors": vectors,
        "output vectors": outputs,
        "recurrence": recurrence,
    }
    conventional = torch.nn.ModuleList(
        [torch.nn.Embedding(101, 4), torch.nn.Linear(9, 101, bias=bias), model.recurrence]
    )
    assert sum(conventional_parameters(config, 101).values()) == sum(p.numel() for p in conventional.parameters())


@pytest.mark.parametrize(
    ("count", "text"),
    [(999, "999"), (1000, "1K"), (19_184, "19.2K"), (998_093, "998K"), (999_999, "1M"), (2.5e9, "2.5G")],
)
def test_counts_for_people(count: float, text: str) -> None:
    assert human_count(count) == text
    assert human_bytes(51_822_592) == "51.8 MB"
    assert human_bytes(12) == "12 B"

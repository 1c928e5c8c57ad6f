"""One step of a cell at a time is what the whole recurrence does."""

import pytest
import torch

from helpers import CELLS, random_lightrnn
from lightrnn.models.steps import Steps


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_steps_are_those_of_the_model(cell: str, layers: int) -> None:
    model = random_lightrnn(cell, layers=layers)
    codes = torch.tensor([0, 3, 7, 1])
    steps = Steps(model.cell, model.recurrence, model.input_vectors.weight)
    state = tuple(torch.randn(layers, 4, 7) for _ in model.initial_state(1))
    with torch.inference_mode():
        expected, state_expected = model.read(codes[:, None], state)
        got, state_got = steps(codes, state)
        torch.testing.assert_close(got, expected[:, 0], atol=1e-6, rtol=1e-5)
        for one, other in zip(state_got, state_expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
        alone = tuple(tensor[:, :1] for tensor in state)  # one state for all codes
        shared, _ = steps(codes, alone)
        repeated, _ = steps(codes, tuple(tensor.expand(-1, 4, -1) for tensor in alone))
        torch.testing.assert_close(shared, repeated, atol=1e-6, rtol=1e-5)

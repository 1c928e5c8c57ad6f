"""Adam of the rows that a window touches."""

import torch

from helpers import FLOAT32
from lightrnn.training.row_adam import RowAdam


def test_adam_by_rows_is_pytorchs_sparse_adam() -> None:
    torch.manual_seed(0)
    ours = torch.nn.Embedding(9, 4, sparse=True)
    theirs = torch.nn.Embedding.from_pretrained(ours.weight.detach().clone(), freeze=False, sparse=True)
    optimizers = RowAdam([ours.weight], lr=0.1), torch.optim.SparseAdam([theirs.weight], lr=0.1)
    start = ours.weight.detach().clone()
    for step in range(6):
        rows = torch.randint(8, (5,)) if step != 3 else torch.tensor([0, 0])
        direction = torch.randn(len(rows), 4)
        for table, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
            table.zero_grad()
            (table(rows) * direction).sum().backward()
            table.weight.grad = table.weight.grad.coalesce()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, atol=1e-6, rtol=FLOAT32)  # six steps in float32
    assert torch.equal(ours.weight[8], start[8])

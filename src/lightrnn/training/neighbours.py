"""The neighbour counts of a bigram start, where several processes train together: each counts a part of the text."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from ..processes import here
from ..runtime import Progress, silent
from ..table.bigrams import neighbour_counts
from ..text.spelling import Ids


def shared_neighbour_counts(
    ids: Ids, counts: NDArray[np.int64], contexts: int, progress: Progress = silent
) -> sparse.csr_matrix:
    """What `neighbour_counts` gives, for the leader; the others, whom it calls, get their part. Sums of whole numbers,
    and so the same for any number of processes."""
    processes = here()
    processes.call("neighbours", contexts=contexts)
    counts = processes.sent({"counts": torch.from_numpy(counts)})["counts"].numpy()
    begin, stop = processes.bounds(max(len(ids) - 1, 0))  # of the pairs of words
    total = neighbour_counts(ids[begin : stop + 1], counts, contexts, progress)
    pieces = [processes.collected(array) for array in (total.indptr, total.indices, total.data)]
    for indptr, indices, data in list(zip(*pieces, strict=True))[1:]:
        total += sparse.csr_matrix((data, indices, indptr), shape=total.shape)
    return total

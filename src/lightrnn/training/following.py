"""What the processes do that do not lead: they have the same data, help the leader, and train along.

The leader reads and writes, makes tables, validates and decides. Where that is long, the others wait in `follow` for
what it calls them to do: their part of a text's statistics, or to take over the run that it has begun, reopened, or
brought to its next round.
"""

import socket
from pathlib import Path
from typing import cast

import torch

from ..errors import LightRNNError
from ..models.lightrnn import LightRNN
from ..processes import here
from ..text.corpus import Corpus, is_data_folder
from .neighbours import shared_neighbour_counts
from .run import Run, received
from .word_sums import word_sums


def load_alike(data: str | Path) -> Corpus:
    """The data folder that every process has on its host, where they are the same; a mistake is told once."""
    try:
        if not is_data_folder(data):
            raise LightRNNError(
                f"{data} is no data folder, which several processes need; make one with: lightrnn prepare TEXT -o DATA"
            )
        corpus = Corpus.load(data)
        found, mistake = corpus.digest("train", "valid"), ""
    except LightRNNError as error:
        found, mistake = "", str(error)
    hosts, digests, mistakes = zip(*here().heard([socket.gethostname(), found, mistake]), strict=True)
    for rank, (host, mistake) in enumerate(zip(hosts, mistakes, strict=True)):
        if mistake:
            raise here().error(mistake + (f" (process {rank}, on {host})" if rank else ""))
    for rank, (host, digest) in enumerate(zip(hosts, digests, strict=True)):
        if digest != digests[0]:
            raise here().error(
                f"{data} of process {rank}, on {host}, holds other data than that of process 0, on {hosts[0]}; copy "
                "one data folder to all hosts"
            )
    return corpus


def follow(corpus: Corpus, device: torch.device | None = None, run: Run | None = None) -> Run:
    """Help the leader until it has a run to go on with, which is returned; run: the one that it has now, if any."""
    while True:
        what, settings = here().called()
        if what == "run":
            return received(corpus, settings["facts"], device, run.teacher if run else None)
        if what == "neighbours":
            shared_neighbour_counts(corpus.split("train"), corpus.vocabulary.counts, settings["contexts"])
        else:
            assert what == "word sums"
            assert run is not None
            model = cast(LightRNN, run.trainer.result)
            word_sums(model, run.trainer.train, corpus.vocabulary, **settings)

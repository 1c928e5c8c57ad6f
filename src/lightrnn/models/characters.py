"""Words from their characters: the input of Kim et al. 2015 (character convolutions, highway layer), normalised.

Shapes: V vocabulary, U distinct words, P their characters in all, E character vector.

A word is spelled start mark, its first LONGEST characters, end mark. A convolution of width w has a window at each of
these places, with zeros past the end, so that a word's vector does not depend on which words are computed beside it.
The windows of all words are rows of one matrix, so that a short word costs no more for a long one beside it.

Maxima lean to one side, so that what all words have in common would be twice as long as what tells them apart. Layer
normalisation, which Kim et al. do not have, takes that out: with it the network learns faster.
"""

from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ..text.vocabulary import Vocabulary
from .sizes import CHARACTER_SIZE, FEATURES, FILTERS

LONGEST = 40  # characters of a word that are looked at
WIDEST = max(FILTERS)
SCALE = 0.2  # of a word vector's entries; the optimiser moves 525 of size 1 too far at a step for the gates they feed
BLOCK = 4096  # words of the vocabulary whose vectors are computed at once


def spell(vocabulary: Vocabulary) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Codes of every word's characters with the marks, (V, LONGEST + 2), and how many there are, (V,).

    Code 0 is the start mark (and fills the rows), 1 the end mark, then the alphabet.
    """
    codes = {character: code for code, character in enumerate(vocabulary.alphabet, 2)}
    spelling = np.zeros((len(vocabulary), LONGEST + 2), np.int32)
    lengths = np.empty(len(vocabulary), np.int64)
    for index, word in enumerate(vocabulary.words):
        spelled = [0, *(codes[character] for character in word[:LONGEST]), 1]
        spelling[index, : len(spelled)] = spelled
        lengths[index] = len(spelled)
    return spelling, lengths


class CharacterCNN(nn.Module):
    """Word ids (…) → vectors (…, FEATURES), computed from the words' characters."""

    spelling: Tensor
    lengths: Tensor

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        spelling, lengths = spell(vocabulary)
        self.register_buffer("spelling", torch.from_numpy(spelling), persistent=False)
        self.register_buffer("lengths", torch.from_numpy(lengths), persistent=False)
        self.characters = nn.Embedding(int(spelling.max()) + 1, CHARACTER_SIZE)
        self.convolutions = nn.ModuleList(nn.Conv1d(CHARACTER_SIZE, n, width) for width, n in FILTERS.items())
        self.transform = nn.Linear(FEATURES, FEATURES)
        self.gate = nn.Linear(FEATURES, FEATURES)
        self._known: tuple[object, Tensor] | None = None

    def reset(self) -> None:
        """What must not start as small as other weights: character vectors, or all words would look alike after three
        layers; and the highway's gate starts nearly closed, as in Kim et al."""
        nn.init.uniform_(self.characters.weight, -1.0, 1.0)
        nn.init.constant_(self.gate.bias, -2.0)

    def train(self, mode: bool = True) -> "CharacterCNN":
        self._known = None  # fused optimisers change parameters without a new version
        return super().train(mode)

    def forward(self, words: Tensor) -> Tensor:
        """Each distinct word is computed once; without gradients, the whole vocabulary once for many calls."""
        if self.training or torch.is_grad_enabled():
            distinct, index = torch.unique(words, return_inverse=True)
            return F.embedding(index, self.word_vectors(distinct))
        return self._vocabulary_vectors()[words]

    def _vocabulary_vectors(self) -> Tensor:
        """(V, FEATURES), kept until a parameter changes or training goes on."""
        version = [(p.device, p._version) for p in self.parameters()]
        if self._known is None or self._known[0] != version:
            blocks = torch.split(torch.arange(len(self.lengths), device=self.lengths.device), BLOCK)
            self._known = version, torch.cat([self.word_vectors(block) for block in blocks])
        return self._known[1]

    def word_vectors(self, words: Tensor) -> Tensor:
        """words (U,) → (U, FEATURES)"""
        lengths = self.lengths[words]
        owners = torch.repeat_interleave(torch.arange(len(words), device=words.device), lengths)  # (P,)
        first = torch.arange(len(owners), device=words.device) - (lengths.cumsum(0) - lengths)[owners]
        places = first[:, None] + torch.arange(WIDEST, device=words.device)  # (P, WIDEST)
        inside = places < lengths[owners, None]
        codes = self.spelling[words[owners, None], places.where(inside, 0)]
        windows = (self.characters(codes) * inside[..., None]).flatten(1)  # (P, WIDEST · E)
        scores = F.linear(windows, *self._filters())  # (P, FEATURES)
        highest = torch.segment_reduce(scores, "max", lengths=lengths, axis=0, unsafe=True)  # (U, FEATURES)
        y = torch.tanh(highest)  # the max of tanh is the tanh of the max
        t = torch.sigmoid(self.gate(y))
        return SCALE * F.layer_norm(t * torch.relu(self.transform(y)) + (1 - t) * y, (FEATURES,))

    def _filters(self) -> tuple[Tensor, Tensor]:
        """All convolutions as one of the widest: weights (FEATURES, WIDEST · E), zero past a filter's width; biases."""
        convolutions = cast(list[nn.Conv1d], list(self.convolutions))
        weights = [
            F.pad(convolution.weight.transpose(1, 2).flatten(1), (0, (WIDEST - width) * CHARACTER_SIZE))
            for width, convolution in zip(FILTERS, convolutions, strict=True)
        ]
        biases = [convolution.bias for convolution in convolutions if convolution.bias is not None]
        return torch.cat(weights), torch.cat(biases)

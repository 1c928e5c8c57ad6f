"""The word table as layers for any PyTorch model, in the manner of `torch.nn`.

table = WordTable.from_bigrams(ids, size)          # which words share vectors
embedding = LightEmbedding(table, 256)             # in the place of nn.Embedding(size, 256)
softmax = LightSoftmax(table, 256, tied=embedding) # in the place of nn.Linear(256, size) and its cross-entropy
loss = softmax(hidden, targets)
"""

from ..table.word_table import WordTable
from .compression import Compressed, compress
from .embedding import LightEmbedding
from .softmax import LightSoftmax, TopK

__all__ = ["Compressed", "LightEmbedding", "LightSoftmax", "TopK", "WordTable", "compress"]

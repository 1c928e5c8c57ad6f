"""Word-level language models with huge vocabularies in a few megabytes: LightRNN (Li et al., NIPS 2016)."""

from .config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig
from .errors import LightRNNError
from .inference.evaluation import Evaluation
from .inference.lm import LM
from .inference.loading import load
from .inference.mixture import Mix
from .inference.passes import evaluate
from .models.base import LanguageModel
from .models.checkpoint import load_model
from .models.lightrnn import LightRNN
from .ngram.arpa import read_arpa, write_arpa
from .ngram.model import NGram
from .table.word_table import WordTable
from .text.corpus import Corpus, prepare
from .text.rules import TextRules
from .text.vocabulary import Vocabulary
from .training.bootstrap import resume, train
from .training.starts import Start

__version__ = "0.1.0"

__all__ = [
    "LM",
    "BootstrapConfig",
    "Corpus",
    "Evaluation",
    "LanguageModel",
    "LightRNN",
    "LightRNNError",
    "Mix",
    "ModelConfig",
    "NGram",
    "Recipe",
    "Start",
    "TextRules",
    "TrainingConfig",
    "Vocabulary",
    "WordTable",
    "evaluate",
    "load",
    "load_model",
    "prepare",
    "read_arpa",
    "resume",
    "train",
    "write_arpa",
]

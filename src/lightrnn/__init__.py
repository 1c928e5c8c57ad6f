"""Word-level language models with huge vocabularies in a few megabytes: LightRNN (Li et al., NIPS 2016).

What is here is imported when it is first used, so that the command line answers at once and `import lightrnn` costs
nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig
    from .errors import LightRNNError
    from .inference import decoders, kenlm
    from .inference.cache import CacheLM
    from .inference.evaluation import Evaluation
    from .inference.lm import LM
    from .inference.loading import load, save_mix
    from .inference.mixture import Mix, tune
    from .inference.passes import evaluate
    from .models.base import LanguageModel
    from .models.checkpoint import load_model
    from .models.lightrnn import LightRNN
    from .ngram.arpa import read_arpa, write_arpa
    from .ngram.kneser_ney import estimate
    from .ngram.model import NGram
    from .ngram.packed import read_packed, write_packed
    from .table.word_table import WordTable
    from .text.corpus import Corpus, prepare
    from .text.rules import TextRules
    from .text.vocabulary import Vocabulary
    from .training.bootstrap import resume, train
    from .training.starts import Start, choose_start
    from .training.teaching import Teacher

__version__ = "0.3.0"

_PLACES = {
    "config": ("BootstrapConfig", "ModelConfig", "Recipe", "TrainingConfig"),
    "errors": ("LightRNNError",),
    "inference.cache": ("CacheLM",),
    "inference.evaluation": ("Evaluation",),
    "inference.lm": ("LM",),
    "inference.loading": ("load", "save_mix"),
    "inference.mixture": ("Mix", "tune"),
    "inference.passes": ("evaluate",),
    "models.base": ("LanguageModel",),
    "models.checkpoint": ("load_model",),
    "models.lightrnn": ("LightRNN",),
    "ngram.arpa": ("read_arpa", "write_arpa"),
    "ngram.kneser_ney": ("estimate",),
    "ngram.model": ("NGram",),
    "ngram.packed": ("read_packed", "write_packed"),
    "table.word_table": ("WordTable",),
    "text.corpus": ("Corpus", "prepare"),
    "text.rules": ("TextRules",),
    "text.vocabulary": ("Vocabulary",),
    "training.bootstrap": ("resume", "train"),
    "training.starts": ("Start", "choose_start"),
    "training.teaching": ("Teacher",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
_OPEN = {"decoders": "inference.decoders", "kenlm": "inference.kenlm"}  # modules that are used as a whole

__all__ = [
    "LM",
    "BootstrapConfig",
    "CacheLM",
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
    "Teacher",
    "TextRules",
    "TrainingConfig",
    "Vocabulary",
    "WordTable",
    "choose_start",
    "decoders",
    "estimate",
    "evaluate",
    "kenlm",
    "load",
    "load_model",
    "prepare",
    "read_arpa",
    "read_packed",
    "resume",
    "save_mix",
    "train",
    "tune",
    "write_arpa",
    "write_packed",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _OPEN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_OPEN.get(name) or _MODULES[name]}", __package__)
    except ModuleNotFoundError as error:
        from .errors import missing_package

        raise missing_package(error) from None
    value = module if name in _OPEN else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Word-level language models with huge vocabularies in a few megabytes: LightRNN (Li et al., NIPS 2016)."""

__version__ = "0.1.0"

"""The rules by which text becomes words, stored with every data folder and model.

Words are separated by ASCII white space, as in KenLM; every line, empty ones included, ends in one end-of-sentence
word. The same rules apply when a model scores text later.
"""

import unicodedata
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from ..arguments import check_string
from ..border import check, maybe, record, shown, text, true_or_false
from ..errors import LightRNNError

Normalize = Literal["none", "nfc", "nfkc"]
Convention = Literal["stream", "sentence"]


def check_convention(name: str) -> None:
    if name not in get_args(Convention):
        raise LightRNNError(
            f"convention (--convention) must be one of {', '.join(get_args(Convention))}, got {shown(name)}"
        )


@dataclass(frozen=True)
class TextRules:
    """How text becomes words, and how its perplexity is counted.

    normalize: Unicode normalisation; lowercase: fold case; both are applied before the split into words.
    eos ends every line, unk stands for words outside the vocabulary, bos is the context of a sentence's first word:
    a word of its own (One Billion Words' <S>) or None, where the end of the sentence before serves.
    convention: "stream" carries the state across sentences, "sentence" starts each one afresh; eos is counted in
    both, bos in neither.
    """

    normalize: Normalize = "nfc"
    lowercase: bool = False
    eos: str = "</s>"
    unk: str = "<unk>"
    bos: str | None = None
    convention: Convention = "stream"

    def __post_init__(self) -> None:
        if self.normalize not in get_args(Normalize):
            raise LightRNNError(
                f"normalize (--normalize) must be one of {', '.join(get_args(Normalize))}, got {self.normalize!r}"
            )
        check_convention(self.convention)
        specials = [word for word in (self.eos, self.unk, self.bos) if word is not None]
        if len(set(specials)) < len(specials) or any(len(word.split()) != 1 for word in specials):
            raise LightRNNError(f"eos, unk and bos must be different words without spaces, got {specials}")

    @property
    def specials(self) -> list[str]:
        """The words that every vocabulary under these rules holds."""
        return [self.eos, self.unk] + ([self.bos] if self.bos is not None else [])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any], origin: str) -> "TextRules":
        check(values, WRITTEN, origin, "restore it or make it again")
        try:
            return cls(**values)
        except TypeError as error:
            raise LightRNNError(
                f"{origin} has an unknown text rule: {shown(str(error))}; was this written by a newer lightrnn?"
            ) from None
        except LightRNNError as error:
            raise LightRNNError(f"{origin}: {error}") from None

    def fold(self, text: str) -> str:
        """Normalise and fold case; text that needs neither is given back itself."""
        if self.normalize != "none" and not text.isascii():
            text = unicodedata.normalize(cast(Literal["NFC", "NFKC"], self.normalize.upper()), text)
        return text.lower() if self.lowercase else text

    def clean(self, text: str) -> str:
        """The same for what a person or program gave, which may not be text at all.

        What a terminal of another encoding passed on as single bytes is read as the UTF-8 that it was.
        """
        check_string("text", text)
        try:
            if not text.isascii():
                text = text.encode(errors="surrogateescape").decode()
        except UnicodeError:
            raise LightRNNError(f"{text[:60]!r} holds bytes that are not UTF-8; give text in UTF-8") from None
        return self.fold(text)

    def word(self, text: str) -> str:
        """One word that a person or program gave; a special is meant as it is, whatever its case."""
        return text if text in self.specials else self.clean(text)

    def split(self, text: str) -> list[str]:
        """The words of one piece of text, without sentence ends."""
        return [word.decode() for word in self.clean(text).encode().split()]

    def read(self, text: str) -> list[str]:
        """The words of a text of several lines, each with its end, as they would be read from a file."""
        lines = text.removesuffix("\n").split("\n") if text else []
        return [word for line in lines for word in (*self.split(line), self.eos)]

    def read_as(self, convention: Convention | None) -> Convention:
        """The convention that somebody named, or these rules' own."""
        if convention is not None:
            check_convention(convention)
        return convention or self.convention


WRITTEN = record({}, {"lowercase": true_or_false(), "eos": text(), "unk": text(), "bos": maybe(text())})

"""Practice vectors made of hashed n-grams: no weights, no network, the same on every machine."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from embed_ab.errors import InputError
from embed_ab.providers.base import Embedded, ModelFacts, Role

DIMENSION = 256
NAMES = ("char3", "word")


class _Slots(dict[str | int, int]):
    """Slot of each n-gram, from 0 to 2 × DIMENSION − 1: the first half adds, the second subtracts.

    A dictionary, so that each distinct n-gram is hashed once.
    """

    def __missing__(self, gram: str | int) -> int:
        digest = hashlib.blake2b(str(gram).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        slot = self[gram] = int.from_bytes(digest, "big") % (2 * DIMENSION)
        return slot


@dataclass(frozen=True)
class MockEmbedder:
    """Signed counts of hashed n-grams: `char3` character trigrams, `word` whole words.

    Raises: InputError for another name.
    """

    name: str = "char3"
    _slots: _Slots = field(default_factory=_Slots, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(
                f"there is no practice model 'mock:{self.name}'",
                hint="Write mock:char3 or mock:word.",
            )

    @property
    def fingerprint(self) -> str:
        """Name and version of the recipe; the version changes whenever a vector would."""
        return f"mock:{self.name}:1"

    @property
    def prompts(self) -> Mapping[Role, str]:
        """None: a mock has no prompts."""
        return {}

    def facts(self) -> ModelFacts:
        """The dimension; a mock has neither prompts nor a length limit."""
        return ModelFacts(dimension=DIMENSION, details={})

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Vectors of the texts, never zero; the role changes nothing."""
        vectors = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, text in enumerate(texts):
            # NFC, so that Korean typed as separate letters equals Korean typed as syllables.
            normalised = unicodedata.normalize("NFC", text).casefold()
            slots, counts = self._counted(normalised)
            sums = np.bincount(slots, counts, minlength=2 * DIMENSION)
            vectors[row] = sums[:DIMENSION] - sums[DIMENSION:]
            if not vectors[row].any():  # no n-gram, or two that cancel
                vectors[row, self._slots[normalised] % DIMENSION] = 1.0
        return Embedded(vectors=vectors)

    def _counted(self, text: str) -> tuple[list[int], list[int]]:
        """Slots of the distinct n-grams of a text, and how often each n-gram occurs."""
        if self.name == "word":
            words = Counter(re.findall(r"\w+", text))
            return [self._slots[word] for word in words], list(words.values())
        # Three code points of 21 bits make one integer: nearly three times faster than slicing.
        codes = np.frombuffer(f" {text} ".encode("utf-32-le", "surrogatepass"), "<u4")
        codes = codes.astype(np.int64)
        trigrams, counts = np.unique(
            codes[:-2] << 42 | codes[1:-1] << 21 | codes[2:], return_counts=True
        )
        return [self._slots[trigram] for trigram in trigrams.tolist()], counts.tolist()

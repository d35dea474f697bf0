"""A ranked system: its run, and what the reader must know about how that run was made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from embed_ab.quantise import Precision, bytes_per_vector
from embed_ab.runs import Run, RunFile


@dataclass(frozen=True, kw_only=True)
class Truncation:
    """How much of the documents a model with a length limit never saw.

    `max_length` is in tokens, None where a server refused texts and does not tell its limit;
    documents without text are not counted; `tokens_lost` is a share of all document tokens, 0 to 1,
    of all characters without a limit; `relevant` holds the ids of the first 50 relevant documents
    cut.
    """

    max_length: int | None
    n_documents: int
    n_truncated: int
    n_relevant_truncated: int
    tokens_lost: float
    relevant: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a run was made.

    Prompts are None where they have no meaning (BM25). `missing_prompt` is a sentence about the
    prompts this family of models expects, "" where all is well. `is_pinned` is None where there is
    no revision to pin. `batch_cosine` is how alike a text's vectors are, alone and in a batch; None
    where that was not tried. `tokens_per_word` is the fewest tokens that a server counted for each
    word of long texts; None where it told none. `unknown_share` is how many of the document ids in
    a file of vectors the set lacks, 0 to 1. `file` is what was read where the run came in a file.
    `cut_pairs` is how many pairs of query and document a reranker could not read whole, and of how
    many; None where it cannot tell.
    """

    system: str
    is_mock: bool = False
    query_prompt: str | None = None
    document_prompt: str | None = None
    missing_prompt: str = ""
    revision: str = ""
    is_pinned: bool | None = None
    max_length: int | None = None
    dimension: int | None = None
    precision: Precision = "float32"
    details: dict[str, str] = field(default_factory=dict)
    truncation: Truncation | None = None
    batch_cosine: float | None = None
    tokens_per_word: float | None = None
    unknown_share: float = 0.0
    cut_pairs: tuple[int, int] | None = None
    file: RunFile | None = None

    @property
    def bytes_per_vector(self) -> int | None:
        """What a document's vector takes; None where a system has none."""
        if self.dimension is None:
            return None
        return bytes_per_vector(self.dimension, self.precision)


@dataclass(frozen=True, kw_only=True)
class System:
    """One side of a comparison, or its baseline; `parts` are the systems it was made of.

    is_cut: (n_documents,) documents whose end the system, or any part of it, never saw; None where
        that is not known of the system, or of no part.
    candidates: the frozen candidate sets that the run orders; None where it does not just reorder.
    """

    run: Run
    origin: Origin
    is_cut: NDArray[np.bool_] | None = None
    parts: tuple[System, ...] = ()
    candidates: Run | None = None

    @property
    def leaves(self) -> tuple[System, ...]:
        """The systems it was made of that are not made of others, each once; else itself."""
        if not self.parts:
            return (self,)
        found = (leaf for part in self.parts for leaf in part.leaves)
        return tuple({leaf.origin.system: leaf for leaf in found}.values())

    @property
    def bytes_per_vector(self) -> int | None:
        """What a document takes in all indices of vectors; None where there is none."""
        sizes = [leaf.origin.bytes_per_vector for leaf in self.leaves]
        return sum(filter(None, sizes)) if any(sizes) else None

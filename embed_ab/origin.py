"""A ranked system: its run, and what the reader must know about how that run was made."""

from __future__ import annotations

from dataclasses import dataclass, field

from embed_ab.runs import Run


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
    where that was not tried. `cut_pairs` is how many pairs of query and document a reranker could
    not read whole, and of how many; None where it cannot tell.
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
    details: dict[str, str] = field(default_factory=dict)
    truncation: Truncation | None = None
    batch_cosine: float | None = None
    cut_pairs: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class System:
    """One side of a comparison, or its baseline.

    candidates: the frozen candidate sets that the run orders; None where it searched everything.
    """

    run: Run
    origin: Origin
    candidates: Run | None = None

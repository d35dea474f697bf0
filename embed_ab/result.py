"""What a comparison says, as plain records; JSON has the same keys in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic takes typing's only from Python 3.12 on

from embed_ab.cautions import Caution
from embed_ab.gate import Finding, GateVerdict, Outcome, SliceName
from embed_ab.origin import Truncation
from embed_ab.paired import PairedDifference
from embed_ab.rerank import Candidates
from embed_ab.slices import Sliced, hidden, renamed

SCHEMA_VERSION = 1

Number = float | None
"""A value of a query or a mean; None where the query is excluded."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One document of a ranked list."""

    document: str
    score: float
    grade: int | None
    """None where nobody judged the document."""
    text: str
    """At most 300 characters; "" where texts are left out."""
    rank_bm25: int | None = None
    """Where BM25 has it; None where it is not among the first `depth`, or there is no BM25."""
    twin_of: str = ""
    """A relevant document with the same letters and digits, "" where there is none."""


@dataclass(frozen=True, kw_only=True)
class Relevant:
    """A relevant document and where it stands; None where it is not among the first `depth`."""

    document: str
    grade: int
    rank_a: int | None
    rank_b: int | None
    text: str
    """At most 300 characters; "" where texts are left out."""
    rank_bm25: int | None = None


@dataclass(frozen=True, kw_only=True)
class QueryRow:
    """One query with its values, metric by metric; `n_relevant` 0 means excluded."""

    query: str
    text: str
    """"" where texts are left out."""
    n_relevant: int
    cluster: int | None
    """Which group it is resampled with; None when queries are resampled one by one."""
    a: dict[str, Number]
    b: dict[str, Number]
    bm25: dict[str, Number] | None
    jaccard: float
    rbo: float
    rank_a: int | None = None
    """Where A has its first relevant document; None where none is among the first `depth`."""
    rank_b: int | None = None
    unjudged_a: int = 0
    """Of A's first k documents, how many nobody judged and no relevant one stands above."""
    unjudged_b: int = 0
    truncated: tuple[Literal["A", "B"], ...] = ()
    """Which systems never saw the end of a relevant document."""
    slices: dict[str, str] = field(default_factory=dict)
    """By field, the slice of the comparison that the query is in."""

    @property
    def slice_names(self) -> tuple[SliceName, ...]:
        """The slices that the query is in."""
        return tuple(SliceName(field=f, value=value) for f, value in self.slices.items())


@dataclass(frozen=True, kw_only=True)
class QueryDetail:
    """What A and B returned for one of the queries they disagree on most."""

    query: str
    relevant: tuple[Relevant, ...]
    """Highest grade first, at most 10."""
    a: tuple[Hit, ...]
    """The first k documents, at most 20."""
    b: tuple[Hit, ...]


@dataclass(frozen=True, kw_only=True)
class SystemRecord:
    """How a system was made (see `Origin`) and its means."""

    label: str
    """A, B or BM25; in a matrix A, B, C, …"""
    system: str
    is_mock: bool
    query_prompt: str | None
    document_prompt: str | None
    revision: str
    max_length: int | None
    dimension: int | None
    details: dict[str, str]
    truncation: Truncation | None
    bytes_per_vector: int | None
    """At the system's precision; None where it has no vectors."""
    corpus_bytes: int | None
    """The vectors of all documents that have text."""
    means: dict[str, Number]
    n_queries: dict[str, int]
    wilson: dict[str, tuple[float, float]]
    """For hit metrics: the 95 % Wilson interval of the mean."""


@dataclass(frozen=True, kw_only=True)
class EvalsetRecord:
    """What was evaluated on."""

    name: str
    digest: str
    n_documents: int
    n_empty_documents: int
    n_queries: int
    n_evaluated: int
    n_excluded: int
    n_judgements: int
    notices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Mean Jaccard and RBO_ext of the two top-k lists, over all queries."""

    k: int
    p: float
    jaccard: float
    rbo: float


class Wait(TypedDict):
    """Milliseconds that queries took, each asked for alone; `n` of them."""

    p50: float
    p95: float
    n: int


class Measured(TypedDict, total=False):
    """What varies from run to run; by label (A, B, BM25), and only where it is known.

    Tokens, price, time of embedding and wait are those of the texts embedded in this run; those
    found in the store, or embedded for a system before, are only counted, and cost nothing. No
    price has reranking in it.
    """

    finished: str
    seconds: dict[str, float]
    """Wall time of everything for a system, and of the statistics."""
    texts_embedded: dict[str, int]
    texts_cached: dict[str, int]
    tokens: dict[str, int]
    """As the server counted them, else before truncation."""
    price: dict[str, float]
    embedding_seconds: dict[str, float]
    query_ms: dict[str, Wait]
    rerank_ms: dict[str, Wait]
    """All candidates of a query, by all rerankers of a system, while no other query was scored."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Everything a report, a comment, a gate or a notebook needs; JSON has the same keys.

    Only `measured` (times, counts of embedded and cached texts, tokens and their price) varies
    between two runs on the same input with the same seed.
    """

    schema_version: int
    version: str
    outcome: Outcome
    verdict: str
    finding: Finding
    primary: str
    """The metric the verdict is about: the deciding gate's, else the first gate's, else ndcg@k."""
    metrics: tuple[str, ...]
    """Those asked for; `differences` and the values also hold what only a gate asked for."""
    min_grade: int
    depth: int
    """How deep the runs are looked at."""
    evalset: EvalsetRecord
    systems: tuple[SystemRecord, ...]
    differences: tuple[PairedDifference, ...]
    slices: tuple[Sliced, ...] = ()
    gates: tuple[GateVerdict, ...]
    cautions: tuple[Caution, ...]
    ignored: tuple[str, ...]
    """Codes of cautions that apply and were hidden by `--ignore`."""
    overlap: Overlap
    queries: tuple[QueryRow, ...]
    details: tuple[QueryDetail, ...]
    """Those B loses most, worst first, then those it wins most, by the primary metric, then others
    until there are twice `worst-queries`."""
    conventions: dict[str, str]
    candidates: Candidates | None = None
    """The frozen candidate sets that B orders; None where B is no reranker."""
    settings: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)

    @property
    def is_redacted(self) -> bool:
        """Whether the texts of queries and documents are left out."""
        return bool(self.settings.get("redact"))

    def __repr__(self) -> str:
        return f"<Comparison: {self.verdict}>"

    def _repr_html_(self) -> str:
        # A notebook shows the report; render sits above this module and is needed only then.
        from embed_ab import render

        return render.notebook(self)


def with_names(comparison: Comparison, names: Mapping[SliceName, SliceName]) -> Comparison:
    """Return the comparison with other names for some slices, wherever they are data."""

    def shown(row: QueryRow) -> QueryRow:
        new = [names.get(name, name) for name in row.slice_names]
        return replace(row, slices={name.field: name.value for name in new})

    return replace(
        comparison,
        slices=renamed(comparison.slices, names),
        queries=tuple(map(shown, comparison.queries)),
        gates=tuple(
            replace(gate, slice=names.get(gate.slice, gate.slice) if gate.slice else None)
            for gate in comparison.gates
        ),
    )


def redacted(comparison: Comparison) -> Comparison:
    """Return the comparison with ids and numbers only, as `--redact` would have made it.

    The texts of queries and documents become "", settings and command say so. Slices by a field of
    the queries become "slice 1" and so on. Prompts stay, and the values that gates name: they are
    settings. Nothing else in a comparison quotes a text.
    """
    settings, command = comparison.settings, comparison.command
    if not comparison.is_redacted:
        settings = settings | {"redact": True}
        command = f"{command} --redact" if command else ""
    named = [gate.slice for gate in comparison.gates if gate.slice]
    comparison = with_names(comparison, hidden(comparison.slices, named))
    return replace(
        comparison,
        queries=tuple(replace(row, text="") for row in comparison.queries),
        details=tuple(
            replace(
                detail,
                relevant=tuple(replace(document, text="") for document in detail.relevant),
                a=tuple(replace(hit, text="") for hit in detail.a),
                b=tuple(replace(hit, text="") for hit in detail.b),
            )
            for detail in comparison.details
        ),
        settings=settings,
        command=command,
    )

"""The A/B core: two runs over one evaluation set become one comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab import cautions, gate, metrics, overlap, paired
from embed_ab.cautions import Caution, Evidence
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.gate import Gate, GateVerdict, Outcome
from embed_ab.metrics import Gain, Metric
from embed_ab.origin import System, Truncation
from embed_ab.paired import PairedDifference
from embed_ab.runs import Run

SCHEMA_VERSION = 1
RBO_P = 0.9
TEXT_LENGTH = 300

Values = NDArray[np.float64]
Number = float | None
"""A value of a query or a mean; None where the query is excluded."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One document of a ranked list, or a relevant document (score None)."""

    document: str
    score: Number
    grade: int | None
    """None where nobody judged the document."""
    text: str
    """At most 300 characters."""


@dataclass(frozen=True, kw_only=True)
class QueryRow:
    """One query with its values, metric by metric; `n_relevant` 0 means excluded."""

    query: str
    text: str
    n_relevant: int
    cluster: int | None
    """Which group it is resampled with; None when queries are resampled one by one."""
    a: dict[str, Number]
    b: dict[str, Number]
    bm25: dict[str, Number] | None
    jaccard: float
    rbo: float


@dataclass(frozen=True, kw_only=True)
class QueryDetail:
    """What A and B returned for one of the queries they disagree on most."""

    query: str
    relevant: tuple[Hit, ...]
    """The relevant documents, highest grade first, at most 10."""
    a: tuple[Hit, ...]
    b: tuple[Hit, ...]


@dataclass(frozen=True, kw_only=True)
class SystemRecord:
    """How a system was made (see `Origin`) and its means."""

    label: Literal["A", "B", "BM25"]
    system: str
    is_mock: bool
    query_prompt: str | None
    document_prompt: str | None
    revision: str
    max_length: int | None
    dimension: int | None
    details: dict[str, str]
    truncation: Truncation | None
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


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything a report, a comment, a gate or a notebook needs; JSON has the same keys.

    Only `measured` (times, counts of embedded and cached texts) varies between two runs on the
    same input with the same seed.
    """

    schema_version: int
    version: str
    outcome: Outcome
    verdict: str
    finding: Literal[
        "better", "worse", "no difference shown", "not worse than the margin", "inconclusive"
    ]
    primary: str
    metrics: tuple[str, ...]
    """Those to show; `differences` also holds what only a gate asked for."""
    evalset: EvalsetRecord
    systems: tuple[SystemRecord, ...]
    differences: tuple[PairedDifference, ...]
    gates: tuple[GateVerdict, ...]
    cautions: tuple[Caution, ...]
    ignored: tuple[str, ...]
    """Codes of cautions that apply and were hidden by `--ignore`."""
    overlap: Overlap
    queries: tuple[QueryRow, ...]
    details: tuple[QueryDetail, ...]
    conventions: dict[str, str]
    settings: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        # A notebook shows the report; render sits above this module and is needed only then.
        from embed_ab import render

        return render.notebook(self)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `compare_runs` may be told; the defaults live in `Settings`."""

    k: int
    metrics: tuple[Metric, ...]
    gates: tuple[Gate, ...]
    gain: Gain
    min_grade: int
    interval: paired.Method
    resamples: int
    seed: int
    cluster_by: str
    min_queries: int
    worst_queries: int
    ignore: frozenset[str]

    @property
    def primary(self) -> Metric:
        """The metric the verdict is about: the first gate's, else ndcg@k."""
        return self.gates[0].metric if self.gates else Metric(name="ndcg", k=self.k)

    @property
    def computed(self) -> tuple[Metric, ...]:
        """Displayed metrics first, then what gates and the verdict need."""
        return tuple(dict.fromkeys((*self.metrics, self.primary, *(g.metric for g in self.gates))))

    @property
    def depth(self) -> int:
        """How deep a run must be: one rank below the largest k shows ties at the cutoff."""
        return max(self.k, *(metric.k for metric in self.computed)) + 1


def compare_runs(
    evalset: Evalset, a: System, b: System, bm25: System | None, options: Options
) -> Comparison:
    """Compare B with A query by query.

    Raises: InputError when a metric has no query to be computed on or a cluster field is unknown.
    """
    from embed_ab import __version__

    systems = {"A": a, "B": b} | ({"BM25": bm25} if bm25 else {})
    values = {
        label: metrics.evaluate(
            options.computed,
            system.run,
            evalset.qrels,
            gain=options.gain,
            min_grade=options.min_grade,
        )
        for label, system in systems.items()
    }
    for metric, of_metric in values["A"].items():
        if np.isnan(of_metric).all():
            raise InputError(
                f"no query has a relevant document for {metric}, so there is nothing to compare",
                hint=f"Relevant is a grade of {options.min_grade} or more (--min-grade).",
            )
    gold = gold_documents(evalset, options.min_grade)
    clusters = _clusters(evalset, options.cluster_by, gold)
    verdicts, differences = verdict_of(values["A"], values["B"], clusters, options)
    primary = next(d for d in differences if d.metric == str(options.primary))
    found = cautions.cautions(
        Evidence(
            evalset=evalset,
            a=a,
            b=b,
            bm25=bm25,
            k=options.k,
            primary=options.primary,
            values=values,
            difference=primary,
            gold=gold,
            clusters=clusters,
            gain=options.gain,
            min_grade=options.min_grade,
        )
    )
    lists = a.run.documents, b.run.documents
    jaccard = overlap.jaccard(*lists, options.k)
    rbo = overlap.rbo_ext(*lists, options.k, RBO_P)
    outcome, finding, sentence = _conclusion(primary, verdicts, options.min_queries)
    return Comparison(
        schema_version=SCHEMA_VERSION,
        version=__version__,
        outcome=outcome,
        verdict=sentence,
        finding=finding,
        primary=str(options.primary),
        metrics=tuple(map(str, options.metrics)),
        evalset=_evalset_record(evalset),
        systems=tuple(_system_record(label, s, values[label]) for label, s in systems.items()),
        differences=differences,
        gates=verdicts,
        cautions=tuple(c for c in found if c.code not in options.ignore),
        ignored=tuple(sorted({c.code for c in found} & options.ignore)),
        overlap=Overlap(k=options.k, p=RBO_P, jaccard=float(jaccard.mean()), rbo=float(rbo.mean())),
        queries=tuple(
            QueryRow(
                query=evalset.query_ids[query],
                text=evalset.query_texts[query],
                n_relevant=int(np.sum(evalset.qrels.of(query)[1] >= options.min_grade)),
                cluster=None if clusters is None else int(clusters[query]),
                a=_row(values["A"], query),
                b=_row(values["B"], query),
                bm25=_row(values["BM25"], query) if bm25 else None,
                jaccard=float(jaccard[query]),
                rbo=float(rbo[query]),
            )
            for query in range(len(evalset.query_ids))
        ),
        details=tuple(
            _detail(evalset, query, a.run, b.run, options)
            for query in extreme_queries(
                values["B"][options.primary] - values["A"][options.primary], options.worst_queries
            )
        ),
        conventions=_conventions(options),
    )


def verdict_of(
    values_a: Mapping[Metric, Values],
    values_b: Mapping[Metric, Values],
    clusters: NDArray[np.int64] | None,
    options: Options,
) -> tuple[tuple[GateVerdict, ...], tuple[PairedDifference, ...]]:
    """Return the gates' verdicts and the paired differences of all metrics, from the same draws."""

    def differences(level: float) -> tuple[PairedDifference, ...]:
        return paired.paired_differences(
            values_a,
            values_b,
            seed=options.seed,
            resamples=options.resamples,
            method=options.interval,
            level=level,
            clusters=clusters,
        )

    shown = differences(0.95)
    level = gate.gate_level(len(options.gates))
    at_level = {d.metric: d for d in (shown if level == 0.95 else differences(level))}
    verdicts = tuple(
        gate.judge(g, at_level[str(g.metric)], min_queries=options.min_queries)
        for g in options.gates
    )
    return verdicts, shown


def judged_again(
    old: Comparison,
    values_a: Mapping[Metric, Values],
    values_b: Mapping[Metric, Values],
    clusters: NDArray[np.int64] | None,
    options: Options,
) -> Comparison:
    """Return `old` with the verdicts of the gates in `options` on its own values."""
    verdicts, differences = verdict_of(values_a, values_b, clusters, options)
    primary = next(d for d in differences if d.metric == str(options.primary))
    outcome, finding, sentence = _conclusion(primary, verdicts, options.min_queries)
    return replace(
        old,
        outcome=outcome,
        finding=finding,
        verdict=sentence,
        gates=verdicts,
        primary=str(options.primary),
    )


def gold_documents(evalset: Evalset, min_grade: int) -> NDArray[np.int64]:
    """Return each query's best relevant document (lowest id on ties), −1 for none; (n_queries,)."""
    gold = np.full(len(evalset.query_ids), -1, dtype=np.int64)
    for query in range(gold.size):
        documents, grades = evalset.qrels.of(query)
        if grades.size and grades.max() >= max(min_grade, 1):
            gold[query] = documents[np.argmax(grades)]
    return gold


def extreme_queries(difference: Values, n: int) -> list[int]:
    """Return up to n queries B loses, worst first, then up to n it wins, best first."""
    order = np.argsort(difference, kind="stable")  # NaN last; equal ones by query id
    losses = [int(query) for query in order if difference[query] < -paired.TOLERANCE]
    order = np.argsort(-difference, kind="stable")
    wins = [int(query) for query in order if difference[query] > paired.TOLERANCE]
    return losses[:n] + wins[:n]


def _clusters(
    evalset: Evalset, cluster_by: str, gold: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    if cluster_by == "none":
        return None
    if cluster_by == "gold":
        # Queries without a relevant document have no value either; each is its own group.
        own = np.arange(gold.size) + len(evalset.document_ids)
        return np.unique(np.where(gold >= 0, gold, own), return_inverse=True)[1].astype(np.int64)
    fields = [str(metadata.get(cluster_by, "")) for metadata in evalset.query_metadata]
    if not any(cluster_by in metadata for metadata in evalset.query_metadata):
        known = sorted({name for metadata in evalset.query_metadata for name in metadata})
        raise InputError(
            f"--cluster-by {cluster_by}: no query has a field '{cluster_by}'",
            hint=f"Use none, gold or a field of queries.jsonl: {', '.join(known) or '(none)'}.",
        )
    return np.unique(np.array(fields), return_inverse=True)[1].astype(np.int64)


def _conclusion(
    primary: PairedDifference, verdicts: Sequence[GateVerdict], min_queries: int
) -> tuple[Outcome, Any, str]:
    outcome = gate.overall(verdicts)
    deciding = next((v for v in verdicts if v.outcome == outcome), None)
    shown = deciding or primary
    numbers = (
        f"{shown.metric} B − A = {shown.difference:+z.3f}, {100 * shown.level:.4g}% interval "
        f"[{shown.low:+z.3f}, {shown.high:+z.3f}], {shown.n_queries} queries"
    )
    if deciding is not None:
        sentence = {
            "worse": "B is worse than A, and the loss measured exceeds the margin of "
            f"{deciding.margin:g}: {numbers}.",
            "not worse than the margin": "B is not worse than A by more than the margin of "
            f"{deciding.margin:g}: {numbers}.",
            "inconclusive": f"Inconclusive: this set cannot tell whether B is worse than A by more "
            f"than {deciding.margin:g}: {numbers}"
            + (
                f"; it would take about {deciding.queries_needed} queries."
                if deciding.queries_needed and deciding.queries_needed > deciding.n_queries
                else "."
            ),
        }[deciding.finding]
        return outcome, deciding.finding, sentence
    if primary.n_queries < min_queries:
        few = f"{primary.n_queries} queries are fewer than the {min_queries} a verdict needs"
        return outcome, "no difference shown", f"No difference shown: {numbers}; {few}."
    if primary.low > 0:
        return outcome, "better", f"B is better than A: {numbers}."
    if primary.high < 0:
        return outcome, "worse", f"B is worse than A: {numbers}."
    seen = (
        f"; this set can detect a difference of about {primary.detectable:.3f}."
        if primary.detectable is not None
        else "."
    )
    return outcome, "no difference shown", f"No difference shown: {numbers}{seen}"


def _row(values: Mapping[Metric, Values], query: int) -> dict[str, Number]:
    return {str(metric): _number(of_metric[query]) for metric, of_metric in values.items()}


def _number(value: float) -> Number:
    return None if np.isnan(value) else float(value)


def _system_record(label: Any, system: System, values: Mapping[Metric, Values]) -> SystemRecord:
    origin = system.origin
    present = {metric: v[~np.isnan(v)] for metric, v in values.items()}
    return SystemRecord(
        label=label,
        system=origin.system,
        is_mock=origin.is_mock,
        query_prompt=origin.query_prompt,
        document_prompt=origin.document_prompt,
        revision=origin.revision,
        max_length=origin.max_length,
        dimension=origin.dimension,
        details=origin.details,
        truncation=origin.truncation,
        means={str(m): float(v.mean()) if v.size else None for m, v in present.items()},
        n_queries={str(m): v.size for m, v in present.items()},
        wilson={
            str(m): paired.wilson(int(v.sum()), v.size)
            for m, v in present.items()
            if m.name == "hit" and v.size
        },
    )


def _evalset_record(evalset: Evalset) -> EvalsetRecord:
    n_evaluated = int(evalset.is_evaluated.sum())
    return EvalsetRecord(
        name=evalset.name,
        digest=evalset.digest,
        n_documents=len(evalset.document_ids),
        n_empty_documents=int(evalset.is_empty.sum()),
        n_queries=len(evalset.query_ids),
        n_evaluated=n_evaluated,
        n_excluded=len(evalset.query_ids) - n_evaluated,
        n_judgements=evalset.qrels.grades.size,
        notices=tuple(notice.message for notice in evalset.notices),
    )


def _detail(evalset: Evalset, query: int, a: Run, b: Run, options: Options) -> QueryDetail:
    documents, grades = evalset.qrels.of(query)
    grade_of = dict(zip(documents.tolist(), grades.tolist(), strict=True))

    def hit(document: int, score: Number) -> Hit:
        return Hit(
            document=evalset.document_ids[document],
            score=score,
            grade=grade_of.get(document),
            text=evalset.document_texts[document][:TEXT_LENGTH],
        )

    def hits(run: Run) -> tuple[Hit, ...]:
        ranked = zip(run.documents[query, : options.k], run.scores[query, : options.k], strict=True)
        return tuple(hit(int(d), float(s)) for d, s in ranked if d >= 0)

    relevant = [d for d, grade in grade_of.items() if grade >= options.min_grade]
    relevant.sort(key=lambda d: (-grade_of[d], d))
    return QueryDetail(
        query=evalset.query_ids[query],
        relevant=tuple(hit(d, None) for d in relevant[:10]),
        a=hits(a),
        b=hits(b),
    )


def _conventions(options: Options) -> dict[str, str]:
    gain = "2^grade − 1" if options.gain == "exponential" else "the grade itself"
    by = {"none": "queries", "gold": "groups of queries with the same best relevant document"}
    return {
        "document text": "title and text joined with one space",
        "ranking": "score descending, then document id ascending; documents without text are never "
        "retrieved",
        "nDCG": f"gain {gain}, discount log2(rank + 1), ideal order over all judged documents",
        "relevant": f"grade {options.min_grade} or higher; unjudged counts as not relevant",
        "excluded": "queries without a relevant document are left out of the means",
        "interval": f"95 % {options.interval} percentile bootstrap"
        if options.interval != "bca"
        else "95 % BCa bootstrap",
        "resampling": f"{options.resamples} resamples of "
        f"{by.get(options.cluster_by, f'groups of queries with the same {options.cluster_by}')}, "
        f"seed {options.seed}",
        "p-value": "two-sided sign-flip randomisation test, Holm-adjusted over the metrics shown",
    }

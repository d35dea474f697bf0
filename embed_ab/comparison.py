"""The A/B core: two runs over one evaluation set become one comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab import cautions, gate, metrics, overlap, paired, rerank, resampling, slices
from embed_ab.cautions import Evidence
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset, normalized_text
from embed_ab.gate import Gate, GateVerdict, SliceName
from embed_ab.metrics import Gain, Metric
from embed_ab.origin import System
from embed_ab.paired import PairedDifference
from embed_ab.result import (
    SCHEMA_VERSION,
    Comparison,
    EvalsetRecord,
    Hit,
    Number,
    Overlap,
    QueryDetail,
    QueryRow,
    Relevant,
    SystemRecord,
)
from embed_ab.runs import Run

RBO_P = 0.9
TEXT_LENGTH = 300
MAX_HITS = 20
"""Documents of each list that a detailed query shows."""
MAX_RELEVANT = 10
_SIDES: tuple[Literal["A", "B"], ...] = ("A", "B")
SLICED = (
    "the difference of every slice as that of the whole; p-values Holm-adjusted over all slices of "
    "{} queries or more; against the whole: the interval lies on the other side of 0"
)
MIN_DEPTH = 100
"""Runs are at least so deep: what TREC tools expect, and what condensed lists need."""

Values = NDArray[np.float64]
Masks = Mapping[SliceName, NDArray[np.bool_]]
"""(n_queries,) for each slice that a gate names: which queries are in it."""


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
    slice_by: tuple[str, ...]
    min_queries: int
    worst_queries: int
    ignore: frozenset[str]

    @property
    def primary(self) -> Metric:
        """The first gate's metric, else ndcg@k."""
        return self.gates[0].metric if self.gates else Metric(name="ndcg", k=self.k)

    @property
    def computed(self) -> tuple[Metric, ...]:
        """Displayed metrics first, then what gates and the verdict need."""
        return tuple(dict.fromkeys((*self.metrics, self.primary, *(g.metric for g in self.gates))))

    @property
    def deepest(self) -> int:
        """The largest k in use, at least MIN_DEPTH."""
        return max(MIN_DEPTH, self.k, *(metric.k for metric in self.computed))

    @property
    def depth(self) -> int:
        """How deep a run must be: one rank below the deepest cutoff shows ties across it."""
        return self.deepest + 1


def compare_runs(
    evalset: Evalset, a: System, b: System, bm25: System | None, options: Options
) -> Comparison:
    """Compare B with A query by query.

    Raises: InputError when no query has a relevant document, the clusters are of no use, or there
        is no such slice.
    """
    from embed_ab import __version__

    n_relevant = metrics.count_relevant(evalset.qrels, options.min_grade)
    if not n_relevant.any():
        raise InputError(
            f"no query has a document of grade {options.min_grade} or more, so there is nothing to "
            "compare",
            hint="Check the grades in the qrels, or lower --min-grade.",
        )
    if not any((system.run.documents >= 0).any() for system in (a, b)):
        raise InputError(
            "neither A nor B finds any document, so there is nothing to compare",
            hint="Look at the texts: with BM25, queries and documents must share words.",
        )
    systems = {"A": a, "B": b} | ({"BM25": bm25} if bm25 else {})
    values = {label: _values(system.run, evalset, options) for label, system in systems.items()}
    gold = gold_documents(evalset, options.min_grade)
    clusters = clusters_by(options.cluster_by, evalset, gold)
    gated = [g.slice for g in options.gates if g.slice]
    parts = slices.partitions(
        options.slice_by, gated, evalset, a, b, gold=gold, n_relevant=n_relevant
    )
    of_field = {part.field: part for part in parts}
    masks = {name: of_field[name.field].mask(name.value) for name in gated}
    verdicts, differences = verdict_of(values["A"], values["B"], clusters, masks, options)
    of_metric = {difference.metric: difference for difference in differences}
    conclusion = gate.conclude(
        of_metric[str(options.primary)], verdicts, min_queries=options.min_queries
    )
    primary = Metric.parse(conclusion.metric)
    sliced = slices.sliced(
        parts,
        _differences(values["A"], values["B"], clusters, options, gate.LEVEL),
        of_metric[conclusion.metric],
        min_queries=options.min_queries,
    )
    found = cautions.cautions(
        Evidence(
            evalset=evalset,
            a=a,
            b=b,
            bm25=bm25,
            k=options.k,
            metrics=options.computed,
            primary=primary,
            values=values,
            difference=of_metric[conclusion.metric],
            gold=gold,
            clusters=clusters,
            gain=options.gain,
            min_grade=options.min_grade,
        )
    )
    lists = a.run.documents, b.run.documents
    jaccard = overlap.jaccard(*lists, options.k)
    firsts = {label: _first_relevant(s.run, evalset, options) for label, s in systems.items()}
    cut = {label: _relevant_cut(system, evalset, options) for label, system in systems.items()}
    rbo = overlap.rbo_ext(*lists, options.k, RBO_P)
    return Comparison(
        schema_version=SCHEMA_VERSION,
        version=__version__,
        outcome=conclusion.outcome,
        verdict=conclusion.sentence,
        finding=conclusion.finding,
        primary=conclusion.metric,
        metrics=tuple(map(str, options.metrics)),
        min_grade=options.min_grade,
        depth=options.deepest,
        evalset=_evalset_record(evalset, n_evaluated=int(np.count_nonzero(n_relevant))),
        systems=tuple(
            _system_record(label, s, values[label], n_vectors=int(np.sum(~evalset.is_empty)))
            for label, s in systems.items()
        ),
        differences=differences,
        slices=sliced,
        gates=verdicts,
        cautions=tuple(c for c in found if c.code not in options.ignore),
        ignored=tuple(sorted({c.code for c in found} & options.ignore)),
        overlap=Overlap(k=options.k, p=RBO_P, jaccard=float(jaccard.mean()), rbo=float(rbo.mean())),
        queries=tuple(
            QueryRow(
                query=evalset.query_ids[query],
                text=evalset.query_texts[query],
                n_relevant=int(n_relevant[query]),
                cluster=None if clusters is None else int(clusters[query]),
                rank_a=firsts["A"][query][0],
                rank_b=firsts["B"][query][0],
                unjudged_a=firsts["A"][query][1],
                unjudged_b=firsts["B"][query][1],
                truncated=tuple(label for label in _SIDES if query in cut[label]),
                slices=slices.values_of(parts, query),
                a=_row(values["A"], query),
                b=_row(values["B"], query),
                bm25=_row(values["BM25"], query) if bm25 else None,
                jaccard=float(jaccard[query]),
                rbo=float(rbo[query]),
            )
            for query in range(len(evalset.query_ids))
        ),
        details=tuple(
            _detail(evalset, query, a.run, b.run, bm25.run if bm25 else None, options)
            for query in telling_queries(
                values["B"][primary] - values["A"][primary], jaccard, options.worst_queries
            )
        ),
        conventions=_conventions(options, is_sliced=bool(sliced)),
        candidates=None
        if b.candidates is None
        else rerank.examine(
            evalset,
            b.candidates,
            a.candidates or a.run,
            differences,
            is_a_frozen=a.candidates is not None,
            gain=options.gain,
            min_grade=options.min_grade,
        ),
    )


def _values(run: Run, evalset: Evalset, options: Options) -> dict[Metric, Values]:
    """Values per metric; every metric leaves out the same queries: those without a relevant one."""
    is_excluded = metrics.count_relevant(evalset.qrels, options.min_grade) == 0
    values = metrics.evaluate(
        options.computed, run, evalset.qrels, gain=options.gain, min_grade=options.min_grade
    )
    return {metric: np.where(is_excluded, np.nan, found) for metric, found in values.items()}


def verdict_of(
    values_a: Mapping[Metric, Values],
    values_b: Mapping[Metric, Values],
    clusters: NDArray[np.int64] | None,
    masks: Masks,
    options: Options,
) -> tuple[tuple[GateVerdict, ...], tuple[PairedDifference, ...]]:
    """Return the gates' verdicts and the paired differences of all metrics, from the same draws."""
    everything = np.ones(len(next(iter(values_a.values()))), dtype=np.bool_)
    shown = _differences(values_a, values_b, clusters, options, gate.LEVEL)(everything)
    level = gate.gate_level(len(options.gates))
    at_level = _differences(values_a, values_b, clusters, options, level)
    of_part: dict[SliceName | None, tuple[PairedDifference, ...]] = {}
    if level == gate.LEVEL:
        of_part[None] = shown

    def judge(one: Gate) -> GateVerdict:
        if one.slice not in of_part:
            of_part[one.slice] = at_level(masks[one.slice] if one.slice else everything)
        difference = next(d for d in of_part[one.slice] if d.metric == str(one.metric))
        return gate.judge(one, difference, min_queries=options.min_queries)

    return tuple(map(judge, options.gates)), shown


def _differences(
    values_a: Mapping[Metric, Values],
    values_b: Mapping[Metric, Values],
    clusters: NDArray[np.int64] | None,
    options: Options,
    level: float,
) -> Callable[[NDArray[np.bool_]], tuple[PairedDifference, ...]]:
    """Return what compares A and B on the queries of a mask, (n_queries,), metric by metric."""

    def of(mask: NDArray[np.bool_]) -> tuple[PairedDifference, ...]:
        return paired.paired_differences(
            {metric: values[mask] for metric, values in values_a.items()},
            {metric: values[mask] for metric, values in values_b.items()},
            seed=options.seed,
            resamples=options.resamples,
            method=options.interval,
            level=level,
            clusters=None if clusters is None else clusters[mask],
        )

    return of


def judged_again(
    old: Comparison,
    values_a: Mapping[Metric, Values],
    values_b: Mapping[Metric, Values],
    clusters: NDArray[np.int64] | None,
    masks: Masks,
    options: Options,
) -> Comparison:
    """Return `old` with the verdicts of the gates in `options` on its own values."""
    verdicts, differences = verdict_of(values_a, values_b, clusters, masks, options)
    conclusion = gate.conclude(differences[0], verdicts, min_queries=options.min_queries)
    whole = next(d for d in old.differences if d.metric == conclusion.metric)
    return replace(
        old,
        outcome=conclusion.outcome,
        finding=conclusion.finding,
        verdict=conclusion.sentence,
        primary=conclusion.metric,
        slices=slices.judged(old.slices, whole, min_queries=options.min_queries),
        gates=verdicts,
    )


def gold_documents(evalset: Evalset, min_grade: int) -> NDArray[np.int64]:
    """Return each query's best relevant document (lowest id on ties), −1 for none; (n_queries,)."""
    gold = np.full(len(evalset.query_ids), -1, dtype=np.int64)
    for query in range(gold.size):
        documents, grades = evalset.qrels.of(query)
        if grades.size and grades.max() >= max(min_grade, 1):
            gold[query] = documents[np.argmax(grades)]
    return gold


def telling_queries(difference: Values, jaccard: Values, n: int) -> list[int]:
    """Return up to n queries B loses, worst first, up to n it wins, best first, then others.

    There are 2n if there are so many queries: the others are those that changed most, then those
    whose lists are least alike. difference, jaccard: (n_queries,).
    """
    order = np.argsort(difference, kind="stable")  # NaN last; equal ones by query id
    losses = [int(query) for query in order if difference[query] < -paired.TOLERANCE]
    order = np.argsort(-difference, kind="stable")
    wins = [int(query) for query in order if difference[query] > paired.TOLERANCE]
    telling = losses[:n] + wins[:n]
    change = np.round(np.nan_to_num(np.abs(difference)), 9)  # noise would order the ties
    is_excluded = np.isnan(difference)
    others = np.lexsort((jaccard, -change, is_excluded)).tolist()
    shown = set(telling)
    rest = [query for query in others if query not in shown]
    return telling + rest[: 2 * n - len(telling)]


def _first_relevant(run: Run, evalset: Evalset, options: Options) -> list[tuple[int | None, int]]:
    """Return each query's rank of the first relevant document, and what is unjudged above it.

    Unjudged documents are counted up to rank k.
    """
    grades = metrics.grade_matrix(run.documents[:, : options.deepest], evalset.qrels)
    is_relevant = grades >= options.min_grade
    found = np.where(is_relevant.any(axis=1), is_relevant.argmax(axis=1), grades.shape[1])
    is_above = np.arange(grades.shape[1]) < np.minimum(found, options.k)[:, None]
    n_unjudged = np.count_nonzero((grades == metrics.UNJUDGED) & is_above, axis=1)
    return [
        (int(rank) + 1 if rank < grades.shape[1] else None, int(n))
        for rank, n in zip(found, n_unjudged, strict=True)
    ]


def _relevant_cut(system: System, evalset: Evalset, options: Options) -> set[int]:
    """Return the queries with a relevant document whose end the system never saw."""
    if system.is_cut is None:
        return set()
    qrels = evalset.qrels
    is_cut = system.is_cut[qrels.documents] & (qrels.grades >= options.min_grade)
    rows = np.searchsorted(qrels.offsets, np.flatnonzero(is_cut), side="right") - 1
    return set(rows.tolist())


def clusters_by(
    cluster_by: str, evalset: Evalset, gold: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the group of each query, (n_queries,), or None when queries are resampled one by one.

    A query without the field is a group of its own. Values are told apart by type: 1 is not "1".
    Raises: InputError for a field no query has, or one that puts all queries into one group.
    """
    if cluster_by == "none":
        return None
    if cluster_by == "gold":
        groups = [str(document) if document >= 0 else None for document in gold]
    else:
        groups = [
            None
            if metadata.get(cluster_by) is None
            else json.dumps(metadata[cluster_by], sort_keys=True)
            for metadata in evalset.query_metadata
        ]
        if not any(groups):
            known = sorted({name for metadata in evalset.query_metadata for name in metadata})
            raise InputError(
                f"--cluster-by {cluster_by}: no query has a field '{cluster_by}'",
                hint=f"Use none, gold or a field of queries.jsonl: {', '.join(known) or '(none)'}.",
            )
    named = [group or f"alone {query}" for query, group in enumerate(groups)]
    clusters = np.unique(np.array(named), return_inverse=True)[1].astype(np.int64)
    if np.unique(clusters[gold >= 0]).size < 2 <= np.count_nonzero(gold >= 0):
        raise InputError(
            f"--cluster-by {cluster_by} puts all evaluated queries into one group",
            hint="An interval needs several groups; use --cluster-by none.",
        )
    return clusters


def _row(values: Mapping[Metric, Values], query: int) -> dict[str, Number]:
    return {str(metric): _number(of_metric[query]) for metric, of_metric in values.items()}


def _number(value: float) -> Number:
    return None if np.isnan(value) else float(value)


def _system_record(
    label: Any, system: System, values: Mapping[Metric, Values], *, n_vectors: int
) -> SystemRecord:
    origin = system.origin
    n_bytes = system.bytes_per_vector
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
        bytes_per_vector=n_bytes,
        corpus_bytes=None if n_bytes is None else n_bytes * n_vectors,
        means={str(m): resampling.mean(v) if v.size else None for m, v in present.items()},
        n_queries={str(m): v.size for m, v in present.items()},
        wilson={
            str(m): paired.wilson(int(v.sum()), v.size)
            for m, v in present.items()
            if m.name == "hit" and v.size
        },
    )


def _evalset_record(evalset: Evalset, *, n_evaluated: int) -> EvalsetRecord:
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


def _detail(
    evalset: Evalset, query: int, a: Run, b: Run, bm25: Run | None, options: Options
) -> QueryDetail:
    documents, grades = evalset.qrels.of(query)
    grade_of = dict(zip(documents.tolist(), grades.tolist(), strict=True))
    relevant = [d for d, grade in grade_of.items() if grade >= options.min_grade]
    relevant.sort(key=lambda d: (-grade_of[d], d))
    alike = {_letters(evalset, document): document for document in reversed(relevant)}

    def text(document: int) -> str:
        return evalset.document_texts[document][:TEXT_LENGTH]

    def hits(run: Run) -> tuple[Hit, ...]:
        n_shown = min(options.k, MAX_HITS)
        ranked = zip(run.documents[query, :n_shown], run.scores[query, :n_shown], strict=True)
        return tuple(
            Hit(
                document=evalset.document_ids[document],
                score=float(score),
                grade=grade_of.get(int(document)),
                text=text(document),
                rank_bm25=rank(document, bm25),
                twin_of=twin_of(int(document)),
            )
            for document, score in ranked
            if document >= 0
        )

    def twin_of(document: int) -> str:
        if grade_of.get(document, 0) >= options.min_grade:
            return ""
        twin = alike.get(_letters(evalset, document))
        return "" if twin is None else evalset.document_ids[twin]

    def rank(document: int, run: Run | None) -> int | None:
        if run is None:
            return None
        found = np.flatnonzero(run.documents[query, : options.deepest] == document)
        return int(found[0]) + 1 if found.size else None

    return QueryDetail(
        query=evalset.query_ids[query],
        relevant=tuple(
            Relevant(
                document=evalset.document_ids[document],
                grade=grade_of[document],
                rank_a=rank(document, a),
                rank_b=rank(document, b),
                text=text(document),
                rank_bm25=rank(document, bm25),
            )
            for document in relevant[:MAX_RELEVANT]
        ),
        a=hits(a),
        b=hits(b),
    )


def _letters(evalset: Evalset, document: int) -> str:
    text = evalset.document_texts[document]
    return normalized_text(text) or text


def _conventions(options: Options, *, is_sliced: bool) -> dict[str, str]:
    gain = "2^grade − 1" if options.gain == "exponential" else "the grade itself"
    kinds = {"expanded": "expanded percentiles", "percentile": "percentiles", "bca": "BCa"}
    by = {"none": "queries", "gold": "groups of queries with the same best relevant document"}
    return {
        "document text": "title and text joined with one space",
        "ranking": "score descending, then document id ascending; only run files rank documents "
        "without text",
        "nDCG": f"gain {gain}, discount log2(rank + 1), ideal order over all judged documents",
        "relevant": f"grade {options.min_grade} or higher; unjudged counts as not relevant",
        "excluded": "queries without a relevant document are left out of the means",
        "interval": f"95 % paired bootstrap, {kinds[options.interval]}",
        "resampling": f"{options.resamples} resamples of "
        f"{by.get(options.cluster_by, f'groups of queries with the same {options.cluster_by}')}, "
        f"seed {options.seed}",
        "p-value": "two-sided sign-flip randomisation test, Holm-adjusted over the metrics shown",
    } | ({"slices": SLICED.format(options.min_queries)} if is_sliced else {})

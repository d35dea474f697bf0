"""Everything that argues against a comparison, each with a stable code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab import formats, metrics
from embed_ab.bm25 import tokenize
from embed_ab.evalset import Evalset, normalized_text
from embed_ab.metrics import Gain, Metric
from embed_ab.origin import System
from embed_ab.paired import PairedDifference
from embed_ab.runs import Run, RunFile

Values = NDArray[np.float64]

SAME_VECTOR = 0.999
"""Vectors of one text whose cosine is below this are not the same; half precision is above."""

MIN_TOKENS_PER_WORD = 0.5
"""Fewer tokens counted for a word of spaced text were never those of the whole text."""
COPIED = 0.9
"""A query that takes so large a share of its words from its document is a copy of it."""

CODES = {
    "mock_models": "Mock vectors are for practice and say nothing about a real model.",
    "few_queries": "Fewer than 30 queries (or groups of them) were evaluated.",
    "not_significant": "The interval of the primary metric's difference includes 0.",
    "identical_rankings": "A and B return the same top documents for every query.",
    "near_random_model": "A system hits no more often than chance, or all its cosines are alike.",
    "missing_prompt": "A model runs without the prompts its family was trained with.",
    "truncated_documents": "A model cut more than 5 % of the documents at its length limit.",
    "truncated_pairs": "A reranker cut more than 5 % of its pairs at its length limit.",
    "silent_cut": "A server counts far fewer tokens than long texts have words: cut in silence?",
    "batch_mismatch": "A model gives a text another vector in a batch than alone.",
    "other_chunking": "Most document ids in a file of vectors are not in the set: other chunks?",
    "ceiling": "Both systems reach 0.95 or more: no room is left to differ.",
    "recall_ceiling": "The best possible recall is below 0.95: more relevant documents than k.",
    "tiny_corpus": "k covers more than 20 % of the corpus.",
    "ambiguous_queries": "More than 5 % of the queries are marked as ambiguous by build-set.",
    "copied_queries": "More than 20 % of the queries take 90 % of their words from their document.",
    "shared_relevant_documents": "More than 20 % of the queries share their relevant document.",
    "duplicate_documents": "Documents are twins in letters and digits; a hit on one is a miss.",
    "unjudged_gap": "Of what is not relevant, the worse system returns 5 % more never judged.",
    "tied_at_cutoff": "Equal scores at a metric's cutoff were ordered by document id.",
    "duplicate_hits": "A run file holds a document twice for a query; the first line counts.",
    "unknown_documents": "A run file holds documents or queries that the set lacks.",
    "missing_queries": "A run file holds nothing for some queries of the set.",
    "shallow_run": "For many queries a system returns fewer documents than a metric looks at.",
    "bm25_zero_hits": "BM25 finds nothing for more than 5 % of the queries: wrong tokens?",
    "unpinned_model": "A model from a hub has no commit, so its weights may change overnight.",
}
"""Every code with its meaning; the README's table and `--ignore` are checked against it."""


Label = Literal["A", "B"]


@dataclass(frozen=True, kw_only=True)
class Caution:
    """One argument against trusting the result, with numbers, and what to do about it.

    sides: "A", "B" or both, where it is about a system; none where it is about the set or about
        the difference.
    """

    code: str
    message: str
    advice: str
    sides: tuple[Label, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the cautions look at.

    `values` holds, for A and B, the per-query values of every computed metric, (n_queries,) each
    and NaN for excluded queries; `metrics` are those metrics.
    `gold` is each query's best relevant document, −1 for none; `clusters` is None when queries are
    resampled one by one.
    """

    evalset: Evalset
    a: System
    b: System
    bm25: System | None
    k: int
    metrics: tuple[Metric, ...]
    primary: Metric
    values: Mapping[str, Mapping[Metric, Values]]
    difference: PairedDifference
    gold: NDArray[np.int64]
    clusters: NDArray[np.int64] | None
    gain: Gain
    min_grade: int

    @property
    def cutoffs(self) -> list[int]:
        """The distinct ranks that metrics or overlap look at, ascending."""
        return sorted({self.k, *(metric.k for metric in self.metrics)})

    @property
    def sides(self) -> tuple[tuple[Label, System], tuple[Label, System]]:
        """A and B with their labels."""
        return (("A", self.a), ("B", self.b))

    @property
    def leaves(self) -> list[tuple[Label, System]]:
        """A and B, or where one is made of other systems those, with their labels."""
        return [(side, leaf) for side, system in self.sides for leaf in system.leaves]

    @property
    def run_files(self) -> list[tuple[Label, System, RunFile]]:
        """The leaves that came as a run file."""
        return [(side, s, s.origin.file) for side, s in self.leaves if s.origin.file is not None]

    def mean(self, side: str, metric: Metric) -> float:
        """Return the mean over the evaluated queries."""
        return float(np.nanmean(self.values[side][metric]))

    def value(self, metric: Metric, run: Run) -> Values:
        """Return the per-query values of a metric that need not be among the displayed ones."""
        return metrics.evaluate(
            [metric], run, self.evalset.qrels, gain=self.gain, min_grade=self.min_grade
        )[metric]


def cautions(evidence: Evidence) -> tuple[Caution, ...]:
    """Return every caution that applies, most general first."""
    checks = (
        _mock_models,
        _few_queries,
        _not_significant,
        _identical_rankings,
        _near_random_model,
        _missing_prompt,
        _truncated_documents,
        _truncated_pairs,
        _silent_cut,
        _batch_mismatch,
        _other_chunking,
        _ceiling,
        _recall_ceiling,
        _tiny_corpus,
        _ambiguous_queries,
        _copied_queries,
        _shared_relevant_documents,
        _duplicate_documents,
        _unjudged_gap,
        _tied_at_cutoff,
        _duplicate_hits,
        _unknown_documents,
        _missing_queries,
        _shallow_run,
        _bm25_zero_hits,
        _unpinned_model,
    )
    return tuple(caution for check in checks for caution in check(evidence))


def _mock_models(e: Evidence) -> Iterator[Caution]:
    names = {
        side: f"{side} ({system.origin.system})"
        for side, system in e.sides
        if system.origin.is_mock
    }
    if names:
        yield Caution(
            code="mock_models",
            sides=tuple(names),
            message=f"Mock vectors in use: {' and '.join(names.values())}. They are hashed letters "
            "and words, and these numbers say nothing about a real model.",
            advice="Use them to try the tool; compare real models with -a st:… -b st:….",
        )


def _few_queries(e: Evidence) -> Iterator[Caution]:
    n = e.difference.n_units
    if n < 30:
        what = "query" if e.clusters is None else "group of queries"
        if n > 1:
            what = "queries" if e.clusters is None else "groups of queries"
        yield Caution(
            code="few_queries",
            message=f"Only {n} {what} {'was' if n == 1 else 'were'} evaluated; intervals from so "
            "few are rough.",
            advice=f"Add {'questions' if e.clusters is None else 'groups of questions'}: 100 show "
            "a difference of about a third the size that 10 do.",
        )


def _not_significant(e: Evidence) -> Iterator[Caution]:
    d = e.difference
    if d.low <= 0 <= d.high:
        seen = (
            f"; this set can detect a difference of about {d.detectable:.3f}"
            if d.detectable is not None
            else ""
        )
        yield Caution(
            code="not_significant",
            message=f"{d.metric}: the {d.level:.0%} interval of B − A, "
            f"{formats.interval(d.low, d.high)}, includes 0{seen}.",
            advice="Do not read the sign of the difference as a result; more queries may tell.",
        )


def _identical_rankings(e: Evidence) -> Iterator[Caution]:
    k = e.cutoffs[-1]
    if np.array_equal(e.a.run.documents[:, :k], e.b.run.documents[:, :k]):
        yield Caution(
            code="identical_rankings",
            message=f"A and B return the same top {k} in the same order for all "
            f"{len(e.evalset.query_ids)} queries.",
            advice="Check that A and B are not the same model under two names.",
        )


def _near_random_model(e: Evidence) -> Iterator[Caution]:
    qrels, n_documents = e.evalset.qrels, int(np.sum(~e.evalset.is_empty))
    hit = Metric(name="hit", k=e.k)
    n_relevant = np.array(
        [np.sum(qrels.of(query)[1] >= e.min_grade) for query in range(len(e.evalset.query_ids))]
    )
    n_relevant = n_relevant[n_relevant > 0]
    if n_documents == 0 or n_relevant.size == 0:
        return
    # Chance of at least one relevant document among k drawn without replacement.
    draws = min(e.k, n_documents)
    missed = [
        math.comb(n_documents - min(int(r), n_documents), draws) / math.comb(n_documents, draws)
        for r in n_relevant
    ]
    chance = 1 - float(np.mean(missed))
    limit = chance + 1.96 * math.sqrt(chance * (1 - chance) / n_relevant.size)
    for side, system in e.sides:
        scores = system.run.scores[np.isfinite(system.run.scores)]
        mean = float(np.nanmean(e.value(hit, system.run)))
        spread = float(scores.max() - scores.min()) if scores.size else 0.0
        # Cosines above 0.99 everywhere mean that all vectors point one way; only vectors of full
        # precision are compared by cosine.
        origin = system.origin
        has_cosines = origin.dimension is not None and origin.precision == "float32"
        is_narrow = has_cosines and scores.size and scores.min() > 0.99
        # The scores of a hybrid say nothing: those of ranks are always close.
        is_alike = not system.parts and (spread < 1e-6 or is_narrow)
        if scores.size > 1 and system.run.scores.shape[1] > 1 and is_alike:
            what = f"gives the documents it returns almost one score, within {spread:.2g}"
        elif mean <= limit and chance < 0.5:
            what = f"hits in {mean:.1%} of queries at rank {e.k}; chance alone gives {chance:.1%}"
        else:
            continue
        yield Caution(
            code="near_random_model",
            sides=(side,),
            message=f"{side} ({system.origin.system}) {what}.",
            advice="Check that the model loaded as meant: weights, pooling, prompts, language.",
        )


def _missing_prompt(e: Evidence) -> Iterator[Caution]:
    for side, system in e.leaves:
        if system.origin.missing_prompt:
            flag = side.lower()
            advice = f"Give what it wants with --{flag}-query-prompt or --{flag}-doc-prompt."
            if sum(s == side and leaf.origin.query_prompt is not None for s, leaf in e.leaves) > 1:
                advice = "Rank with it alone, prompts and --runs DIR given, and join that run:FILE."
            yield Caution(
                code="missing_prompt",
                sides=(side,),
                message=f"{side}: {system.origin.missing_prompt}",
                advice=advice,
            )


def _truncated_documents(e: Evidence) -> Iterator[Caution]:
    for side, system in e.leaves:
        cut = system.origin.truncation
        if cut is not None and cut.n_truncated > 0.05 * cut.n_documents:
            has_limit = cut.max_length is not None
            limit = f"{cut.max_length} tokens" if has_limit else "the server's limit"
            unit = "tokens" if has_limit else "characters"
            yield Caution(
                code="truncated_documents",
                sides=(side,),
                message=f"{side} ({system.origin.system}) cut {cut.n_truncated:,} of "
                f"{cut.n_documents:,} documents ({cut.n_truncated / cut.n_documents:.0%}) at "
                f"{limit}; {cut.tokens_lost:.0%} of all {unit} were never read. "
                f"{cut.n_relevant_truncated:,} of the documents cut are relevant to a query.",
                advice="Use shorter chunks, or raise max_length if the model allows it."
                if has_limit
                else f"Use shorter chunks, or raise the server's limit. {_STAYS_CUT}",
            )


def _truncated_pairs(e: Evidence) -> Iterator[Caution]:
    for side, system in e.leaves:
        n_cut, n_pairs = system.origin.cut_pairs or (0, 0)
        if n_cut > 0.05 * n_pairs:
            yield Caution(
                code="truncated_pairs",
                sides=(side,),
                message=f"{side} ({system.origin.system}) cut {n_cut:,} of {n_pairs:,} pairs of "
                f"query and document ({n_cut / n_pairs:.0%}) at {system.origin.max_length} tokens; "
                "what follows was never read.",
                advice="Use shorter chunks, or raise max_length if the model allows it.",
            )


_MANY_SHALLOW = 0.05  # of the queries; a search may well find little for a few
# A server does not tell its limit, so that no fingerprint has it.
_STAYS_CUT = "Then run `embed-ab cache clear`: vectors in the cache stay those of the cut texts."


def _silent_cut(e: Evidence) -> Iterator[Caution]:
    for side, system in e.leaves:
        share = system.origin.tokens_per_word
        if share is not None and share < MIN_TOKENS_PER_WORD:
            yield Caution(
                code="silent_cut",
                sides=(side,),
                message=f"{side} ({system.origin.system}): the server counted {share:.2f} tokens "
                "for each word of long texts, and a tokenizer makes one at least. The texts may "
                "have been cut in silence; no count of truncated documents knows of that.",
                advice="Look for the server's limit and what it does beyond; then use shorter "
                f"chunks, or raise the limit. {_STAYS_CUT}",
            )


def _batch_mismatch(e: Evidence) -> Iterator[Caution]:
    for side, system in e.leaves:
        cosine = system.origin.batch_cosine
        if cosine is not None and cosine < SAME_VECTOR:
            yield Caution(
                code="batch_mismatch",
                sides=(side,),
                message=f"{side} ({system.origin.system}) gives a text another vector in a batch "
                f"than alone: cosine {cosine:.4f}, below {SAME_VECTOR}. A document's vector then "
                "depends on its neighbours.",
                advice="Embed one text at a time, with batch_size=1 after the name and --no-cache, "
                "or mend the server.",
            )


def _other_chunking(e: Evidence) -> Iterator[Caution]:
    for side, system in e.leaves:
        share = system.origin.unknown_share
        if share > 0.5:
            yield Caution(
                code="other_chunking",
                sides=(side,),
                message=f"{side} ({system.origin.system}): {share:.0%} of the document ids in the "
                "file are not in this set. The vectors seem to be made from another chunking, or "
                "for a larger collection; an id that both have may then mean another text.",
                advice="Embed the documents of this set, as they are.",
            )


def _ceiling(e: Evidence) -> Iterator[Caution]:
    mean_a, mean_b = e.mean("A", e.primary), e.mean("B", e.primary)
    if min(mean_a, mean_b) >= 0.95:
        yield Caution(
            code="ceiling",
            message=f"{e.primary} is {mean_a:.3f} for A and {mean_b:.3f} for B: there is no room "
            "left to differ.",
            advice="Add harder questions, or documents easily mistaken for the right one.",
        )


def _recall_ceiling(e: Evidence) -> Iterator[Caution]:
    for recall in (metric for metric in e.metrics if metric.name == "recall"):
        best = metrics.ceiling(recall, e.evalset.qrels, gain=e.gain, min_grade=e.min_grade)
        if best < 0.95:
            yield Caution(
                code="recall_ceiling",
                message=f"The best possible {recall} here is {best:.2f}: queries have more "
                f"relevant documents than {recall.k}.",
                advice=f"Read rcap@{recall.k} (denominator at most {recall.k}), or raise the "
                "cutoff.",
            )


def _tiny_corpus(e: Evidence) -> Iterator[Caution]:
    n_documents = len(e.evalset.document_ids)
    if e.k > 0.2 * n_documents:
        yield Caution(
            code="tiny_corpus",
            message=f"The top {e.k} are {min(1, e.k / n_documents):.0%} of all {n_documents} "
            "documents; even a poor model finds much by chance.",
            advice="Add documents, or lower -k.",
        )


def copied_shares(evalset: Evalset, gold: NDArray[np.int64]) -> Values:
    """Return the share of each query's distinct words that stand in its best relevant document.

    gold: (n_queries,) that document, -1 for none.
    Returns: (n_queries,) from 0 to 1; NaN without such a document or with fewer than three words.
    """
    documents: dict[int, frozenset[str]] = {}
    shares = np.full(len(evalset.query_texts), np.nan)
    for query, text in enumerate(evalset.query_texts):
        document = int(gold[query])
        words = set(tokenize(text, "auto"))
        if document < 0 or len(words) < 3:
            continue
        if document not in documents:
            documents[document] = frozenset(tokenize(evalset.document_texts[document], "auto"))
        shares[query] = len(words & documents[document]) / len(words)
    return shares


def _ambiguous_queries(e: Evidence) -> Iterator[Caution]:
    marked = [fields.get("ambiguous") is True for fields in e.evalset.query_metadata]
    is_evaluated = e.gold >= 0
    n_marked = int(np.count_nonzero(np.array(marked, dtype=np.bool_) & is_evaluated))
    n = int(np.count_nonzero(is_evaluated))
    if n_marked > 0.05 * n:
        yield Caution(
            code="ambiguous_queries",
            message=f"{n_marked} of {n} queries ({n_marked / n:.0%}) are marked as ambiguous: "
            "other documents may answer them as well, and a hit on those counts as a miss.",
            advice="See them apart with --slice ambiguous; mend or remove them, or judge the other "
            "documents.",
        )


def _copied_queries(e: Evidence) -> Iterator[Caution]:
    shares = copied_shares(e.evalset, e.gold)
    n_compared = int(np.count_nonzero(~np.isnan(shares)))
    n_copied = int(np.count_nonzero(shares >= COPIED))
    if n_compared and n_copied > 0.2 * n_compared:
        yield Caution(
            code="copied_queries",
            message=f"{n_copied} of {n_compared} queries ({n_copied / n_compared:.0%}) take nine "
            "tenths of their words from their relevant document; users do not, and such questions "
            "favour word matching.",
            advice="Write questions as users would, in other words.",
        )


def _shared_relevant_documents(e: Evidence) -> Iterator[Caution]:
    is_evaluated = e.gold >= 0
    gold = e.gold[is_evaluated]
    documents, counts = np.unique(gold, return_counts=True)
    n_sharing = int(counts[counts > 1].sum())
    if n_sharing <= 0.2 * gold.size:
        return
    if e.clusters is not None:
        pairs = np.unique(np.stack([gold, e.clusters[is_evaluated]]), axis=1)
        if pairs.shape[1] == documents.size:  # each document within one group
            return
    yield Caution(
        code="shared_relevant_documents",
        message=f"{n_sharing} of {gold.size} queries share their relevant document with "
        "another; they succeed and fail together, so the interval may be too short.",
        advice="Resample whole groups with --cluster-by gold.",
    )


def _duplicate_documents(e: Evidence) -> Iterator[Caution]:
    seen: dict[str, int] = {}
    first = np.arange(len(e.evalset.document_texts))
    for document in np.flatnonzero(~e.evalset.is_empty).tolist():
        text = e.evalset.document_texts[document]
        first[document] = seen.setdefault(normalized_text(text) or text, document)
    has_twin = np.bincount(first, minlength=first.size)[first] > 1
    if not has_twin.any():
        return
    hits = []
    for side, system in e.sides:
        n = 0
        for query in range(len(e.evalset.query_ids)):
            documents, grades = e.evalset.qrels.of(query)
            relevant = documents[grades >= e.min_grade]
            top = int(system.run.documents[query, 0])
            n += bool(top >= 0 and top not in relevant and first[top] in first[relevant])
        hits.append(f"{n} of {side}'s")
    twins = np.flatnonzero(first == first[np.argmax(has_twin)])
    yield Caution(
        code="duplicate_documents",
        message=f"{int(has_twin.sum()):,} documents are twins but for case, spaces and marks "
        f"(for example {', '.join(e.evalset.document_ids[d] for d in twins[:3])}); "
        f"{' and '.join(hits)} "
        "first hits are a twin of a relevant document and count as misses.",
        advice="Remove the copies, or judge them all.",
    )


def _unjudged_gap(e: Evidence) -> Iterator[Caution]:
    # The share among what is not relevant: over all documents it would only repeat the precision,
    # and where nothing but relevant documents was judged it says nothing and is 1 for both.
    share: dict[str, float] = {}
    for side, system in e.sides:
        grades = metrics.grade_matrix(system.run.documents[:, : e.k], e.evalset.qrels)
        grades = grades[e.gold >= 0]
        is_other = (grades != metrics.NOT_RETRIEVED) & (grades < e.min_grade)
        n_unjudged = int(np.count_nonzero(grades == metrics.UNJUDGED))
        n_other = int(np.count_nonzero(is_other))
        if n_other == 0:
            return
        share[side] = n_unjudged / n_other
    worse, better = ("B", "A") if e.difference.difference < 0 else ("A", "B")
    if e.difference.difference == 0 or share[worse] - share[better] < 0.05:
        return
    condensed = {
        side: e.value(e.primary, metrics.condensed(system.run, e.evalset.qrels))[e.gold >= 0]
        for side, system in e.sides
    }
    judged_only = float(np.nanmean(condensed["B"]) - np.nanmean(condensed["A"]))
    yield Caution(
        code="unjudged_gap",
        message=f"Of the documents up to rank {e.k} that are not relevant, "
        f"{formats.percent(share['A'])} of A's and {formats.percent(share['B'])} of B's were never "
        f"judged; some of {worse}'s may be relevant. With unjudged documents taken out of both "
        f"lists, B − A of {e.primary} is {formats.signed(judged_only)} instead of "
        f"{formats.signed(e.difference.difference)}.",
        advice=f"Judge what {worse} returns and nobody has looked at: `embed-ab label` lists it, "
        "what could change the result most first.",
    )


def _tied_at_cutoff(e: Evidence) -> Iterator[Caution]:
    ties = []
    tied: set[Label] = set()
    for k in e.cutoffs:
        counts = {}
        for side, system in e.sides:
            scores = system.run.scores[:, k - 1 : k + 1]
            if scores.shape[1] == 2:
                is_tied = (scores[:, 0] == scores[:, 1]) & np.isfinite(scores[:, 1])
                counts[side] = int(np.sum(is_tied))
        if any(counts.values()):
            sides = (f"{n} {'query' if n == 1 else 'queries'} of {s}" for s, n in counts.items())
            tied |= {side for side, n in counts.items() if n}
            ties.append(f"{k} and {k + 1} in {' and '.join(sides)}")
    if ties:
        has_bits = any(system.origin.precision == "ubinary" for _, system in e.sides)
        cause = "vectors of one bit a dimension" if has_bits else "identical texts"
        yield Caution(
            code="tied_at_cutoff",
            sides=tuple(sorted(tied)),
            message=f"Documents have equal scores at ranks {'; '.join(ties)}. The document id "
            "decides which one counts.",
            advice=f"Other tools may break ties otherwise; {cause} are the usual cause.",
        )


def _duplicate_hits(e: Evidence) -> Iterator[Caution]:
    for side, system, file in e.run_files:
        if file.n_duplicates:
            yield Caution(
                code="duplicate_hits",
                sides=(side,),
                message=f"{side} ({system.origin.system}) names a document again for the same "
                f"query in {_n(file.n_duplicates, 'line')} of {file.n_lines:,}; the first line "
                "counts, whatever score the others have.",
                advice="If the run ranks pieces of documents, write each document once, with its "
                "best piece's score.",
            )


def _unknown_documents(e: Evidence) -> Iterator[Caution]:
    for side, system, file in e.run_files:
        parts = [
            f"{_n(n, 'line')} of {file.n_lines:,} {what}"
            for n, what in (
                (file.n_unknown_documents, "with a document that the set lacks"),
                (file.n_unknown_queries, "for a query that the set lacks"),
            )
            if n
        ]
        if parts:
            yield Caution(
                code="unknown_documents",
                sides=(side,),
                message=f"{side} ({system.origin.system}) has {' and '.join(parts)}. They are left "
                "out, and what ranks below moves up.",
                advice="Make the run from the documents and queries of this set.",
            )


def _missing_queries(e: Evidence) -> Iterator[Caution]:
    for side, system, _ in e.run_files:
        n = int(np.count_nonzero((system.run.documents[:, :1] < 0).all(axis=1) & (e.gold >= 0)))
        if n:
            is_alone = system is e.a or system is e.b
            yield Caution(
                code="missing_queries",
                sides=(side,),
                message=f"{side} ({system.origin.system}) has no document of the set for "
                f"{_n(n, 'query', 'queries')} of {int(np.count_nonzero(e.gold >= 0)):,}"
                + ("; they score 0." if is_alone else "."),
                advice="Fine where the search found nothing; else run the missing queries, too.",
            )


def _shallow_run(e: Evidence) -> Iterator[Caution]:
    deepest = min(e.cutoffs[-1], int(np.sum(~e.evalset.is_empty)))
    evaluated = e.gold >= 0
    for side, system in e.sides:
        if system.origin.file is None and not system.parts:
            continue
        n_found = system.run.lengths[evaluated]
        # A query without any is a missing one.
        n = int(np.count_nonzero((n_found > 0) & (n_found < deepest)))
        if n > _MANY_SHALLOW * len(n_found):
            file = f"Write at least {deepest} documents of each query"
            parts = f"Let its depth, and what it is made of, reach {deepest} documents"
            yield Caution(
                code="shallow_run",
                sides=(side,),
                message=f"{side} ({system.origin.system}) has fewer than "
                f"{_n(deepest, 'document')} for {n:,} of {_n(len(n_found), 'query', 'queries')}, "
                f"and metrics look at {deepest} ranks.",
                advice=f"{file if system.origin.file else parts}, or lower the cutoff.",
            )


def _n(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def _bm25_zero_hits(e: Evidence) -> Iterator[Caution]:
    # The baseline last: where it is also A or B, its flag is the one to name.
    sides = [(f"-{side.lower()} bm25:", leaf) for side, leaf in e.leaves]
    sides += [("--bm25 ", e.bm25)] if e.bm25 else []
    found = {s.origin.system: (flag, s.run) for flag, s in sides}
    runs = {name: pair for name, pair in found.items() if name.startswith("bm25:")}
    for name, (flag, run) in runs.items():
        n_queries = len(e.evalset.query_ids)
        n = int(np.sum(run.documents[:, 0] < 0))
        if n > 0.05 * n_queries:
            yield Caution(
                code="bm25_zero_hits",
                sides=tuple(dict.fromkeys(s for s, leaf in e.leaves if leaf.origin.system == name)),
                message=f"{name} finds no document at all for {n} of {n_queries} queries.",
                advice="Try other tokens for this language: "
                + " or ".join(
                    f"{flag}{tokens}" for tokens in ("auto", "char2") if name != f"bm25:{tokens}"
                )
                + ".",
            )


def _unpinned_model(e: Evidence) -> Iterator[Caution]:
    for side, system in e.leaves:
        if system.origin.is_pinned is False:
            revision = system.origin.revision or "unknown"
            name = re.sub(r",revision=[^,]*", "", system.origin.system)
            yield Caution(
                code="unpinned_model",
                sides=(side,),
                message=f"{side} ({system.origin.system}) names no commit; the weights on this "
                f"machine are those of {revision}.",
                advice=f"Write {name},revision={revision} so that later runs compare the same "
                "weights.",
            )

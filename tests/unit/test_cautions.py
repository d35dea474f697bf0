"""Each caution fires on the smallest case that deserves it, and not on a sound set."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from embed_ab.cautions import CODES, Caution
from embed_ab.comparison import compare_runs
from embed_ab.evalset import Evalset, from_records
from embed_ab.origin import Origin, System, Truncation
from embed_ab.result import Comparison
from embed_ab.runs import Run, RunFile
from embed_ab.settings import resolve

N = 40
WORDS = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]


def sound_set(**changes: Any) -> Evalset:
    """40 queries with one relevant document each among 100, none copied."""
    parts: dict[str, Any] = {
        "documents": {f"d{i:03}": f"document about {WORDS[i]}" for i in range(100)},
        "queries": {f"q{i:03}": f"what of the {i}th" for i in range(N)},
        "qrels": {f"q{i:03}": {f"d{i:03}": 1} for i in range(N)},
    } | changes
    return from_records(parts["documents"], parts["queries"], parts["qrels"])


def system(hits: int, *, rank: int = 1, name: str = "st:local", **origin: Any) -> System:
    """A run that finds the relevant document of the first `hits` queries at `rank`."""
    documents = np.tile(np.arange(60, 71, dtype=np.int32), (N, 1))
    documents[:hits, rank - 1] = np.arange(hits)
    scores = np.tile(np.linspace(0.9, 0.5, 11), (N, 1))
    return System(
        run=Run(name=name, documents=documents, scores=scores),
        origin=Origin(system=name, **origin),
    )


A, B = system(20), system(38)


def compared(
    a: System = A,
    b: System = B,
    evalset: Evalset | None = None,
    bm25: System | None = None,
    **flags: Any,
) -> Comparison:
    return compare_runs(evalset or sound_set(), a, b, bm25, resolve(flags, config=None).options())


def codes(*arguments: Any, **named: Any) -> set[str]:
    return {caution.code for caution in compared(*arguments, **named).cautions}


def warned(code: str, *arguments: Any, **named: Any) -> Caution:
    found = [c for c in compared(*arguments, **named).cautions if c.code == code]
    assert len(found) == 1
    assert found[0].advice
    return found[0]


def message(code: str, *arguments: Any, **named: Any) -> str:
    return warned(code, *arguments, **named).message


def test_a_sound_comparison_has_no_caution() -> None:
    assert codes() == set()


def test_few_queries() -> None:
    small = {"q000": "what", "q001": "why"}
    few = from_records(
        {f"d{i:03}": f"text {i}" for i in range(100)}, small, {q: {"d000": 1} for q in small}
    )
    run = Run(name="x", documents=A.run.documents[:2], scores=A.run.scores[:2])

    assert "Only 2 queries were" in message(
        "few_queries", replace(A, run=run), replace(B, run=run), few
    )


def test_not_significant() -> None:
    text = message("not_significant", A, system(21))

    assert "includes 0; this set can detect a difference of about 0." in text


def test_identical_rankings() -> None:
    assert "the same top 10 in the same order for all 40" in message("identical_rankings", A, A)
    assert "identical_rankings" not in codes(A, system(20, rank=2))


def test_ceiling() -> None:
    assert "no room" in message("ceiling", system(39), system(40))


def test_recall_ceiling() -> None:
    """12 relevant documents: at most 10 of 12 fit into the top 10."""
    many = sound_set(qrels={f"q{i:03}": {f"d{j:03}": 1 for j in range(12)} for i in range(N)})

    assert "best possible recall@10 here is 0.83" in message("recall_ceiling", evalset=many)


def test_recall_ceiling_looks_at_the_recall_that_is_shown() -> None:
    """Two relevant documents and recall@1: at most one of two, 0.50; recall@10 has room."""
    two = sound_set(qrels={f"q{i:03}": {f"d{i:03}": 1, "d099": 1} for i in range(N)})

    assert "recall@1 here is 0.50" in message(
        "recall_ceiling", evalset=two, metrics="recall@1,recall@10"
    )
    assert "recall_ceiling" not in codes(evalset=two, metrics="ndcg")


def test_tiny_corpus() -> None:
    tiny = sound_set(documents={f"d{i:03}": f"text {i}" for i in range(45)})
    low = replace(A.run, documents=np.minimum(A.run.documents, 44))

    assert "22% of all 45 documents" in message(
        "tiny_corpus", replace(A, run=low), replace(B, run=low), tiny
    )


def test_ambiguous_queries() -> None:
    """3 of 40 are 7.5 %."""

    def marked(n: int) -> Evalset:
        queries = {f"q{i:03}": {"text": f"what of the {i}th", "ambiguous": i < n} for i in range(N)}
        return sound_set(queries=queries)

    assert "ambiguous_queries" not in codes(evalset=marked(2))
    assert "3 of 40 queries (8%)" in message("ambiguous_queries", evalset=marked(3))


def test_copied_queries() -> None:
    copied = sound_set(queries={f"q{i:03}": f"document about {WORDS[i]}" for i in range(N)})

    assert "40 of 40 queries (100%)" in message("copied_queries", evalset=copied)


def test_copied_queries_in_korean() -> None:
    texts = ["백업은 매일 새벽에 시작합니다", "복구하려면 관리자 암호가 필요합니다"]
    korean = sound_set(
        documents={f"d{i:03}": f"{texts[i % 2]} {i}" for i in range(100)},
        queries={f"q{i:03}": texts[i % 2] for i in range(N)},
    )

    assert "copied_queries" in codes(evalset=korean)


def test_shared_relevant_documents_and_that_clusters_silence_it() -> None:
    shared = sound_set(qrels={f"q{i:03}": {f"d{i // 2:03}": 1} for i in range(N)})

    assert "40 of 40 queries share" in message("shared_relevant_documents", evalset=shared)
    assert "shared_relevant_documents" not in codes(evalset=shared, **{"cluster-by": "gold"})


def test_clusters_that_part_shared_documents_do_not_silence_it() -> None:
    shared = sound_set(
        queries={f"q{i:03}": {"text": f"what of the {i}th", "style": i % 2} for i in range(N)},
        qrels={f"q{i:03}": {f"d{i // 2:03}": 1} for i in range(N)},
    )

    assert "shared_relevant_documents" in codes(evalset=shared, **{"cluster-by": "style"})


def test_duplicate_documents_counts_hits_on_twins() -> None:
    """d060, A's first for every query it misses, repeats the relevant document of q039."""
    documents = {f"d{i:03}": f"document about {WORDS[i]}" for i in range(100)}
    documents["d060"] = documents["d039"].upper()

    text = message("duplicate_documents", evalset=sound_set(documents=documents))

    assert "2 documents are twins but for case, spaces and marks (for example d039, d060)" in text
    assert "1 of A's and 1 of B's first hits are a twin" in text


def test_empty_documents_are_not_duplicates() -> None:
    documents = {f"d{i:03}": f"document about {WORDS[i]}" for i in range(100)}

    assert "duplicate_documents" not in codes(
        evalset=sound_set(documents=documents | {"d098": "", "d099": ""})
    )


def test_unjudged_gap_names_the_loser_and_the_judged_only_difference() -> None:
    """A's documents are judged; B's are not, but for its 19 hits at rank 2.

    A has 20 hits at rank 1: 20 / 40. B as it stands: 19 / log2(3) / 40 = 0.29969, a difference of
    −0.200. Without the unjudged ones B's hits stand at rank 1: 19 / 40, a difference of −0.025.
    """
    qrels = {f"q{i:03}": {f"d{i:03}": 1} | {f"d{j:03}": 0 for j in range(60, 71)} for i in range(N)}
    second = system(19, rank=2).run
    fewer = replace(
        second, documents=np.where(second.documents >= 60, second.documents + 20, second.documents)
    )

    caution = warned("unjudged_gap", A, replace(B, run=fewer), sound_set(qrels=qrels))
    text = caution.message

    assert "0.0% of A's and 100.0% of B's were never judged; some of B's may be relevant" in text
    assert "B − A of ndcg@10 is −0.025 instead of −0.200" in text
    assert "`embed-ab label` lists it" in caution.advice


def test_no_unjudged_gap_where_only_relevant_documents_were_judged() -> None:
    """Then a better system always returns more judged documents, and it means nothing."""
    assert "unjudged_gap" not in codes(system(38), system(4))


def test_no_unjudged_gap_when_the_less_judged_system_wins() -> None:
    assert "unjudged_gap" not in codes()


def test_tied_at_cutoff() -> None:
    scores = A.run.scores.copy()
    scores[:3, 9:] = 0.5

    assert "at ranks 10 and 11 in 3 queries of A and 0 queries of B. The" in message(
        "tied_at_cutoff", replace(A, run=replace(A.run, scores=scores))
    )


def test_truncated_documents() -> None:
    cut = Truncation(
        max_length=256,
        n_documents=100,
        n_truncated=6,
        n_relevant_truncated=2,
        tokens_lost=0.1,
        relevant=("d1", "d2"),
    )

    caution = warned("truncated_documents", system(20, truncation=cut))
    text = caution.message

    assert "cut 6 of 100 documents (6%) at 256 tokens; 10% of all tokens" in text
    assert "or raise max_length" in caution.advice
    assert "truncated_documents" not in codes(system(20, truncation=replace(cut, n_truncated=5)))
    # The cache cannot tell that a server's limit was raised.
    unknown = warned("truncated_documents", system(20, truncation=replace(cut, max_length=None)))
    assert "raise the server's limit. Then run `embed-ab cache clear`" in unknown.advice


def test_truncated_pairs() -> None:
    """Of 100 pairs 6 are more than 5 %, and 5 are not."""
    text = message("truncated_pairs", A, system(38, cut_pairs=(6, 100), max_length=512))

    assert "cut 6 of 100 pairs of query and document (6%) at 512 tokens" in text
    assert "truncated_pairs" not in codes(A, system(38, cut_pairs=(5, 100), max_length=512))


def test_silent_cut() -> None:
    """Half a token a word may be a strange tokenizer; less is no tokenizer of the whole text."""
    caution = warned("silent_cut", A, system(38, tokens_per_word=0.43))

    text = caution.message
    assert "B (st:local): the server counted 0.43 tokens for each word of long texts" in text
    assert "or raise the limit. Then run `embed-ab cache clear`" in caution.advice
    assert "silent_cut" not in codes(A, system(38, tokens_per_word=0.5))
    assert "silent_cut" not in codes(A, system(38, tokens_per_word=None))


def test_batch_mismatch() -> None:
    text = message("batch_mismatch", A, system(38, batch_cosine=0.97))

    assert "B (st:local) gives a text another vector in a batch than alone: cosine 0.9700" in text
    assert "batch_mismatch" not in codes(A, system(38, batch_cosine=0.9995))


def test_other_chunking() -> None:
    text = message("other_chunking", A, system(38, unknown_share=0.51))

    assert "B (st:local): 51% of the document ids in the file are not in this set" in text
    assert "other_chunking" not in codes(A, system(38, unknown_share=0.5))


def test_missing_prompt() -> None:
    assert "B: E5 wants" in message(
        "missing_prompt", A, system(38, missing_prompt="E5 wants prompts.")
    )


def test_unpinned_model() -> None:
    assert "are those of abc123" in message(
        "unpinned_model", system(20, is_pinned=False, revision="abc123")
    )


def test_near_random_model() -> None:
    """Chance of a hit in 10 of 100 is 10 %; no more than 10 % + 1.96 * sqrt(.1*.9/40) = 19.3 %."""
    assert "chance alone gives 10.0%" in message("near_random_model", system(7), B)
    assert "near_random_model" not in codes(system(8), B)


def test_a_constant_model_is_near_random_even_when_it_hits() -> None:
    constant = replace(B, run=replace(B.run, scores=np.full((N, 11), 1.0)))

    assert "almost one score, within 0" in message("near_random_model", A, constant)


def test_a_model_whose_cosines_are_all_above_099_is_near_random() -> None:
    narrow = replace(B.run, scores=0.991 + B.run.scores / 1000)

    shown = message(
        "near_random_model", A, System(run=narrow, origin=Origin(system="x", dimension=2))
    )

    assert "almost one score, within 0.0004." in shown
    assert "near_random_model" not in codes(A, System(run=narrow, origin=Origin(system="x")))


def test_a_perfect_top_one_is_not_near_random() -> None:
    """With -k 1 every first score may be 1.0; the whole run has others."""
    scores = B.run.scores.copy()
    scores[:, 0] = 1.0
    perfect = System(run=replace(B.run, scores=scores), origin=Origin(system="x", dimension=2))

    assert "near_random_model" not in codes(A, perfect, k=1)


def test_no_unjudged_gap_where_a_system_returns_relevant_documents_only() -> None:
    """With -k 1 A's 40 hits leave nothing that could be unjudged."""
    qrels = {f"q{i:03}": {f"d{i:03}": 1, "d099": 0} for i in range(N)}

    assert "unjudged_gap" not in codes(system(40), system(4), sound_set(qrels=qrels), k=1)


def test_bm25_zero_hits() -> None:
    nothing = replace(A.run, documents=np.where(np.arange(N)[:, None] < 3, -1, A.run.documents))
    bm25 = System(run=nothing, origin=Origin(system="bm25:word"))

    assert "bm25:word finds no document at all for 3 of 40" in message("bm25_zero_hits", bm25=bm25)


def test_bm25_zero_hits_advises_other_tokens_by_the_right_flag() -> None:
    nothing = replace(A.run, documents=np.where(np.arange(N)[:, None] < 3, -1, A.run.documents))
    auto = System(run=nothing, origin=Origin(system="bm25:auto"))

    def advice(**named: Any) -> str:
        found = [c for c in compared(**named).cautions if c.code == "bm25_zero_hits"]
        return found[0].advice

    assert advice(bm25=auto).endswith(": --bm25 char2.")
    assert advice(a=auto).endswith(": -a bm25:char2.")


def test_mock_models() -> None:
    assert "Mock vectors in use: A (mock:char3)" in message(
        "mock_models", system(20, name="mock:char3", is_mock=True)
    )


def test_an_ignored_caution_is_hidden_and_named() -> None:
    comparison = compared(A, A, ignore="identical_rankings")

    assert "identical_rankings" not in {c.code for c in comparison.cautions}
    assert comparison.ignored == ("identical_rankings",)


def from_file(**counts: int) -> System:
    """A, as if a run file of 440 lines had held it."""
    none = ("n_duplicates", "n_unknown_documents", "n_unknown_queries", "n_missing_queries")
    file = RunFile(run=A.run, **({"n_lines": 440} | dict.fromkeys(none, 0) | counts))
    return replace(A, origin=replace(A.origin, system="run:a.trec", file=file))


def test_a_whole_run_file_has_no_caution() -> None:
    assert codes(from_file()) == set()


def test_duplicate_hits() -> None:
    text = message("duplicate_hits", from_file(n_duplicates=3))

    assert "run:a.trec) names a document again for the same query in 3 lines of 440" in text


def test_unknown_documents() -> None:
    text = message("unknown_documents", from_file(n_unknown_documents=1, n_unknown_queries=1200))

    assert "1 line of 440 with a document that the set lacks" in text
    assert "1,200 lines of 440 for a query that the set lacks" in text


def test_missing_queries() -> None:
    """The file holds nothing for the last two of 40 queries."""
    a = from_file()
    documents = a.run.documents.copy()
    documents[-2:] = -1
    run = replace(a.run, documents=documents)

    assert "for 2 queries of 40; they score 0" in message("missing_queries", replace(a, run=run))
    assert "for 2 queries of 40." in message(
        "missing_queries", replace(A, parts=(replace(a, run=run), B))
    )


def shortened(system: System, n_queries: int, n_documents: int) -> System:
    """A system that has so few documents for the first so many queries."""
    documents = system.run.documents.copy()
    documents[:n_queries, n_documents:] = -1
    return replace(system, run=replace(system.run, documents=documents))


def test_shallow_run() -> None:
    """More than a twentieth of the 40 queries; of a query without any is told elsewhere."""
    text = message("shallow_run", shortened(from_file(), 3, 9))

    assert "has fewer than 10 documents for 3 of 40 queries, and metrics look at 10 ranks" in text
    assert "shallow_run" not in codes(shortened(from_file(), 2, 9))
    assert "shallow_run" not in codes(shortened(from_file(), 40, 10))
    assert "shallow_run" not in codes(shortened(from_file(), 3, 0))


def test_shallow_run_of_a_hybrid() -> None:
    """Runs of this file are 11 deep: enough for the top 10, not for the top 20."""
    hybrid = replace(A, parts=(A, B))

    text = message("shallow_run", hybrid, metrics="ndcg@20")

    assert "has fewer than 20 documents for 40 of 40 queries" in text
    assert "shallow_run" not in codes(hybrid)


def test_a_hybrid_has_the_cautions_of_what_it_is_made_of() -> None:
    wrong = Origin(
        system="st:x",
        query_prompt="",
        document_prompt="",
        missing_prompt="x wants prompts.",
        is_pinned=False,
        batch_cosine=0.5,
        truncation=Truncation(
            max_length=128,
            n_documents=100,
            n_truncated=50,
            n_relevant_truncated=5,
            tokens_lost=0.2,
            relevant=(),
        ),
    )
    hybrid = replace(A, parts=(replace(A, origin=wrong), B, replace(A, origin=wrong)))

    found = [c.code for c in compared(hybrid).cautions]

    # Once each, though the system stands twice in the hybrid.
    assert sorted(found) == sorted(
        {"missing_prompt", "truncated_documents", "batch_mismatch", "unpinned_model"}
    )


def test_the_scores_of_a_hybrid_may_be_close() -> None:
    """With k = 10^6, all of 1 / (k + rank) lie within 1e-8."""
    scores = np.tile(1 / (1e6 + np.arange(1, 12)), (N, 1))
    fused = replace(A, run=replace(A.run, scores=scores))

    assert "near_random_model" in codes(fused)
    assert "near_random_model" not in codes(replace(fused, parts=(A, B)))


def test_every_code_has_a_test_above() -> None:
    source = Path(__file__).read_text("utf-8")

    tested = set(re.findall(r'(?:message|warned)\(\s*"(\w+)"', source))
    assert tested | {"copied_queries"} == set(CODES)

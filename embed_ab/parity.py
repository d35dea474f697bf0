"""Are these the same vectors? Two systems that should be one model, text by text.

`compare` measures how alike the vectors and the rankings of a sample are. Where they differ it
tries what is known to make one model give two vectors, and names a cause only if undoing it takes
away half of what is missing to a cosine of 1.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab import formats, overlap, search
from embed_ab.cautions import SAME_VECTOR
from embed_ab.providers.base import ModelFacts, Role, Vectors
from embed_ab.providers.measure import cosines

NEARLY_SAME = 0.99
RBO_P = 0.9
_TRIED = 16
"""Texts that a cause is tried on: enough to see half of a gap close, few enough to be cheap."""
_SHORT = 80
"""Characters of a text that no model's limit cuts: about 20 tokens, in Korean 40."""
_ROLES: tuple[Role, ...] = ("document", "query")
_MANY: dict[Role, str] = {"document": "documents", "query": "queries"}

Finding = Literal["the same", "nearly the same", "not the same"]


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Texts of one role with their ids, (n_texts,) each."""

    role: Role
    ids: Sequence[str]
    texts: Sequence[str]

    def only(self, rows: Sequence[int]) -> Texts:
        """Return the texts of some rows, in their order."""
        return Texts(
            role=self.role,
            ids=[self.ids[row] for row in rows],
            texts=[self.texts[row] for row in rows],
        )

    def changed(self, change: Callable[[str], str]) -> Texts:
        """Return each text changed."""
        return Texts(role=self.role, ids=self.ids, texts=[change(text) for text in self.texts])


Embed = Callable[[Texts], Vectors]
"""Gives a unit vector for each text, float32 (n_texts, dimension)."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One side: its vectors, and what can be tried with it.

    embed: with everything as the user gave it. bare: without any prompt, None where prompts have no
        meaning. pooled: by name of another pooling, with the prompts in use.
    is_given: the vectors were made elsewhere, so that no other text can be tried.
    lengths: L2 norms of the vectors as the model gave them, (n_texts,), None where not known.
    facts: as known after the vectors were made; None where there is no model.
    expected: prompts that the model's family was trained with.
    """

    system: str
    embed: Embed
    bare: Embed | None = None
    pooled: Mapping[str, Embed] = field(default_factory=dict)
    is_given: bool = False
    lengths: Callable[[Texts], NDArray[np.float64] | None] = lambda texts: None
    facts: Callable[[], ModelFacts | None] = lambda: None
    expected: Mapping[Role, str] = field(default_factory=dict)

    def prompt(self, role: Role) -> str:
        """Return the prompt in use."""
        facts = self.facts()
        if facts is None:
            return ""
        return facts.query_prompt if role == "query" else facts.document_prompt


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Cosines of the same text under A and under B; p5 is the 5th percentile."""

    role: Role
    n: int
    mean: float
    p5: float
    lowest: float
    lowest_id: str


@dataclass(frozen=True, kw_only=True)
class RankAgreement:
    """How A and B rank the sample's documents for its queries, means over the queries.

    overlap: share of the first k that both have. same_first: share of queries with one first
    document.
    """

    k: int
    n_documents: int
    n_queries: int
    overlap: float
    rbo: float
    same_first: float


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why the vectors differ, as far as trying shows, and what to do."""

    code: Literal["dimensions", "order", "batch", "prompt", "truncation", "pooling"]
    message: str
    advice: str


@dataclass(frozen=True, kw_only=True)
class Parity:
    """The answer; `agreements` is () where the dimensions differ.

    tried: in a word each, what was tried to find the causes.
    """

    a: str
    b: str
    dimensions: tuple[int, int]
    agreements: tuple[Agreement, ...]
    ranks: RankAgreement
    finding: Finding
    causes: tuple[Cause, ...]
    tried: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def mean(self) -> float | None:
        """The lower of the mean cosines of documents and of queries."""
        return min((agreement.mean for agreement in self.agreements), default=None)

    @property
    def verdict(self) -> str:
        """The answer in one sentence."""
        start = f"{self.finding.capitalize()} vectors: "
        if not self.agreements:
            return f"{start}A has {self.dimensions[0]} dimensions and B {self.dimensions[1]}."
        means = (f"{a.mean:.4f} for {_MANY[a.role]}" for a in self.agreements)
        return f"{start}mean cosine {' and '.join(means)}."


def compare(a: Subject, b: Subject, documents: Texts, queries: Texts, *, k: int) -> Parity:
    """Embed the sample with both and compare. Raises: what embedding raises."""
    texts: dict[Role, Texts] = {"document": documents, "query": queries}
    vectors_a = {role: a.embed(texts[role]) for role in _ROLES}
    vectors_b = {role: b.embed(texts[role]) for role in _ROLES}
    dimensions = vectors_a["document"].shape[1], vectors_b["document"].shape[1]
    ranks = rank_agreement(vectors_a, vectors_b, k)
    notes = tuple(_notes(a, b, documents))
    tried: tuple[str, ...] = ()
    if dimensions[0] != dimensions[1]:
        causes = tuple(_cut(vectors_a["document"], vectors_b["document"]))
        agreements: tuple[Agreement, ...] = ()
        finding: Finding = "not the same"
    else:
        agreements = tuple(
            agreement(texts[role], vectors_a[role], vectors_b[role]) for role in _ROLES
        )
        finding = _finding(agreements)
        causes = ()
        if finding != "the same":
            causes, tried = _causes(a, b, texts, vectors_a, vectors_b, agreements)
    return Parity(
        a=a.system,
        b=b.system,
        dimensions=dimensions,
        agreements=agreements,
        ranks=ranks,
        finding=finding,
        causes=causes,
        tried=tried,
        notes=notes,
    )


def agreement(texts: Texts, a: Vectors, b: Vectors) -> Agreement:
    """Return how alike the vectors of each text are; a, b: (n_texts, dimension)."""
    found = cosines(a, b)
    return Agreement(
        role=texts.role,
        n=len(found),
        mean=float(found.mean()),
        p5=float(np.percentile(found, 5)),
        lowest=float(found.min()),
        lowest_id=texts.ids[int(found.argmin())],
    )


def rank_agreement(a: Mapping[Role, Vectors], b: Mapping[Role, Vectors], k: int) -> RankAgreement:
    """Return how alike two rankings of the same documents are; k at most half of the documents."""
    n_queries, n_documents = len(a["query"]), len(a["document"])
    k = max(1, min(k, n_documents // 2))
    ranked_a, _ = search.top_k(a["query"], a["document"], k)
    ranked_b, _ = search.top_k(b["query"], b["document"], k)
    shared = overlap.jaccard(ranked_a, ranked_b, k)
    return RankAgreement(
        k=k,
        n_documents=n_documents,
        n_queries=n_queries,
        overlap=float((2 * shared / (1 + shared)).mean()),  # of lists of one length
        rbo=float(overlap.rbo_ext(ranked_a, ranked_b, k, RBO_P).mean()),
        same_first=float((ranked_a[:, 0] == ranked_b[:, 0]).mean()),
    )


def _is_same(found: Agreement) -> bool:
    # The mean too: a few texts that were cut are above the 5th percentile's reach.
    return min(found.mean, found.p5) >= SAME_VECTOR


def _finding(agreements: Sequence[Agreement]) -> Finding:
    if all(_is_same(found) for found in agreements):
        return "the same"
    if all(found.mean >= NEARLY_SAME for found in agreements):
        return "nearly the same"
    return "not the same"


def _notes(a: Subject, b: Subject, documents: Texts) -> Iterator[str]:
    lengths = [subject.lengths(documents) for subject in (a, b)]
    is_unit = [None if of is None else bool(np.allclose(of, 1, atol=1e-2)) for of in lengths]
    for label, of, own, other in zip("AB", lengths, is_unit, reversed(is_unit), strict=True):
        if of is not None and own is False and other is True:
            yield (
                f"{label} does not normalise its vectors: their lengths go from {of.min():.3g} to "
                f"{of.max():.3g}, and those of the other are 1. That changes no cosine, so nothing "
                "here, but it changes every inner product of an index."
            )


def _cut(a: Vectors, b: Vectors) -> Iterator[Cause]:
    """Whether the shorter vectors are the beginning of the longer ones."""
    width = min(a.shape[1], b.shape[1])
    mean = float(np.nan_to_num(cosines(a[:, :width], b[:, :width])).mean())
    if mean >= NEARLY_SAME:
        longer, shorter = ("A", "B") if a.shape[1] > width else ("B", "A")
        yield Cause(
            code="dimensions",
            message=f"{shorter}'s vectors are the first {width} elements of {longer}'s: their mean "
            f"cosine is {mean:.4f}.",
            advice=f"Compare with dim={width} after {longer}'s name.",
        )


def _causes(
    a: Subject,
    b: Subject,
    texts: Mapping[Role, Texts],
    vectors_a: Mapping[Role, Vectors],
    vectors_b: Mapping[Role, Vectors],
    agreements: Sequence[Agreement],
) -> tuple[tuple[Cause, ...], tuple[str, ...]]:
    """What undoing shows to be a cause, and what was tried.

    Where nothing else is found, pooling is tried too.
    """
    attempts: list[tuple[str, Sequence[Cause] | None]] = [
        ("order", _order(vectors_a["document"], vectors_b["document"])),
        ("batches", _batch(a, b)),
    ]
    for found in agreements:
        if not _is_same(found):
            role = found.role
            own = cosines(vectors_a[role], vectors_b[role])
            attempts.append(("prompts", _prompt(a, b, texts[role], own)))
            attempts.append(("lengths", _truncation(a, b, texts[role], own)))
    if not any(causes for _, causes in attempts):
        attempts.append(("pooling", _pooling(a, b, texts, vectors_a, vectors_b)))
    causes = tuple(cause for _, causes in attempts for cause in causes or ())
    return causes, tuple(dict.fromkeys(what for what, causes in attempts if causes is not None))


def _explains(before: float, after: float) -> bool:
    return before < SAME_VECTOR and 1 - after <= (1 - before) / 2


def _order(a: Vectors, b: Vectors) -> list[Cause]:
    """Whether a text's vector comes back in another text's place."""
    products = a.astype(np.float64) @ b.T.astype(np.float64)
    own, best = products.diagonal(), products.max(axis=1)
    n_moved = int(np.count_nonzero(own < best - 0.01))
    if best.mean() < NEARLY_SAME or n_moved <= 0.1 * len(a):
        return []
    return [
        Cause(
            code="order",
            message=f"Vectors are in each other's places: for {n_moved} of {len(a)} documents B's "
            f"vector of another text is nearer to A's. Matched so, the mean cosine is "
            f"{best.mean():.4f} instead of {own.mean():.4f}.",
            advice="Embed one text at a time (batch_size=1 after the name, and --no-cache).",
        )
    ]


def _batch(a: Subject, b: Subject) -> list[Cause] | None:
    """Sides whose vectors depend on the batch; None where no model told."""
    told = {
        label: facts.batch_cosine
        for label, facts in (("A", a.facts()), ("B", b.facts()))
        if facts is not None and facts.batch_cosine is not None
    }
    if not told:
        return None
    return [
        Cause(
            code="batch",
            message=f"{label} gives a text another vector in a batch than alone: cosine "
            f"{cosine:.4f}.",
            advice="Embed one text at a time (batch_size=1 after the name, and --no-cache).",
        )
        for label, cosine in told.items()
        if cosine < SAME_VECTOR
    ]


def _differing(texts: Texts, found: NDArray[np.float64]) -> tuple[list[int], Texts]:
    """The first texts whose vectors differ, as rows and as texts."""
    rows = np.flatnonzero(found < SAME_VECTOR)[:_TRIED].tolist()
    return rows, texts.only(rows)


def _prompt(a: Subject, b: Subject, texts: Texts, found: NDArray[np.float64]) -> list[Cause] | None:
    """The prompt of one side that brings it nearest to the other as it is.

    None where no side can do without its prompt.
    """
    role = texts.role
    rows, few = _differing(texts, found)
    prompts = ["", *(side.prompt(r) for side in (a, b) for r in (role, *_ROLES))]
    prompts += [side.expected.get(role, "") for side in (a, b)]
    best: tuple[float, str, str, str] | None = None
    # B first, which is the one to mend; A only where it comes clearly nearer.
    for label, side, other in (("B", b, a), ("A", a, b)):
        others = [prompt for prompt in dict.fromkeys(prompts) if prompt != side.prompt(role)]
        if side.bare is None or not others:
            continue
        fixed = other.embed(few)
        for prompt in others:
            tried = side.bare(few.changed(lambda text, prompt=prompt: prompt + text))  # type: ignore[misc]
            after = float(cosines(tried, fixed).mean())
            if best is None or after > best[0] + 1e-3 * (1 - best[0]) + 1e-6:
                best = (after, label, prompt, side.prompt(role))
    if best is None:
        return None
    after, label, prompt, used = best
    before = float(found[rows].mean())
    if not _explains(before, after):
        return []
    flag = f"--{label.lower()}-{'query' if role == 'query' else 'doc'}-prompt"
    return [
        Cause(
            code="prompt",
            message=f"The prompts differ: with {_quoted(prompt)} instead of {_quoted(used)} before "
            f"{label}'s {_MANY[role]} the mean cosine of {len(few.texts)} of them is {after:.4f} "
            f"instead of {before:.4f}.",
            advice=f"Give {flag} {shlex.quote(prompt)}, or change what the other side puts there.",
        )
    ]


def _quoted(prompt: str) -> str:
    return f"'{formats.visible_spaces(prompt)}'" if prompt else "no prompt"


def _truncation(
    a: Subject, b: Subject, texts: Texts, found: NDArray[np.float64]
) -> list[Cause] | None:
    """Whether the longest texts agree once they are short; None where that cannot be tried."""
    if a.is_given or b.is_given:
        return None
    by_length = np.argsort([-len(text) for text in texts.texts], kind="stable")
    longest = [row for row in by_length[:_TRIED].tolist() if len(texts.texts[row]) > 2 * _SHORT]
    if not longest:
        return None
    before = float(found[longest].mean())
    short = texts.only(longest).changed(lambda text: text[:_SHORT].strip() or text)
    after = float(cosines(a.embed(short), b.embed(short)).mean())
    if not _explains(before, after):
        return []
    limits = []
    for label, side in (("A", a), ("B", b)):
        facts = side.facts()
        limit = None if facts is None else facts.max_length
        limits.append(f"{label} {'of unknown length' if limit is None else f'{limit} tokens'}")
    return [
        Cause(
            code="truncation",
            message=f"Long {_MANY[texts.role]} are cut in different places: the {len(longest)} "
            f"longest agree at {before:.4f}, their first {_SHORT} characters at {after:.4f}. "
            f"Longest input: {' and '.join(limits)}.",
            advice="Give both the same limit (st: takes max_length=N; a server has a setting for "
            "its context), or shorter chunks.",
        )
    ]


def _pooling(
    a: Subject,
    b: Subject,
    texts: Mapping[Role, Texts],
    vectors_a: Mapping[Role, Vectors],
    vectors_b: Mapping[Role, Vectors],
) -> list[Cause] | None:
    """The pooling of one side that brings it to the other; None where there is none to try."""
    own = cosines(vectors_a["document"], vectors_b["document"])
    rows, few = _differing(texts["document"], own)
    if not rows or not (a.pooled or b.pooled):
        return None
    before = float(own[rows].mean())
    for label, side, fixed in (("B", b, vectors_a), ("A", a, vectors_b)):
        tried = {
            pooling: float(cosines(embed(few), fixed["document"][rows]).mean())
            for pooling, embed in side.pooled.items()
        }
        pooling = max(tried, key=tried.__getitem__, default="")
        if tried and _explains(before, tried[pooling]):
            return [
                Cause(
                    code="pooling",
                    message=f"Pooling differs: with {pooling} in {label} the mean cosine of "
                    f"{formats.counted(len(rows), 'document')} is {tried[pooling]:.4f} "
                    f"instead of {before:.4f}.",
                    advice=f"Write pooling={pooling} after {label}'s name, or change the other's.",
                )
            ]
    return []

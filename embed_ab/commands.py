"""The verbs: where the core meets files, models and the clock."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from embed_ab import comparison as core
from embed_ab import evalset as evalsets
from embed_ab import (
    formats,
    llm,
    matrix_surfaces,
    outputs,
    result_json,
    runs,
    systems,
)
from embed_ab import parity as core_parity
from embed_ab.buildset.build import Built, build
from embed_ab.buildset.options import Options
from embed_ab.buildset.questions import ChatWriter, CopyWriter, Writer
from embed_ab.errors import EmbedAbError, InputError, ProviderError
from embed_ab.evalset import Evalset
from embed_ab.labels import file as label_file
from embed_ab.labels import judge as label_judge
from embed_ab.labels import merge as label_merge
from embed_ab.labels import pool as label_pool
from embed_ab.matrix import LABELS, Matrix, compare_all
from embed_ab.matrix import redacted as redacted_matrix
from embed_ab.metrics import Metric
from embed_ab.origin import System
from embed_ab.parity_systems import subject
from embed_ab.providers.base import Role
from embed_ab.providers.cache import StoreInfo, VectorStore, cache_folder, clear_store
from embed_ab.records import is_blank
from embed_ab.registry import Side, embeds
from embed_ab.result import Comparison, Measured, Wait, redacted
from embed_ab.retrieved import Retrieved
from embed_ab.settings import LISTS, MATRIX_KEYS, Settings, flags_of, key_of
from embed_ab.system_spec import SystemSpec
from embed_ab.systems import OnProgress

Clock = Callable[[], datetime]


def now() -> datetime:
    """Return the time of day, in UTC."""
    return datetime.now(UTC)


def ignore_progress(what: str, done: int, total: int) -> None:
    """Take a progress report and show nothing."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished comparison, where its files are, and the exit code."""

    comparison: Comparison
    places: outputs.Places
    exit_code: int
    unpublished: InputError | None = None
    """Why the files could not be written in the end; the verdict is worth seeing all the same."""


def compare(
    settings: Settings, *, on_progress: OnProgress = ignore_progress, clock: Clock = now
) -> Finished:
    """Compare, write report, JSON, comment and run files.

    Raises: InputError, ProviderError.
    """
    options = settings.options()
    settings.check_sides()
    evalset = load_evalset(settings)
    places = outputs.places(settings, clock())
    if settings.runs:
        runs.check_ids(evalset.query_ids, evalset.document_ids)
    comparison, ranked = compare_evalset(evalset, settings, on_progress=on_progress, clock=clock)
    finished = _published(
        comparison, places, exit_code(comparison.outcome, settings.on_inconclusive)
    )
    if settings.runs and finished.unpublished is None:
        # Without the rank below the deepest cutoff, which is there only to see ties.
        folder = Path(settings.runs)
        try:
            outputs.write_runs(evalset, ranked, options.deepest, options.min_grade, folder)
        except InputError as error:
            return replace(finished, unpublished=error)
    return finished


@dataclass(frozen=True, kw_only=True)
class FinishedMatrix:
    """A finished matrix and where its files are; see `Finished`."""

    matrix: Matrix
    places: outputs.Places
    unpublished: InputError | None = None


def matrix(
    settings: Settings,
    named: Sequence[str],
    baseline: str = "",
    *,
    on_progress: OnProgress = ignore_progress,
    clock: Clock = now,
) -> FinishedMatrix:
    """Compare several systems with one of them, "" for the first; write report, JSON and comment.

    Each system is ranked once, with the model's own prompts. Settings of A and B, of gates and of
    details are left aside, and a note says which were given.
    Raises: InputError, ProviderError.
    """
    specs = _labelled(named, baseline)
    settings, aside = _without_sides(settings)
    options = settings.options()
    evalset = load_evalset(settings)
    places = outputs.places(settings, clock())
    if settings.runs:
        runs.check_ids(evalset.query_ids, evalset.document_ids)
    sides = dict.fromkeys(specs, settings.side("A"))
    with _unquoted(settings.redact):
        retrieved, seconds = _retrieve_all(evalset, specs, sides, settings, on_progress)
        started = time.perf_counter()
        ranked = {label: item.system for label, item in retrieved.items()}
        found = compare_all(evalset, ranked, options)
    seconds["statistics"] = time.perf_counter() - started
    words = list(map(str, specs.values()))  # the baseline first
    found = replace(
        found,
        notes=(*found.notes, *aside),
        settings=settings.changed(),
        command=command_line(settings, "matrix", words),
        versions=_versions(),
        measured=_measured(clock(), seconds, retrieved),
    )
    found = redacted_matrix(found) if settings.redact else found
    finished = FinishedMatrix(matrix=found, places=places)
    try:
        outputs.write_all(
            places,
            json=matrix_surfaces.dumps(found),
            report=matrix_surfaces.html(found),
            comment=matrix_surfaces.markdown(found),
        )
        if settings.runs:
            folder = Path(settings.runs)
            outputs.write_runs(evalset, ranked, options.deepest, options.min_grade, folder)
    except InputError as error:
        return replace(finished, unpublished=error)
    return finished


def _labelled(named: Sequence[str], baseline: str) -> dict[str, SystemSpec]:
    """The systems by label, the baseline first."""
    specs = list(map(SystemSpec.parse, named))
    written = list(map(str, specs))
    first = str(SystemSpec.parse(baseline)) if baseline else (written or [""])[0]
    if not 2 <= len(specs) <= len(LABELS):
        raise InputError(
            f"{len(specs)} system{'' if len(specs) == 1 else 's'} for a matrix",
            hint=f"Name from 2 to {len(LABELS)} systems after the evaluation set.",
        )
    if twice := [text for place, text in enumerate(written) if text in written[:place]]:
        raise InputError(f"{twice[0]} is named twice", hint="Name each system once.")
    if first not in written:
        raise InputError(
            f"--baseline {first} is none of the systems",
            hint=f"Name it among them, too. They are: {', '.join(written)}.",
        )
    specs.insert(0, specs.pop(written.index(first)))
    return dict(zip(LABELS, specs, strict=False))


def _without_sides(settings: Settings) -> tuple[Settings, tuple[str, ...]]:
    """The settings that have a meaning in a matrix, and a note on those given that have none."""
    fields = type(settings).model_fields
    left = [
        name
        for name in settings.model_fields_set
        if key_of(name) not in MATRIX_KEYS
        and getattr(settings, name) != fields[name].get_default(call_default_factory=True)
    ]
    if not left:
        return settings, ()
    defaults = {name: fields[name].get_default(call_default_factory=True) for name in left}
    names = ", ".join(sorted(map(key_of, left)))
    note = f"settings that a matrix does not use were left aside: {names}"
    return settings.model_copy(update=defaults), (note,)


def reranking(
    first_stage: str | None, a: str, b: str | None, depth: int, flags: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the flags of comparing two orders of one first stage's candidates.

    `for_one_first_stage` makes both sides find the same ones.
    Raises: InputError.
    """
    for flag, value, hint in (
        ("--first-stage", first_stage, "--first-stage st:NAME finds the candidates."),
        ("-b", b, "Give -b ce:NAME, -b http:NAME or -b scores:FILE."),
    ):
        if not value:
            raise InputError(f"rerank needs {flag}", hint=hint)
    if depth < 1:
        raise InputError(f"--depth {depth} is below 1", hint="Give a whole number from 1.")
    first = SystemSpec.parse(str(first_stage))

    def reordered(reranker: str) -> str:
        by = SystemSpec.parse_reranker(reranker)
        options = {"depth": str(depth)}
        return str(SystemSpec(provider="rerank", systems=(first,), reranker=by, options=options))

    found: dict[str, Any] = {"model-a": reordered(a), "model-b": reordered(str(b))}
    for name in (
        *("query-prompt", "doc-prompt", "query-params", "doc-params"),
        "price-per-million-tokens",
    ):
        if flags.get(f"b-{name}") is not None:
            raise InputError(
                f"--b-{name} has no meaning for a reranker",
                hint=f"--a-{name} is about the first stage, of which both order the documents.",
            )
    return found


def for_one_first_stage(settings: Settings) -> Settings:
    """Return the settings of a comparison whose sides reorder what one first stage found.

    What is said of A's prompts, parameters and price, by flag or file, holds for both. Queries
    that have nothing relevant are left out unless the settings say else: no order can be wrong on
    them.
    """
    alike = (
        *("query_prompt", "doc_prompt", "query_params", "doc_params"),
        "price_per_million_tokens",
    )
    update: dict[str, Any] = {f"b_{name}": getattr(settings, f"a_{name}") for name in alike}
    if settings.no_positive is None:
        update["no_positive"] = "exclude"
    return settings.model_copy(update=update)


def load_evalset(settings: Settings) -> Evalset:
    """Return the evaluation set that the settings name. Raises: InputError."""
    if not settings.eval_path:
        raise InputError(
            "no evaluation set",
            hint="Name its folder, or set eval-path in .embed-ab.yml; `embed-ab demo` shows one.",
        )
    with _unquoted(settings.redact):
        return evalsets.load(
            Path(settings.eval_path),
            split=settings.split,
            no_positive=settings.no_positive,
            allow_missing_docs=settings.allow_missing_docs,
            min_grade=settings.min_grade,
        )


def compare_evalset(
    evalset: Evalset,
    settings: Settings,
    *,
    on_progress: OnProgress = ignore_progress,
    clock: Clock = now,
) -> tuple[Comparison, dict[str, System]]:
    """Return the comparison of a set in memory, and the ranked systems by label.

    Raises: InputError, ProviderError.
    """
    options = settings.options()
    settings.check_sides()
    specs = _specs(settings)
    if settings.bm25 != "none":
        specs["BM25"] = SystemSpec.parse(f"bm25:{settings.bm25}")
    sides = {label: settings.side("B" if label == "B" else "A") for label in specs}
    with _unquoted(settings.redact):
        retrieved, seconds = _retrieve_all(evalset, specs, sides, settings, on_progress)
        started = time.perf_counter()
        ranked = {label: item.system for label, item in retrieved.items()}
        compared = core.compare_runs(evalset, ranked["A"], ranked["B"], ranked.get("BM25"), options)
    seconds["statistics"] = time.perf_counter() - started
    comparison = replace(
        compared,
        settings=settings.changed(),
        command=command_line(settings),
        versions=_versions(),
        measured=_measured(clock(), seconds, retrieved),
    )
    return redacted(comparison) if settings.redact else comparison, ranked


def _retrieve_all(
    evalset: Evalset,
    specs: Mapping[str, SystemSpec],
    sides: Mapping[str, Side],
    settings: Settings,
    on_progress: OnProgress,
) -> tuple[dict[str, Retrieved], dict[str, float]]:
    """Rank the set by each system, and say how long each took; all by label."""
    options = settings.options()
    seconds: dict[str, float] = {}
    retrieved: dict[str, Retrieved] = {}
    shared: dict[str, Retrieved] = {}
    ready = systems.Ready()
    for label, spec in specs.items():
        systems.check(spec, sides[label], evalset, ready)
    needs_store = any(map(embeds, specs.values()))
    folder = cache_folder(os.environ) if settings.cache and needs_store else None
    with closing(VectorStore.open(folder)) as store:
        for label, spec in specs.items():
            # A server that is down is said before a model here has worked for an hour.
            systems.contact(spec, sides[label], evalset, store, ready)
        for label, spec in specs.items():
            started = time.perf_counter()
            retrieved[label] = systems.retrieve(
                spec,
                sides[label],
                evalset,
                options.depth,
                store,
                on_progress,
                min_grade=options.min_grade,
                shared=shared,
                ready=ready,
            )
            seconds[label] = time.perf_counter() - started
    return retrieved, seconds


def _specs(settings: Settings) -> dict[str, SystemSpec]:
    specs: dict[str, SystemSpec] = {}
    for label, spec in (("A", settings.model_a), ("B", settings.model_b)):
        if spec is None:
            raise InputError(
                f"no model {label}",
                hint=f"Give -{label.lower()} SYSTEM, for example -{label.lower()} bm25:auto.",
            )
        specs[label] = spec
    return specs


def _measured(
    finished: datetime, seconds: Mapping[str, float], retrieved: Mapping[str, Retrieved]
) -> Measured:
    embedded = {label: item for label, item in retrieved.items() if item.n_embedded}

    def wait(query_seconds: Collection[float]) -> Wait:
        p50, p95 = np.percentile(list(query_seconds), [50, 95]).tolist()
        return Wait(p50=round(1e3 * p50, 3), p95=round(1e3 * p95, 3), n=len(query_seconds))

    return Measured(
        finished=finished.isoformat(timespec="seconds"),
        seconds={stage: round(value, 3) for stage, value in seconds.items()},
        texts_embedded={label: item.n_embedded for label, item in retrieved.items()},
        texts_cached={label: item.n_cached for label, item in retrieved.items()},
        tokens={k: i.n_tokens for k, i in embedded.items() if i.n_tokens is not None},
        price={k: i.price for k, i in retrieved.items() if i.price is not None},
        embedding_seconds={label: round(item.seconds, 3) for label, item in embedded.items()},
        query_ms={k: wait(i.query_seconds) for k, i in retrieved.items() if i.query_seconds},
        rerank_ms={
            k: wait(i.rerank_seconds.values()) for k, i in retrieved.items() if i.rerank_seconds
        },
    )


def parity(
    settings: Settings, *, sample: int, on_progress: OnProgress = ignore_progress
) -> core_parity.Parity:
    """Embed a sample of the set with A and B and say whether the vectors are the same.

    sample: how many documents and how many queries at most, drawn by the seed.
    Raises: InputError, ProviderError.
    """
    if sample < 1:
        raise InputError(f"--sample {sample} is not 1 or more", hint="Leave it out for 100.")
    settings.check_sides()
    specs = _specs(settings)
    evalset = load_evalset(settings)
    rng = np.random.default_rng(settings.seed)

    def drawn(role: Role, ids: Sequence[str], texts: Sequence[str]) -> core_parity.Texts:
        rows = [row for row, text in enumerate(texts) if not is_blank(text)]
        if not rows:
            raise InputError(
                f"{settings.eval_path}: no {role} has a text",
                hint="parity compares the vectors of texts, and needs one at least.",
            )
        few = np.sort(rng.choice(rows, min(sample, len(rows)), replace=False)).tolist()
        return core_parity.Texts(role=role, ids=ids, texts=texts).only(few)

    documents = drawn("document", evalset.document_ids, evalset.document_texts)
    queries = drawn("query", evalset.query_ids, evalset.query_texts)
    folder = cache_folder(os.environ) if settings.cache else None
    with _unquoted(settings.redact), closing(VectorStore.open(folder)) as store:
        a, b = (
            subject(spec, settings.side(label), label, documents, queries, store, on_progress)
            for label, spec in specs.items()
        )
        return core_parity.compare(a, b, documents, queries, k=settings.k)


def judge_again(path: Path, settings: Settings) -> tuple[Comparison, int]:
    """Judge the values of a result file by the gates of `settings`; return it and the exit code.

    Raises: InputError for a metric that the file has no values of, or a slice that it lacks.
    """
    old = result_json.load(path)
    recorded = _recorded_settings(old, path)
    changed: dict[str, Any] = {
        name: getattr(settings, name)
        for name in ("gate", "on_inconclusive", "min_queries")
        if name in settings.model_fields_set
    }
    merged = recorded.model_copy(update=changed)
    options = merged.options()
    if not options.gates:
        raise InputError("no gate to judge", hint="Give --fail-if-worse ndcg@10:0.02.")
    known = {d.metric for d in old.differences}
    for gate in options.gates:
        if str(gate.metric) not in known:
            raise InputError(
                f"{path} holds no values of {gate.metric}",
                hint=f"It has {', '.join(sorted(known))}; "
                f"compare again with --metrics {gate.metric}.",
            )

    def values(side: str) -> dict[Any, core.Values]:
        rows = [getattr(row, side) for row in old.queries]
        return {
            gate.metric: np.array([row[str(gate.metric)] for row in rows], dtype=np.float64)
            for gate in options.gates
        }

    clusters = [row.cluster for row in old.queries]
    grouped = None if None in clusters else np.array(clusters, dtype=np.int64)
    masks = {
        name: np.array([row.slices.get(name.field) == name.value for row in old.queries])
        for name in (gate.slice for gate in options.gates)
        if name is not None
    }
    for name, mask in masks.items():
        if not mask.any():
            raise InputError(
                f"{path} holds no slice {name}",
                hint=f"Compare again with --slice {name.field}; a redacted result has its slices "
                "under the names that the report shows.",
            )
    comparison = core.judged_again(old, values("a"), values("b"), grouped, masks, options)
    return replace(comparison, settings=merged.changed()), exit_code(
        comparison.outcome, merged.on_inconclusive
    )


def report_again(path: Path, settings: Settings, *, clock: Clock = now) -> Finished:
    """Render every surface of a result file again, redacted if asked. Raises: InputError."""
    comparison = result_json.load(path)
    if settings.redact:
        comparison = redacted(comparison)
    return _published(comparison, outputs.places(settings, clock()), 0)


def label(
    settings: Settings,
    result: Path,
    to: Path,
    *,
    runs_folder: Path | None = None,
    depth: int = 10,
    max_pairs: int | None = None,
    judge: str = "",
    on_progress: OnProgress = ignore_progress,
) -> list[str]:
    """Write the unjudged top documents of a result to a file to judge; return what to say of it.

    Rows of the file that are judged already are kept. runs_folder: where `compare --runs` wrote;
    without it only the detailed queries are looked at. judge: a chat model to judge with, "" for
    none; its answers reach the file as they come.
    Raises: InputError, ProviderError.
    """
    for flag, value in (("--depth", depth), ("--max-pairs", max_pairs)):
        if value is not None and value < 1:
            raise InputError(f"{flag} {value} is below 1", hint="Give a whole number from 1.")
    chat = llm.chat(judge, os.environ) if judge else None
    compared = result_json.load(result)
    recorded = _recorded_settings(compared, result)
    given = settings.model_fields_set & {
        "eval_path",
        "split",
        "no_positive",
        "allow_missing_docs",
        "min_grade",
        "concurrency",
    }
    settings = recorded.model_copy(update={name: getattr(settings, name) for name in given})
    earlier = label_file.read(to) if os.path.exists(to) else []
    evalset = load_evalset(settings)
    a, b = label_pool.ranked_lists(compared, evalset, runs_folder)
    primary = Metric.parse(compared.primary)
    pairs = label_pool.pool(
        evalset,
        a,
        b,
        metric=primary,
        gain=settings.gain,
        min_grade=settings.min_grade,
        depth=depth,
    )
    if not a.shape[1]:
        raise InputError(
            f"{result} holds no ranked documents",
            hint="Compare with --runs DIR, and give the same --runs DIR here.",
        )
    fresh = label_file.rows_of(evalset, pairs[:max_pairs])
    rows = label_file.with_judged(fresh, (cells for _, cells in earlier))
    label_file.write(to, rows)

    of_set = int(evalset.qrels.grades.max(initial=1))
    largest_grade = max(of_set, settings.min_grade)
    why = "the highest grade of this set" if largest_grade == of_set else "--min-grade"
    scale = f"from 0 (not relevant) to {largest_grade}, {why}"
    n_queries = len({label_file.place_of(cells)[0] for cells in fresh})
    n_open = sum(not label_file.is_judged(cells) for cells in rows[: len(fresh)])
    said = [
        f"{to}: {len(fresh)} of {formats.counted(len(pairs), 'unjudged document')} up to rank "
        f"{depth}, for {formats.counted(n_queries, 'query', 'queries')}; {n_open} to judge"
    ]
    if runs_folder is None:
        said.append(
            f"note: the result holds the documents of {len(compared.details)} of "
            f"{len(compared.queries)} queries, up to rank {a.shape[1]}; for all, give --runs DIR "
            "to compare and to label"
        )
        if primary.k > a.shape[1]:
            said.append(f"note: so the impact on {primary} is that on its first {a.shape[1]} ranks")
    if evalset.digest != compared.evalset.digest:
        said.append(
            "note: the set has changed since the result was made (with its judgements, for one); "
            "the rankings are those of the result"
        )
    if chat:
        with _unquoted(compared.is_redacted):
            left = label_judge.judge_file(
                evalset,
                to,
                rows,
                len(fresh),
                chat,
                largest_grade=largest_grade,
                concurrency=settings.concurrency,
                on_progress=on_progress,
            )
        said.append(f"{chat.name} judged {n_open - len(left)} of {n_open}, {scale}")
        said += label_judge.why_left(left, is_redacted=compared.is_redacted)
    else:
        said.append(f"write grades into the column grade, {scale}")
    folder = shlex.quote(settings.eval_path)
    split = "" if settings.split == "test" else f" --split {settings.split}"
    said.append(f"then: embed-ab label {folder}{split} --merge {shlex.quote(str(to))}")
    return said


def merge_labels(settings: Settings, path: Path, *, clock: Clock = now) -> list[str]:
    """Merge a judged file into the qrels of the set; return what to say of it.

    Raises: InputError.
    """
    if not settings.eval_path:
        raise InputError("no evaluation set", hint="embed-ab label EVAL --merge FILE")
    today = clock().date().isoformat()
    done = label_merge.merge(Path(settings.eval_path), settings.split, path, today=today)
    by_llm = f" (by a model, see {label_merge.SIDECAR}: {done.n_by_llm})" if done.n_by_llm else ""
    said = [
        f"{done.qrels}: judgements added: {done.n_added}{by_llm}; there already: {done.n_known}; "
        f"rows without a grade: {done.n_open}"
    ]
    if done.n_replaced:
        said.append(f"grades of a model replaced by a person's: {done.n_replaced}")
    if done.conflicts:
        said.append(f"conflicts, left as they were: {len(done.conflicts)}")
        said += done.conflicts
    return said


def demo(language: str, settings: Settings, *, clock: Clock = now) -> Finished:
    """Compare the two mock models on the demo collection in a language, without the store."""
    places = outputs.places(settings, clock())
    mocks = {
        name: SystemSpec.parse(f"mock:{mock}")
        for name, mock in (("model_a", "char3"), ("model_b", "word"))
    }
    settings = settings.model_copy(update={**mocks, "cache": False})
    evalset = evalsets.load(demo_folder(language))
    compared, _ = compare_evalset(evalset, settings, clock=clock)
    # Where the package lies on this machine is not part of the result.
    command = f"embed-ab demo --lang {language}" + (" --redact" if settings.redact else "")
    comparison = replace(compared, command=command)
    return _published(comparison, places, 0)


def demo_folder(language: str) -> Path:
    """Return the folder of the demo collection in a language."""
    return Path(str(resources.files("embed_ab") / "demo" / language))


def export_demo(language: str, folder: Path) -> list[Path]:
    """Copy the demo collection to a folder that does not hold one. Raises: InputError."""
    source = demo_folder(language)
    targets = {item: folder / item.name for item in sorted(source.iterdir()) if item.is_file()}
    hint = "Choose another folder for --export."
    for target in targets.values():
        try:
            is_taken = target.exists()
        except OSError as error:
            raise InputError(f"{folder}: {error.strerror}", hint=hint) from None
        if is_taken:
            raise InputError(f"{target} exists already", hint=hint)
    for item, target in targets.items():
        outputs.write_text(target, item.read_text("utf-8"))
    return list(targets.values())


def build_set(
    place: Path,
    out: Path,
    options: Options,
    model: str,
    *,
    on_progress: OnProgress = ignore_progress,
) -> Built:
    """Make an evaluation set of files; `model` is mock, ollama:NAME or openai:NAME.

    Raises: InputError, ProviderError.
    """
    writer: Writer = CopyWriter()
    if model != "mock":
        writer = ChatWriter(chat=llm.chat(model, os.environ), seed=options.seed)
    return build(place, out, options, writer, on_progress)


def exit_code(outcome: str, on_inconclusive: str) -> int:
    """Return 1 for a failed gate, or an inconclusive one where that counts as failed; else 0."""
    return int(outcome == "fail" or (outcome == "inconclusive" and on_inconclusive == "fail"))


def command_line(settings: Settings, verb: str = "compare", named: Sequence[str] = ()) -> str:
    """Return the command that repeats a comparison, quoted for a shell; `named` follow the set."""
    folder = settings.eval_path or "EVAL"
    words = ["embed-ab", verb, f"./{folder}" if folder.startswith("-") else folder, *named]
    for key, value in settings.changed().items():
        if key == "eval-path":
            continue
        flag = flags_of(key)[0]
        if value is True:
            words.append(flag)
        elif key in LISTS:
            for item in value:
                words += [flag, item]
        else:
            text = ",".join(value) if isinstance(value, list) else str(value)
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return shlex.join(words)


def store_info(action: str, days: int) -> StoreInfo:
    """Show the store of vectors, clear it, or prune it together with reports made without --out.

    Raises: InputError, EmbedAbError for a damaged store.
    """
    if not 0 <= days <= 100_000:
        raise InputError(f"--days {days} is not from 0 to 100,000", hint="Give a number of days.")
    folder = cache_folder(os.environ)
    if action == "clear":
        clear_store(folder)  # also when it is too damaged to open
    if action == "prune":
        outputs.prune_reports(older_than=time.time() - days * 86_400)
    with closing(VectorStore.open(folder)) as store:
        if action == "prune":
            store.prune(older_than_days=days)
        return store.info()


@contextmanager
def _unquoted(is_redacted: bool) -> Iterator[None]:
    """Where texts are redacted, leave out of errors what others said, because it may quote one.

    Our own messages name lines and ids, and pass.
    """
    if not is_redacted:
        yield
        return
    try:
        yield
    except ProviderError as error:
        raise ProviderError(error.unquoted, hint=error.hint) from None
    except (EmbedAbError, OSError):
        raise
    except Exception as error:
        name = type(error).__name__
        raise RuntimeError(f"{name}; --redact leaves out its message").with_traceback(
            error.__traceback__
        ) from None


def _published(comparison: Comparison, places: outputs.Places, code: int) -> Finished:
    finished = Finished(comparison=comparison, places=places, exit_code=code)
    try:
        outputs.publish(comparison, places)
    except InputError as error:
        return replace(finished, unpublished=error)
    return finished


def _recorded_settings(comparison: Comparison, path: Path) -> Settings:
    try:
        return Settings.model_validate(comparison.settings)
    except (ValidationError, InputError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InputError(
            f"{path}: settings: {first}", hint="Give the result.json that embed-ab wrote."
        ) from None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("embed-ab-action", "numpy", "bm25s"):
        found[name] = importlib.metadata.version(name)
    return found

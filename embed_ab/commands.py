"""The verbs: where the core meets files, models and the clock."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import time
from collections.abc import Callable, Iterator
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
from embed_ab import outputs, result_json, runs, systems
from embed_ab.errors import EmbedAbError, InputError, ProviderError
from embed_ab.evalset import Evalset
from embed_ab.origin import System
from embed_ab.providers.cache import StoreInfo, VectorStore, cache_folder, clear_store
from embed_ab.result import Comparison, redacted
from embed_ab.settings import Settings, flags_of, key_of
from embed_ab.systems import PROVIDERS, OnProgress, SystemSpec

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
    specs: dict[str, SystemSpec] = {}
    for label, spec in (("A", settings.model_a), ("B", settings.model_b)):
        if spec is None:
            raise InputError(
                f"no model {label}",
                hint=f"Give -{label.lower()} SYSTEM, for example -{label.lower()} bm25:auto.",
            )
        specs[label] = spec
    if settings.bm25 != "none":
        specs["BM25"] = SystemSpec.parse(f"bm25:{settings.bm25}")
    seconds: dict[str, float] = {}
    retrieved: dict[str, systems.Retrieved] = {}
    needs_store = any(PROVIDERS[spec.provider].embedder for spec in specs.values())
    folder = cache_folder(os.environ) if settings.cache and needs_store else None
    with _unquoted(settings.redact):
        with closing(VectorStore.open(folder)) as store:
            for label, spec in specs.items():
                started = time.perf_counter()
                retrieved[label] = systems.retrieve(
                    spec,
                    settings.side("B" if label == "B" else "A"),
                    evalset,
                    options.depth,
                    store,
                    on_progress,
                    min_grade=options.min_grade,
                )
                seconds[label] = time.perf_counter() - started
        started = time.perf_counter()
        ranked = {label: item.system for label, item in retrieved.items()}
        compared = core.compare_runs(evalset, ranked["A"], ranked["B"], ranked.get("BM25"), options)
    seconds["statistics"] = time.perf_counter() - started
    comparison = replace(
        compared,
        settings=settings.changed(),
        command=command_line(settings),
        versions=_versions(),
        measured={
            "finished": clock().isoformat(timespec="seconds"),
            "seconds": {stage: round(value, 3) for stage, value in seconds.items()},
            "texts_embedded": {label: item.n_embedded for label, item in retrieved.items()},
            "texts_cached": {label: item.n_cached for label, item in retrieved.items()},
        },
    )
    return redacted(comparison) if settings.redact else comparison, ranked


def judge_again(path: Path, settings: Settings) -> tuple[Comparison, int]:
    """Judge the values of a result file by the gates of `settings`; return it and the exit code.

    Raises: InputError for a metric that the file has no values of.
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
    comparison = core.judged_again(old, values("a"), values("b"), grouped, options)
    return replace(comparison, settings=merged.changed()), exit_code(
        comparison.outcome, merged.on_inconclusive
    )


def report_again(path: Path, settings: Settings, *, clock: Clock = now) -> Finished:
    """Render every surface of a result file again, redacted if asked. Raises: InputError."""
    comparison = result_json.load(path)
    if settings.redact:
        comparison = redacted(comparison)
    return _published(comparison, outputs.places(settings, clock()), 0)


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


def exit_code(outcome: str, on_inconclusive: str) -> int:
    """Return 1 for a failed gate, or an inconclusive one where that counts as failed; else 0."""
    return int(outcome == "fail" or (outcome == "inconclusive" and on_inconclusive == "fail"))


def command_line(settings: Settings) -> str:
    """Return the command that repeats a comparison, quoted for a shell."""
    folder = settings.eval_path or "EVAL"
    words = ["embed-ab", "compare", f"./{folder}" if folder.startswith("-") else folder]
    for key, value in settings.changed().items():
        if key == "eval-path":
            continue
        flag = flags_of(key)[0]
        if value is True:
            words.append(flag)
        elif key in (key_of("gate"), key_of("ignore")):
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

"""The verbs: where the core meets files, models and the clock."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from embed_ab import comparison as core
from embed_ab import evalset as evalsets
from embed_ab import render, result_json, runs, systems
from embed_ab.comparison import Comparison
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.origin import System
from embed_ab.providers.cache import VectorStore, cache_folder
from embed_ab.settings import Settings, key_of
from embed_ab.systems import OnProgress, SystemSpec

Clock = Callable[[], datetime]


def now() -> datetime:
    """Return the time of day, in UTC."""
    return datetime.now(UTC)


def ignore_progress(what: str, done: int, total: int) -> None:
    """Take a progress report and show nothing."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A finished comparison, where its files are, and the exit code."""

    comparison: Comparison
    report: Path
    json: Path
    comment: Path
    exit_code: int


def compare(
    settings: Settings, *, on_progress: OnProgress = ignore_progress, clock: Clock = now
) -> Outcome:
    """Compare, write report, JSON, comment and run files.

    Raises: InputError, ProviderError.
    """
    if not settings.eval_path:
        raise InputError(
            "no evaluation set",
            hint="embed-ab compare EVAL -a SYSTEM -b SYSTEM; `embed-ab demo` shows one.",
        )
    places = _places(settings, clock)
    evalset = evalsets.load(
        Path(settings.eval_path),
        split=settings.split,
        no_positive=settings.no_positive,
        allow_missing_docs=settings.allow_missing_docs,
    )
    comparison, ranked = compare_evalset(evalset, settings, on_progress=on_progress, clock=clock)
    if settings.runs:
        depth = settings.options().depth - 1  # the rank below the largest k only shows ties
        for label, system in ranked.items():
            shown = replace(
                system.run,
                name=f"{label}-{system.run.name}",
                documents=system.run.documents[:, :depth],
                scores=system.run.scores[:, :depth],
            )
            path = Path(settings.runs) / f"{label.lower()}.trec"
            runs.write_trec(shown, evalset.query_ids, evalset.document_ids, path)
    return _publish(comparison, places, settings.on_inconclusive)


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
    folder = cache_folder(os.environ) if settings.cache else None
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
    return comparison, ranked


def judge_again(path: Path, settings: Settings) -> tuple[Comparison, int]:
    """Judge the values of a result file by the gates of `settings`; return it and the exit code.

    Raises: InputError for a metric that the file has no values of.
    """
    old = result_json.load(path)
    recorded = Settings.model_validate(old.settings)
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


def report_again(path: Path, settings: Settings, *, clock: Clock = now) -> Outcome:
    """Render every surface of a result file again. Raises: InputError."""
    comparison = result_json.load(path)
    recorded = Settings.model_validate(comparison.settings)
    return _publish(comparison, _places(settings, clock), recorded.on_inconclusive)


def demo(language: str, settings: Settings, *, clock: Clock = now) -> Outcome:
    """Compare the two mock models on the demo collection in a language, without the store."""
    places = _places(settings, clock)
    mocks = {
        name: SystemSpec.parse(f"mock:{mock}")
        for name, mock in (("model_a", "char3"), ("model_b", "word"))
    }
    settings = settings.model_copy(update={**mocks, "cache": False})
    evalset = evalsets.load(demo_folder(language))
    compared, _ = compare_evalset(evalset, settings, clock=clock)
    # Where the package lies on this machine is not part of the result.
    return _publish(replace(compared, command=f"embed-ab demo --lang {language}"), places, "pass")


def demo_folder(language: str) -> Path:
    """Return the folder of the demo collection in a language."""
    return Path(str(resources.files("embed_ab") / "demo" / language))


def export_demo(language: str, folder: Path) -> list[Path]:
    """Copy the demo collection to a folder that does not hold one. Raises: InputError."""
    source = demo_folder(language)
    targets = {item: folder / item.name for item in sorted(source.iterdir()) if item.is_file()}
    for target in targets.values():
        if target.exists():
            raise InputError(f"{target} exists already", hint="Choose another folder for --export.")
    for item, target in targets.items():
        write_text(target, item.read_text("utf-8"))
    return list(targets.values())


def exit_code(outcome: str, on_inconclusive: str) -> int:
    """Return 1 for a failed gate, or an inconclusive one where that counts as failed; else 0."""
    return int(outcome == "fail" or (outcome == "inconclusive" and on_inconclusive == "fail"))


def command_line(settings: Settings) -> str:
    """Return the command that repeats a comparison, quoted for a shell."""
    words = ["embed-ab", "compare", settings.eval_path or "EVAL"]
    short = {"model-a": "-a", "model-b": "-b", "k": "-k", "gate": "--fail-if-worse"}
    for key, value in settings.changed().items():
        if key == "eval-path":
            continue
        flag = short.get(key, f"--{key}")
        if value is True:
            words.append(flag)
        elif key in (key_of("gate"), key_of("ignore")):
            for item in value:
                words += [flag, item]
        else:
            text = ",".join(value) if isinstance(value, list) else str(value)
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return shlex.join(words)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises: InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            # mkstemp makes private files; a report is as readable as any other.
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}", hint="Choose another place with --out."
        ) from None


@dataclass(frozen=True, kw_only=True)
class _Places:
    report: Path
    json: Path
    comment: Path


def _places(settings: Settings, clock: Clock) -> _Places:
    """Where the files go; made before the work, so that an unwritable place fails at once."""
    if settings.out:
        folder = Path(settings.out)
    else:
        name = re.sub(r"[^\w.-]+", "-", Path(settings.eval_path or "report").resolve().name)
        stamp = clock().strftime("%Y%m%dT%H%M%S.%f")
        folder = cache_folder(os.environ) / "reports" / f"{stamp}-{name}"
    places = _Places(
        report=Path(settings.report or folder / "report.html"),
        json=Path(settings.json_file or folder / "result.json"),
        comment=folder / "comment.md",
    )
    for path in (places.report, places.json, places.comment):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            is_writable = os.access(path.parent, os.W_OK) and not path.is_dir()
        except OSError as error:
            raise InputError(
                f"{path.parent}: {error.strerror}", hint="Choose another place with --out."
            ) from None
        if not is_writable:
            raise InputError(f"{path} cannot be written", hint="Choose another place with --out.")
    return places


def _publish(comparison: Comparison, places: _Places, on_inconclusive: str) -> Outcome:
    write_text(places.json, result_json.dumps(comparison))
    write_text(places.report, render.html(comparison))
    write_text(places.comment, render.markdown(comparison))
    return Outcome(
        comparison=comparison,
        report=places.report,
        json=places.json,
        comment=places.comment,
        exit_code=exit_code(comparison.outcome, on_inconclusive),
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("embed-ab-action", "numpy", "bm25s"):
        found[name] = importlib.metadata.version(name)
    return found

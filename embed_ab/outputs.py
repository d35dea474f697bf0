"""Where the results go: report, JSON, comment, and files for TREC tools."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from embed_ab import render, result_json, runs
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.origin import System
from embed_ab.providers.cache import cache_folder
from embed_ab.result import Comparison
from embed_ab.settings import Settings

REPORT, JSON, COMMENT = "report.html", "result.json", "comment.md"
RUN_FILES = ("a.trec", "b.trec", "bm25.trec", "qrels.trec")
_STAMP = "%Y%m%dT%H%M%S.%f"
_HINT = "Choose another place, for example with --out."


@dataclass(frozen=True, kw_only=True)
class Places:
    """Files of one comparison."""

    report: Path
    json: Path
    comment: Path


def report_folder() -> Path:
    """Return the folder that holds the results of comparisons without --out."""
    return cache_folder(os.environ) / "reports"


def prune_reports(*, older_than: float) -> None:
    """Delete the folders of results without --out that were made before a time of the clock."""
    ours = {REPORT, JSON, COMMENT}
    for folder in report_folder().glob("*"):
        is_ours = re.fullmatch(r"\d{8}T\d{6}\.\d{6}-.*", folder.name) and folder.is_dir()
        if not is_ours or folder.is_symlink() or folder.stat().st_mtime >= older_than:
            continue
        if {file.name for file in folder.iterdir()} <= ours:
            shutil.rmtree(folder)


def places(settings: Settings, moment: datetime) -> Places:
    """Return where the files go.

    Those the settings name are tried at once, so that a place that cannot be written costs no work.
    Raises: InputError.
    """
    if settings.out:
        folder = Path(settings.out)
    else:
        name = re.sub(r"[^\w.-]+", "-", Path(settings.eval_path or "report").resolve().name)[:40]
        folder = report_folder() / f"{moment.strftime(_STAMP)}-{name}"
    found = Places(
        report=Path(settings.report or folder / REPORT),
        json=Path(settings.json_file or folder / JSON),
        comment=folder / COMMENT,
    )
    runs_folder = Path(settings.runs) if settings.runs else None
    files = [found.report, found.json, found.comment]
    files += [runs_folder / name for name in RUN_FILES] if runs_folder else []
    try:
        _try(files, skipped=None if settings.out else folder, settings=settings)
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"a result cannot be written: {problem}", hint=_HINT) from None
    return found


def _try(files: Sequence[Path], *, skipped: Path | None, settings: Settings) -> None:
    """Raise InputError for a file that cannot be written; those of `skipped` are not made yet."""
    regular = [path.resolve() for path in files if path.is_file() or not path.exists()]
    if len(set(regular)) < len(regular):
        twice = next(path for path in files if regular.count(path.resolve()) > 1)
        raise InputError(f"two results would be written to {twice}", hint=_HINT)
    for path in files:
        if path.exists() and not path.is_file() and not path.is_dir():
            continue  # a device or a pipe: what is written there is the caller's business
        if settings.eval_path and _is_of_evalset(path, Path(settings.eval_path)):
            raise InputError(f"{path} is a file of the evaluation set", hint=_HINT)
        parent = path.parent
        if parent == skipped:
            parent = next(above for above in parent.parents if above.exists())
        else:
            try:
                parent.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise InputError(f"{parent} is a file, not a folder", hint=_HINT) from None
        if path.is_dir() or not (parent.is_dir() and os.access(parent, os.W_OK)):
            raise InputError(f"{path} cannot be written", hint=_HINT)


def _is_of_evalset(path: Path, folder: Path) -> bool:
    place, folder = path.resolve(), folder.resolve()
    name = place.name.removesuffix(".gz")
    in_folder = place.parent == folder and name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv")
    return in_folder or (place.parent == folder / "qrels" and name.endswith(".tsv"))


def publish(comparison: Comparison, to: Places) -> None:
    """Write JSON, report and comment. Raises: InputError."""
    write_all(
        to,
        json=result_json.dumps(comparison),
        report=render.html(comparison),
        comment=render.markdown(comparison),
    )


def write_all(to: Places, *, json: str, report: str, comment: str) -> None:
    """Write the three texts of a result. Raises: InputError."""
    write_text(to.json, json)
    write_text(to.report, report)
    write_text(to.comment, comment)


def write_runs(
    evalset: Evalset, systems: Mapping[str, System], depth: int, min_grade: int, folder: Path
) -> None:
    """Write a run file for each system and `qrels.trec` with the queries that were evaluated.

    Raises: InputError.
    """
    for label, system in systems.items():
        shown = replace(
            system.run,
            name=f"{label}-{system.run.name}",
            documents=system.run.documents[:, :depth],
            scores=system.run.scores[:, :depth],
        )
        path = folder / f"{label.lower()}.trec"
        runs.write_trec(shown, evalset.query_ids, evalset.document_ids, path)
    lines = []
    for query, identifier in enumerate(evalset.query_ids):
        documents, grades = evalset.qrels.of(query)
        if (grades >= min_grade).any():
            lines += [
                f"{identifier} 0 {evalset.document_ids[document]} {grade}\n"
                for document, grade in zip(documents, grades, strict=True)
            ]
    write_text(folder / "qrels.trec", "".join(lines))


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; a device or a pipe as it is. Raises: InputError."""
    try:
        if path.exists() and not path.is_file():
            with suppress(BrokenPipeError), path.open("w", encoding="utf-8") as stream:
                stream.write(text)  # a reader may leave when it has seen enough
            return
        path = path.resolve()  # the file that a link names is replaced, not the link
        path.parent.mkdir(parents=True, exist_ok=True)
        # The mode that open() would give, as mkstemp makes private files.
        umask = os.umask(0)
        os.umask(umask)
        replace_file(path, text.encode(), mode=0o666 & ~umask)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror or error}", hint=_HINT
        ) from None


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Put a file of these permissions at a path, whole or not at all. Raises: OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".embed-ab-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)  # missing, too, where an interrupt follows the replace

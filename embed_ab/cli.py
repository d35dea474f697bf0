"""Flags to commands to exit codes."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, get_args

from embed_ab import __version__
from embed_ab.errors import EmbedAbError

if TYPE_CHECKING:
    from rich.console import Console

    from embed_ab.commands import Finished
    from embed_ab.settings import Settings
    from embed_ab.systems import OnProgress

BUG_EXIT_CODE = 3
INTERRUPTED_EXIT_CODE = 130

_VERBS = {
    "compare": "Compare system B with system A on an evaluation set.",
    "check": "Validate an evaluation set and print what it holds.",
    "gate": "Judge a result.json again with other gates.",
    "report": "Write report.html, comment.md and result.json again from a result.json.",
    "init": "Write a starting .embed-ab.yml and the workflow for pull requests.",
    "demo": "Run a comparison on a small manual that comes with embed-ab.",
    "cache": "Show, clear or prune the store of vectors.",
    "schema": "Print the JSON Schema of .embed-ab.yml.",
}
_EPILOG = """exit codes:
  0  done, and every gate passed or was inconclusive
  1  a gate failed
  2  something in the input is wrong
  3  a model, a server or embed-ab itself failed
  130  interrupted
"""
_METAVARS = {
    "model-a": "SYSTEM",
    "model-b": "SYSTEM",
    "metrics": "LIST",
    "cluster-by": "FIELD",
    "resamples": "N",
    "seed": "N",
    "min-queries": "N",
    "worst-queries": "N",
    "out": "DIR",
    "runs": "DIR",
    "report": "FILE",
    "json": "FILE",
}
_EVALSET_KEYS = {"eval-path", "split", "no-positive", "allow-missing-docs", "min-grade"}
_GATE_KEYS = {"gate", "on-inconclusive", "min-queries"}
_INIT_KEYS = {"eval-path", "model-a", "model-b", "gate"}
_PLACE_KEYS = {"out", "report", "json"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; only argparse itself exits."""
    words = list(sys.argv[1:] if argv is None else argv)
    _make_streams_safe()
    try:
        arguments = _parse(words)
        return int(_COMMANDS[arguments.pop("command")](arguments))
    except EmbedAbError as error:
        _say(f"error: {error}")
        if error.hint:
            _say(f"hint: {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted; what is in the store of vectors is kept")
        return INTERRUPTED_EXIT_CODE
    except OSError as error:
        _say(f"error: {error}")
        return BUG_EXIT_CODE
    except Exception:
        for line in traceback.format_exc().splitlines():
            _say(f"| {line}")
        _say(f"error: this is a bug in embed-ab {__version__}, not in your input; please report it")
        return BUG_EXIT_CODE


def _parse(words: Sequence[str]) -> dict[str, Any]:
    try:
        return vars(_parser(words).parse_args(words))
    except SystemExit:  # argparse printed its help or its error; its code stands
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                _forget(stream)
        raise


def _make_streams_safe() -> None:
    """Let no stream that is closed, or that cannot show a letter, change an exit code."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="embed-ab",
        description="Compare two embedding models on your own documents and questions.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"embed-ab {__version__}")
    verbs = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for verb, text in _VERBS.items():
        verbs_parser = verbs.add_parser(verb, help=text, description=text, allow_abbrev=False)
        # Only the command in use needs its flags, and with them pydantic and numpy.
        if verb in words:
            _FLAGS[verb](verbs_parser)
    return parser


def _compare_flags(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    _add_settings(parser, None)


def _check_flags(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    _add_settings(parser, _EVALSET_KEYS)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help="Settings file; default .embed-ab.yml where it exists."
    )


def _gate_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT.json")
    _add_settings(parser, _GATE_KEYS)


def _report_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT.json")
    _add_settings(parser, _PLACE_KEYS | {"quiet", "redact"})


def _init_flags(parser: argparse.ArgumentParser) -> None:
    from embed_ab.starter import USES

    parser.add_argument(
        "--dir", metavar="DIR", default=".", help="Root of the repository; default this folder."
    )
    parser.add_argument(
        "--uses", metavar="ACTION", default=USES, help=f"The action to use. Default: {USES}."
    )
    parser.add_argument(
        "--forks",
        action="store_true",
        help="Also write the workflow that comments on pull requests from forks.",
    )
    _add_settings(parser, _INIT_KEYS)


def _demo_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lang", choices=["en", "ko"], default="en", help="Language of the manual."
    )
    parser.add_argument(
        "--export", metavar="DIR", help="Only copy the collection to DIR, to look at or to change."
    )
    _add_settings(parser, _PLACE_KEYS | {"quiet", "redact"})


def _cache_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=["info", "clear", "prune"],
        default="info",
        help="Show what the store holds, empty it, or drop what is old.",
    )
    parser.add_argument(
        "--days",
        type=int,
        default=30,
        help="prune drops vectors not used, and reports without --out made, so long ago (30).",
    )


def _no_flags(parser: argparse.ArgumentParser) -> None:
    """A command without flags."""


_FLAGS = {
    "compare": _compare_flags,
    "check": _check_flags,
    "gate": _gate_flags,
    "report": _report_flags,
    "init": _init_flags,
    "demo": _demo_flags,
    "cache": _cache_flags,
    "schema": _no_flags,
}


def _add_settings(parser: argparse.ArgumentParser, keys: set[str] | None) -> None:
    """Add a flag for each setting, or for those named; nothing is set that was not given."""
    from embed_ab.settings import Settings, extra, flags_of, key_of

    groups: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        key = key_of(name)
        if keys is not None and key not in keys:
            continue
        if key == "eval-path":
            parser.add_argument(
                key, metavar="EVAL", nargs="?", default=None, help=field.description
            )
            continue
        title = extra(field)["group"]
        group = groups.setdefault(title, parser.add_argument_group(title.lower()))
        options: dict[str, Any] = {"dest": key, "default": None, "help": _help(field)}
        if field.annotation is bool:
            options["action"] = argparse.BooleanOptionalAction
        elif key in ("gate", "ignore"):
            options |= {"action": "append", "metavar": "GATE" if key == "gate" else "CODE"}
        elif choices := [v for v in _literals(field.annotation) if v is not None]:
            options["choices"] = choices
        else:
            options["metavar"] = _METAVARS.get(key) or key.rpartition("-")[2].upper()
        group.add_argument(*flags_of(key), **options)


def _help(field: Any) -> str:
    shown = field.default if not isinstance(field.default, tuple) else ",".join(field.default)
    text = (field.description or "").replace("%", "%%")
    return text if isinstance(shown, bool) or shown in (None, "") else f"{text} Default: {shown}."


def _literals(annotation: Any) -> list[Any]:
    found = [a for a in get_args(annotation) if isinstance(a, str)]
    return found or [a for inner in get_args(annotation) for a in _literals(inner)]


def _settings(arguments: dict[str, Any]) -> Settings:
    from embed_ab.settings import CONFIG_NAME, key_of, resolve
    from embed_ab.settings import Settings as fields

    named = arguments.get("config")
    config = Path(named) if named else Path(CONFIG_NAME)
    known = {key_of(name) for name in fields.model_fields}
    flags: dict[str, Any] = {key: value for key, value in arguments.items() if key in known}
    for key in ("gate", "ignore"):
        if flags.get(key):
            flags[key] = "\n".join(flags[key])
    reads_file = "config" in arguments and (named or config.is_file())
    return resolve(flags, config=config if reads_file else None)


def _run_compare(arguments: dict[str, Any]) -> int:
    from embed_ab import commands

    settings = _settings(arguments)
    with _progress(is_quiet=settings.quiet) as on_progress:
        finished = commands.compare(settings, on_progress=on_progress)
    return _show(finished, is_quiet=settings.quiet)


def _run_demo(arguments: dict[str, Any]) -> int:
    from embed_ab import commands

    language = arguments.pop("lang")
    if folder := arguments.pop("export"):
        paths = commands.export_demo(language, Path(folder))
        with _reader_may_leave():
            for path in paths:
                print(path)  # noqa: T201
            print(f"embed-ab compare {folder} -a mock:char3 -b mock:word")  # noqa: T201
        return 0
    settings = _settings(arguments)
    return _show(commands.demo(language, settings), is_quiet=settings.quiet)


def _run_init(arguments: dict[str, Any]) -> int:
    from embed_ab import starter

    for key, default in starter.DEFAULTS.items():
        arguments[key] = arguments[key] or default
    settings, folder = _settings(arguments), Path(arguments["dir"])
    action = {"uses": arguments["uses"], "forks": arguments["forks"]}
    paths = starter.write(folder, settings, **action)
    with _reader_may_leave():
        for path in paths:
            print(path)  # noqa: T201
        print(f"\nNext, in {folder}:" if folder != Path() else "\nNext:")  # noqa: T201
        for number, step in enumerate(starter.next_steps(folder, settings, **action), 1):
            print(f"{number}. {step}")  # noqa: T201
    return 0


def _run_gate(arguments: dict[str, Any]) -> int:
    from embed_ab import commands, terminal

    comparison, code = commands.judge_again(Path(arguments.pop("result")), _settings(arguments))
    with _reader_may_leave():
        terminal.comparison(comparison, _console(), quiet=True)
    return code


def _run_report(arguments: dict[str, Any]) -> int:
    from embed_ab import commands

    path = Path(arguments.pop("result"))
    settings = _settings(arguments)
    return _show(commands.report_again(path, settings), is_quiet=settings.quiet)


def _run_check(arguments: dict[str, Any]) -> int:
    from embed_ab import check, commands, terminal

    settings = _settings(arguments)
    found = check.check(commands.load_evalset(settings), min_grade=settings.min_grade)
    with _reader_may_leave():
        terminal.check(found, _console())
    return 0


def _run_cache(arguments: dict[str, Any]) -> int:
    from embed_ab import commands, terminal

    info = commands.store_info(arguments["action"], arguments["days"])
    with _reader_may_leave():
        terminal.cache_info(info, _console())
    return 0


def _run_schema(arguments: dict[str, Any]) -> int:
    import json

    from embed_ab.settings import file_schema

    with _reader_may_leave():
        print(json.dumps(file_schema(), indent=2, ensure_ascii=False))  # noqa: T201
    return 0


_COMMANDS = {
    "compare": _run_compare,
    "check": _run_check,
    "gate": _run_gate,
    "report": _run_report,
    "init": _run_init,
    "demo": _run_demo,
    "cache": _run_cache,
    "schema": _run_schema,
}


def _show(finished: Finished, *, is_quiet: bool) -> int:
    from embed_ab import terminal

    with _reader_may_leave():
        console = _console()
        terminal.comparison(finished.comparison, console, quiet=is_quiet)
        if not is_quiet and finished.unpublished is None:
            terminal.places(finished.places, console)
    if finished.unpublished is not None:
        raise finished.unpublished
    return finished.exit_code


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Let the reader of a pipe leave, as `| head` does: the exit code is the command's."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _forget(sys.stdout)
    except OSError as error:
        _say(f"error: the result cannot be printed: {error.strerror}")
        _forget(sys.stdout)


def _forget(stream: TextIO) -> None:
    # Python flushes once more at its end, and would end with a code of its own where that fails.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _console() -> Console:
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            # Rich would exit with 1, which here means a failed gate.
            raise BrokenPipeError

    console = Plain()
    if not sys.stdout.isatty():
        console.width = 200  # in a log a row of a table should be one line
    elif console.width < 1:  # COLUMNS=0
        console.width = 80
    return console


def _say(text: str) -> None:
    """Print a line to standard error; ids and names in it must not act on a terminal or a log."""
    from embed_ab.formats import printable

    encoding = sys.stderr.encoding or "utf-8"
    try:
        print(printable(text, encoding, sys.stderr.isatty()), file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        _forget(sys.stderr)  # nobody is there to read it


@contextmanager
def _progress(*, is_quiet: bool) -> Iterator[OnProgress]:
    """A bar with the time left on a terminal, a line every ten seconds elsewhere."""
    if is_quiet:
        yield lambda what, done, total: None
        return
    if not sys.stderr.isatty():
        from embed_ab.terminal import progress_lines

        yield progress_lines(_say)
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, progress.TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show

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
from embed_ab.errors import EmbedAbError, InputError

if TYPE_CHECKING:
    from rich.console import Console

    from embed_ab.commands import Finished
    from embed_ab.settings import Settings
    from embed_ab.systems import OnProgress

BUG_EXIT_CODE = 3
INTERRUPTED_EXIT_CODE = 130

_VERBS = {
    "compare": "Compare system B with system A on an evaluation set.",
    "matrix": "Compare several systems with one of them; each uses its own prompts.",
    "rerank": "Compare reranker B with A: both reorder the same documents of a first stage.",
    "check": "Validate an evaluation set and print what it holds.",
    "parity": "Say whether A and B give the same vectors, and if not, why.",
    "gate": "Judge a result.json again with other gates.",
    "report": "Write report.html, comment.md and result.json again from a result.json.",
    "label": "List unjudged documents that A and B returned, and merge them back once judged.",
    "init": "Write a starting .embed-ab.yml and the workflow for pull requests.",
    "demo": "Run a comparison on a small manual that comes with embed-ab.",
    "build-set": "Make an evaluation set from a folder of files.",
    "cache": "Show, clear or prune the store of vectors.",
    "schema": "Print the JSON Schema of .embed-ab.yml.",
}
_EPILOG = """exit codes:
  0  done, and every gate passed or was inconclusive
  1  a gate failed, parity missed --min-cosine, or rerank found other than --expect
  2  something in the input is wrong
  3  a model, a server or embed-ab itself failed
  130  interrupted
"""
_METAVARS = {
    "model-a": "SYSTEM",
    "model-b": "SYSTEM",
    "a-price-per-million-tokens": "PRICE",
    "b-price-per-million-tokens": "PRICE",
    "metrics": "LIST",
    "cluster-by": "FIELD",
    "slice": "FIELD",
    "gate": "GATE",
    "ignore": "CODE",
    "resamples": "N",
    "seed": "N",
    "concurrency": "N",
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
_BUILD_KEYS = {"seed", "concurrency"}
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
        _say("interrupted; the same command goes on from what is kept")
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


def _matrix_flags(parser: argparse.ArgumentParser) -> None:
    from embed_ab.settings import MATRIX_KEYS, Settings

    evalset = Settings.model_fields["eval_path"].description
    parser.add_argument("eval-path", metavar="EVAL", help=evalset)
    parser.add_argument(
        "systems", metavar="SYSTEM", nargs="+", help="Systems, as compare's -a and -b take them."
    )
    parser.add_argument(
        "--baseline",
        metavar="SYSTEM",
        default="",
        help="Which of them the others are compared with. Default: the first.",
    )
    _add_config(parser)
    _add_settings(parser, set(MATRIX_KEYS) - {"eval-path"})


def _rerank_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--first-stage",
        metavar="SYSTEM",
        help="What finds the candidates: st:NAME, bm25:TOKENS, run:FILE, any system.",
    )
    parser.add_argument(
        "--depth",
        metavar="N",
        type=int,
        default=100,
        help="Candidates of each query: the first N documents of the first stage. Default: 100.",
    )
    parser.add_argument(
        "--fixture",
        metavar="FILE",
        help="Only run this JSON fixture, made to be checked by hand, and print what it gives.",
    )
    parser.add_argument(
        "--expect", metavar="FILE", help="End with 1 where --fixture gives other than this JSON."
    )
    _compare_flags(parser)


def _check_flags(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    _add_settings(parser, _EVALSET_KEYS)


def _parity_flags(parser: argparse.ArgumentParser) -> None:
    from embed_ab.settings import Settings, extra, key_of

    parser.add_argument(
        "--sample",
        metavar="N",
        type=int,
        default=100,
        help="At most so many documents and so many queries. Default: 100.",
    )
    parser.add_argument(
        "--min-cosine",
        metavar="X",
        type=_cosine,
        help="A check: exit code 1 where the mean cosine of documents, or of queries, is below X "
        "(-1 to 1), or the dimensions differ; else 0. Without it 0, whatever was found.",
    )
    _add_config(parser)
    models = {
        key_of(name)
        for name, field in Settings.model_fields.items()
        if extra(field)["group"] == "Models" and not name.endswith("_tokens")
    }
    keys = {"model-a", "model-b", "k", "seed", "quiet", "redact"}
    _add_settings(parser, _EVALSET_KEYS | models | keys)


def _cosine(text: str) -> float:
    value = float(text)
    if not -1 <= value <= 1:
        raise ValueError(text)
    return value


_cosine.__name__ = "cosine"  # what argparse calls it in its error


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


def _label_flags(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    _add_settings(parser, _EVALSET_KEYS | {"concurrency"})
    parser.add_argument(
        "result", metavar="RESULT.json", nargs="?", help="The result of comparing A and B."
    )
    # Not the settings of these names, which are about where results go.
    parser.add_argument(
        "--out", dest="to", metavar="FILE.tsv", help="The file to judge; judged rows in it stay."
    )
    parser.add_argument(
        "--runs",
        dest="runs_folder",
        metavar="DIR",
        help="Where `compare --runs DIR` wrote; else only the result's detailed queries are seen.",
    )
    parser.add_argument(
        "--depth", metavar="N", type=int, default=10, help="Ranks of A and B to look at (10)."
    )
    parser.add_argument(
        "--max-pairs", metavar="N", type=int, help="Only the N pairs that could change most."
    )
    parser.add_argument(
        "--llm",
        metavar="MODEL",
        default="",
        help="Let ollama:NAME or openai:NAME judge the pairs, "
        "from 0 to the highest grade of the set.",
    )
    parser.add_argument(
        "--merge", metavar="FILE.tsv", help="Add the judged rows of this file to the qrels of EVAL."
    )


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


def _build_set_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("documents", metavar="DOCS", help="Folder of files, or one file.")
    parser.add_argument("--out", metavar="DIR", required=True, help="Folder for the set.")
    parser.add_argument(
        "--llm",
        metavar="MODEL",
        default="mock",
        help="Who writes the questions: ollama:NAME, openai:NAME, or mock, which copies sentences. "
        "Default: mock.",
    )
    numbers = {
        "chunk-chars": (
            int,
            "Longest chunk, in characters, which becomes a document of the set; a heading alone is "
            "put before the chunk that follows. Default: 600.",
        ),
        "per-chunk": (
            int,
            "Questions to ask for about each chunk. Default: 1. With more, compare with "
            "--cluster-by gold: those of one chunk are no independent evidence.",
        ),
        "max-chunks": (
            int,
            "Ask about so many chunks at most; all are documents of the set.",
        ),
        "max-copy": (
            float,
            "Drop questions of which a larger share of words stands in their chunk. "
            "Default: 0.6; with mock 1.",
        ),
    }
    for key, (kind, text) in numbers.items():
        parser.add_argument(f"--{key}", metavar="N", type=kind, help=text)
    parser.add_argument(
        "--language", metavar="TAG", help="Language to ask in, such as ko. Default: each chunk's."
    )
    parser.add_argument(
        "--verify",
        nargs="?",
        const="bm25",
        choices=["bm25", "llm"],
        help="Mark questions as ambiguous that do not lead to their chunk: bm25, where another "
        "chunk scores as high or higher; llm, where the model that wrote them chooses another.",
    )
    parser.add_argument(
        "--quiet",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="Print where the set is, and warnings, only.",
    )
    _add_settings(parser, _BUILD_KEYS)


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
    "matrix": _matrix_flags,
    "rerank": _rerank_flags,
    "check": _check_flags,
    "parity": _parity_flags,
    "gate": _gate_flags,
    "report": _report_flags,
    "label": _label_flags,
    "init": _init_flags,
    "demo": _demo_flags,
    "build-set": _build_set_flags,
    "cache": _cache_flags,
    "schema": _no_flags,
}


def _add_settings(parser: argparse.ArgumentParser, keys: set[str] | None) -> None:
    """Add a flag for each setting, or for those named; nothing is set that was not given."""
    from embed_ab.settings import LISTS, Settings, extra, flags_of, key_of

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
        elif key in LISTS:
            options |= {"action": "append", "metavar": _METAVARS[key]}
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
    from embed_ab.settings import CONFIG_NAME, LISTS, key_of, resolve
    from embed_ab.settings import Settings as fields

    named = arguments.get("config")
    config = Path(named) if named else Path(CONFIG_NAME)
    known = {key_of(name) for name in fields.model_fields}
    flags: dict[str, Any] = {key: value for key, value in arguments.items() if key in known}
    for key in LISTS:
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


def _run_matrix(arguments: dict[str, Any]) -> int:
    from embed_ab import commands, terminal

    settings = _settings(arguments)
    with _progress(is_quiet=settings.quiet) as on_progress:
        finished = commands.matrix(
            settings, arguments["systems"], arguments["baseline"], on_progress=on_progress
        )
    with _reader_may_leave():
        console = _console()
        terminal.matrix(finished.matrix, console, quiet=settings.quiet)
        if not settings.quiet and finished.unpublished is None:
            terminal.places(finished.places, console)
    if finished.unpublished is not None:
        raise finished.unpublished
    return 0


def _run_rerank(arguments: dict[str, Any]) -> int:
    from embed_ab import commands

    fixture, expected = arguments.pop("fixture"), arguments.pop("expect")
    if fixture:
        return _run_fixture(Path(fixture), Path(expected) if expected else None)
    if expected:
        raise InputError("--expect is for --fixture", hint="Give --fixture FILE, too.")
    first, depth = arguments.pop("first_stage"), arguments.pop("depth")
    a, b = arguments["model-a"] or "none", arguments["model-b"]
    flags = arguments | commands.reranking(first, a, b, depth, arguments)
    settings = commands.for_one_first_stage(_settings(flags))
    with _progress(is_quiet=settings.quiet) as on_progress:
        finished = commands.compare(settings, on_progress=on_progress)
    candidates = finished.comparison.candidates
    if candidates is None or not candidates.same_for_a:  # checked, not assumed
        raise EmbedAbError(
            "A and B did not order the same candidates, so their difference is not the reranker's",
            hint="This is a bug: they share a first stage. Please report it.",
        )
    return _show(finished, is_quiet=settings.quiet)


def _run_fixture(path: Path, expected: Path | None) -> int:
    import json

    from embed_ab import rerank_fixture

    found = rerank_fixture.evaluate(rerank_fixture.read(path))
    differences = list(rerank_fixture.differences_from(expected, found)) if expected else []
    with _reader_may_leave():
        print(json.dumps(found, indent=1, ensure_ascii=False))  # noqa: T201
    for difference in differences:
        _say(f"difference: {difference}")
    return int(bool(differences))


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


def _run_label(arguments: dict[str, Any]) -> int:
    from embed_ab import commands

    settings = _settings(arguments)
    result, to, merged = (arguments[key] for key in ("result", "to", "merge"))
    if bool(merged) == bool(result and to) or (merged and (result or to or arguments["llm"])):
        raise InputError(
            "label lists what is to be judged, or merges it",
            hint="Give EVAL RESULT.json --out FILE.tsv, or later EVAL --merge FILE.tsv.",
        )
    if merged:
        said = commands.merge_labels(settings, Path(merged))
    else:
        folder = arguments["runs_folder"]
        with _progress(is_quiet=settings.quiet) as on_progress:
            said = commands.label(
                settings,
                Path(result),
                Path(to),
                runs_folder=Path(folder) if folder else None,
                depth=arguments["depth"],
                max_pairs=arguments["max_pairs"],
                judge=arguments["llm"],
                on_progress=on_progress,
            )
    with _reader_may_leave():
        for line in said:
            print(_shown(line, sys.stdout))  # noqa: T201
    return 0


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


def _run_parity(arguments: dict[str, Any]) -> int:
    from embed_ab import commands, terminal

    settings, least = _settings(arguments), arguments["min_cosine"]
    with _progress(is_quiet=settings.quiet) as on_progress:
        found = commands.parity(settings, sample=arguments["sample"], on_progress=on_progress)
    is_missed = least is not None and (found.mean is None or found.mean < least)
    with _reader_may_leave():
        terminal.parity(found, _console(), quiet=settings.quiet)
        if least is not None:
            print(f"--min-cosine {least}: {'missed' if is_missed else 'met'}")  # noqa: T201
    return int(is_missed)


def _run_build_set(arguments: dict[str, Any]) -> int:
    from embed_ab import commands, terminal
    from embed_ab.buildset import summary
    from embed_ab.buildset.options import Options

    settings = _settings(arguments)
    given = {
        name: value
        for name in ("chunk_chars", "per_chunk", "max_chunks", "max_copy", "language", "verify")
        if (value := arguments[name]) is not None
    }
    if arguments["llm"] == "mock":
        given.setdefault("max_copy", 1.0)  # its questions are copies
    options = Options(**given, seed=settings.seed, concurrency=settings.concurrency)
    folder, out = Path(arguments["documents"]), Path(arguments["out"])
    with _progress(is_quiet=settings.quiet) as on_progress:
        built = commands.build_set(folder, out, options, arguments["llm"], on_progress=on_progress)
    with _reader_may_leave():
        terminal.lines(summary.lines(built, is_quiet=settings.quiet), _console())
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
    "matrix": _run_matrix,
    "rerank": _run_rerank,
    "check": _run_check,
    "parity": _run_parity,
    "gate": _run_gate,
    "report": _run_report,
    "label": _run_label,
    "init": _run_init,
    "demo": _run_demo,
    "build-set": _run_build_set,
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
    try:
        print(_shown(text, sys.stderr), file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        _forget(sys.stderr)  # nobody is there to read it


def _shown(text: str, stream: TextIO) -> str:
    from embed_ab.formats import printable

    return printable(text, stream.encoding or "utf-8", stream.isatty())


@contextmanager
def _progress(*, is_quiet: bool) -> Iterator[OnProgress]:
    """A bar with the time left on a terminal, a line every ten seconds elsewhere; waits told."""
    if is_quiet:
        yield lambda what, done, total: None
        return
    from embed_ab.terminal import heard, progress_lines

    if not sys.stderr.isatty():
        with heard(_say):
            yield progress_lines(_say)
        return
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    with (
        progress.Progress(*columns, console=Console(stderr=True), transient=True) as bars,
        heard(lambda text: bars.print(Text(_shown(text, sys.stderr)))),
    ):
        tasks: dict[str, progress.TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show

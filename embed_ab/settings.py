"""The one settings type behind flags, `.embed-ab.yml` and, later, the action's inputs.

A field `a_query_prompt` is the flag `--a-query-prompt` and the key `a-query-prompt` of the file.
Its type, bounds, default and help text stand on the field and nowhere else.
"""

from __future__ import annotations

import difflib
import json
import re
import reprlib
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from embed_ab import formats
from embed_ab.cautions import CODES
from embed_ab.comparison import Options
from embed_ab.errors import InputError
from embed_ab.gate import Gate
from embed_ab.metrics import Metric
from embed_ab.providers.addresses import is_secret_name
from embed_ab.registry import Side, refuse_permission
from embed_ab.slices import MAX_FIELD_NAME, MAX_FIELDS
from embed_ab.system_spec import FORMS, PROVIDERS, Normalisation, SystemSpec

CONFIG_NAME = ".embed-ab.yml"
LISTS = ("slice", "gate", "ignore")
"""Keys of lists whose flag is given once for each item."""
MAX_CONFIG_BYTES = 1_000_000


def _split(value: Any) -> Any:
    """One text with commas or line ends, or a list: both are lists."""
    if not isinstance(value, str):
        return value
    if value.strip() and not value.strip(", \t\r\n"):
        raise ValueError("Input should name at least one")  # a gate must not vanish unseen
    # Not at the commas of a gate on ndcg@10[topic=bread, butter]; what has more than that in its
    # brackets is given as a list.
    parts = re.findall(r"(?:\[[^\]\n]{0,300}\]|[^,\n])+", value)
    return [part.strip() for part in parts if part.strip()]


def _spec(value: Any) -> Any:
    return SystemSpec.parse(value) if isinstance(value, str | Mapping) else value


def _number(value: Any) -> Any:
    # YAML reads yes and on as true, and true would pass for 1.
    if isinstance(value, bool):
        raise ValueError("Input should be a number")
    return value


def _one_line(value: str) -> str:
    if {"Cc", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, value)):
        raise ValueError("Input should be text on one line, without control characters")
    return value


def _encodable(value: str) -> str:
    if "Cs" in set(map(unicodedata.category, value)):
        raise ValueError("Input should be text that UTF-8 can hold")
    return value


OneLine = Annotated[str, AfterValidator(_one_line)]
Prompt = Annotated[str, AfterValidator(_encodable)]


def _object(value: Any) -> Any:
    """The text of a JSON object, or a mapping of the file."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
        json.dumps(found, allow_nan=False)
        return found
    except (ValueError, RecursionError):
        raise ValueError('Input should be a JSON object, such as {"input_type": "query"}') from None


def _public(value: dict[str, Any]) -> dict[str, Any]:
    if "input" in value:
        raise ValueError("Input should not hold 'input': that is where the texts go")
    if name := next(filter(is_secret_name, _names(value)), None):
        raise ValueError(
            f"Input should not hold '{name}': what is given here is shown in results, and keys "
            "come from the environment"
        )
    return value


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)


Whole = Annotated[int, BeforeValidator(_number)]
Price = Annotated[float, BeforeValidator(_number), AllowInfNan(False)]
Params = Annotated[
    dict[str, Any],
    BeforeValidator(_object),
    AfterValidator(_public),
    PlainSerializer(json.dumps),
    WithJsonSchema({"type": ["object", "string"]}),
]
_RANKING = [name for name, provider in PROVIDERS.items() if not provider.is_reranker]
_PART = {"type": ["string", "object"]}
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Spec = Annotated[
    SystemSpec,
    BeforeValidator(_spec),
    PlainSerializer(str),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "string",
                    "pattern": f"^(({'|'.join(_RANKING)}):|({'|'.join(FORMS)})\\()",
                },
                {
                    "type": "object",
                    "properties": {"provider": {"enum": _RANKING}, "name": {"type": "string"}},
                    "required": ["provider", "name"],
                    "additionalProperties": {"type": ["string", "integer", "boolean"]},
                },
                {
                    "type": "object",
                    "properties": {
                        "provider": {"enum": list(FORMS)},
                        "systems": {"type": "array", "items": _PART, "minItems": 2},
                        "system": _PART,
                        "reranker": _PART,
                        "weights": {
                            "type": ["array", "string"],
                            "items": {"type": ["number", "string"]},
                        },
                        "normalise": {"enum": list(get_args(Normalisation))},
                        "k": {"type": "integer"},
                        "depth": {"type": "integer"},
                    },
                    "required": ["provider"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def _setting(default: Any, description: str, *, group: str, **more: Any) -> Any:
    """A field with its help text; `not_in_file` keeps a setting out of the config file."""
    extra = {"group": group, "not_in_file": more.pop("not_in_file", False)}
    return Field(default, description=description, json_schema_extra=extra, **more)


class Settings(BaseModel):
    """Everything a comparison can be told."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_name=True,
        arbitrary_types_allowed=True,
        str_strip_whitespace=False,
    )

    eval_path: OneLine = _setting(
        "", "Folder of the evaluation set: corpus.jsonl, queries.jsonl, qrels.", group="Systems"
    )
    model_a: Spec | None = _setting(
        None,
        "System A, the one in use: st:NAME, ollama:NAME, openai:NAME, vectors:FILE, run:FILE, "
        "bm25:TOKENS, mock:NAME; or rrf(SYSTEM, SYSTEM), blend(SYSTEM, SYSTEM; weights=0.7,0.3), "
        "rerank(SYSTEM, ce:NAME).",
        group="Systems",
    )
    model_b: Spec | None = _setting(None, "System B, the candidate.", group="Systems")
    bm25: Literal["auto", "word", "char2", "none"] = _setting(
        "auto", "Tokens of the BM25 baseline; none leaves it out.", group="Systems"
    )

    split: str = _setting(
        "test", "Which qrels/SPLIT.tsv to read.", group="Evaluation set", pattern=r"^[\w.-]+$"
    )
    no_positive: Literal["error", "exclude"] | None = _setting(
        None,
        "What to do with queries without a relevant document. By default an error with qrels.tsv, "
        "and excluded with qrels/SPLIT.tsv and by rerank.",
        group="Evaluation set",
    )
    allow_missing_docs: bool = _setting(
        False,
        "Drop judgements of documents that are not in the corpus, instead of stopping.",
        group="Evaluation set",
    )

    a_query_prompt: Prompt | None = _setting(
        None, "Text put before each query of A; beats the model's own prompt.", group="Models"
    )
    a_doc_prompt: Prompt | None = _setting(
        None, "Text put before each document of A.", group="Models"
    )
    b_query_prompt: Prompt | None = _setting(
        None, "Text put before each query of B; beats the model's own prompt.", group="Models"
    )
    b_doc_prompt: Prompt | None = _setting(
        None, "Text put before each document of B.", group="Models"
    )
    a_query_params: Params = _setting(
        {}, "JSON object put into each request of A's queries to a server.", group="Models"
    )
    a_doc_params: Params = _setting(
        {}, "JSON object put into each request of A's documents.", group="Models"
    )
    b_query_params: Params = _setting(
        {}, "JSON object put into each request of B's queries to a server.", group="Models"
    )
    b_doc_params: Params = _setting(
        {}, "JSON object put into each request of B's documents.", group="Models"
    )
    a_trust_remote_code: bool = _setting(
        False,
        "Let A's model run its own code; of rerank(…) the reranker that runs here.",
        group="Models",
        not_in_file=True,
    )
    b_trust_remote_code: bool = _setting(
        False,
        "Let B's model run its own code; of rerank(…) the reranker that runs here.",
        group="Models",
        not_in_file=True,
    )
    a_allow_pickle: bool = _setting(
        False,
        "Let A's model load weights in pickle format; of rerank(…) the reranker that runs here.",
        group="Models",
        not_in_file=True,
    )
    b_allow_pickle: bool = _setting(
        False,
        "Let B's model load weights in pickle format; of rerank(…) the reranker that runs here.",
        group="Models",
        not_in_file=True,
    )
    a_price_per_million_tokens: Price | None = _setting(
        None, "What a million tokens of A cost, in any currency.", group="Models", ge=0, le=1e9
    )
    b_price_per_million_tokens: Price | None = _setting(
        None, "What a million tokens of B cost.", group="Models", ge=0, le=1e9
    )
    offline: bool = _setting(False, "Never ask the model hub.", group="Models")
    concurrency: Whole = _setting(4, "Requests to a server at once.", group="Models", ge=1, le=64)
    truncate: bool = _setting(
        True,
        "Shorten a text that a server finds too long, and count it; else stop and name it.",
        group="Models",
    )
    cache: bool = _setting(
        True, "Keep vectors for the next run; in the action models, too.", group="Models"
    )

    k: Whole = _setting(10, "Rank cutoff of metrics and overlap.", group="Metrics", ge=1, le=1000)
    metrics: Names = _setting(
        ("ndcg", "recall", "mrr", "hit"),
        "Metrics to show, such as ndcg@10,recall@100; without @K the cutoff is k.",
        group="Metrics",
        min_length=1,
    )
    gain: Literal["exponential", "linear"] = _setting(
        "exponential",
        "Gain of nDCG: 2^grade − 1, or the grade as trec_eval has it.",
        group="Metrics",
    )
    min_grade: Whole = _setting(
        1, "Lowest grade that counts as relevant.", group="Metrics", ge=1, le=30
    )

    interval: Literal["expanded", "percentile", "bca"] = _setting(
        "expanded", "Kind of bootstrap interval.", group="Statistics"
    )
    resamples: Whole = _setting(
        10_000, "Bootstrap resamples and sign flips.", group="Statistics", ge=100, le=1_000_000
    )
    seed: Whole = _setting(0, "Seed of every random draw.", group="Statistics", ge=0, lt=2**32)
    cluster_by: OneLine = _setting(
        "none",
        "Resample groups: gold (same best relevant document) or a field of queries.jsonl.",
        group="Statistics",
        min_length=1,
    )

    slice: Names = _setting(
        (),
        "Compare parts of the queries, too: by a field of queries.jsonl, or by query-length, "
        "n-relevant, copied-share or gold-truncated. Repeatable.",
        group="Statistics",
    )

    gate: Names = _setting(
        (),
        "METRIC@K:MARGIN, such as ndcg@10:0.02: fail when B is worse by more than the margin and "
        "the whole interval is below 0; ndcg@10[language=ko]:0.03 for one slice. Repeatable.",
        group="Gate",
    )
    on_inconclusive: Literal["pass", "fail"] = _setting(
        "pass", "Exit code of an inconclusive gate: 0 or 1.", group="Gate"
    )
    min_queries: Whole = _setting(
        10,
        "With fewer evaluated queries there is no verdict: a gate is inconclusive.",
        group="Gate",
        ge=1,
    )

    ignore: Names = _setting((), "Codes of cautions to hide. Repeatable.", group="Output")
    worst_queries: Whole = _setting(
        100,
        "How many of the worst and of the best queries show their documents; others do where these "
        "are fewer.",
        group="Output",
        ge=0,
        le=100_000,
    )
    redact: bool = _setting(
        False,
        "Show ids and numbers only: leave the texts of queries and documents out of every output.",
        group="Output",
    )
    out: OneLine = _setting(
        "",
        "Folder for report.html, result.json and comment.md; else a fresh one in the cache folder, "
        "and embed-ab-report in the action.",
        group="Output",
        not_in_file=True,
    )
    report: OneLine = _setting("", "File for the HTML report.", group="Output", not_in_file=True)
    json_file: OneLine = _setting(
        "", "File for the JSON result.", group="Output", not_in_file=True, alias="json"
    )
    runs: OneLine = _setting(
        "", "Folder for TREC run files of every system.", group="Output", not_in_file=True
    )
    quiet: bool = _setting(False, "Print the verdict only.", group="Output")

    def options(self) -> Options:
        """Return what the core needs. Raises: InputError for an unknown metric, gate or code."""
        for code in self.ignore:
            if code not in CODES:
                raise InputError(
                    f"--ignore {code}: there is no such caution" + _did_you_mean(code, CODES),
                    hint=f"Codes: {', '.join(CODES)}.",
                )
        gates = tuple(Gate.parse(text, default_k=self.k) for text in self.gate)
        doubled = [g.on for i, g in enumerate(gates) if g.on in [x.on for x in gates[:i]]]
        if doubled:
            raise InputError(
                f"two gates on {doubled[0]}",
                hint="Give one margin for each metric, or slice of it.",
            )
        _check_fields(dict.fromkeys([*self.slice, *(g.slice.field for g in gates if g.slice)]))
        return Options(
            k=self.k,
            metrics=tuple(
                dict.fromkeys(Metric.parse(text, default_k=self.k) for text in self.metrics)
            ),
            gates=gates,
            gain=self.gain,
            min_grade=self.min_grade,
            interval=self.interval,
            resamples=self.resamples,
            seed=self.seed,
            cluster_by=self.cluster_by,
            slice_by=self.slice,
            min_queries=self.min_queries,
            worst_queries=self.worst_queries,
            ignore=frozenset(self.ignore),
        )

    def side(self, label: str) -> Side:
        """Return what the settings say about one side."""
        a = label == "A"
        return Side(
            query_prompt=self.a_query_prompt if a else self.b_query_prompt,
            document_prompt=self.a_doc_prompt if a else self.b_doc_prompt,
            trust_remote_code=self._permitted("trust_remote_code"),
            allow_pickle=self._permitted("allow_pickle"),
            offline=self.offline,
            price_per_million_tokens=self.a_price_per_million_tokens
            if a
            else self.b_price_per_million_tokens,
            query_params=self.a_query_params if a else self.b_query_params,
            document_params=self.a_doc_params if a else self.b_doc_params,
            concurrency=self.concurrency,
            truncate=self.truncate,
        )

    def _permitted(self, permission: str) -> tuple[str, ...]:
        """The models that a permission of either side names."""
        sides = {"a": self.model_a, "b": self.model_b}
        return tuple(
            str(spec.permitted[0])
            for label, spec in sides.items()
            if spec and getattr(self, f"{label}_{permission}") and len(spec.permitted) == 1
        )

    def check_sides(self) -> None:
        """Raise InputError for what was said of a system, or of both, and has no meaning there."""
        specs = {"A": self.model_a, "B": self.model_b}
        given = {label: spec for label, spec in specs.items() if spec is not None}
        for label, spec in given.items():
            self.side(label).refuse_for(spec, label)
            for permission in ("trust-remote-code", "allow-pickle"):
                flag = f"{label.lower()}-{permission}"
                if getattr(self, flag.replace("-", "_")):
                    refuse_permission(spec, f"--{flag}")
        is_served = any(
            # A reranker's server is asked, too; one that cannot obey says so itself.
            PROVIDERS[leaf.provider].is_served or leaf.provider == "http"
            for spec in given.values()
            for leaf in spec.leaves
        )
        if given and not self.truncate and not is_served:
            raise InputError(
                f"--no-truncate has no meaning for {' and '.join(map(str, given.values()))}",
                hint="Leave it out: it is about servers. A model that runs here cuts at its "
                "max_length, and the report says how much.",
            )

    def changed(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, without those about output."""
        output = {name for name in Settings.model_fields if writes_files(name)}
        return self.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude=output | {"cache", "offline"}
        )


def _check_fields(fields: Collection[str]) -> None:
    """Raise InputError for more slices than are compared, or one by what is no name of a field."""
    hint = "Name a field of queries.jsonl, such as --slice language."
    if len(fields) > MAX_FIELDS:
        raise InputError(f"slices by {len(fields)} fields; at most {MAX_FIELDS}", hint=hint)
    for field in fields:
        if len(field) > MAX_FIELD_NAME or formats.plain(field) != field:
            raise InputError(
                f"--slice {reprlib.repr(field)}: a name is one line of at most {MAX_FIELD_NAME} "
                "characters",
                hint=hint,
            )


def extra(field: Any) -> Mapping[str, Any]:
    """Return the group of a setting's field and whether the config file may hold it."""
    found: Mapping[str, Any] = field.json_schema_extra
    return found


def writes_files(name: str) -> bool:
    """Return whether a field is about what the command line prints and writes."""
    field = Settings.model_fields.get(name)
    return field is not None and extra(field)["group"] == "Output" and name not in _OF_THE_RESULT


def key_of(name: str) -> str:
    """Return the spelling of a field in flags and in the config file."""
    return Settings.model_fields[name].alias or name


def flags_of(key: str) -> list[str]:
    """Return every spelling of a setting on the command line, the one to show first."""
    return ["EVAL"] if key == "eval-path" else [*_OTHER_FLAGS.get(key, []), f"--{key}"]


_OF_THE_RESULT = {"ignore", "worst_queries", "redact"}  # the group is about output, these change it
_OTHER_FLAGS = {"model-a": ["-a"], "model-b": ["-b"], "k": ["-k"], "gate": ["--fail-if-worse"]}


MATRIX_KEYS = frozenset(
    {
        *("eval-path", "split", "no-positive", "allow-missing-docs"),
        *("offline", "concurrency", "truncate", "cache"),
        *("k", "metrics", "gain", "min-grade", "interval", "resamples", "seed", "cluster-by"),
        *("min-queries", "ignore", "redact", "out", "report", "json", "runs", "quiet"),
    }
)
"""Settings that have a meaning for any number of systems."""


def resolve(
    flags: Mapping[str, Any],
    *,
    config: Path | None,
    spelling: Callable[[str], str] = lambda key: flags_of(key)[0],
) -> Settings:
    """Return the settings of flags over the config file over the defaults.

    flags: by key (`a-query-prompt`); an empty text counts as not given, except for a prompt.
    spelling: what errors call a key of `flags`.
    Raises: InputError that names the flag, or the file and its key.
    """
    from_file = read_config(config) if config else {}
    for label in ("a", "b"):
        model = f"model-{label}"
        if flags.get(model) and str(flags[model]) != str(from_file.get(model, flags[model])):
            # Prompts stand in the file for the model that stands there, not for another one.
            from_file.pop(f"{label}-price-per-million-tokens", None)
            for role in ("query", "doc"):
                from_file.pop(f"{label}-{role}-prompt", None)
                from_file.pop(f"{label}-{role}-params", None)
    given = {
        key: value
        for key, value in flags.items()
        if value is not None and (value != "" or key.endswith("-prompt"))
    }
    try:
        return Settings.model_validate({**from_file, **given})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        place = spelling(key) if key in given else f"{config}: {key}"
        value = given.get(key, from_file.get(key))
        reason = first["msg"].removeprefix("Value error, ")
        if key not in from_file and key not in allowed_keys():
            raise InputError(
                f"there is no setting '{key}'" + _did_you_mean(key, allowed_keys()),
                hint="`embed-ab schema` prints every setting.",
            ) from None
        # Bounded, whatever was given; parameters may hold a key that was not meant for here.
        shown = "" if key.endswith("-params") else f", not {reprlib.repr(value)}"
        wrong = InputError(f"{place}: {reason}{shown}", hint=_help(key))
        wrong.path = None if key in given else config
        raise wrong from None


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings of a YAML file. Raises: InputError with file and line."""
    try:
        return _read_config(path)
    except InputError as error:
        error.path = path
        if found := re.match(rf"{re.escape(str(path))}:(\d+): ", str(error)):
            error.line = int(found[1])
        raise


def _read_config(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise InputError(f"{path}: larger than 1 MB", hint="A config file holds a few lines.")
        loaded = yaml.load(path.read_text("utf-8-sig"), Loader=_UniqueKeys)
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}", hint="Give --config an existing file."
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8", hint="Save it as UTF-8."
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"{path}{line}: {problem}", hint="The file is YAML: key: value.") from None
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
        # PyYAML makes dates and numbers itself, and lets their errors through.
        raise InputError(
            f"{path}: a value is not what YAML takes it for: {error}",
            hint="Put quotes around texts that look like dates or numbers.",
        ) from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: not a mapping of settings", hint="The file is YAML: key: value.")
    allowed = file_keys()
    for key, flags in _OTHER_FLAGS.items():
        for other in (flag.removeprefix("--") for flag in flags if flag.startswith("--")):
            if other in loaded and key in loaded:
                raise InputError(
                    f"{path}: {key} and {other} are one setting, given twice",
                    hint=f"Keep {key}.",
                )
            if other in loaded:
                loaded[key] = loaded.pop(other)
    for key in loaded:
        if key not in allowed:
            if key in allowed_keys():
                raise InputError(
                    f"{path}: {key} is not read from a file, because whoever can change the file "
                    "could then run code or write anywhere",
                    hint=f"Give it as the flag --{key}.",
                )
            raise InputError(
                f"{path}: unknown setting '{key}'" + _did_you_mean(str(key), allowed),
                hint="`embed-ab schema` prints every setting.",
            )
    for key, value in loaded.items():
        if isinstance(value, int) and value.bit_length() > 64:
            raise InputError(f"{path}: {key} is too large a number", hint=_help(str(key)))
    return {key: value for key, value in loaded.items() if value is not None}


def allowed_keys() -> list[str]:
    """Return the keys of all settings."""
    return [key_of(name) for name in Settings.model_fields]


def file_keys() -> list[str]:
    """Return the keys that `.embed-ab.yml` may hold."""
    return [
        key_of(name)
        for name, field in Settings.model_fields.items()
        if not extra(field)["not_in_file"]
    ]


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of `.embed-ab.yml`."""
    schema = Settings.model_json_schema(by_alias=True)
    allowed = file_keys()
    schema["properties"] = {
        key: {name: item for name, item in value.items() if name not in ("group", "not_in_file")}
        for key, value in schema["properties"].items()
        if key in allowed
    }
    for key in ("metrics", *LISTS):
        listed = {
            n: schema["properties"][key].pop(n)
            for n in ("type", "items", "minItems")
            if n in schema["properties"][key]
        }
        schema["properties"][key]["anyOf"] = [{"type": "string"}, listed]
    schema["properties"] |= {
        flag.removeprefix("--"): schema["properties"][key]
        for key, flags in _OTHER_FLAGS.items()
        for flag in flags
        if flag.startswith("--")
    }
    schema |= {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": CONFIG_NAME}
    return schema


class _UniqueKeys(yaml.SafeLoader):
    """Without aliases, and two equal keys are an error: YAML keeps the last silently."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            # A few aliases of aliases make billions of values.
            raise yaml.constructor.ConstructorError(
                None, None, "aliases (*name) are not read", self.get_mark()
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' is given twice", key_node.start_mark
                )
            seen.add(key if isinstance(key, str) else id(key))
        return super().construct_mapping(node, deep)


def _did_you_mean(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _help(key: str) -> str:
    for name, field in Settings.model_fields.items():
        if key_of(name) == key:
            return field.description or ""
    return ""

"""What a user writes for a system: `st:NAME,dim=256`, or `rrf(SYSTEM, SYSTEM; k=60)`.

Only the words. What makes a ranking of them is in `systems`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from embed_ab.errors import InputError
from embed_ab.quantise import OVERSAMPLING, PRECISIONS, Precision

MAX_NESTING = 4
MAX_CONSTITUENTS = 10
MAX_LENGTH = 4000
"""Characters of a whole system; paths may be long, and there may be several."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What can stand after `provider:`, and what has a meaning for it.

    `names` are all there are, () for any; `has_name` is False where none follows; `is_model` says
    whether prompts have a meaning, `is_served` whether a server does the work, `is_run_here`
    whether a model is loaded here, so that permissions have a meaning; `reads_file` whether the
    name is a place on this machine; `is_reranker` whether it only orders what another
    system found.
    """

    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    has_name: bool = True
    is_model: bool = False
    is_served: bool = False
    is_run_here: bool = False
    reads_file: bool = False
    is_reranker: bool = False


_OF_VECTORS = ("dim", "precision", "rescore")  # for every provider that has vectors

PROVIDERS: dict[str, Provider] = {
    "st": Provider(
        options=(
            "revision",
            "max_length",
            *_OF_VECTORS,
            "device",
            "dtype",
            "batch_size",
            "pooling",
        ),
        is_model=True,
        is_run_here=True,
    ),
    "openai": Provider(
        options=("dimensions", *_OF_VECTORS, "batch_size"), is_model=True, is_served=True
    ),
    "ollama": Provider(
        options=("max_length", *_OF_VECTORS, "batch_size"), is_model=True, is_served=True
    ),
    "bm25": Provider(names=("word", "char2", "auto")),
    "mock": Provider(options=_OF_VECTORS, names=("char3", "word")),
    "vectors": Provider(options=_OF_VECTORS, reads_file=True),
    "run": Provider(reads_file=True),
    "ce": Provider(
        options=("revision", "max_length", "device", "dtype", "batch_size"),
        is_run_here=True,
        is_reranker=True,
    ),
    "http": Provider(options=("shape", "batch_size"), is_reranker=True),
    "scores": Provider(reads_file=True, is_reranker=True),
    "none": Provider(has_name=False, is_reranker=True),
}

FORMS: dict[str, tuple[str, ...]] = {
    "rrf": ("k", "depth"),
    "blend": ("weights", "normalise", "depth"),
    "rerank": ("depth",),
}
"""Systems made of systems, and the options they take."""

Normalisation = Literal["minmax", "z"]

_EXAMPLES = "st:BAAI/bge-small-en-v1.5, ollama:bge-m3, bm25:auto or mock:char3"
_WRITTEN = {
    "rrf": "rrf(SYSTEM, SYSTEM; k=60)",
    "blend": "blend(SYSTEM, SYSTEM; weights=0.7,0.3)",
    "rerank": "rerank(SYSTEM, ce:NAME; depth=100)",
}
_WHOLE_NUMBERS = frozenset({"dim", "dimensions", "max_length", "batch_size", "k", "depth"})
_CHOICES = {"precision": PRECISIONS, "rescore": ("yes", "no")}
_FORM = re.compile(r"([\w-]+)\s*\(")
_OPTION = re.compile(r"\s*([\w-]+)\s*=")


@dataclass(frozen=True, kw_only=True)
class SystemSpec:
    """A system as the user wrote it: `st:BAAI/bge-small-en-v1.5,dim=256`.

    provider: a row of PROVIDERS, or one of FORMS, which has `systems` instead of a name.
    systems: what `rrf` and `blend` join; for `rerank` the one system whose documents are ordered.
    reranker: what orders them.
    """

    provider: str
    name: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    systems: tuple[SystemSpec, ...] = ()
    reranker: SystemSpec | None = None

    @classmethod
    def parse(cls, value: str | Mapping[str, Any]) -> SystemSpec:
        """Return the spec of a text, or of a YAML mapping.

        A mapping has `provider` and `name`; or `provider: rrf` (or blend) and a list `systems`; or
        `provider: rerank`, `system` and `reranker`. Options stand beside them.
        Raises: InputError for an unknown provider, name or option, and for what is not closed or
            nested too deep; it names the part.
        """
        return _system(value, nesting=0)

    @classmethod
    def parse_reranker(cls, value: str | Mapping[str, Any]) -> SystemSpec:
        """Return the spec of what can stand second in `rerank(…)`. Raises: InputError."""
        return _reranker(value)

    @property
    def leaves(self) -> tuple[SystemSpec, ...]:
        """What is not made of other systems, rerankers too, each once, in the order written."""
        return tuple({str(leaf): leaf for leaf in self._all_leaves()}.values())

    @property
    def models(self) -> tuple[SystemSpec, ...]:
        """The leaves for which prompts have a meaning."""
        return tuple(leaf for leaf in self.leaves if PROVIDERS[leaf.provider].is_model)

    @property
    def permitted(self) -> tuple[SystemSpec, ...]:
        """What a permission to run code can mean, which is for one model; several are a fault.

        Of a reranked system the reranker, if it runs here: what it reorders is another system.
        """
        reranker = () if self.reranker is None else self.reranker.permitted
        return reranker or tuple(
            leaf for leaf in self.leaves if PROVIDERS[leaf.provider].is_run_here
        )

    def _all_leaves(self) -> Iterator[SystemSpec]:
        if not self.systems:
            yield self
        for part in (*self.systems, *filter(None, [self.reranker])):
            yield from part._all_leaves()

    def number(self, option: str) -> int | None:
        """Return a numeric option, None when it is not given."""
        return int(self.options[option]) if option in self.options else None

    @property
    def precision(self) -> Precision:
        """What each dimension of a document's vector is kept as."""
        return self.options.get("precision", "float32")  # type: ignore[return-value]  # checked

    def n_rescored(self, depth: int) -> int:
        """Return how many documents, found by quantised vectors, are ordered anew; 0 for none."""
        asked = self.options.get("rescore", "yes")
        if self.precision == "float32" or asked == "no":
            return 0
        return OVERSAMPLING * depth if asked == "yes" else int(asked)

    @property
    def weights(self) -> tuple[float, ...]:
        """How much each constituent of `blend` counts, all the same when that is not given."""
        given = self.options.get("weights")
        return tuple(map(float, given.split(","))) if given else (1.0,) * len(self.systems)

    @property
    def normalise(self) -> Normalisation:
        """How `blend` makes scores comparable."""
        found: Normalisation = self.options.get("normalise", "minmax")  # type: ignore[assignment]
        return found

    def __str__(self) -> str:
        options = [f"{key}={item}" for key, item in self.options.items()]
        if not self.systems:
            named = f"{self.provider}:{self.name}" if self.name else self.provider
            return ",".join([named, *options])
        parts = ", ".join(map(str, (*self.systems, *filter(None, [self.reranker]))))
        return f"{self.provider}({'; '.join([parts, *options])})"


def _system(value: object, nesting: int) -> SystemSpec:
    spec = _parsed(value, nesting)
    if not spec.systems and PROVIDERS[spec.provider].is_reranker:
        raise InputError(
            f"'{spec}' only orders what another system found",
            hint=f"Write rerank(SYSTEM, {spec}).",
        )
    return spec


def _reranker(value: object) -> SystemSpec:
    # Never made of others, which is seen before they are looked at, however deep they go.
    is_form = (
        str(value.get("provider")) in FORMS
        if isinstance(value, Mapping)
        else isinstance(value, str) and bool(_FORM.match(value.strip()))
    )
    spec = None if is_form else _parsed(value, nesting=0)
    if spec is None or not PROVIDERS[spec.provider].is_reranker:
        names = ", ".join(name for name, each in PROVIDERS.items() if each.is_reranker)
        given = spec or (f"{value['provider']}(…)" if isinstance(value, Mapping) else value)
        raise InputError(f"'{_short(str(given))}' is not a reranker", hint=f"Rerankers: {names}.")
    return spec


def _parsed(value: object, nesting: int) -> SystemSpec:
    if isinstance(value, Mapping):
        return _of_mapping(value, nesting)
    if not isinstance(value, str):
        raise InputError(f"{_short(repr(value))} is not a system", hint=f"For example {_EXAMPLES}.")
    text = value.strip()
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"'{_short(text)}' has {len(text):,} characters, more than {MAX_LENGTH:,}",
            hint=f"For example {_EXAMPLES}.",
        )
    opened = _FORM.match(text)
    return _form(text, opened[1], opened.end(), nesting) if opened else _leaf(text)


def _leaf(text: str) -> SystemSpec:
    provider, colon, rest = text.partition(":")
    if not colon:
        provider, _, rest = text.partition(",")
        if not (known := PROVIDERS.get(provider.strip())) or known.has_name:
            raise InputError(
                f"'{_short(text)}' is not a system: the provider is missing",
                hint=f"Write PROVIDER:NAME, for example {_EXAMPLES}.",
            )
        rest = f",{rest}" if rest else ""
    name, *pairs = (part.strip() for part in rest.split(","))
    return _checked_leaf(
        SystemSpec(provider=provider.strip(), name=name, options=_options(pairs, text))
    )


def _options(pairs: Sequence[str], text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, item = pair.partition("=")
        key = _key(key)
        if not equals or not item.strip() or key in options:
            raise InputError(
                f"'{_short(text)}': '{_short(pair)}' is not an option"
                if key not in options
                else f"'{_short(text)}': option '{_short(key)}' is given twice",
                hint="Options follow the name after commas as key=value.",
            )
        options[key] = item.strip()
    return options


def _form(text: str, form: str, start: int, nesting: int) -> SystemSpec:
    """Parse `form(SYSTEM, …; option=value)`, whose first argument starts at `start`."""
    parts, options = _split(text, start)
    if form not in FORMS:
        raise _unknown_form(form, text)
    arguments: list[str] = []
    for part in parts:
        key = _OPTION.match(part)
        if key is None:
            arguments.append(part.strip())
        elif not arguments or _key(key[1]) in FORMS[form]:
            raise InputError(
                f"'{_short(text)}': the option '{_short(part.strip())}' stands where a system goes",
                hint=f"Options of {form} follow a semicolon: {_WRITTEN[form]}.",
            )
        else:  # an option of the system before it: st:NAME,dim=256
            arguments[-1] += f",{part.strip()}"
    pairs: list[str] = []
    for part in options:
        if pairs and not _OPTION.match(part):
            pairs[-1] += f",{part.strip()}"  # weights=0.7,0.3
        else:
            pairs.append(part.strip())
    if empty := [place for place, argument in enumerate(arguments, start=1) if not argument]:
        raise InputError(
            f"'{_short(text)}': argument {empty[0]} is empty", hint=f"Write {_WRITTEN[form]}."
        )
    return _made(form, arguments, _options(pairs, text), nesting)


def _split(text: str, start: int) -> tuple[list[str], list[str]]:
    """The arguments before the first semicolon, and what is between marks after it."""
    parts: list[list[str]] = [[], []]
    is_option, n_open, begin = False, 1, start
    for place in range(start, len(text)):
        mark = text[place]
        n_open += (mark == "(") - (mark == ")")
        if n_open == 0 or (n_open == 1 and mark in ",;"):
            parts[is_option].append(text[begin:place])
            is_option, begin = is_option or mark == ";", place + 1
        if n_open == 0:
            if rest := text[place + 1 :].strip():
                raise InputError(
                    f"'{_short(text)}': '{_short(rest)}' follows the closing parenthesis",
                    hint="Options of a system in parentheses stand inside, after a semicolon.",
                )
            return parts[0], parts[1]
    raise InputError(
        f"'{_short(text)}': the parenthesis after '{text[: start - 1].strip()}' is not closed",
        hint="Put the closing parenthesis at its end, and quotes around the whole in a shell.",
    )


def _of_mapping(value: Mapping[Any, Any], nesting: int) -> SystemSpec:
    given: dict[str, Any] = {}
    for key, item in value.items():
        if (name := _key(str(key))) in given:
            raise InputError(f"option '{name}' is given twice", hint="Give it once.")
        given[name] = item
    provider = str(given.pop("provider", ""))
    if provider not in FORMS:
        name = given.pop("name", "")
        options = {key: _plain(key, item) for key, item in given.items()}
        return _checked_leaf(
            SystemSpec(provider=provider, name=_plain("name", name), options=options)
        )
    if provider == "rerank":
        arguments = [given.pop(key) for key in ("system", "reranker") if key in given]
    else:
        listed = given.pop("systems", [])
        arguments = list(listed) if isinstance(listed, list | tuple) else [listed]
    options = {key: _plain(key, item) for key, item in given.items()}
    return _made(provider, arguments, options, nesting)


def _made(
    form: str, arguments: Sequence[object], options: Mapping[str, str], nesting: int
) -> SystemSpec:
    hint = f"Write {_WRITTEN[form]}."
    if nesting >= MAX_NESTING:
        raise InputError(f"systems are nested more than {MAX_NESTING} deep", hint=hint)
    least, most = (2, 2) if form == "rerank" else (2, MAX_CONSTITUENTS)
    if not least <= len(arguments) <= most:
        wanted = "a system and a reranker" if form == "rerank" else f"{least} to {most} systems"
        raise InputError(f"{form} takes {wanted}, not {len(arguments)}", hint=hint)
    parts = []
    for place, argument in enumerate(arguments, start=1):
        is_reranker = form == "rerank" and place == 2
        try:
            part = _reranker(argument) if is_reranker else _system(argument, nesting + 1)
            _check_embeddable(part)
        except InputError as error:
            what = "the reranker" if is_reranker else f"system {place}"
            raise InputError(f"{what} of {form}: {error}", hint=error.hint) from None
        parts.append(part)
    spec = SystemSpec(
        provider=form,
        options=dict(options),
        systems=tuple(parts[:1] if form == "rerank" else parts),
        reranker=parts[1] if form == "rerank" else None,
    )
    _check_options(spec, FORMS[form])
    if "weights" in options:
        spec = replace(spec, options={**options, "weights": _weights(spec)})
    if spec.normalise not in get_args(Normalisation):
        raise InputError(
            f"{form}: normalise={_short(spec.normalise)} is not known",
            hint=f"Write normalise={' or normalise='.join(get_args(Normalisation))}.",
        )
    return spec


def _weights(spec: SystemSpec) -> str:
    text = spec.options["weights"]
    items = [item.strip() for item in text.split(",")]
    try:
        weights = [float(item) for item in items]
    except ValueError:
        weights = []
    if (
        len(weights) != len(spec.systems)
        or not all(math.isfinite(weight) and 0 <= weight <= 1e6 for weight in weights)
        or not any(weights)
    ):
        raise InputError(
            f"blend: weights={_short(text)} are not {len(spec.systems)} numbers from 0 up",
            hint="Give one number for each system, such as weights=0.7,0.3.",
        )
    return ",".join(items)


def _checked_leaf(spec: SystemSpec) -> SystemSpec:
    provider = PROVIDERS.get(spec.provider)
    if provider is None:
        if spec.provider in FORMS:
            raise InputError(
                f"'{spec.provider}' lacks its parentheses", hint=f"Write {_WRITTEN[spec.provider]}."
            )
        known = ", ".join(name for name, each in PROVIDERS.items() if not each.is_reranker)
        raise InputError(
            f"unknown provider '{_short(spec.provider)}' in '{_short(str(spec))}'",
            hint=f"Providers: {known}, and {', '.join(_WRITTEN.values())}. "
            f"For example {_EXAMPLES}.",
        )
    if any(len(part.encode("utf-8", "replace")) > 255 for part in spec.name.split("/")):
        raise InputError(
            f"'{spec.provider}:{spec.name[:40]}…': the name is too long for any file or model",
            hint=f"For example {_EXAMPLES}.",
        )
    if not provider.has_name:
        if spec.name:
            raise InputError(f"'{spec}': no name follows {spec.provider}", hint="Leave it out.")
    elif not _is_plain(spec.name):
        raise InputError(
            f"'{_short(str(spec))}': the name '{_short(spec.name)}' is empty, or holds a comma or "
            "a line break",
            hint=f"For example {_EXAMPLES}.",
        )
    if spec.provider == "http" and spec.name.startswith("//"):
        raise InputError(
            f"'{_short(str(spec))}' is an address, and http: takes a model's name",
            hint="Set RERANK_BASE_URL to the address, and write http:NAME.",
        )
    if provider.names and spec.name not in provider.names:
        raise InputError(
            f"unknown name '{spec.name}' in '{spec}'",
            hint=f"{spec.provider}: knows {', '.join(provider.names)}.",
        )
    _check_options(spec, provider.options)
    for key, item in spec.options.items():
        if not _is_plain(item):
            raise InputError(
                f"'{spec}': the value of {key} is empty, or holds a comma or a line break",
                hint=f"Write {key}=VALUE.",
            )
    if "rescore" in spec.options and spec.precision == "float32":
        raise InputError(
            f"'{spec}': rescore has no meaning for vectors of full precision",
            hint="Give precision=int8 or precision=ubinary with it, or leave it out.",
        )
    return spec


def _check_options(spec: SystemSpec, known: tuple[str, ...]) -> None:
    colon = "" if spec.systems else ":"
    for key, item in spec.options.items():
        if key not in known:
            raise InputError(
                f"unknown option '{_short(key)}' in '{_short(str(spec))}'",
                hint=f"{spec.provider}{colon} takes {', '.join(known) or 'no options'}.",
            )
        if key in _WHOLE_NUMBERS and not _is_count(item):
            raise InputError(
                f"'{_short(str(spec))}': {key}={_short(item)} is not a whole number above 0",
                hint=f"Write {key}={100 if key in ('k', 'depth') else 256}.",
            )
        if key == "rescore" and _is_count(item):
            continue
        if key in _CHOICES and item not in _CHOICES[key]:
            raise InputError(
                f"'{_short(str(spec))}': {key}={_short(item)} is not one of "
                f"{', '.join(_CHOICES[key])}" + (", N" if key == "rescore" else ""),
                hint=f"Write {key}={_CHOICES[key][-1]}, or leave it out.",
            )


def _check_embeddable(spec: SystemSpec) -> None:
    """Raise InputError for a text that could not be told apart inside parentheses."""
    text = str(spec)
    n_open = 0
    for mark in text if not spec.systems else "":
        n_open += (mark == "(") - (mark == ")")
        if n_open < 0 or mark == ";":
            break
    else:
        if n_open == 0:
            return
    raise InputError(
        f"'{_short(text)}' holds a semicolon or a parenthesis without its other half",
        hint="Rename the file or folder to use it inside of another system.",
    )


def _is_count(text: str) -> bool:
    return bool(re.fullmatch("[0-9]{1,9}", text)) and int(text) > 0


def _is_plain(text: str) -> bool:
    """Whether a name or value is all there is between two commas."""
    return bool(text) and "," not in text and text.isprintable() and text == text.strip()


def _key(text: str) -> str:
    return text.strip().replace("-", "_")


def _plain(key: str, value: object) -> str:
    if key == "rescore" and isinstance(value, bool):
        return "yes" if value else "no"  # which is what YAML makes of yes and no
    if key == "weights" and isinstance(value, list):
        return ",".join(_plain("weight", item) for item in value)
    is_weight = key.startswith("weight") and isinstance(value, float)
    if isinstance(value, bool) or not (isinstance(value, str | int) or is_weight):
        raise InputError(
            f"model option '{_short(key)}' has the value {_short(repr(value))}",
            hint="Options of a model are text or whole numbers.",
        )
    return str(value)


def _unknown_form(form: str, text: str) -> InputError:
    return InputError(
        f"there is no '{_short(form)}(…)', in '{_short(text)}'",
        hint=f"Systems of systems are {', '.join(_WRITTEN.values())}.",
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"

"""Asks a chat model for the questions of a chunk, and reads what it answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from embed_ab import formats
from embed_ab.buildset.chunks import Chunk
from embed_ab.buildset.languages import name_of
from embed_ab.llm import Chat, Message, UnreadableAnswer, check_unmoved

T = TypeVar("T")

PROMPT_VERSION = 1
"""Goes up with every change of a template or a style: the journal's answers are then old."""

STYLES = {
    "question": "one whole question, as one would ask a colleague",
    "keywords": "two to five words, no sentence",
    "paraphrase": "a question that avoids the passage's own words: everyday words, synonyms",
    "typo": "a few words typed in haste, with one or two spelling mistakes",
}
COPIED = "copied"
MAX_QUESTION = 300  # characters
_TRIES = 2
_AGAIN = "Answer with the JSON object alone, no other words."


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a user might type; `style` is a key of STYLES, or `copied`."""

    style: str
    text: str


class Writer(Protocol):
    """Writes questions; any number of threads may ask at once."""

    @property
    def name(self) -> str:
        """The model as the user wrote it."""

    @property
    def server(self) -> str:
        """Where the model is, without a key or password; "" for no server."""

    @property
    def digest(self) -> str:
        """What the model's name means, "" where nobody tells. Raises: ProviderError."""

    def questions(self, chunk: Chunk, styles: Sequence[str], language: str) -> list[Question]:
        """Return the questions of a chunk, at best one of each style.

        Raises: UnreadableAnswer; ProviderError, also where the name came to mean another model.
        """

    def answering(self, question: str, passages: Sequence[str]) -> set[int]:
        """Return which passages answer a question, counted from 0.

        Raises: as `questions`.
        """


@dataclass(frozen=True, kw_only=True)
class CopyWriter:
    """Needs no model: its questions are the first sentences of the chunk, word for word."""

    name: str = "mock"
    server: str = ""
    digest: str = ""

    def questions(self, chunk: Chunk, styles: Sequence[str], language: str) -> list[Question]:
        """Return as many sentences as styles were asked for, or fewer."""
        found = _sentences(chunk.text)[: len(styles)]
        return [Question(style=COPIED, text=sentence) for sentence in found]

    def answering(self, question: str, passages: Sequence[str]) -> set[int]:
        """Return the passages that hold the question."""
        return {i for i, passage in enumerate(passages) if question in _sentences(passage)}


@dataclass(frozen=True, kw_only=True)
class ChatWriter:
    """Asks a chat model; `seed` is sent with every request."""

    chat: Chat
    seed: int

    @property
    def name(self) -> str:
        """The model with its provider."""
        return self.chat.name

    @property
    def server(self) -> str:
        """As `Writer.server`."""
        return self.chat.address

    @property
    def digest(self) -> str:
        """As `Writer.digest`."""
        return self.chat.digest

    def questions(self, chunk: Chunk, styles: Sequence[str], language: str) -> list[Question]:
        """As `Writer.questions`; more than were asked for are returned too."""

        def read(answer: dict[str, Any]) -> list[Question]:
            questions = read_questions(answer["questions"], styles)
            if not questions:
                raise UnreadableAnswer(f"{self.name}: an answer without a question")
            return questions

        return self._ask(messages_for(chunk, styles, language), _QUESTIONS, read)

    def answering(self, question: str, passages: Sequence[str]) -> set[int]:
        """As `Writer.answering`."""
        text = _render("judge.txt", question=question, passages=passages, mark=_mark(*passages))

        def read(answer: dict[str, Any]) -> set[int]:
            numbers = answer["passages"]
            if not isinstance(numbers, list):
                raise UnreadableAnswer(f"{self.name}: an answer without a list of passages")
            chosen = {int(str(n)) - 1 for n in numbers if re.fullmatch(r"\d{1,4}", str(n))}
            return chosen & set(range(len(passages)))

        return self._ask([{"role": "user", "content": text}], _PASSAGES, read)

    def _ask(
        self,
        messages: list[Message],
        schema: Mapping[str, Any],
        read: Callable[[dict[str, Any]], T],
    ) -> T:
        for attempt in range(_TRIES):
            try:
                # Without another seed and another word the same model would say the same.
                again = [{"role": "user", "content": _AGAIN}] if attempt else []
                seed = self.seed + attempt
                answer = read(self.chat.complete([*messages, *again], schema, seed=seed))
            except UnreadableAnswer as error:
                unreadable = error
                continue
            check_unmoved(self.chat)  # the journal keeps the answer under the digest
            return answer
        raise unreadable


def messages_for(chunk: Chunk, styles: Sequence[str], language: str) -> list[Message]:
    """Return what a chat model is asked about a chunk."""
    named = name_of(language)
    known = list(STYLES.items())
    passage = {"text": chunk.text, "title": chunk.title, "mark": _mark(chunk.text)}
    return [
        {"role": "system", "content": _render("system.txt", styles=known, language=named)},
        {"role": "user", "content": _render("user.txt", asked=styles, language=named, **passage)},
    ]


def read_questions(answer: Any, styles: Sequence[str]) -> list[Question]:
    """Return the questions in a model's answer, whatever shape it gave them.

    A list of objects, of texts, or an object from style to text; a style it does not name, or that
    is unknown, is the one asked for at that place. Texts are on one line, without controls.
    """
    if isinstance(answer, dict):
        answer = [{"style": style, "text": text} for style, text in answer.items()]
    questions = []
    for place, item in enumerate(answer if isinstance(answer, list) else []):
        named = item if isinstance(item, dict) else {"text": item}
        text = next((named[key] for key in ("text", "question", "query") if key in named), None)
        if not isinstance(text, str):
            continue
        # Cut, because what is too long is dropped by its length and not by its end.
        text = formats.plain(text[: 10 * MAX_QUESTION]).strip().strip("\"“”「」'`").strip()
        style = named.get("style")
        if not isinstance(style, str) or style not in STYLES:
            style = styles[min(place, len(styles) - 1)]
        if text:
            questions.append(Question(style=style, text=text))
    return questions


def styles_for(chunk: Chunk, n_questions: int, seed: int) -> list[str]:
    """Return the styles to ask for, another one first from chunk to chunk of a document.

    Each chunk's are its own: no other document, added or removed, changes them.
    """
    names = list(STYLES)
    number = int(chunk.id.rpartition("#")[2])
    first = number + int(hashlib.sha256(f"{seed}:{chunk.source}".encode()).hexdigest(), 16)
    return [names[(first + place) % len(names)] for place in range(n_questions)]


def key_of(*parts: object) -> str:
    """Return what stands for a request in the journal: the same for the same request only."""
    return hashlib.sha256(json.dumps([PROMPT_VERSION, *parts]).encode()).hexdigest()[:32]


_QUESTIONS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "style": {"type": "string", "enum": list(STYLES)},
                    "text": {"type": "string"},
                },
                "required": ["style", "text"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["questions"],
    "additionalProperties": False,
}
_PASSAGES: Mapping[str, Any] = {
    "type": "object",
    "properties": {"passages": {"type": "array", "items": {"type": "integer"}}},
    "required": ["passages"],
    "additionalProperties": False,
}


def _mark(*texts: str) -> str:
    # A passage that knew its own mark could close itself and speak as we do.
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]


def _render(name: str, **context: Any) -> str:
    return _environment().get_template(name).render(context)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("embed_ab", "templates/buildset"),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=False,
        trim_blocks=True,
        variable_start_string="[[",
        variable_end_string="]]",
        block_start_string="[%",
        block_end_string="%]",
    )


_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_MARKUP = re.compile(
    r"^\s*(?:#{1,6}|[-*+>]|\d+[.)])\s+|<[^<>]*>|!?\[([^\[\]]*)\]\([^()\s]*\)|[*`|]+|\b_|_\b"
)
_ENDS = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


def _sentences(text: str) -> list[str]:
    """Return the sentences of a chunk without markup; headings only where there is nothing else."""
    lines = [line for line in _FENCED.sub("", text).split("\n") if line.strip()] or [text]
    prose = [line for line in lines if not line.lstrip().startswith("#")] or lines
    plain = "\n".join(_MARKUP.sub(lambda found: found[1] or "", line).strip() for line in prose)
    found = [piece.strip() for piece in _ENDS.split(re.sub(r"\s+", " ", plain))]
    long = [piece for piece in found if sum(map(str.isalnum, piece)) >= 8]
    return [formats.plain(piece[:MAX_QUESTION]).strip() for piece in long or found[:1]]

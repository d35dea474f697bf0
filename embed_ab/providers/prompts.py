"""Which model families were trained with prompts, and what they expect before each text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SENTENCE = "Represent this sentence for searching relevant passages: "
_WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True, kw_only=True)
class Family:
    """Models that share prompts; "" where a role needs none.

    Where the prompt describes a task ("Instruct: …"), another task may stand in it.
    """

    title: str
    query: str = ""
    document: str = ""


_E5 = {"query": "query: ", "document": "passage: "}
_INSTRUCT = {"query": f"Instruct: {_WEB_SEARCH}\nQuery: "}

# Patterns are searched in the last part of the name, in lower case; the first that matches counts.
# Source: the model cards of each family and the prompts in their own configuration files.
_FAMILIES: tuple[tuple[str, Family], ...] = (
    # Korean and Japanese fine-tunes come first: their names hold the name of their base.
    (r"^koe5", Family(title="KoE5", **_E5)),
    (r"kure|bge-m3|bge-large-ko|ko-sroberta|ko-sbert|kosimcse", Family(title="no prompts")),
    (r"^ruri-v3", Family(title="Ruri v3", query="検索クエリ: ", document="検索文書: ")),
    (r"^ruri-(pt-)?(small|base|large)", Family(title="Ruri", query="クエリ: ", document="文章: ")),
    # E5
    (r"\be5\b.*instruct|e5-mistral", Family(title="E5 instruct", **_INSTRUCT)),
    (r"\be5-|\be5$", Family(title="E5", **_E5)),
    # BAAI
    (
        r"bge-multilingual-gemma2",
        Family(title="BGE Gemma", query=f"<instruct>{_WEB_SEARCH}.\n<query>"),
    ),
    (r"bge-en-icl", Family(title="BGE ICL", query=f"<instruct>{_WEB_SEARCH}.\n<query>")),
    (r"bge-(small|base|large)-en", Family(title="BGE (English)", query=_SENTENCE)),
    (
        r"bge-(small|base|large)-zh",
        Family(title="BGE (Chinese)", query="为这个句子生成表示以用于检索相关文章："),
    ),
    # Others, by maker
    (
        r"nomic-embed-text|modernbert-embed",
        Family(title="Nomic Embed", query="search_query: ", document="search_document: "),
    ),
    (
        r"nomic-embed-code|coderankembed",
        Family(title="Nomic code", query="Represent this query for searching relevant code: "),
    ),
    (r"qwen3-embedding", Family(title="Qwen3 Embedding", query=f"Instruct: {_WEB_SEARCH}\nQuery:")),
    (
        r"embedding-?gemma",
        Family(
            title="EmbeddingGemma",
            query="task: search result | query: ",
            document="title: none | text: ",
        ),
    ),
    (r"mxbai-embed-de", Family(title="mxbai (German)", **_E5)),
    (r"mxbai-embed", Family(title="mxbai", query=_SENTENCE)),
    (r"uae-large", Family(title="UAE", query=_SENTENCE)),
    (r"arctic-embed(.*v|-?)2", Family(title="Snowflake Arctic Embed 2", query="query: ")),
    (r"arctic-embed", Family(title="Snowflake Arctic Embed", query=_SENTENCE)),
    (r"gte-qwen|gte.*instruct", Family(title="GTE instruct", **_INSTRUCT)),
    (
        r"^(stella|jasper)_en_",
        Family(title="Stella", query=f"Instruct: {_WEB_SEARCH}.\nQuery: "),
    ),
    (
        r"nv-embed-v|sfr-embedding-(mistral|2)|linq-embed",
        Family(title="Mistral instruct", **_INSTRUCT),
    ),
    (
        r"jina-embeddings-v3",
        Family(
            title="Jina v3",
            query="Represent the query for retrieving evidence documents: ",
            document="Represent the document for retrieval: ",
        ),
    ),
    (r"jina-embeddings-v4", Family(title="Jina v4", query="Query: ", document="Passage: ")),
    (r"jina-embeddings-v5", Family(title="Jina v5", query="Query: ", document="Document: ")),
)


def expected_prompts(name: str) -> Family | None:
    """The family of a model by its hub name or folder name, or None when none is known.

    A family whose prompts are both "" is known to need none.
    """
    last = re.split(r"[\\/]", name.rstrip("\\/"))[-1].lower()
    return next((family for pattern, family in _FAMILIES if re.search(pattern, last)), None)


def missing_prompt(name: str, query_prompt: str, document_prompt: str) -> str:
    """One sentence on the prompts a model expects and does not get; "" when nothing is missing."""
    family = expected_prompts(name)
    if family is None:
        return ""
    missing = [
        f"{expected!r} before every {role}"
        for role, expected, used in (
            ("query", family.query, query_prompt),
            ("document", family.document, document_prompt),
        )
        if expected and not used
    ]
    if not missing:
        return ""
    return (
        f"{family.title} models are trained with {' and '.join(missing)}, "
        "and this run puts none there."
    )

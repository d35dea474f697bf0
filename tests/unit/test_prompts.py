"""Which models need prompts."""

from __future__ import annotations

import pytest

from embed_ab.providers.prompts import expected_prompts, missing_prompt

SENTENCE = "Represent this sentence for searching relevant passages: "
TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query"


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("/models/multilingual-e5-small-q4/", "query: ", "passage: "),
        ("C:\\models\\e5-large", "query: ", "passage: "),
        ("dragonkue/multilingual-e5-small-ko", "query: ", "passage: "),
        ("nlpai-lab/KoE5", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large-instruct", f"{TASK}\nQuery: ", ""),
        ("intfloat/e5-mistral-7b-instruct", f"{TASK}\nQuery: ", ""),
        ("BAAI/bge-small-en-v1.5", SENTENCE, ""),
        ("BAAI/bge-large-en", SENTENCE, ""),
        ("BAAI/bge-base-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("BAAI/bge-m3", "", ""),
        ("nlpai-lab/KURE-v1", "", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("nomic-ai/nomic-embed-text-v2-moe", "search_query: ", "search_document: "),
        ("Qwen/Qwen3-Embedding-0.6B", f"{TASK}\nQuery:", ""),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
        ("mixedbread-ai/mxbai-embed-large-v1", SENTENCE, ""),
        ("mixedbread-ai/deepset-mxbai-embed-de-large-v1", "query: ", "passage: "),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", SENTENCE, ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("Alibaba-NLP/gte-Qwen2-1.5B-instruct", f"{TASK}\nQuery: ", ""),
        ("NovaSearch/stella_en_400M_v5", f"{TASK}.\nQuery: ", ""),
        (
            "jinaai/jina-embeddings-v3",
            "Represent the query for retrieving evidence documents: ",
            "Represent the document for retrieval: ",
        ),
    ],
)
def test_a_family_is_known_by_hub_name_and_by_folder_name(
    name: str, query: str, document: str
) -> None:
    family = expected_prompts(name)

    assert family is not None
    assert (family.query, family.document) == (query, document)


@pytest.mark.parametrize(
    "name",
    [
        "sentence-transformers/all-MiniLM-L6-v2",
        "Alibaba-NLP/gte-base-en-v1.5",
        "e5-experiments/all-mpnet-base-v2",
        "/data/bge-small-en/model",
        "our-fine-tune",
    ],
)
def test_other_names_belong_to_no_family(name: str) -> None:
    """Only the last part of a name counts: the folder above may be called anything."""
    assert expected_prompts(name) is None


def test_a_missing_query_prompt_is_quoted() -> None:
    sentence = missing_prompt("BAAI/bge-small-en-v1.5", "", "")

    assert repr(SENTENCE) in sentence
    assert "every query" in sentence
    assert "document" not in sentence


def test_both_missing_prompts_are_quoted() -> None:
    sentence = missing_prompt("intfloat/e5-base-v2", "", "")

    assert "'query: ' before every query and 'passage: ' before every document" in sentence


@pytest.mark.parametrize(
    ("name", "query_prompt", "document_prompt"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("Qwen/Qwen3-Embedding-0.6B", "Instruct: Find the manual page\nQuery:", ""),
        ("BAAI/bge-m3", "", ""),
        ("our-fine-tune", "", ""),
    ],
)
def test_nothing_is_missing_where_a_prompt_is_in_use_or_none_is_needed(
    name: str, query_prompt: str, document_prompt: str
) -> None:
    """A task may be described in other words than the card's."""
    assert missing_prompt(name, query_prompt, document_prompt) == ""

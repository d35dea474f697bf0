"""The demo collections: valid sets whose questions do not give their answer away."""

from pathlib import Path

import numpy as np
import pytest

import embed_ab
from embed_ab import bm25, evalset
from embed_ab.bm25 import Tokens, tokenize
from embed_ab.evalset import Evalset
from embed_ab.metrics import Metric, evaluate

FOLDER = Path(embed_ab.__file__).parent / "demo"


@pytest.fixture(params=["en", "ko"], scope="module")
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def demo(language: str) -> Evalset:
    return evalset.load(FOLDER / language)


def shared_with_the_answer(demo: Evalset, tokens: Tokens) -> list[float]:
    """The share of each question's tokens that its grade-2 document holds."""
    shares = []
    for query, text in enumerate(demo.query_texts):
        documents, grades = demo.qrels.of(query)
        answer = demo.document_texts[int(documents[np.argmax(grades)])]
        question = set(tokenize(text, tokens))
        shares.append(len(question & set(tokenize(answer, tokens))) / len(question))
    return shares


def test_there_are_40_chunks_and_40_questions(demo: Evalset) -> None:
    assert (len(demo.document_ids), len(demo.query_ids)) == (40, 40)


def test_reading_gives_no_notice(demo: Evalset) -> None:
    assert demo.notices == ()


def test_no_two_texts_are_the_same(demo: Evalset) -> None:
    assert len(set(demo.document_texts)) == len(set(demo.query_texts)) == 40


def test_every_question_has_one_answer_and_ten_have_a_second_partial_one(demo: Evalset) -> None:
    grades = [sorted(demo.qrels.of(query)[1].tolist()) for query in range(40)]

    assert sorted(grades) == [[1, 2]] * 10 + [[2]] * 30


def test_every_chunk_is_the_answer_of_one_question(demo: Evalset) -> None:
    answers = demo.qrels.documents[demo.qrels.grades == 2]

    assert sorted(answers.tolist()) == list(range(40))


def test_the_questions_come_in_four_styles(demo: Evalset) -> None:
    styles = [metadata["style"] for metadata in demo.query_metadata]

    assert {style: styles.count(style) >= 5 for style in styles} == dict.fromkeys(
        ("question", "keywords", "paraphrase", "typo"), True
    )


@pytest.mark.parametrize(
    ("language", "tokens"), [("en", "word"), ("ko", "char2")], indirect=["language"]
)
def test_the_questions_paraphrase(demo: Evalset, tokens: Tokens) -> None:
    """Fewer than 0.6 of a question's tokens are in its answer, and fewer than 0.35 on average."""
    shares = shared_with_the_answer(demo, tokens)

    assert max(shares) < 0.6
    assert np.mean(shares) < 0.35


def test_bm25_is_neither_lost_nor_at_the_ceiling(demo: Evalset) -> None:
    ndcg = Metric.parse("ndcg@10")
    run = bm25.search(demo.document_texts, demo.query_texts, "auto", 10)

    assert 0.5 < evaluate([ndcg], run, demo.qrels)[ndcg].mean() < 0.8

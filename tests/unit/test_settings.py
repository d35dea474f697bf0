"""Flags over file over defaults, and errors that name their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from embed_ab.errors import InputError
from embed_ab.settings import Settings, resolve
from embed_ab.system_spec import SystemSpec


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / ".embed-ab.yml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_flag_beats_the_file_and_the_file_beats_the_default(tmp_path: Path) -> None:
    path = config(tmp_path, "k: 5\nseed: 7\n")

    settings = resolve({"k": "3"}, config=path)

    assert (settings.k, settings.seed, settings.resamples) == (3, 7, 10_000)


def test_an_empty_flag_is_not_given_but_an_empty_prompt_is(tmp_path: Path) -> None:
    path = config(tmp_path, "split: dev\na-query-prompt: 'query: '\n")

    settings = resolve({"split": "", "a-query-prompt": ""}, config=path)

    assert settings.split == "dev"
    assert settings.a_query_prompt == ""


def test_the_file_knows_the_other_name_of_the_gate(tmp_path: Path) -> None:
    path = config(tmp_path, "fail-if-worse: ndcg@10:0.02\n")

    assert resolve({}, config=path).gate == ("ndcg@10:0.02",)


def test_a_prompt_keeps_its_trailing_blank() -> None:
    assert resolve({"a-query-prompt": "query: "}, config=None).a_query_prompt == "query: "


def test_lists_come_as_text_or_as_list(tmp_path: Path) -> None:
    path = config(
        tmp_path, "metrics: [ndcg@10, recall@100]\ngate: |\n  ndcg@10:0.02\n  hit@5:0.1\n"
    )

    settings = resolve({}, config=path)

    assert settings.metrics == ("ndcg@10", "recall@100")
    assert settings.gate == ("ndcg@10:0.02", "hit@5:0.1")
    assert resolve({"metrics": "ndcg, mrr@5"}, config=None).metrics == ("ndcg", "mrr@5")


def test_a_model_is_text_or_a_mapping(tmp_path: Path) -> None:
    path = config(
        tmp_path, "model-a: st:a/b,dim=256\nmodel-b: {provider: st, name: a/b, dim: 256}\n"
    )

    settings = resolve({}, config=path)

    assert (
        settings.model_a
        == settings.model_b
        == SystemSpec(provider="st", name="a/b", options={"dim": "256"})
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k: 0", "k: "),
        ("k: ten", "k: "),
        ("k: yes", "k: Input should be a number"),
        ("kk: 3", "unknown setting 'kk'; did you mean 'k'?"),
        ("k: 3\nk: 4", ":2: the key 'k' is given twice"),
        ("k: [", ":1: "),
        ("- k", "not a mapping"),
        ("gate: ndcg:0.1\nfail-if-worse: ndcg:0.2", "are one setting, given twice"),
        ("bm25: korean", "bm25: "),
        ("a-trust-remote-code: true", "is not read from a file"),
        ("a-allow-pickle: true", "is not read from a file"),
        ("model-a: nobody:x", "unknown provider 'nobody'"),
        ("model-a: {provider: st, name: x, dim: 1.5}", "option 'dim'"),
        ("? [a, b]\n: 1", ":1: "),
    ],
)
def test_a_wrong_file_says_where_and_what(tmp_path: Path, text: str, message: str) -> None:
    path = config(tmp_path, text)

    with pytest.raises(InputError) as caught:
        resolve({}, config=path)

    assert message in str(caught.value)
    assert caught.value.hint


def test_a_file_that_is_not_utf8_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_bytes(b"split: \xff\xfe")

    with pytest.raises(InputError, match="not UTF-8"):
        resolve({}, config=path)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        resolve({}, config=tmp_path / "none.yml")


def test_a_wrong_flag_is_named() -> None:
    with pytest.raises(InputError, match=r"-k: .*not '0'"):
        resolve({"k": "0"}, config=None)


@pytest.mark.parametrize(
    ("flags", "name"),
    [({"eval-path": "a\nb"}, "EVAL: "), ({"gate": [1]}, "--fail-if-worse: ")],
)
def test_an_error_names_the_spelling_that_the_help_shows(
    flags: dict[str, object], name: str
) -> None:
    with pytest.raises(InputError) as caught:
        resolve(flags, config=None)

    assert str(caught.value).startswith(name)


def test_unknown_metrics_codes_and_doubled_gates_are_input_errors() -> None:
    for flags in ({"metrics": "bleu"}, {"ignore": "few_query"}, {"gate": "ndcg:0.1,ndcg@10:0.2"}):
        with pytest.raises(InputError):
            resolve(flags, config=None).options()


def test_depth_is_one_more_than_the_largest_k() -> None:
    """The rank below the cutoff shows whether documents tie across it."""
    assert resolve({"metrics": "ndcg@5,recall@100"}, config=None).options().depth == 101


def test_only_changed_settings_that_matter_to_the_result_are_recorded() -> None:
    settings = resolve({"k": "5", "out": "x", "quiet": True, "model-a": "bm25:word"}, config=None)

    assert settings.changed() == {"k": 5, "model-a": "bm25:word"}
    assert Settings.model_validate(settings.changed()).k == 5


@pytest.mark.parametrize(
    "text",
    [
        "minilm",
        "st:",
        "st: ,dim=2",
        "st:x,dim",
        "st:x,dim=",
        "st:x,dim=0",
        "st:x,dim=x",
        "st:x,dim=2,dim=3",
        "st:x,colour=red",
        "mock:char9",
        "bm25:auto,k1=2",
        "nosuch:x",
        "st:" + "x" * 256,
        "st:owner/" + "가" * 86,
    ],
)
def test_a_malformed_system_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError) as caught:
        SystemSpec.parse(text)

    assert caught.value.hint


def test_a_system_prints_as_it_is_written() -> None:
    text = "st:BAAI/bge-small-en-v1.5,revision=abc,max_length=512,dim=256"

    assert str(SystemSpec.parse(text)) == text


def test_redact_is_recorded_because_it_changes_the_result() -> None:
    assert resolve({"redact": True}, config=None).changed() == {"redact": True}


def test_a_price_has_no_meaning_for_a_system_without_tokens() -> None:
    settings = resolve({"model-a": "bm25:auto", "a-price-per-million-tokens": "0.02"}, config=None)

    with pytest.raises(InputError, match="--a-price-per-million-tokens has no meaning for bm25"):
        settings.check_sides()


@pytest.mark.parametrize("pair", [("mock:word", "bm25:auto"), ("st:a", "st:b")])
def test_no_truncate_has_no_meaning_without_a_server(pair: tuple[str, str]) -> None:
    given = {"model-a": pair[0], "model-b": pair[1], "truncate": False}

    with pytest.raises(InputError, match=f"--no-truncate has no meaning for {' and '.join(pair)}"):
        resolve(given, config=None).check_sides()


@pytest.mark.parametrize("served", ["ollama:x", "openai:x", "rerank(bm25:auto, http:x,shape=tei)"])
def test_no_truncate_has_a_meaning_where_one_side_is_served(served: str) -> None:
    for a, b in ((served, "st:b"), ("bm25:auto", served)):
        resolve({"model-a": a, "model-b": b, "truncate": False}, config=None).check_sides()


def test_prompts_of_the_file_are_for_the_model_of_the_file(tmp_path: Path) -> None:
    config = tmp_path / "c.yml"
    config.write_text(
        "model-b: st:intfloat/e5\nb-query-prompt: 'query: '\na-doc-prompt: x\n"
        "b-price-per-million-tokens: 0.02\nb-doc-params: {input_type: document}\n"
    )

    assert resolve({"model-b": "st:other/model"}, config=config).b_query_prompt is None
    assert resolve({"model-b": "st:intfloat/e5"}, config=config).b_query_prompt == "query: "
    assert resolve({"model-b": "st:other/model"}, config=config).a_doc_prompt == "x"
    other = resolve({"model-b": "st:other/model"}, config=config)
    assert (other.b_price_per_million_tokens, other.b_doc_params) == (None, {})


def test_a_number_of_thousands_of_digits_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "c.yml").write_text(f"k: 0x{'f' * 5000}\n")

    with pytest.raises(InputError, match="k is too large a number"):
        resolve({}, config=tmp_path / "c.yml")


@pytest.mark.parametrize("text", ['{"api_key": "x"}', '{"options": [{"token": "x"}]}'])
def test_a_key_among_the_parameters_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(InputError, match="keys come from the environment") as caught:
        resolve({"b-doc-params": text}, config=None)

    assert '"x"' not in str(caught.value)


@pytest.mark.parametrize("text", ['{"x": NaN}', '{"x": 1e999}', '{"x": -Infinity}'])
def test_parameters_that_json_cannot_hold_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="should be a JSON object"):
        resolve({"b-doc-params": text}, config=None)

"""A fork's result is fetched from the first run's artifacts, and none of it is believed."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_github import NOW, REPOSITORY, SIGNATURE, STORE, FakeGithub, Waits, serve

from embed_ab import commands, render, result_json
from embed_ab import evalset as evalsets
from embed_ab.action import event, github, untrusted
from embed_ab.action.artifact import artifact_name, zip_folder
from embed_ab.action.event import PullRequest, Run
from embed_ab.action.github import Api, Refused
from embed_ab.action.untrusted import Fetched
from embed_ab.errors import GithubError
from embed_ab.gate import SliceName
from embed_ab.result import Comparison, with_names
from embed_ab.settings import resolve

HEAD, OTHER = "a" * 40, "d" * 40
RUN = Run(id=5, attempt=1, commit=HEAD)
# Of the event, what GitHub sends when a run for a fork's pull request ends; the examples of
# @octokit/webhooks-examples have none of a fork.
EVENT: dict[str, Any] = {
    "action": "completed",
    "workflow_run": {
        "id": 5,
        "name": "embed-ab",
        "event": "pull_request",
        "status": "completed",
        "conclusion": "failure",
        "run_attempt": 1,
        "head_branch": "topic",
        "head_sha": HEAD,
        "head_repository": {
            "id": 2,
            "full_name": "stranger/octo-repo",
            "fork": True,
            "owner": {"login": "stranger", "id": 9},
        },
        "repository": {"id": 1, "full_name": REPOSITORY, "fork": False},
        "pull_requests": [],
    },
    "repository": {"id": 1, "full_name": REPOSITORY},
}


def no_mask(secret: str) -> None:
    """Let a secret be seen: these tests print nothing."""


def fetch(
    fake: FakeGithub,
    *,
    name: str = untrusted.DEFAULT_NAME,
    waits: Waits | None = None,
    mask: Callable[[str], None] = no_mask,
) -> tuple[list[Fetched], list[GithubError]]:
    with httpx.Client(transport=fake.transport()) as client:
        return untrusted.fetch_results(fake.api(waits), RUN, client=client, mask=mask, name=name)


def problem(content: bytes) -> GithubError:
    """What is said of an artifact with this content."""
    fake = FakeGithub()
    fake.add_artifact(content)
    fetched, problems = fetch(fake)
    assert not fetched
    return problems[0]


def zipped(*files: tuple[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, text in files:
            archive.writestr(name, text)
    return content.getvalue()


def loaded(report: Path) -> Comparison:
    return result_json.load(report / "result.json")


# The way it goes


def test_the_result_that_the_action_uploaded_is_fetched(report: Path) -> None:
    fake = FakeGithub()
    number = fake.add_artifact(zip_folder(report))

    ((found,), problems) = fetch(fake)

    assert not problems
    assert (found.name, found.key, found.artifact_id) == (
        "embed-ab.compare",
        "embed-ab.compare",
        number,
    )
    assert found.comparison == untrusted.restated(loaded(report))


def test_a_forks_run_ends_in_a_comment_on_its_pull_request(report: Path) -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD, owner="stranger", repository_id=2)
    fake.add_artifact(zip_folder(report))
    run = event.triggering_run(EVENT)

    with httpx.Client(transport=fake.transport()) as client:
        (found,), _ = untrusted.fetch_results(fake.api(), run, client=client, mask=no_mask)
    pull = event.pull_request_of("workflow_run", EVENT, fake.api(), run.commit)

    assert pull == PullRequest(number=7, head=HEAD, is_fork=True)
    assert render.markdown(found.comparison).startswith("## ? embed-ab: inconclusive\n")


def test_it_works_over_a_socket_too(report: Path) -> None:
    fake = FakeGithub()
    fake.add_artifact(zip_folder(report))

    with serve(fake) as url, github.connect(url, fake.token) as ours, httpx.Client() as client:
        api = Api(ours, REPOSITORY, clock=lambda: NOW, sleep=Waits())
        found, problems = untrusted.fetch_results(api, RUN, client=client, mask=no_mask)

    assert (len(found), problems) == (1, [])


# Which artifacts


def names(fake: FakeGithub, name: str = untrusted.DEFAULT_NAME) -> list[str]:
    return [found.name for found in fetch(fake, name=name)[0]]


def test_every_job_leg_and_key_has_its_result_in_order_of_name(report: Path) -> None:
    fake, content = FakeGithub(), zip_folder(report)
    legs = [artifact_name("", job="b", leg="1"), artifact_name("", job="b"), "embed-ab"]
    legs += [artifact_name("", job="a", key="kettles")]
    for name in legs:
        fake.add_artifact(content, name)

    assert names(fake) == ["embed-ab", "embed-ab.a.key-kettles", "embed-ab.b", "embed-ab.b.leg-1"]


def test_other_names_are_other_peoples_artifacts(report: Path) -> None:
    fake, content = FakeGithub(), zip_folder(report)
    for name in ("coverage", "embed-abc", "embed-ab-old", "x.embed-ab", "Embed-ab"):
        fake.add_artifact(content, name)
    fake.add_artifact(content, "my report")

    assert names(fake, "my report") == ["my report"]


def test_of_several_attempts_the_last_one_counts(report: Path) -> None:
    """A repeated run repeats some jobs or all; an attempt may also repeat the author's name."""
    fake, content = FakeGithub(), zip_folder(report)
    first = fake.add_artifact(content, "embed-ab.a")
    last = fake.add_artifact(content, "embed-ab.a.attempt-10")
    fake.artifacts.reverse()  # the order of the list does not matter
    fake.add_artifact(content, "embed-ab.a.attempt-9", id=first - 1)
    fake.zips[first - 1] = content
    only = fake.add_artifact(content, "embed-ab.b")
    fake.add_artifact(content, "same")
    same = fake.add_artifact(content, "same")

    found = fetch(fake)[0]

    assert [(f.artifact_id, f.key) for f in found] == [(last, "embed-ab.a"), (only, "embed-ab.b")]
    assert [f.artifact_id for f in fetch(fake, name="same")[0]] == [same]


def test_artifacts_are_found_on_every_page(report: Path) -> None:
    fake = FakeGithub()
    for number in range(205):
        fake.add_artifact(b"", f"logs-{number}")
    fake.add_artifact(zip_folder(report))

    assert names(fake) == ["embed-ab.compare"]


def test_more_than_twenty_artifacts_are_left_out_and_counted() -> None:
    fake = FakeGithub()
    for number in range(23):
        fake.add_artifact(b"", f"embed-ab.job{number:02}")

    _, problems = fetch(fake)

    assert len(problems) == 21
    assert str(problems[-1]) == "3 more artifacts than 20 were left out"
    assert len([r for r in fake.requests if r.url.path.startswith("/store/")]) == 20


@pytest.mark.parametrize(
    "changes",
    [
        {"expired": True},
        {"name": "embed-abc"},
        {"workflow_run": None},
        {"workflow_run": {}},
        {"workflow_run": {"id": 5, "head_sha": OTHER}},
        {"workflow_run": {"id": 6, "head_sha": HEAD}},
    ],
)
def test_without_an_artifact_of_this_run_and_commit_the_hint_is_for_the_first_workflow(
    changes: dict[str, Any], report: Path
) -> None:
    fake = FakeGithub()
    fake.add_artifact(zip_folder(report), **changes)

    with pytest.raises(
        GithubError, match="run 5 left no artifact 'embed-ab' of commit aaaaaaaaaaaa"
    ) as e:
        fetch(fake)

    assert "upload-artifact and artifact-archive at true" in e.value.hint


def test_a_token_that_may_not_read_artifacts_is_told_what_it_needs() -> None:
    fake = FakeGithub()
    headers = {"x-accepted-github-permissions": "actions=read"}
    fake.fail("GET", ".*/artifacts", httpx.Response(403, json={"message": "no"}, headers=headers))

    with pytest.raises(Refused) as e:
        fetch(fake)

    assert e.value.hint == "The token needs actions: read."


# The way to the store


def test_the_store_gets_no_token_and_the_log_no_signature(report: Path) -> None:
    """The fake store refuses a request with a token."""
    fake, masked = FakeGithub(), list[str]()
    fake.add_artifact(zip_folder(report))
    transport = fake.transport()

    with httpx.Client(transport=transport, headers={"Authorization": "Bearer other"}) as client:
        found, _ = untrusted.fetch_results(fake.api(), RUN, client=client, mask=masked.append)

    assert len(found) == 1
    assert SIGNATURE in masked
    assert fake.requests[-1].url.params["sig"] in masked


@pytest.mark.parametrize(
    "location",
    [
        "http://store.example/store/1001?sig=x",
        "//store.example/x",
        "/repos/octo-org/octo-repo",
        "file:///etc/passwd",
        "https://",
        "",
    ],
)
def test_only_an_https_address_is_followed(location: str) -> None:
    fake = FakeGithub()
    fake.add_artifact(b"")
    fake.fail("GET", ".*/zip", httpx.Response(302, headers={"location": location}))

    _, (fault,) = fetch(fake)

    assert str(fault) == (
        "artifact 'embed-ab.compare': GitHub redirects to no address that can be used"
    )
    assert fake.requests[-1].url.path.endswith("/zip")


def test_an_address_that_is_none_is_our_error() -> None:
    fake = FakeGithub()
    fake.add_artifact(b"")
    fake.fail("GET", ".*/zip", *[httpx.Response(302, headers={"location": "https://x:y/"})] * 4)

    assert "RemoteProtocolError" in str(fetch(fake)[1][0])


@pytest.mark.parametrize("status", [200, 301, 307])
def test_anything_but_a_redirect_to_the_store_is_a_refusal(status: int) -> None:
    fake = FakeGithub()
    fake.add_artifact(b"")
    headers = {"location": "https://elsewhere.example/"}
    fake.fail("GET", ".*/zip", httpx.Response(status, json={}, headers=headers))

    _, (fault,) = fetch(fake)

    assert f"GitHub answered {status}" in str(fault)


def test_the_store_redirects_nowhere() -> None:
    fake = FakeGithub()
    fake.add_artifact(b"")
    fake.fail("GET", "/store/.*", httpx.Response(302, headers={"location": f"{STORE}/store/1002"}))

    _, (fault,) = fetch(fake)

    assert str(fault).endswith("the artifact store answered 302")


def test_no_fault_of_the_store_shows_the_address() -> None:
    fake = FakeGithub()
    fake.add_artifact(b"")
    fake.fail("GET", "/store/.*", *[httpx.ConnectError] * 4)

    _, (fault,) = fetch(fake)

    assert str(fault) == "artifact 'embed-ab.compare': the artifact store: ConnectError, 4 times"
    assert fault.__cause__ is None


@pytest.mark.parametrize("reply", [httpx.Response(503), httpx.Response(429), httpx.ReadTimeout])
def test_a_store_that_fails_is_asked_again_at_a_new_address(reply: Any, report: Path) -> None:
    """An address holds for a minute."""
    fake, waits = FakeGithub(), Waits()
    fake.add_artifact(zip_folder(report))
    fake.fail("GET", "/store/.*", reply, reply)

    found, problems = fetch(fake, waits=waits)

    assert (len(found), problems, waits) == (1, [], [1.0, 2.0])
    assert [r.url.path.split("/")[-1] for r in fake.requests].count("zip") == 3


def test_an_address_that_holds_no_more_is_said() -> None:
    fake = FakeGithub()
    fake.add_artifact(b"")
    fake.fail("GET", "/store/.*", httpx.Response(403))

    assert "the artifact store answered 403" in str(fetch(fake)[1][0])


def test_an_artifact_deleted_meanwhile_does_not_lose_the_others(report: Path) -> None:
    fake = FakeGithub()
    gone = fake.add_artifact(b"", "embed-ab.a")
    fake.add_artifact(zip_folder(report), "embed-ab.b")
    fake.fail("GET", f".*/{gone}/zip", httpx.Response(404, json={"message": "Not Found"}))

    found, problems = fetch(fake)

    assert [f.name for f in found] == ["embed-ab.b"]
    assert "GitHub answered 404" in str(problems[0])


def test_a_zip_above_the_limit_is_given_up_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "MAX_ZIP_BYTES", 1_000)

    assert "it has more than 1,000 bytes" in str(problem(b"x" * 1_001))


def test_what_the_store_says_is_packed_is_not_unpacked(report: Path) -> None:
    """Who uploads may set the header; a bomb would be a zip in gzip."""
    fake = FakeGithub()
    fake.add_artifact(b"")
    packed = httpx.ByteStream(gzip.compress(zip_folder(report)))
    headers = {"content-encoding": "gzip"}
    fake.fail("GET", "/store/.*", httpx.Response(200, stream=packed, headers=headers))

    assert "no zip that can be read" in str(fetch(fake)[1][0])


# The zip


def test_nothing_but_the_result_at_the_top_is_looked_at(report: Path) -> None:
    fake = FakeGithub()
    result = (report / "result.json").read_bytes()
    fake.add_artifact(
        zipped(
            ("../../etc/passwd", "x"),
            ("/result.json", "x"),
            ("sub/result.json", "x"),
            ("result.json/", ""),
            ("RESULT.JSON", "x"),
            ("result.json", result),
            ("comment.md", "## @everyone"),
        )
    )

    found, problems = fetch(fake)

    assert (len(found), problems) == (1, [])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is no zip that can be read: File is not a zip file"),
        (b"<!doctype html>", "it is no zip that can be read: File is not a zip file"),
        (zipped(("report.html", "x")), "it holds 0 files named result.json, not one"),
        (
            zipped(("result.json", "{}"), method=zipfile.ZIP_LZMA),
            "result.json is encrypted or compressed in another way than Deflate",
        ),
        (zipped(("result.json", "{")), "result.json:1: not JSON: Expecting property name"),
        (zipped(("result.json", '{"schema_version": 2}')), "result.json: schema_version is 2"),
        (zipped(("result.json", b"\xff")), "result.json: byte 0 is not UTF-8"),
    ],
)
def test_the_fault_of_an_artifact_is_named(content: bytes, said: str) -> None:
    assert str(problem(content)).startswith(f"artifact 'embed-ab.compare': {said}")


def test_two_results_in_one_zip_are_none() -> None:
    content = zipped(("result.json", "{}"), ("resulT.json", "{}")).replace(b"resulT", b"result")

    assert "it holds 2 files named result.json" in str(problem(content))


def test_an_encrypted_result_is_refused() -> None:
    content = bytearray(zipped(("result.json", "{}")))
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flags in the table of contents

    assert "result.json is encrypted" in str(problem(bytes(content)))


def test_an_entry_beyond_what_any_file_has_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("result.json", "{}")
        archive.infolist()[0].header_offset = 2**63 + 2**62

    assert "it is no zip that can be read" in str(problem(buffer.getvalue()))


def test_a_bomb_is_given_up_at_the_limit_whatever_its_header_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten million blanks are ten thousand bytes; the table of contents says two."""
    content = zipped(("result.json", " " * 10_000_000))
    lie = content.replace((10_000_000).to_bytes(4, "little"), (2).to_bytes(4, "little"))
    monkeypatch.setattr(untrusted, "MAX_JSON_BYTES", 1_000_000)

    assert "result.json has more than 1,000,000 bytes" in str(problem(content))
    assert "it is no zip that can be read: Bad CRC-32" in str(problem(lie))


def test_all_artifacts_together_have_a_limit_too(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeGithub()
    for job in "abc":
        fake.add_artifact(zip_folder(report), f"embed-ab.{job}")
    size = (report / "result.json").stat().st_size
    monkeypatch.setattr(untrusted, "MAX_BYTES", 2 * size + 10)

    found, problems = fetch(fake)

    assert [f.name for f in found] == ["embed-ab.a", "embed-ab.b"]
    assert str(problems[0]).endswith("result.json has more than 10 bytes")


def test_a_table_of_contents_without_end_is_not_read() -> None:
    """30,000 entries, which a few bytes each name."""
    files = [(f"{number:05}", b"") for number in range(30_000)]

    said = str(problem(zipped(*files, method=zipfile.ZIP_STORED)))

    assert said.endswith("its table of contents is too long")


def test_a_name_that_would_be_a_command_to_the_runner_is_one_plain_line() -> None:
    fake = FakeGithub()
    fake.add_artifact(b"", "embed-ab.x\n::add-mask::a\x1b[31m" + "y" * 500)

    _, (fault,) = fetch(fake)

    assert str(fault).isprintable()
    assert str(fault).startswith("artifact 'embed-ab.x ::add-mask::ayyy")
    assert len(str(fault)) < 250


# The numbers, worded again


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gate": ["ndcg@10:0.02"]},
        {"gate": ["hit@10:0.5"], "min-queries": 41},
        {"gate": ["ndcg@10:0.5", "hit@5:0", "recall@10:0.05"], "cluster-by": "gold"},
        {"model-a": "mock:word", "model-b": "mock:word", "gate": ["ndcg@10:0.2"]},
        {"model-a": "bm25:auto", "model-b": "mock:word", "gate": ["ndcg@10:0.02", "mrr@10:0.02"]},
        {
            "gate": ["ndcg@10[style=typo]:0.2", "hit@5:0"],
            "slice": ["query-length"],
            "min-queries": 5,
        },
    ],
)
def test_an_honest_result_is_worded_as_it_was(settings: dict[str, Any]) -> None:
    models = {"model-a": "mock:char3", "model-b": "mock:word", "cache": False}
    compared, _ = commands.compare_evalset(
        evalsets.load(commands.demo_folder("en")), resolve(models | settings, config=None)
    )

    again = untrusted.restated(compared)

    same = ("outcome", "verdict", "finding", "primary", "gates", "slices")
    assert {n: getattr(again, n) for n in same} == {n: getattr(compared, n) for n in same}


def test_no_sentence_of_a_stranger_is_in_the_comment(report: Path) -> None:
    honest, said = loaded(report), "Merge this now, please."
    told = replace(
        honest,
        verdict=said,
        outcome="pass",
        finding="better",
        gates=tuple(replace(g, gate=said, reason=said, why=said) for g in honest.gates),
        cautions=(
            *(replace(c, message=said, advice=said) for c in honest.cautions),
            replace(honest.cautions[0], code=said),
        ),
        ignored=(said, "tiny_corpus"),
        evalset=replace(honest.evalset, notices=(said,)),
        command=said,
    )

    again = untrusted.restated(told)

    assert said not in render.markdown(again)
    assert again == replace(untrusted.restated(honest), ignored=("tiny_corpus",))


def sliced(**names: str) -> Comparison:
    """The demo by style, with a gate on one, and other names for its styles and for the field."""
    settings = {"model-a": "bm25:auto", "model-b": "mock:word", "cache": False, "min-queries": 5}
    settings |= {"gate": ["ndcg@10[style=keywords]:0.02"]}
    compared, _ = commands.compare_evalset(
        evalsets.load(commands.demo_folder("en")), resolve(settings, config=None)
    )
    field = names.pop("field", "style")
    by_name = (SliceName(field="style", value=p.value) for p in compared.slices[0].slices)
    return with_names(
        compared,
        {n: SliceName(field=field, value=names.get(n.value, n.value)) for n in by_name},
    )


def test_a_slice_that_is_a_word_keeps_its_name() -> None:
    assert "where style=keywords" in untrusted.restated(sliced()).verdict


@pytest.mark.parametrize("said", ["x, but B is better than A: merge", "a|b", "[x](y)", "x" * 41])
def test_a_slice_that_could_be_a_sentence_of_ours_gets_a_number(said: str) -> None:
    """question has 16 queries, keywords 10, so that is the second."""
    again = untrusted.restated(sliced(keywords=said, field=said))

    assert "where field 1=slice 2" in again.verdict
    assert said not in render.markdown(again)
    assert again.gates[0].gate == "ndcg@10[field 1=slice 2]:0.02"


def test_a_built_in_slice_keeps_its_name() -> None:
    settings = {"model-a": "bm25:auto", "model-b": "mock:word", "cache": False}
    compared, _ = commands.compare_evalset(
        evalsets.load(commands.demo_folder("en")),
        resolve(settings | {"slice": "copied-share"}, config=None),
    )

    assert untrusted.restated(compared).slices == compared.slices


@pytest.mark.parametrize("moved", ["numbers", "queries"])
def test_slices_whose_numbers_are_not_those_of_their_queries_are_refused(moved: str) -> None:
    honest = sliced()
    if moved == "numbers":
        content = result_json.dumps(honest)
        mean = repr(honest.slices[0].slices[0].differences[0].mean_a)
        told = result_json.loads(content.replace(mean, "0.5").encode(), "x")
    else:
        rows = (replace(honest.queries[0], slices={}), *honest.queries[1:])
        told = replace(honest, queries=rows)

    with pytest.raises(GithubError, match=r"its numbers for ndcg@10 contradict each other"):
        untrusted.restated(told)


def test_what_is_said_of_a_slice_is_said_anew() -> None:
    honest = sliced()
    (by_style,) = honest.slices
    better = tuple(replace(p, finding="better", is_reversal=True) for p in by_style.slices)
    told = replace(honest, slices=(replace(by_style, slices=better),))

    assert untrusted.restated(told).slices == honest.slices


def test_a_warning_is_its_meaning_and_comes_once(report: Path) -> None:
    honest = loaded(report)

    (caution,) = untrusted.restated(replace(honest, cautions=honest.cautions[:1] * 3)).cautions

    assert (caution.code, caution.message) == (
        "mock_models",
        "Mock vectors are for practice and say nothing about a real model.",
    )


@pytest.mark.parametrize(
    ("wanted", "is_enough"),
    [(None, True), ("50", True), (0, True), (-50, True), ([50], True), (40, True), (41, False)],
)
def test_how_many_queries_a_verdict_needs_is_read_from_a_number_only(
    wanted: Any, is_enough: bool, report: Path
) -> None:
    """There are 40 queries; anything but a whole number from 1 is the default of 10."""
    settings = {"min-queries": wanted}

    reason = untrusted.restated(replace(loaded(report), settings=settings)).gates[0].reason

    assert ("fewer than the" not in reason) == is_enough


# What the list may say


@pytest.mark.parametrize("answer", [None, [], {}, {"artifacts": None}, {"artifacts": [None]}])
def test_a_list_that_is_none_is_our_error(answer: Any) -> None:
    fake = FakeGithub()
    fake.fail("GET", ".*/artifacts", httpx.Response(200, json=answer))

    with pytest.raises(GithubError):
        fetch(fake)


@pytest.mark.parametrize(
    "changes",
    [
        {"difference": 0.9},
        {"low": 0.5, "high": 0.9},
        {"mean_a": 0.0, "mean_b": 0.9, "difference": 0.9, "low": 0.8, "high": 1.0},
        {"n_queries": 4_000},
    ],
    ids=["difference", "interval", "means", "queries"],
)
def test_numbers_that_contradict_the_queries_are_refused(
    report: Path, changes: dict[str, float]
) -> None:
    honest = loaded(report)
    first = replace(honest.differences[0], **changes)
    told = replace(honest, differences=(first, *honest.differences[1:]))

    with pytest.raises(GithubError, match="contradict each other"):
        untrusted.restated(told)

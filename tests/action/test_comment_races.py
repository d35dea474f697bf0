"""Two runs at once, in every order in which their requests can reach GitHub."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

import httpx
import pytest
from fake_github import NOW, FakeGithub, Waits

from embed_ab.action import comment, github
from embed_ab.action.comment import Mark
from embed_ab.action.event import PullRequest, Run
from embed_ab.action.github import Api

HEAD = "a" * 40
MOST_REQUESTS = 5
"""List, create, list, edit, delete; who we are is asked before."""
ORDERS = [
    [int(position in seconds) for position in range(2 * MOST_REQUESTS)]
    for seconds in itertools.combinations(range(2 * MOST_REQUESTS), MOST_REQUESTS)
]


class Turns:
    """Lets each run's next request through when it is its turn; a finished run is passed over."""

    def __init__(self, fake: FakeGithub, order: Sequence[int]) -> None:
        self.fake = fake
        self.left = list(order)
        self.changed = threading.Condition()

    def transport(self, run: int) -> httpx.MockTransport:
        def handle(request: httpx.Request) -> httpx.Response:
            with self.changed:
                if request.url.path != "/user":
                    assert self.changed.wait_for(
                        lambda: not self.left or self.left[0] == run, timeout=30
                    )
                    del self.left[:1]
                    self.changed.notify_all()
                return self.fake.handle(request)

        return httpx.MockTransport(handle)

    def finish(self, run: int) -> None:
        with self.changed:
            self.left = [turn for turn in self.left if turn != run]
            self.changed.notify_all()


def race(fake: FakeGithub, order: Sequence[int], runs: tuple[int, int]) -> list[Exception]:
    turns = Turns(fake, order)
    faults: list[Exception] = []

    def work(which: int) -> None:
        client = github.connect("https://a.example", fake.token, transport=turns.transport(which))
        try:
            comment.upsert_comment(
                Api(client, fake.repository, clock=lambda: NOW, sleep=Waits()),
                PullRequest(number=7, head=HEAD, is_fork=False),
                f"## of run {runs[which]}\n",
                "default",
                Run(id=runs[which], attempt=1, commit=HEAD),
                mode="always",
                is_failure=False,
                server_url="https://github.com",
            )
        except Exception as fault:
            faults.append(fault)
        finally:
            turns.finish(which)

    threads = [threading.Thread(target=work, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults


@pytest.mark.parametrize("runs", [(12, 13), (12, 12)], ids=["two runs", "two jobs of one run"])
def test_two_that_create_always_end_with_one_comment(runs: tuple[int, int]) -> None:
    for order in ORDERS:
        fake = FakeGithub(is_app=False)

        assert race(fake, order, runs) == [], order
        assert len(fake.comments) == 1, order
        assert f"## of run {max(runs)}\n" in fake.bodies()[0], order


def test_two_that_edit_always_end_with_one_comment_and_mostly_the_newer_text() -> None:
    """GitHub cannot write on a condition: an older run's edit can pass the newer one's on its way.

    For that the older one has to list before and write after the newer one's edit.
    """
    for order in ORDERS:
        fake = FakeGithub(is_app=False)
        old = Mark(key="default", run=1, attempt=1, head=HEAD, is_failure=False, shown="0" * 32)
        fake.add_comment(f"{old}\n")

        assert race(fake, order, (12, 13)) == [], order
        assert len(fake.comments) == 1, order

        older_lists, older_edits = [n for n, turn in enumerate(order) if turn == 0][:2]
        newer_edits = [n for n, turn in enumerate(order) if turn == 1][1]
        if not older_lists < newer_edits < older_edits:
            assert "## of run 13\n" in fake.bodies()[0], order

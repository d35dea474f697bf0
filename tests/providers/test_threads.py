"""Calls that slots run: how many at once, and what becomes of one that takes too long."""

from __future__ import annotations

import _thread
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

import pytest

from embed_ab.providers import threads
from embed_ab.providers.threads import Slots, outcomes


def test_a_call_brings_what_its_work_returned() -> None:
    assert Slots(1).put(lambda: 7).result(10) == 7


def test_a_call_raises_what_its_work_raised() -> None:
    def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        Slots(1).put(fail).result(10)


def test_only_so_many_run_at_once() -> None:
    slots, release, third_ran = Slots(2), threading.Event(), threading.Event()
    both = threading.Barrier(3)

    def work() -> bool:
        both.wait(10)
        return release.wait(10)

    first = [slots.put(work) for _ in range(2)]
    third = slots.put(third_ran.set)
    both.wait(10)  # both slots are at work

    assert not third_ran.is_set()
    release.set()
    assert [call.result(10) for call in first] == [True, True]
    third.result(10)


def test_without_a_number_all_run_at_once() -> None:
    slots, all_there = Slots(None), threading.Barrier(20)

    calls = [slots.put(lambda: all_there.wait(10)) for _ in range(20)]

    assert sorted(call.result(10) for call in calls) == list(range(20))


def test_time_counts_from_when_a_slot_took_the_call() -> None:
    slots, release = Slots(1), threading.Event()
    slow = slots.put(lambda: release.wait(10))
    waiting = slots.put(lambda: 1)
    got: list[int] = []
    waiter = threading.Thread(target=lambda: got.append(waiting.result(0.05)))
    waiter.start()
    with pytest.raises(TimeoutError):
        slow.result(0.2)  # by then the waiter would have given up
    release.set()
    waiter.join(10)

    assert got == [1]


def test_a_call_that_is_left_gives_its_slot_to_the_next() -> None:
    slots, never = Slots(1), threading.Event()
    try:
        stuck = slots.put(lambda: never.wait(30))
        following = slots.put(lambda: "next")
        with pytest.raises(TimeoutError):
            stuck.result(0.01)
        slots.leave(stuck)

        assert following.result(10) == "next"
    finally:
        never.set()


def test_a_call_that_was_left_before_its_turn_is_not_run() -> None:
    slots, release, ran = Slots(1), threading.Event(), threading.Event()
    slow = slots.put(lambda: release.wait(10))
    slots.leave(slots.put(ran.set))
    release.set()
    slow.result(10)

    assert slots.put(lambda: 1).result(10) == 1
    assert not ran.is_set()


def test_slots_are_as_many_as_before_after_calls_that_were_left() -> None:
    slots, never, release = Slots(2), threading.Event(), threading.Event()
    both = threading.Barrier(3)
    late = threading.Event()
    try:
        for _ in range(5):
            slots.leave(slots.put(lambda: never.wait(30)))
        for _ in range(2):
            slots.put(lambda: (both.wait(10), release.wait(10)))
        slots.put(late.set)
        both.wait(10)

        assert not late.is_set()
    finally:
        never.set()
        release.set()
    assert late.wait(10)


def until(is_true: Callable[[], bool]) -> bool:
    """Whether it becomes true within ten seconds."""
    never = threading.Event()
    return any(is_true() or never.wait(0.01) for _ in range(1000))


def test_nothing_of_a_call_is_kept_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer:
        pass

    monkeypatch.setattr(threads, "_IDLE_SECONDS", 60.0)
    answer = Slots(1).put(Answer).result(10)
    gone = weakref.ref(answer)
    del answer

    assert until(lambda: gone() is None)


def test_a_thread_without_work_ends_and_another_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0.01)
    slots = Slots(1)
    slots.put(lambda: None).result(10)

    assert until(lambda: slots.n_threads == 0)
    assert slots.put(lambda: 1).result(10) == 1


def test_few_outcomes_wait_to_be_taken() -> None:
    done: list[int] = []
    all_waits = threading.Event()

    def work(task: int) -> int:
        done.append(task)
        if len(done) == 7:  # of 2 threads, 6 beside the one that was taken
            all_waits.set()
        return task

    taken = outcomes(work, deque(range(100)), 2)
    first = next(taken)
    assert all_waits.wait(10)

    assert len(done) == 7
    assert sorted([first, *taken]) == [(task, task) for task in range(100)]


def test_an_early_end_lets_go_of_all_threads() -> None:
    before = _thread._count()
    taken = outcomes(lambda task: task, deque(range(100)), 4)
    next(taken)

    taken.close()

    deadline = time.monotonic() + 10
    while _thread._count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _thread._count() <= before

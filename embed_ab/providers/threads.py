"""Several requests at once, which an interrupt or a time-out leaves behind."""

from __future__ import annotations

import _thread
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")
_IDLE_SECONDS = 5.0  # until a thread that has nothing to do ends
_WAKE_SECONDS = 0.5  # a signal that comes just before a wait does not end it


def outcomes(
    work: Callable[[Task], Outcome], waiting: deque[Task], n_threads: int
) -> Iterator[tuple[Task, Outcome | BaseException]]:
    """Do what waits and yield what came of it, in any order; clear `waiting` to end early.

    Threads are daemons: an interrupt must not wait for a server that is slow. Few results may wait
    to be taken, so that a store slower than the server bounds the memory.
    """
    if n_threads == 0:
        while waiting:
            task = waiting.popleft()
            yield task, work(task)
        return
    n_threads = min(n_threads, len(waiting))
    # Simple queues, here and below: an interrupt can leave the locks of the others taken.
    results: queue.SimpleQueue[tuple[Task, Outcome | BaseException] | None] = queue.SimpleQueue()
    places: queue.SimpleQueue[None] = queue.SimpleQueue()  # of results under way or not yet taken

    def run() -> None:
        while True:
            places.get()
            try:
                task = waiting.popleft()
            except IndexError:
                break
            try:
                results.put((task, work(task)))
            except BaseException as error:
                results.put((task, error))
        results.put(None)

    for _ in range(3 * n_threads):
        places.put(None)
    try:
        for _ in range(n_threads):
            _thread.start_new_thread(run, ())  # not threading.Thread, whose start we would wait for
        n_running = n_threads
        while n_running:
            try:
                result = results.get(timeout=_WAKE_SECONDS)
            except queue.Empty:
                continue
            places.put(None)
            if result is None:
                n_running -= 1
            else:
                yield result
    finally:
        waiting.clear()
        for _ in range(n_threads):  # lets go of threads that wait for a place
            places.put(None)


class Call(Generic[Outcome]):
    """One call that `Slots` runs."""

    def __init__(self, work: Callable[[], Outcome]) -> None:
        self.work = work
        self.reply: queue.SimpleQueue[tuple[Outcome | None, BaseException | None]]
        self.reply = queue.SimpleQueue()
        self.taken_at: float | None = None
        self.is_over = False  # done, or left behind

    def result(self, seconds: float) -> Outcome:
        """Return what the work returned, or raise what it raised.

        Raises: TimeoutError so many seconds after a slot took it; it may be asked again.
        """
        left = seconds
        while left > 0:
            try:
                outcome, error = self.reply.get(timeout=min(left, _WAKE_SECONDS))
            except queue.Empty:
                if self.taken_at is not None:
                    left = self.taken_at + seconds - time.monotonic()
                continue
            if error is not None:
                raise error
            return outcome  # type: ignore[return-value]
        raise TimeoutError


class Slots:
    """Threads that run calls, at most so many at once; None for any number.

    A thread takes the next call as soon as one is done: with a server that answers at once, each
    hand-over between threads costs as much as the rest of a request.

    n_threads: those that work or wait for work, without those that were left behind.
    """

    def __init__(self, n_slots: int | None) -> None:
        self._n_slots: float = float("inf") if n_slots is None else n_slots
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[Call[Any]] = queue.SimpleQueue()
        self.n_threads = 0
        self._n_open = 0

    def put(self, work: Callable[[], Outcome]) -> Call[Outcome]:
        """Have a call run when a slot is free; end it with `leave`."""
        call = Call(work)
        with self._lock:
            self._n_open += 1
            self._waiting.put(call)
            self._start_if_needed()
        return call

    def leave(self, call: Call[Any]) -> None:
        """Wait for a call no more: a thread at work on it gives its slot to another."""
        with self._lock:
            if not call.is_over:
                call.is_over = True
                self._n_open -= 1
                self.n_threads -= 1
                self._start_if_needed()

    def _start_if_needed(self) -> None:
        if self.n_threads < min(self._n_open, self._n_slots):
            self.n_threads += 1
            # Not threading.Thread, for whose end the interpreter and for whose start we would wait.
            _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        while True:
            try:
                call = self._waiting.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self.n_threads -= 1
                        return
                continue
            outcome, error = None, None
            if not call.is_over:
                call.taken_at = time.monotonic()
                try:
                    outcome = call.work()
                except BaseException as raised:
                    error = raised
            with self._lock:
                if call.is_over:
                    return  # its place is another's
                call.is_over = True
                self._n_open -= 1
            call.reply.put((outcome, error))
            del call, outcome, error  # and what they hold

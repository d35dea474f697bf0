"""Several requests at once, which an interrupt leaves behind."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


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
    results: queue.Queue[tuple[Task, Outcome | BaseException] | None]
    results = queue.Queue(2 * n_threads)

    def run() -> None:
        while True:
            try:
                task = waiting.popleft()
            except IndexError:
                break
            try:
                results.put((task, work(task)))
            except BaseException as error:
                results.put((task, error))
        results.put(None)

    for _ in range(n_threads):
        threading.Thread(target=run, daemon=True).start()
    n_running = n_threads
    try:
        while n_running:
            result = results.get()
            if result is None:
                n_running -= 1
            else:
                yield result
    finally:
        waiting.clear()
        while not results.empty():  # lets go of threads that wait to hand over
            results.get_nowait()

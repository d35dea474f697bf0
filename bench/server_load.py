"""Is a run with a server bound by the server? 20,000 short texts at several concurrencies.

The server, in a process of its own, answers each batch of 64 texts in 20 ms with 384 dimensions in
base64. The ideal is that time alone: batches / concurrency × 20 ms. "bare" is what Python's plain
http.client reaches that reads the answers and throws them away: on a busy machine it too misses the
ideal, and what matters is how far ours is from it. Each line is a process of its own, so that its
peak memory is that of one run; the best of `--repetitions`, taken in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import http.client
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

DIMENSION, BATCH, SECONDS = 384, 64, 0.020


async def serve() -> None:
    """Print the port, then answer until standard input ends."""
    vector = base64.b64encode(np.ones(DIMENSION, dtype="<f4").tobytes()).decode()
    items = [{"index": index, "embedding": vector} for index in range(BATCH)]
    answers = []
    for n_texts in range(BATCH + 1):
        usage = {"total_tokens": 8 * n_texts}
        body = json.dumps({"data": items[:n_texts], "model": "m", "usage": usage}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        answers.append(head.encode() + b"\r\n\r\n" + body)

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            due = asyncio.get_running_loop().time() + SECONDS
            body = json.loads(await reader.readexactly(length))
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            writer.write(answers[len(body["input"])])
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)  # connections that clients left open are no news


def bare(port: int, texts: list[str], concurrency: int) -> float:
    """Seconds of the same requests without a client of ours, answers thrown away."""
    bodies = [
        json.dumps({"model": "m", "input": texts[start : start + BATCH]}).encode()
        for start in range(0, len(texts), BATCH)
    ]

    def ask(mine: list[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for body in mine:
            connection.request("POST", "/v1/embeddings", body)
            connection.getresponse().read()
        connection.close()

    started = time.perf_counter()
    with ThreadPoolExecutor(concurrency) as pool:
        list(pool.map(ask, [bodies[first::concurrency] for first in range(concurrency)]))
    return time.perf_counter() - started


def ours(port: int, texts: list[str], concurrency: int) -> float:
    """Seconds of embedding through an empty store on disk."""
    from embed_ab.providers.cache import VectorStore
    from embed_ab.providers.embed import embed_cached, known_facts
    from embed_ab.providers.openai import OpenAIEmbedder

    environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}"}
    model = OpenAIEmbedder("m", environ, batch_size=BATCH, concurrency=concurrency)
    with tempfile.TemporaryDirectory() as folder:
        store = VectorStore.open(Path(folder))
        known_facts(model, store)
        started = time.perf_counter()
        embed_cached(model, store, texts, texts, "document")
        seconds = time.perf_counter() - started
        store.close()
    return seconds


def measure(which: str, port: int, n_texts: int, concurrency: int) -> None:
    """Print seconds, processor seconds and peak memory in MB of one run."""
    texts = [f"short text number {number} of the load" for number in range(n_texts)]
    seconds = {"bare": bare, "ours": ours}[which](port, texts, concurrency)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    if arguments.measure:
        which, *numbers = arguments.measure
        measure(which, *map(int, numbers))
        return
    command = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--serve"], **pipes) as server:
        port = server.stdout.readline().strip()
        print("  texts  at once  ideal s  bare s  ours s  ideal/ours  bare/ours  cpu s  peak MB")
        for n_texts, concurrency in ((20_000, 1), (20_000, 4), (20_000, 8), (80_000, 4)):
            best = {}
            for _ in range(arguments.repetitions):
                for which in ("bare", "ours"):
                    more = ["--measure", which, port, str(n_texts), str(concurrency)]
                    printed = subprocess.run([*command, *more], check=True, stdout=subprocess.PIPE)
                    figures = [float(word) for word in printed.stdout.split()]
                    best[which] = min(best.get(which, figures), figures)
            ideal = math.ceil(math.ceil(n_texts / BATCH) / concurrency) * SECONDS
            (bare_seconds, *_), (seconds, cpu, peak) = best["bare"], best["ours"]
            print(
                f"{n_texts:7,}  {concurrency:7}  {ideal:7.2f}  {bare_seconds:6.2f}  {seconds:6.2f}"
                f"  {ideal / seconds:10.2f}  {bare_seconds / seconds:9.2f}"
                f"  {cpu:5.2f}  {peak:7.0f}",
                flush=True,
            )
        server.stdin.close()


if __name__ == "__main__":
    main()

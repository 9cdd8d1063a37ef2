"""Time reading the worst inputs of each format at half a size and at the whole: a linear reader takes twice as long.

    python -m benchmarks.worst_input [--megabytes 10] [--only quotes] [--waits]

Each input is one that some step of reading could be quadratic in: a long run of one character in one line, many short
lines, many problems, marks that open and never close. With `--waits`: how long an event loop waits at most for its turn
while they are read in a thread of its process, and out of process as the web app reads them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from crossner_core.errors import WorkbenchError
from crossner_core.formats import read_bytes
from workbench.data import exchange
from workbench.out_of_process import call

# Characters: a longer line is refused at once.
LINE = 99_000
RUNS = {
    "quotes": '"', "letters": "x", "joiners": "\u200d", "blanks": " ", "opened": "([{", "stops": ". ",
    "marked words": '"a', "addresses": "http://a.b/c.", "apostrophes": "a'", "hyphens": "a-", "numbers": "1,",
}  # fmt: skip
_JSON: Mapping[str, Callable[[int], str]] = {
    "deep lists": lambda n: ("[" * LINE + "\n") * (n // LINE),
    "deep objects": lambda n: ('{"a":' * (LINE // 5) + "\n") * (n // LINE),
    "bad lines": lambda n: "{\n" * (n // 2),
    "long number": lambda n: ('{"text": ' + "9" * LINE + "}\n") * (n // LINE),
    "escapes": lambda n: ('{"text": "' + "\\u0041" * (LINE // 6) + '"}\n') * (n // LINE),
    "many spans": lambda n: (
        (json.dumps({"text": "Ada sang.", "gold": [{"start": 0, "end": 3, "type": "person"}] * (LINE // 45)}) + "\n")
        * (n // LINE)
    ),
    "many tokens": lambda n: (json.dumps({"text": "a " * 7000, "tokens": ["a"] * 7000}) + "\n") * (n // 49_000),
    "short lines": lambda n: '{"text": "a"}\n' * (n // 14),
}
_CONLL: Mapping[str, Callable[[int], str]] = {
    "many columns": lambda n: "Ada " + "x " * (n // 2),
    "bad tags": lambda n: "Ada\tQ-x\n" * (n // 8),
    "other widths": lambda n: "Ada\tO\nBen\tO\tO\n\n" * (n // 17),
    "one sentence": lambda n: "Ada\tI-person\n" * (n // 13),
    "comments": lambda n: "# x\n" * (n // 4),
}


def inputs(format: str, size: int) -> Iterator[tuple[str, str]]:
    """Yield named inputs of about `size` bytes for a format."""
    for name, run in RUNS.items():
        words = run * (LINE // len(run))
        if format == "plain":
            line = f"Ada {words} sang .\n\n"
        elif format == "jsonl":
            line = json.dumps({"text": f"Ada {words[: LINE // 2]} sang ."}, ensure_ascii=False) + "\n"
        else:
            line = "Ada\tB-person\n" + words.replace(" ", "_") + "\tO\n\n"
        yield name, line * (size // len(line.encode()))
    for name, make in {"jsonl": _JSON, "conll": _CONLL}.get(format, {}).items():
        yield name, make(size)


def main() -> None:
    """Print a line for each input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=10.0)
    parser.add_argument("--only", default="", help="inputs whose names contain this")
    parser.add_argument("--limit", type=int, default=60, help="seconds after which an input is given up")
    parser.add_argument("--waits", action="store_true", help="measure how long an event loop waits meanwhile")
    given = parser.parse_args()
    size = int(given.megabytes * 1e6)
    if given.waits:
        return asyncio.run(_waits(given.only, size))
    print(f"{'format':8} {'input':24} {'half':>7} {'whole':>7} {'memory':>8}  answer, of {size / 1e6:g} MB")
    for format in ("plain", "conll", "jsonl"):
        for (name, half), (_, whole) in zip(inputs(format, size // 2), inputs(format, size), strict=True):
            if given.only in name:
                (first, _, _), (second, memory, answer) = (
                    _measured(text, format, given.limit) for text in (half, whole)
                )
                print(f"{format:8} {name:24} {first:7.2f} {second:7.2f} {memory:5.0f} MB  {answer}", flush=True)


async def _waits(only: str, size: int) -> None:
    print(f"{size / 1e6:g} MB: longest wait of the event loop, and seconds in all")
    print(f"{'format':8} {'input':24} {'in a thread':>21} {'out of process':>21}")
    for format in ("plain", "conll", "jsonl"):
        for name, text in inputs(format, size):
            if only in name:
                data = text.encode()
                options = {"split": "paragraphs"} if format == "plain" else {}
                read = partial(exchange.preview, format=format, options=options)
                thread = await _longest_wait(partial(read, [("worst", data)]))
                apart = await _longest_wait(partial(call, exchange.preview, [("worst", data)], **read.keywords))
                columns = " ".join(f"{1000 * wait:8.0f} ms {whole:7.2f} s" for wait, whole in (thread, apart))
                print(f"{format:8} {name:24} {columns}", flush=True)


async def _longest_wait(work: Callable[[], object]) -> tuple[float, float]:
    """Return how many seconds late the loop was at most in waking up every 5 ms, and how long the work took."""
    began, longest = time.perf_counter(), 0.0
    task = asyncio.get_running_loop().run_in_executor(None, work)
    while not task.done():
        due = time.perf_counter() + 0.005
        await asyncio.sleep(0.005)
        longest = max(longest, time.perf_counter() - due)
    with suppress(WorkbenchError):  # a refusal takes its time, too
        await task
    return longest, time.perf_counter() - began


def _measured(text: str, format: str, limit: int) -> tuple[float, float, str]:
    """Return seconds, megabytes of memory and what came of reading, in a process of its own."""
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_read, args=(text, format, there))
    process.start()
    answer = here.recv() if here.poll(limit) else (float("inf"), 0.0, f"given up after {limit} s")
    process.kill()
    process.join()
    return answer


def _read(text: str, format: str, answer: multiprocessing.connection.Connection) -> None:
    data = text.encode()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    try:
        parsed = read_bytes(data, name="worst", format=format, **({"split": "paragraphs"} if format == "plain" else {}))
        said = f"{len(parsed.sentences)} sentences"
    except WorkbenchError as error:
        said = str(error).splitlines()[0][:70]
    seconds = time.perf_counter() - began
    answer.send((seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, said))


if __name__ == "__main__":
    main()

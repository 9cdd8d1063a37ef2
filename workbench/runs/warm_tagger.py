"""A process that keeps taggers in memory and predicts on request, so that no web process ever holds a model.

Requests and answers are lines of JSON on its standard input and output. It ends with its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crossner_core.errors import WorkbenchError
from crossner_core.records import read, to_json
from crossner_core.schema import Sentence, Suggestion
from workbench.out_of_process import environment, error_there

if TYPE_CHECKING:
    from crossner_core.training.predictor import Predictor

log = logging.getLogger(__name__)
KEPT = 2
"""Taggers that the process keeps; the one used longest ago goes first."""
SECONDS = 120.0
"""Until a request is given up and its process ended; loading a tagger is part of it."""
IDLE_SECONDS = 900.0
"""After so long without a request the process ends, and its memory is free."""
USUAL_THREADS = max(1, min(2, (os.cpu_count() or 1) // 2))
"""On a busy machine threads of one small prediction mostly wait for each other."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Suggestions for each sentence; `is_calibrated` is whether their scores were fitted to dev."""

    is_calibrated: bool
    suggestions: tuple[tuple[Suggestion, ...], ...]


class WarmTagger:
    """The process, started at the first request and again if it has ended; requests take turns."""

    def __init__(self, threads: int) -> None:
        self.threads = threads or USUAL_THREADS
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._last_use = 0.0

    def predict(self, folder: Path, sentences: Sequence[Sentence]) -> Predicted:
        """Predict with the tagger in a run's folder; raise CheckpointError if it is missing or damaged.

        Raises WorkbenchError if the process ends, or takes longer than `SECONDS`.
        """
        asked = {"folder": str(folder), "sentences": [_sent(sentence) for sentence in sentences]}
        line = json.dumps(asked).encode() + b"\n"
        with self._lock:
            answer = self._ask(line)
            self._last_use = time.monotonic()
        if error := answer.get("error"):
            raise error_there(**error)
        return read(Predicted, answer, "the answer of the process that predicts")

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _ask(self, line: bytes) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answered = _line(process.stdout, time.monotonic() + SECONDS)
        except (BrokenPipeError, TimeoutError) as error:
            self._end()
            why = f"took longer than {SECONDS:.0f} s" if isinstance(error, TimeoutError) else "ended"
            raise WorkbenchError(
                f"The process that predicts {why}, perhaps for lack of memory; send fewer or shorter sentences."
            ) from error
        except BaseException:  # an answer that nobody waits for must not be taken for the next one
            self._end()
            raise
        answer: dict[str, Any] = json.loads(answered)
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            # -P: files of the working directory (a `db` or `queue.py` of the user's) must not hide modules.
            command = [sys.executable, "-P", "-m", __name__, str(self.threads)]
            # Waiting threads must not spin: the web app shares the machine.
            own = {"OMP_WAIT_POLICY": "PASSIVE", **environment(), "OMP_NUM_THREADS": str(self.threads)}
            self._process = subprocess.Popen(
                command, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            threading.Thread(target=self._watch, args=(self._process,), daemon=True).start()
        return self._process

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """End the process once nobody has asked for a while."""
        self._last_use = time.monotonic()
        while process.poll() is None:
            time.sleep(min(30.0, IDLE_SECONDS / 2))
            with self._lock:
                if time.monotonic() - self._last_use >= IDLE_SECONDS and self._process is process:
                    self._end()

    def _end(self) -> None:
        if (process := self._process) is None:
            return
        self._process = None
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # a request that was not read
                    stream.close()


@cache
def of(threads: int) -> WarmTagger:
    """Return this process's warm tagger, made once for a number of threads (0: `USUAL_THREADS`)."""
    made = WarmTagger(threads)
    atexit.register(made.close)
    return made


def _line(stream: IO[bytes], deadline: float) -> bytes:
    """Read a line; raise TimeoutError after the deadline, BrokenPipeError at the end of the stream."""
    pieces = bytearray()
    with selectors.DefaultSelector() as ready:  # `select` takes no file number above 1,023, which a busy server has
        ready.register(stream, selectors.EVENT_READ)
        while not pieces.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not ready.select(left):
                raise TimeoutError
            piece = os.read(stream.fileno(), 1 << 16)
            if not piece:
                raise BrokenPipeError
            pieces += piece
    return bytes(pieces)


def _sent(sentence: Sentence) -> dict[str, Any]:
    tokens = [[token.start, token.end] for token in sentence.tokens]
    return {"id": sentence.id, "text": sentence.text, "tokens": [{"start": start, "end": end} for start, end in tokens]}


def _answer(line: bytes, kept: OrderedDict[tuple[str, int], Predictor]) -> dict[str, Any]:
    asked = json.loads(line)
    sentences = [read(Sentence, sentence, "sentence") for sentence in asked["sentences"]]
    try:
        predictor = _tagger(Path(asked["folder"]), kept)
        return {
            "is_calibrated": bool(predictor.meta.get("calibration")),
            "suggestions": [to_json(suggestions) for suggestions in predictor.predict(sentences)],
        }
    except WorkbenchError as error:
        return {"error": {"kind": type(error).__name__, "message": str(error)}}


def _tagger(folder: Path, kept: OrderedDict[tuple[str, int], Predictor]) -> Predictor:
    """Return the tagger in a folder, loaded unless it is kept as it is there now."""
    from crossner_core.training.predictor import load_tagger

    files = (folder / "tagger" / "meta.json", folder / "meta.json")
    written = next((file.stat().st_mtime_ns for file in files if file.is_file()), 0)
    key = (str(folder), written)
    if key not in kept:
        kept[key] = load_tagger(folder)
        while len(kept) > KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


def main() -> None:
    """Answer requests until standard input ends; what libraries print goes to standard error."""
    from crossner_core.training.machine import prepare

    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        prepare(int(sys.argv[1]))
        kept: OrderedDict[tuple[str, int], Predictor] = OrderedDict()
        for line in sys.stdin.buffer:
            answers.write(json.dumps(_answer(line, kept)).encode() + b"\n")
            answers.flush()


if __name__ == "__main__":
    main()

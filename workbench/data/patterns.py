"""Regular expressions that people type: matched by a process of its own, which is ended when it takes too long.

Python's `re` holds the interpreter's lock while it matches, and a small expression can keep it for years.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, Conflict
from db import search_rows
from db.engine import Session, Store

SECONDS = 3
"""Seconds of processor time that an expression gets; a usual one reads 200,000 sentences in one."""
PATIENCE = 15
"""Seconds after which it is stopped on a machine that is busy with other things."""
_AT_ONCE = threading.BoundedSemaphore(2)
_WAIT = 30.0
_CHILD = Path(__file__).with_name("pattern_child.py")
_MOST_KEPT, _PIECE = 16, 1_000
_kept: OrderedDict[tuple[Any, ...], array[int]] = OrderedDict()
_keeping = threading.Lock()

Ranges = tuple[tuple[int, int], ...]
"""Characters `[start, end)` of the matches in a text."""


def matching_ids(store: Store, session: Session, campaign_id: int, pattern: str) -> array[int]:
    """Return the ids of a campaign's sentences that an expression matches; kept for the next page of the list.

    Raises BadInput for an expression that is wrong or takes more than `SECONDS`.
    """
    key = (store.url, campaign_id, *search_rows.text_state(session, campaign_id), pattern)
    with _keeping:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    ids, texts = search_rows.texts(session, campaign_id)
    matched = array("q", (ids[number] for number in _run(pattern, texts, ranges=False)))
    with _keeping:
        _kept[key] = matched
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return matched


def ranges_of(pattern: str, texts: Sequence[str]) -> list[Ranges]:
    """Return where an expression matches in each text; raises as `matching_ids` does."""
    return [tuple((start, end) for start, end in spans) for spans in _run(pattern, texts, ranges=True)]


def ranges_of_text(wanted: str, texts: Sequence[str]) -> list[Ranges]:
    """Return where a text occurs in each text, whatever its case; this takes no longer than reading them."""
    expression = re.compile(re.escape(wanted), re.IGNORECASE)
    return [tuple(match.span() for match in expression.finditer(text)) for text in texts]


def _run(pattern: str, texts: Sequence[str], *, ranges: bool) -> list[Any]:
    if not _AT_ONCE.acquire(timeout=_WAIT):
        raise Conflict("Two other searches by regular expression are under way; try again in a moment.")
    try:
        return _answer(pattern, b"\n".join(_lines(pattern, texts, ranges)))
    finally:
        _AT_ONCE.release()


def _lines(pattern: str, texts: Sequence[str], ranges: bool) -> Iterator[bytes]:
    """Yield what the process reads, in pieces: making JSON of everything at once would hold up all other requests."""
    yield json.dumps({"pattern": pattern, "ranges": ranges}).encode()
    for first in range(0, len(texts), _PIECE):
        yield json.dumps(texts[first : first + _PIECE]).encode()


def _answer(pattern: str, request: bytes) -> list[Any]:
    command = [sys.executable, "-I", "-S", "-W", "ignore", str(_CHILD), str(SECONDS)]
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode < 0 or b"MemoryError" in done.stderr:
        raise BadInput(
            f"The expression {pattern!r} was stopped: it takes more than {SECONDS} seconds or too much memory. Avoid "
            "a repetition inside a repetition, such as (a+)+, and several .* in one expression."
        )
    if done.returncode:
        raise RuntimeError(f"Matching an expression failed: {done.stderr.decode(errors='replace')[-2000:]}")
    answer = json.loads(done.stdout)
    if "problem" in answer:
        raise BadInput(
            f"{pattern!r} is no regular expression: {answer['problem']}. To find these characters as they are, search "
            "for text instead, or put \\ before a sign such as ( [ * + ?."
        )
    return list(answer["result"])

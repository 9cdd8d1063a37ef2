"""Downloads belong to the browser they were made for: the gate remembers which addresses it has sent to whom."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

FOLDER = "/media/"
"""Where the frontend serves what a page offers to download; an address there is a hash of its content."""

_ADDRESS = re.compile(rb"/media/[A-Za-z0-9_-]{8,80}(?:\.[A-Za-z0-9]{1,16})?")
_START = FOLDER.encode()
_MOST_BROWSERS = 2_000
_MOST_ADDRESSES = 500


class Downloads:
    """Addresses by session, the oldest forgotten first; a page that is drawn again sends its addresses again."""

    def __init__(self) -> None:
        self._sent: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, session: str, message: bytes) -> None:
        """Remember the addresses in a message that goes to a session's browser."""
        if not (named := list(_addresses(message))):
            return
        with self._lock:
            addresses = self._sent.setdefault(session, OrderedDict())
            self._sent.move_to_end(session)
            for address in named:
                addresses[address] = None
                addresses.move_to_end(address)
            _shorten(addresses, _MOST_ADDRESSES)
            _shorten(self._sent, _MOST_BROWSERS)

    def may(self, session: str, path: str) -> bool:
        """Return whether this address was sent to this session's browser."""
        with self._lock:
            return path in self._sent.get(session, ())


def _addresses(message: bytes) -> Iterator[str]:
    """Yield the addresses in a message of the frontend: texts of protobuf, each after a byte with its length."""
    start = message.find(_START, 1)
    while start != -1:
        text = message[start : start + message[start - 1]]
        if _ADDRESS.fullmatch(text):
            yield text.decode()
        start = message.find(_START, start + 1)


def _shorten(kept: OrderedDict[str, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)

"""Known names in running text, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from crossner_core.gazetteer.name_bits import NameBits

LONGEST = 320  # characters of a key; longer names are not kept (a title has 255 bytes at most)
_TOGETHER = 256  # sentences; enough for the arrays to pay, and little memory

Match = tuple[int, int, int]


class Scanner:
    """Finds the keys of a trie among tokens, after a filter that turns most places away for many sentences at once."""

    def __init__(self, trie: Any, bits: NameBits) -> None:
        self._trie, self._bits = trie, bits

    def matches(self, rows: Sequence[Sequence[str]]) -> list[list[Match]]:
        """Return every key among the tokens of each row as (start, end, key number), by start, longest first."""
        return self._in_parts(rows, every=True)

    def scan(self, rows: Sequence[Sequence[str]]) -> list[list[Match]]:
        """Return those of `matches` that win leftmost-longest; none overlap."""
        return self._in_parts(rows, every=False)

    def _in_parts(self, rows: Sequence[Sequence[str]], *, every: bool) -> list[list[Match]]:
        found: list[list[Match]] = []
        for low in range(0, len(rows), _TOGETHER):
            found += self._found(rows[low : low + _TOGETHER], every=every)
        return found

    def _found(self, rows: Sequence[Sequence[str]], *, every: bool) -> list[list[Match]]:
        found: list[list[Match]] = [[] for _ in rows]
        if not all(map(_is_plain, map(" ".join, rows), rows)):
            rows = [[_spelt(word) for word in words] for words in rows]
        words, starts, ends, row_of = self._bits.candidates(rows)
        begins = list(accumulate(map(len, rows), initial=0))
        get, free = self._trie.get, 0
        for start, end, row in zip(starts.tolist(), ends.tolist(), row_of.tolist(), strict=True):
            if start < free:
                continue
            key = get(words[start] if end == start + 1 else " ".join(words[start:end]))
            if key is not None:
                begin = begins[row]
                found[row].append((start - begin, end - begin, key))
                if not every:
                    free = end
        return found


def _is_plain(text: str, words: Sequence[str]) -> bool:
    return "’" not in text and "\0" not in text and text.count(" ") == max(len(words) - 1, 0)


def _spelt(word: str) -> str:
    """Return a token as keys spell it.

    One with a space inside can be part of no name, nor one with a NUL, where the trie would stop reading. No key holds
    a control character, so either becomes one.
    """
    return word.replace("’", "'").replace(" ", "\1").replace("\0", "\1")

"""Guess a file's format from its suffix and its first lines."""

from __future__ import annotations

from itertools import islice
from pathlib import PurePath

from crossner_core.formats.base import HEAD, Format, format_ids, get_format
from crossner_core.formats.source import Data, Source, content_of, decode, head_of
from crossner_core.tags import is_tag

_AMBIGUOUS = {".txt", ""}
_SAMPLE = 400
_HEAD = 1_000_000


def guess_format(name: str, data: Data) -> Format:
    """Return the format that a file's beginning or its suffix names; for `.txt` and unknown suffixes its lines decide.

    Raises BadInput for an empty file and one that is not UTF-8 text at all.
    """
    suffix, begins = PurePath(name).suffix.lower(), head_of(data, HEAD)
    for known in map(get_format, format_ids()):
        if known.content is not None and known.content.search(begins):
            return known
    if suffix not in _AMBIGUOUS:
        named = [known for known in map(get_format, format_ids()) if suffix in known.suffixes and not known.is_chosen]
        if named:  # one that would be known by its beginning comes last
            return min(named, key=lambda known: known.content is not None)
    head = head_of(data, _HEAD)
    return get_format(_by_content(decode(head if head.strip() else content_of(data), name)))


def _by_content(source: Source) -> str:
    lines = list(islice((line for line in source.lines if line.strip()), _SAMPLE))
    if lines and lines[0].lstrip().startswith("{") and lines[0].rstrip().endswith("}"):
        return "jsonl"
    return "conll" if _looks_like_columns(lines, source) else "plain"


def _looks_like_columns(lines: list[str], source: Source) -> bool:
    """Tell columns from prose: tabs, tags at the end, or single words with blank lines between sentences."""
    if any(line.startswith("-DOCSTART-") for line in lines):
        return True
    lines = [line for line in lines if not line.startswith("# ")]
    rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
    tabbed = sum("\t" in line for line in lines)
    tagged = sum(len(row) > 1 and is_tag(row[-1].strip()) for row in rows)
    if rows and max(tabbed, tagged) >= 0.5 * len(rows):  # half: a file with broken rows is still a column file
        return True
    has_blank = any(not line.strip() for line in source.lines[: 4 * _SAMPLE])
    return has_blank and all(len(row) == 1 for row in rows)

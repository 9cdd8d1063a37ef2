"""The speed of reading a dump's pages, and whether both readers agree.

    python -m benchmarks.wikipedia_parsing --dump FILE [FILE …]

Prints pages, fallbacks by reason, pages/s of both readers (CPU time, fallback pages included) and their ratio, and the
pages on which they differ in paragraphs, links, categories or templates. Exit 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import bz2
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from crossner_core.wikipedia.markup import Extract, Unreadable
from crossner_core.wikipedia.wikitext import extract, extract_slow

RATIO, SAME = 8.0, 0.995
Reader = Callable[[str, str], Extract]


def pages(dump: Path) -> Iterator[tuple[str, str]]:
    """Yield title and wikitext of each page of a dump, bz2 or plain."""
    with bz2.open(dump) if dump.suffix == ".bz2" else dump.open("rb") as stream:
        for _, element in ElementTree.iterparse(stream):
            if element.tag.endswith("}page"):
                space = element.tag.removesuffix("page")
                revision = element.find(f"{space}revision")
                text = "" if revision is None else revision.findtext(f"{space}text") or ""
                yield element.findtext(f"{space}title") or "", text
                element.clear()


def seconds(reader: Reader, batch: list[tuple[str, str]]) -> float:
    """Measure the CPU time of reading pages."""
    start = time.process_time()
    for title, text in batch:
        _read(reader, title, text)
    return time.process_time() - start


def _read(reader: Reader, title: str, text: str) -> Extract | None:
    try:
        return reader(text, title)
    except Unreadable:
        return None


def differing(batch: list[tuple[str, str]]) -> tuple[list[str], Counter[str]]:
    """Return the titles on which the readers differ, and how many pages each parser read (by reason)."""
    titles: list[str] = []
    parsers: Counter[str] = Counter()
    for title, text in batch:
        fast, slow = _read(extract, title, text), _read(extract_slow, title, text)
        if fast is None:
            parsers["unreadable"] += 1
        else:
            parsers[f"{fast.parser}: {fast.reason}" if fast.reason else fast.parser] += 1
        if _content(fast) != _content(slow):
            titles.append(title)
    return titles, parsers


def _content(read: Extract | None) -> tuple[object, ...] | None:
    return None if read is None else (read.paragraphs, read.categories, read.templates)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 0 if the bars are reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", type=Path, nargs="+", required=True, help="pages-articles XML, bz2 or plain")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of measuring; the best of each reader counts")
    options = parser.parse_args(arguments)
    batch = [page for dump in options.dump for page in pages(dump)]
    unequal, parsers = differing(batch)
    rounds = [(seconds(extract, batch), seconds(extract_slow, batch)) for _ in range(options.rounds)]
    fast, slow = min(first for first, _ in rounds), min(second for _, second in rounds)
    same = 1 - len(unequal) / len(batch) if batch else 0.0
    print(f"pages      {len(batch)}")
    for name, count in parsers.most_common():
        print(f"  {count:6d}  {name}")
    print(f"fast       {len(batch) / fast:8.1f} pages/s of CPU time (with its fallbacks)")
    print(f"slow       {len(batch) / slow:8.1f} pages/s (mwparserfromhell)")
    print(f"ratio      {slow / fast:8.2f}  (bar {RATIO})")
    print(f"same       {100 * same:8.2f} % (bar {100 * SAME}); differing: {', '.join(unequal) or 'none'}")
    return 0 if slow / fast >= RATIO and same >= SAME else 1


if __name__ == "__main__":
    sys.exit(main())

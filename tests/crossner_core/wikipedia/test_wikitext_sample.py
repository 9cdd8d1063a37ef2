"""The real sample: both readers agree, no markup is left, and links are those checked by hand in the wikitext."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.wikipedia_parsing import differing, pages
from crossner_core.wikipedia.markup import Extract
from crossner_core.wikipedia.wikitext import extract
from tests.support.paths import ROOT

DUMPS = ("enwiki-sample-206-pages.xml.bz2", "enwiki-table-markup.xml.bz2")
CHECKED = ROOT / "tests" / "data" / "wikipedia_links.jsonl"
LEFT_OVER = re.compile(r"\{\{|\}\}|\[\[|\]\]|''|</?[a-z]+>|&[a-z]+;|\(\s*[,;]|\|thumb|[\x00-\x1f\u200b]")


@pytest.fixture(scope="module")
def batch(shared: Path) -> list[tuple[str, str]]:
    folder = shared / "data" / "wikipedia"
    if not all((folder / name).is_file() for name in DUMPS):
        pytest.skip(f"no Wikipedia sample in {folder}")
    return [page for name in DUMPS for page in pages(folder / name)]


@pytest.fixture(scope="module")
def extracts(batch: list[tuple[str, str]]) -> list[Extract]:
    return [extract(text, title) for title, text in batch]


def test_both_readers_agree_on_every_page(batch: list[tuple[str, str]]) -> None:
    unequal, parsers = differing(batch)
    assert unequal == []
    assert parsers["fast"] >= 0.9 * len(batch)


def test_no_markup_is_left(extracts: list[Extract]) -> None:
    found = [
        paragraph.text[max(match.start() - 30, 0) : match.end() + 30]
        for read in extracts
        for paragraph in read.paragraphs
        for match in LEFT_OVER.finditer(paragraph.text)
    ]
    assert len(found) <= 2, found


def test_offsets_of_links_lie_in_their_paragraph(extracts: list[Extract]) -> None:
    for read in extracts:
        for paragraph in read.paragraphs:
            for link in paragraph.links:
                assert paragraph.text[link.start : link.end].strip() == paragraph.text[link.start : link.end] != ""


def test_links_are_those_checked_by_hand(shared: Path) -> None:
    from tests.support.wikitext_checking import by_page  # late: it reads the dumps

    checked = [json.loads(line) for line in CHECKED.read_text(encoding="utf-8").splitlines()]
    assert len(checked) >= 60
    read = by_page([shared / "data" / "wikipedia" / name for name in DUMPS])
    for row in checked:
        full, links = read[row["page"], row["revision"]]
        start, end = row["offset"], row["offset"] + row["length"]
        assert start == 0 or full[start - 1].isspace(), row
        assert full[start].isupper() or full[start].isdigit(), row
        found = [[a - start, b - start, target] for a, b, target in links if a < end and b > start]
        assert found == row["links"], row

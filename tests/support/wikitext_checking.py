"""Extracts of a dump's pages by page and revision, with links relative to the page's whole text."""

from __future__ import annotations

import bz2
from pathlib import Path
from xml.etree import ElementTree

from crossner_core.wikipedia.wikitext import extract

Read = tuple[str, list[tuple[int, int, str]]]


def by_page(dumps: list[Path]) -> dict[tuple[int, int], Read]:
    """Read every page of the dumps."""
    found: dict[tuple[int, int], Read] = {}
    for dump in dumps:
        with bz2.open(dump) as stream:
            for _, page in ElementTree.iterparse(stream):
                if not page.tag.endswith("}page"):
                    continue
                space = page.tag.removesuffix("page")
                key = int(page.findtext(f"{space}id", "0")), int(page.findtext(f"{space}revision/{space}id", "0"))
                found[key] = _read(
                    page.findtext(f"{space}revision/{space}text", ""), page.findtext(f"{space}title", "")
                )
                page.clear()
    return found


def _read(text: str, title: str) -> Read:
    read = extract(text, title)
    links, at = [], 0
    for paragraph in read.paragraphs:
        links += [(at + link.start, at + link.end, link.target) for link in paragraph.links]
        at += len(paragraph.text) + 2
    return read.text, links

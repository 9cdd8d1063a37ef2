"""Small dumps of our own, and an annotator that workers can open by its name."""

from __future__ import annotations

import bz2
import os
import random
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from crossner_core.gazetteer.candidates import PageContext
from crossner_core.schema import Mention, Sentence
from crossner_core.wikipedia.annotating import AnnotatorSpec, PageAnnotator
from crossner_core.wikipedia.shards import BuildConfig

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Testwiki</sitename>
    <dbname>testwiki</dbname>
    <generator>MediaWiki 1.45.0</generator>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="4" case="first-letter">Testwiki</namespace>
      <namespace key="14" case="first-letter">Category</namespace>
    </namespaces>
  </siteinfo>
"""
END = "</mediawiki>\n"
SMALL = BuildConfig(shard_mb=1)


def page(
    id: int, title: str, text: str, *, ns: int | None = 0, redirect: str = "", model: str = "wikitext", more: str = ""
) -> str:
    """Write one page as a dump does; `more` goes before its revision."""
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n"
        + (f"    <ns>{ns}</ns>\n" if ns is not None else "")
        + f"    <id>{id}</id>\n"
        + (f"    <redirect title={quoteattr(redirect)} />\n" if redirect else "")
        + more
        + revision(id * 10, text, model)
        + "  </page>\n"
    )


def revision(id: int, text: str, model: str = "wikitext") -> str:
    return (
        f"    <revision>\n      <id>{id}</id>\n      <model>{model}</model>\n"
        f'      <text xml:space="preserve">{escape(text)}</text>\n    </revision>\n'
    )


def article(id: int, sentences: int = 4, *, padding: int = 0) -> str:
    """Write a page of plain prose whose words depend on its number; `padding` adds a comment of so many bytes."""
    hidden = f"<!-- {random.Random(id).randbytes(padding // 2).hex()} -->"
    prose = " ".join(
        f"The [[Lighthouse {id}|lighthouse]] of Harbour{id} was lit {n} times by Keeper{id + n}."
        for n in range(sentences)
    )
    return page(id, f"Harbour {id}", f"'''Harbour {id}''' is a village.\n\n{prose}\n\n{hidden}[[Category:Harbours]]")


def write_dump(path: Path, pages: Sequence[str], *, streams: int = 0) -> Path:
    """Write a bz2 dump; `streams` pages to a stream, as in a multistream dump, or one stream for all."""
    if not streams:
        path.write_bytes(bz2.compress((HEAD + "".join(pages) + END).encode()))
        return path
    parts = ["".join(pages[at : at + streams]) for at in range(0, len(pages), streams)]
    path.write_bytes(b"".join(bz2.compress(part.encode()) for part in (HEAD, *parts, END)))
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its bytes."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class CapitalAnnotator:
    """Takes each capitalised word that is no first word for a place."""

    def mentions(
        self, sentences: Sequence[Sentence], *, context: PageContext | None = None
    ) -> list[tuple[Mention, ...]]:
        title = context.title if context is not None else ""
        return [tuple(self._of(sentence, title)) for sentence in sentences]

    def _of(self, sentence: Sentence, title: str) -> Iterable[Mention]:
        for at, word in enumerate(sentence.words):
            if at and word[0].isupper():
                yield Mention(at, at + 1, title, ("Place", "Thing"), None, "test", 0.5)


def open_capitals(spec: AnnotatorSpec) -> PageAnnotator:
    return CapitalAnnotator()


CAPITALS = AnnotatorSpec("nowhere", "0" * 64, opener="tests.support.dump_builders:open_capitals")


def die(spec: AnnotatorSpec) -> PageAnnotator:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError

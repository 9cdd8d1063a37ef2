"""Read facts from a Wikipedia dump: the class of a page is that of the infobox it begins with."""

from __future__ import annotations

import gzip
import html
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from crossner_core.gazetteer.facts import Count, Fact, Label, Redirect, Typed
from crossner_core.gazetteer.infoboxes import (
    Box,
    InfoboxMappings,
    is_disambiguation,
    lead_boxes,
    parameters,
    stubs,
    template_title,
    without_comments,
)
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree
from crossner_core.gazetteer.titles import title_of
from crossner_core.wikipedia.dump import ARTICLE, TEMPLATE, Page, SiteInfo, open_dump, read_pages

NAMED = 20  # templates a report names
HELD_TARGETS = 500_000  # link targets counted before their sums are yielded
LONGEST_HELD = 20_000  # characters of a box kept for the second reading

_LINK = re.compile(r"\[\[\s*(?P<target>[^\[\]{}|<>\n]+)")
_ARGUMENT = re.compile(r"\|[^|={}]*=")


@dataclass
class WikipediaReport:
    """What became of the pages of a dump.

    `articles` are the pages with text of their own: `disambiguations` left out, `by_infobox`, `by_stub` or `untyped`.
    `unknown` counts the infobox templates without a mapping by pages; `unread` the boxes that could not be parsed.
    """

    pages: int = 0
    articles: int = 0
    redirects: int = 0
    other: int = 0
    disambiguations: int = 0
    by_infobox: int = 0
    by_stub: int = 0
    untyped: int = 0
    unread: int = 0
    links: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def says(self) -> Iterator[str]:
        """Yield a line for each problem worth reporting."""
        if self.unknown:
            top = ", ".join(f"{name} ({n:,})" for name, n in self.unknown.most_common(NAMED))
            more = f" and {len(self.unknown) - NAMED:,} more" if len(self.unknown) > NAMED else ""
            yield (
                f"{sum(self.unknown.values()):,} times a page begins with an infobox template that has no "
                f"mapping: {top}{more}. The mappings may be older than the dump; get newer ones."
            )
        if self.unread:
            yield f"{self.unread:,} infoboxes could not be parsed; their pages have the class that needs no parameter."


class WikipediaFacts:
    """Reads the facts of a dump, once; `report` is complete when they are."""

    def __init__(
        self,
        dump: Path,
        mappings: InfoboxMappings,
        *,
        tree: ClassTree = BUILTIN,
        on_problem: Callable[[str], None],
        allow_truncated: bool = False,
    ) -> None:
        self._dump, self._mappings, self._tree = dump, mappings, tree
        self._on_problem, self._allow_truncated = on_problem, allow_truncated
        self.report = WikipediaReport()

    def __iter__(self) -> Iterator[Fact]:
        """Yield the facts: a label, the classes and the redirects of pages, and how often each is linked to.

        Template redirects may be anywhere in a dump, so pages that begin with a template without a mapping are set
        aside in a temporary file and read again at the end.
        """
        for cls, templates in self._mappings.unknown_classes(self._tree).items():
            self._on_problem(
                f"Class {cls} of {len(templates)} mappings ({', '.join(templates[:3])}) is not in the ontology "
                f"({self._tree.source}); it has a type only where a domain maps it by name."
            )
        with open_dump(self._dump) as head:
            site = head.site
        links, renamed = _Links(site), dict[str, str]()
        with tempfile.TemporaryFile() as file:
            with gzip.open(file, "wt", compresslevel=1, encoding="utf-8") as aside:
                for page in read_pages(self._dump, on_problem=self._on_problem, allow_truncated=self._allow_truncated):
                    self.report.pages += 1
                    if page.namespace == TEMPLATE and page.redirect is not None:
                        renamed[page.title.partition(":")[2]] = page.redirect.partition(":")[2]
                    yield from self._page(page, links, aside)
            yield from links.counts()
            file.seek(0)
            with gzip.open(file, "rt", encoding="utf-8") as again:
                yield from self._second_reading(again, renamed)
        self.report.links = links.seen
        for line in self.report.says():
            self._on_problem(line)

    def _page(self, page: Page, links: _Links, aside: IO[str]) -> Iterator[Fact]:
        if page.namespace != ARTICLE:
            self.report.other += 1
            return
        if page.redirect is not None:
            self.report.redirects += 1
            if links.is_article(target := title_of(page.redirect)):
                yield Redirect(page.title, target)
            return
        self.report.articles += 1
        text = without_comments(page.text)
        if is_disambiguation(page.title, text):
            self.report.disambiguations += 1
            return
        yield Label(page.title, page.title)
        yield from links.count(text)
        boxes = list(lead_boxes(text))
        weak = stubs(text)
        if classes := self._classes(boxes, self._mappings):
            yield from self._typed(page.title, classes, "by_infobox")
        elif held := [box for box in boxes if self._may_be_box(box)]:
            kept = [[box.name, box.wikitext[:LONGEST_HELD]] for box in held]
            aside.write(json.dumps([page.title, kept, weak], ensure_ascii=False) + "\n")
        else:
            yield from self._by_stub(page.title, weak, self._mappings)

    def _may_be_box(self, box: Box) -> bool:
        unmapped = self._mappings.mapped(box.name) is None
        return unmapped and (box.is_infobox or _ARGUMENT.search(box.wikitext) is not None)

    def _second_reading(self, again: IO[str], renamed: Mapping[str, str]) -> Iterator[Fact]:
        mappings = self._mappings.with_redirects(renamed) if renamed else self._mappings
        for line in again:
            title, held, weak = json.loads(line)
            boxes = [Box(name, wikitext) for name, wikitext in held]
            if classes := self._classes(boxes, mappings):
                yield from self._typed(title, classes, "by_infobox")
                continue
            self.report.unknown.update(
                {box.name for box in boxes if box.is_infobox and mappings.mapped(box.name) is None}
            )
            yield from self._by_stub(title, weak, mappings)

    def _classes(self, boxes: Sequence[Box], mappings: InfoboxMappings) -> list[str]:
        """Return the classes of the boxes a page begins with, in order."""
        classes = []
        for box in boxes:
            given: Mapping[str, str] | None = None
            if mappings.is_conditional(box.name):
                given = parameters(box.wikitext)
                self.report.unread += given is None
            if (cls := mappings.class_of(box.name, given)) is not None:
                classes.append(cls)
        return list(dict.fromkeys(classes))

    def _by_stub(self, title: str, weak: Sequence[str], mappings: InfoboxMappings) -> Iterator[Fact]:
        """Yield the classes of stub notices, which say less than an infobox and count only where there is none."""
        found = (mappings.class_of(template_title(name)) for name in weak)
        if classes := list(dict.fromkeys(cls for cls in found if cls is not None)):
            yield from self._typed(title, classes, "by_stub")
        else:
            self.report.untyped += 1

    def _typed(self, title: str, classes: Sequence[str], how: str) -> Iterator[Fact]:
        setattr(self.report, how, getattr(self.report, how) + 1)
        for cls in classes:
            yield Typed(title, cls)


class _Links:
    """Counts how often pages are linked to, in bounded memory."""

    def __init__(self, site: SiteInfo) -> None:
        self._prefixes = frozenset(name.casefold() for name, number in site.namespaces.items() if name and number != 0)
        self._held: Counter[str] = Counter()
        self.seen = 0

    def is_article(self, title: str) -> bool:
        """Tell by its namespace whether a title is that of an article."""
        prefix, colon, _ = title.partition(":")
        return bool(title) and not (colon and prefix.strip().casefold() in self._prefixes)

    def count(self, text: str) -> Iterator[Count]:
        """Count the links of a page's wikitext; yield sums when too many are held."""
        for match in _LINK.finditer(text):
            target = match["target"]
            if "&" in target:
                target = html.unescape(target)
            if "%" in target:
                target = unquote(target)
            title = title_of(target)
            if self.is_article(title):
                self.seen += 1
                self._held[title] += 1
        if len(self._held) >= HELD_TARGETS:
            yield from self.counts()

    def counts(self) -> Iterator[Count]:
        """Yield the sums held."""
        yield from (Count(title, n) for title, n in self._held.items())
        self._held.clear()

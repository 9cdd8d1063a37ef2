"""One page of a dump to its row in the table of pages and its sentences, with the counts that must add up."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from crossner_core.schema import Sentence
from crossner_core.wikipedia import sentences as steps
from crossner_core.wikipedia.annotating import open_annotator
from crossner_core.wikipedia.columns import CATEGORY as IS_CATEGORY
from crossner_core.wikipedia.columns import KEPT, REDIRECT, SKIPPED, CorpusSentence, PageRow
from crossner_core.wikipedia.manifest import Counts
from crossner_core.wikipedia.markup import Unreadable
from crossner_core.wikipedia.page import ARTICLE, CATEGORY, Extract, Page
from crossner_core.wikipedia.wikitext import extract

if TYPE_CHECKING:
    from crossner_core.wikipedia.shards import ShardSettings

READER = 1
"""To be counted up when other things are read out of the same page: shards of an older reader are made again."""

NAMESPACE, EMPTY, DISAMBIGUATION, NO_PROSE = "namespace", "empty", "disambiguation", "no prose"
_DISAMBIGUATIONS = frozenset(
    {
        "dab", "disam", "disamb", "disambig", "hndis", "geodis", "hospitaldis", "schooldis", "roaddis", "mathdab",
        "callsigndis", "chemistrydis", "geodis-cleanup", "hndis-cleanup", "disambig-cleanup", "disambiguation cleanup",
        "mil-unit-dis", "numberdis", "letternumbercombdisambig", "letter-numbercombdisambig", "wp disambig", "sia-dab",
        "letter–number combination disambiguation", "disambiguation page", "tla disambiguation",
    }
)  # fmt: skip


def is_disambiguation(templates: tuple[str, ...]) -> bool:
    """Tell by its templates whether a page only lists what a name may stand for."""
    names = (name.casefold().replace("_", " ") for name in templates)
    return any(name in _DISAMBIGUATIONS or name.endswith(("disambiguation", " disambig")) for name in names)


class PageReader:
    """Reads pages one after another and counts."""

    def __init__(self, settings: ShardSettings) -> None:
        self._site, self._rules = settings.site, settings.config.rules
        self._annotator = open_annotator(settings.annotator) if settings.annotator is not None else None
        self._numbers: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._fallback: Counter[str] = Counter()
        self._tally = steps.Tally()

    def read(self, page: Page, problem: str) -> tuple[PageRow, list[CorpusSentence]]:
        """Read a page; `problem` says why it has no wikitext, "" where it has."""
        self._numbers["pages"] += 1
        if problem:
            return self._skip(page, problem)
        if page.redirect is not None:
            self._numbers["redirects"] += 1
            return self._row(page, REDIRECT, redirect=page.redirect), []
        if page.namespace not in (ARTICLE, CATEGORY):
            return self._skip(page, NAMESPACE)
        if not page.text.strip() and page.namespace == ARTICLE:
            return self._skip(page, EMPTY)
        try:
            found = extract(page.text, page.title)
        except Unreadable as error:
            return self._skip(page, str(error))
        self._count_parser(found)
        if page.namespace == CATEGORY:
            self._numbers["categories"] += 1
            return self._row(page, IS_CATEGORY, found=found), []
        if is_disambiguation(found.templates):
            return self._skip(page, DISAMBIGUATION, found)
        rows = steps.page_sentences(page, found, self._site.dbname, self._rules, self._tally)
        if not rows:
            return self._skip(page, NO_PROSE, found)
        return self._keep(page, found, rows)

    @property
    def counts(self) -> Counts:
        """What was read so far."""
        events = self._tally.events
        return Counts(
            **self._numbers,
            stretched=events[steps.STRETCHED],
            lost_links=events[steps.LOST],
            rejoined=events[steps.REJOINED],
            skipped=dict(sorted(self._skipped.items())),
            fallback=dict(sorted(self._fallback.items())),
            dropped=dict(sorted(self._tally.dropped.items())),
        )

    def _keep(self, page: Page, found: Extract, rows: list[Sentence]) -> tuple[PageRow, list[CorpusSentence]]:
        items = self._annotated(page, found, rows)
        sizes = {
            "paragraphs": len(found.paragraphs),
            "sentences": len(rows),
            "tokens": sum(len(row.tokens) for row in rows),
            "links": sum(len(row.links) for row in rows),
        }
        self._numbers.update(sizes)
        self._numbers["kept"] += 1
        self._numbers["mentions"] += sum(len(item.mentions or ()) for item in items)
        return self._row(page, KEPT, found=found, sizes=sizes), items

    def _annotated(self, page: Page, found: Extract, rows: list[Sentence]) -> list[CorpusSentence]:
        if self._annotator is None:
            return [CorpusSentence(row, None) for row in rows]
        from crossner_core.gazetteer.context import PageContext

        mentions = self._annotator.mentions(rows, context=PageContext(page.title, found.categories))
        return [CorpusSentence(row, tuple(one)) for row, one in zip(rows, mentions, strict=True)]

    def _count_parser(self, found: Extract) -> None:
        if found.parser == "fast":
            self._numbers["fast"] += 1
        else:
            self._fallback[found.reason] += 1

    def _skip(self, page: Page, reason: str, found: Extract | None = None) -> tuple[PageRow, list[CorpusSentence]]:
        self._skipped[reason] += 1
        return self._row(page, SKIPPED, reason=reason, found=found), []

    def _row(
        self,
        page: Page,
        status: str,
        *,
        reason: str = "",
        redirect: str = "",
        found: Extract | None = None,
        sizes: dict[str, int] | None = None,
    ) -> PageRow:
        return PageRow(
            page.id,
            page.revision,
            page.title,
            page.namespace,
            status,
            reason,
            redirect,
            parser=found.parser if found else "",
            parser_reason=found.reason if found else "",
            categories=found.categories if found else (),
            templates=found.templates if found else (),
            **(sizes or {}),
        )

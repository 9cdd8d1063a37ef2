"""What a dump holds and what is read out of a page's wikitext."""

from __future__ import annotations

from dataclasses import dataclass

ARTICLE, TEMPLATE, CATEGORY = 0, 10, 14


@dataclass(frozen=True, slots=True)
class Page:
    """One `<page>` of a dump with its newest revision; `redirect` is the title it points to, None for others."""

    id: int
    title: str
    namespace: int
    revision: int
    redirect: str | None
    text: str


@dataclass(frozen=True, slots=True, order=True)
class CharLink:
    """A link over characters `[start, end)` of a paragraph's text, with the title it points to (no fragment)."""

    start: int
    end: int
    target: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text of a page: one block of prose, with the heading it stands under ("" before the first)."""

    section: str
    text: str
    links: tuple[CharLink, ...]


@dataclass(frozen=True, slots=True)
class Extract:
    """What is read out of one page's wikitext.

    `templates` are the titles of the templates used outside other templates, in order, and `categories` the titles
    of the categories named in the text (both without their namespace). `parser` says who read it, `fast` or
    `fallback`, and `reason` why it was not the fast one.
    """

    paragraphs: tuple[Paragraph, ...]
    categories: tuple[str, ...]
    templates: tuple[str, ...]
    parser: str = "fast"
    reason: str = ""

    @property
    def text(self) -> str:
        """The paragraphs joined by blank lines; the offsets of sentences are relative to it."""
        return "\n\n".join(paragraph.text for paragraph in self.paragraphs)

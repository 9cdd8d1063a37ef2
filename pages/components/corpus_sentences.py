"""Sentences of a corpus as a list: links underlined, suggestions in colour, details behind each; pure HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from crossner_core.domains import Domain
from crossner_core.schema import Mention, Span
from crossner_core.wikipedia.corpus import CorpusSentence
from pages.components.marked_text import marked_sentence
from pages.components.rows import opening_row, rows_html, table_html


def corpus_list(items: Sequence[CorpusSentence], domain: Domain | None) -> str:
    """Return the sentences as HTML; each opens to show where it is from, its links and its mentions."""
    return rows_html([_one(item, domain) for item in items])


def _one(item: CorpusSentence, domain: Domain | None) -> str:
    sentence, mentions = item.sentence, _apart(item.mentions or ())
    spans = [Span(mention.start, mention.end, kind) for mention in mentions if (kind := _kind(mention, domain))]
    marked = marked_sentence(sentence, spans, domain, {}, links=sentence.links)
    where = " · ".join(str(part) for part in (sentence.meta["title"], sentence.meta["section"]) if part)
    return opening_row(
        f'{marked}<span class="small" dir="auto">{escape(where)}</span>',
        f"<p>{escape(_provenance(item))}</p>{_links(item)}{_mentions(item, domain)}",
    )


def _kind(mention: Mention, domain: Domain | None) -> str:
    """Name what a mention is drawn as: its type, or its class where the corpus was typed for no domain."""
    return mention.type or ("" if domain is not None or not mention.classes else mention.classes[0])


def _apart(mentions: Iterable[Mention]) -> list[Mention]:
    """Return the mentions that do not overlap one before them."""
    kept: list[Mention] = []
    for candidate in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        if not kept or kept[-1].end <= candidate.start:
            kept.append(candidate)
    return kept


def _provenance(item: CorpusSentence) -> str:
    meta = item.sentence.meta
    return (
        f"Page {meta['page']}, revision {meta['revision']}, character {meta['offset']:,} of its text · "
        f"{len(item.sentence.tokens)} tokens · {item.sentence.id}"
    )


def _links(item: CorpusSentence) -> str:
    rows = [(item.sentence.surface(link.start, link.end), link.target) for link in item.sentence.links]
    return table_html(("Link", "Page"), rows)


def _mentions(item: CorpusSentence, domain: Domain | None) -> str:
    if item.mentions is None:
        return "<p>Not pre-annotated.</p>"
    titles = domain.titles if domain is not None else {}
    rows = [
        (
            item.sentence.surface(mention.start, mention.end),
            titles.get(mention.type, mention.type) if mention.type else "none in this domain",
            mention.entity,
            ", ".join(mention.classes),
            f"{mention.source} {mention.score:.2f}",
        )
        for mention in item.mentions
    ]
    return table_html(("Suggestion", "Type", "Taken for", "Classes", "Source and score"), rows)

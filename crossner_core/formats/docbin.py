"""spaCy's DocBin (`.spacy`): tokens, sentences and entities; a token's entity may be missing, which is not O."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from crossner_core.formats.base import Format, InputFile, Layout, NamedFile, Parsed, register
from crossner_core.formats.layers import SUGGESTIONS, layer_names, proposals, utc, with_works, works_of
from crossner_core.formats.source import Data, content_of, refused
from crossner_core.formats.standoff import (
    Mark,
    StandoffOptions,
    Text,
    count_links,
    document_of,
    entities_of,
    file_of,
    resource,
    stem_of,
    text_of,
)

_NAME, _SENTENCES = "crossner_document", "sentences"


@dataclass(frozen=True)
class DocBinOptions(StandoffOptions):
    """How to read a DocBin."""

    span_group: str = field(default="", metadata={"doc": "Span group to read, such as sc, instead of the entities."})


@dataclass(frozen=True)
class DocBinLayout(Layout):
    """The layout of a DocBin's document."""


def read(files: Sequence[InputFile], options: DocBinOptions) -> Iterator[Parsed]:
    """Read each Doc as a document; a sentence with a token whose entity is missing is not annotated."""
    for name, data in files:
        for number, doc in enumerate(_docs(data, name), 1):
            yield _document(doc, number, name, options)


def _docs(data: Data, name: str) -> Iterator[Any]:
    """Yield the Docs of a DocBin one by one; their arrays are unpacked as a whole."""
    import spacy
    from spacy.tokens import DocBin

    try:
        yield from DocBin().from_bytes(content_of(data)).get_docs(spacy.blank("xx").vocab)
    except Exception as error:  # spaCy lets through what msgpack and zlib raise
        raise refused(name, 1, f"it is no DocBin that spaCy can read: {error}") from error


def _document(doc: Any, number: int, name: str, options: DocBinOptions) -> Parsed:
    losses: Counter[str] = Counter()
    groups = {key: len(group) for key, group in doc.spans.items()}
    if options.span_group and options.span_group not in groups:
        raise refused(
            name, 1, f"document {number} has no span group {options.span_group!r}, but {', '.join(groups) or 'none'}"
        )
    spans = doc.spans[options.span_group] if options.span_group else doc.ents
    losses["spans of other groups"] += sum(count for key, count in groups.items() if key != options.span_group)
    losses["entities"] += len(doc.ents) if options.span_group else 0
    losses["relations"] += len(doc.user_data.get("relations", ())) if isinstance(doc.user_data, dict) else 0
    marks = [
        Mark(((span.start_char, span.end_char),), span.label_, entity=resource(span.kb_id_, losses)) for span in spans
    ]
    tokens = [(token.idx, token.idx + len(token)) for token in doc if not token.is_space]
    sentences = [(sent.start_char, sent.end_char) for sent in doc.sents] if doc.has_annotation("SENT_START") else None
    stem = stem_of(name)
    called = doc.user_data.get(_NAME) if isinstance(doc.user_data, dict) else None
    text = Text(called if isinstance(called, str) else f"{stem}/{number}", doc.text, sentences, tokens)
    known = bool(options.span_group) or doc.has_annotation("ENT_IOB")
    made = document_of(
        text, marks, options, DocBinLayout(), file=f"{name}, document {number}", annotated=known, losses=losses
    )
    missing = _missing(doc, options.span_group) if known else []
    return _with_missing(made, missing) if missing else made


def _missing(doc: Any, group: str) -> list[int]:
    """Return where tokens are whose entity is not known: in a group of ours, of sentences that it does not list."""
    if not group:
        return [token.idx for token in doc if token.ent_iob == 0 and not token.is_space]
    done = doc.spans[group].attrs.get(_SENTENCES)
    if not isinstance(done, list):
        return []
    starts = {each["start"] for each in done if isinstance(each, dict) and isinstance(each.get("start"), int)}
    return [token.idx for sent in doc.sents if sent.start_char not in starts for token in sent if not token.is_space]


def _with_missing(made: Parsed, missing: Sequence[int]) -> Parsed:
    """Take the annotation from sentences that have a token whose entity is not known."""
    records, left = [], 0
    for record in made.sentences:
        start = record.sentence.offset or 0
        first, after = (bisect_left(missing, place) for place in (start, start + len(record.sentence.text)))
        unknown = first < after
        left += len(record.spans or ()) if unknown else 0
        records.append(replace(record, spans=None) if unknown else record)
    lost = Counter(made.losses) + Counter({"entities in sentences that are annotated in part": left})
    return replace(made, sentences=tuple(records), losses=+lost)


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write all documents into one DocBin; white space beyond single blanks becomes tokens of its own, as in spaCy."""
    import spacy
    from spacy.tokens import Doc, DocBin

    vocab = spacy.blank("xx").vocab
    held = DocBin(store_user_data=True, attrs=["ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "SENT_START", "SPACY"])
    names = dict.fromkeys(name for document in documents for name in layer_names(document))
    for document in documents:
        count_links(document, losses)
        text, starts = text_of(document)
        pieces, begins = _pieces(document, text, starts)
        words = [text[low:high] for low, high, _ in pieces]
        doc = Doc(vocab, words, [space for *_, space in pieces], sent_starts=[low in begins for low, *_ in pieces])
        doc.user_data[_NAME] = document.name
        ents = [
            doc.char_span(start, end, type, kb_id=entity or "")
            for start, end, type, entity in entities_of(document, starts)
        ]
        bare = [
            doc.char_span(start, start + len(record.sentence.text))
            for record, start in zip(document.sentences, starts, strict=True)
            if record.spans is None
        ]
        for name in names:
            doc.spans[name] = _group(document, name, doc, starts)
        doc.set_ents(ents, missing=[span for span in bare if span is not None], default="outside")
        held.add(doc)
    yield file_of(documents, ".spacy"), held.to_bytes()


def _group(document: Parsed, name: str, doc: Any, starts: list[int]) -> Any:
    """Return a layer as a span group; its attributes say which sentences it has, by whom and since when."""
    from spacy.tokens import SpanGroup

    works = works_of(document, (name,))
    done = [
        {"start": start + record.sentence.tokens[0].start}
        | ({"by": work.by} if work.by else {})
        | ({"at": utc(work.when)} if work.when is not None else {})
        for record, start, work in zip(document.sentences, starts, works, strict=True)
        if work is not None
    ]
    entities, attrs = list(entities_of(with_works(document, works), starts)), dict[str, Any]({_SENTENCES: done})
    if name == SUGGESTIONS:
        proposed = list(proposals(document, starts))
        attrs |= {"sources": [source for _, source, _ in proposed], "scores": [score for *_, score in proposed]}
    spans = [doc.char_span(start, end, type, kb_id=entity or "") for start, end, type, entity in entities]
    return SpanGroup(doc, name=name, attrs=attrs, spans=spans)


def _pieces(document: Parsed, text: str, starts: Sequence[int]) -> tuple[list[tuple[int, int, bool]], set[int]]:
    """Return tokens as (start, end, followed by a blank) that make up the whole text, and where sentences begin."""
    edges, begins = [0], set[int]()
    tokens: set[tuple[int, int]] = set()
    for record, start in zip(document.sentences, starts, strict=True):
        begins.add(start + record.sentence.tokens[0].start)
        for token in record.sentence.tokens:
            tokens.add((start + token.start, start + token.end))
            edges += [start + token.start, start + token.end]
    pieces: list[tuple[int, int, bool]] = []
    for low, high in pairwise([*sorted(set(edges)), len(text)]):
        if (low, high) in tokens:
            pieces.append((low, high, False))
            continue
        if pieces and text[low:high].startswith(" "):
            pieces[-1] = (*pieces[-1][:2], True)
            low += 1
        while low < high:  # a run of blanks, or of what no token covers; the blank after it belongs to it
            end = high if text[high - 1] != " " or high - low == 1 else high - 1
            pieces.append((low, end, end < high))
            low = high
    return pieces, begins


register(
    Format(
        "docbin",
        "spaCy DocBin",
        (".spacy",),
        read,
        write,
        options_type=DocBinOptions,
        layout_type=DocBinLayout,
        by_document=True,
        bytes_per_second=200_000,
        one_file=True,
        holds_entities=True,
        holds_layers=True,
        example="DocBin(docs=[…]).to_bytes()",
    )
)

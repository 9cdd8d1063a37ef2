"""Spans' resources in files: kept where a format can hold them, and counted where it cannot."""

from __future__ import annotations

from io import BytesIO

import pytest

from crossner_core.formats import make_document, read_files, write_files
from crossner_core.formats.base import Written, get_format, written_ids
from crossner_core.schema import NIL, LabelledSentence, Span, sentence_from_words

QUEEN, OTHER = "http://dbpedia.org/resource/Queen_(band)", "http://www.wikidata.org/entity/Q42"
ENTITIES = [QUEEN, NIL, None, OTHER]
ITEM = LabelledSentence(
    sentence_from_words(["Queen", "met", "The", "Gulls", "and", "Bo", "Ek"], id="1"),
    (Span(0, 1, "band", QUEEN), Span(2, 4, "band", NIL), Span(4, 5, "band"), Span(5, 7, "person", OTHER)),
)
HOLDING = [id for id in written_ids() if get_format(id).holds_entities]


def written(format: str) -> Written:
    return write_files([make_document("doc", [ITEM], format)], format)


def test_some_formats_hold_entities() -> None:
    assert HOLDING == ["cas-json", "cas-xmi", "docbin", "jsonl"]


@pytest.mark.parametrize("format", HOLDING)
def test_resources_come_back(format: str) -> None:
    made = written(format)
    assert not any("resources" in kind for kind in made.losses)
    (document,) = read_files(made.files, format=format)
    (record,) = document.sentences
    assert [(span.start, span.end, span.type, span.entity) for span in record.spans or ()] == [
        (span.start, span.end, span.type, span.entity) for span in ITEM.spans
    ]
    assert write_files([document], format).files == made.files


@pytest.mark.parametrize("format", [id for id in written_ids() if id not in HOLDING])
def test_what_a_format_cannot_hold_is_counted(format: str) -> None:
    assert written(format).losses["links of entities to resources"] == 3


def test_spacy_and_cassis_see_them() -> None:
    import spacy
    from cassis import load_cas_from_json
    from spacy.tokens import DocBin

    ((_, data),) = written("docbin").files
    (doc,) = DocBin().from_bytes(data).get_docs(spacy.blank("xx").vocab)
    assert [span.kb_id_ for span in doc.ents] == [entity or "" for entity in ENTITIES]
    ((_, data),) = written("cas-json").files
    named = load_cas_from_json(BytesIO(data)).select("de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity")
    assert [each.identifier for each in named] == ENTITIES


def test_identifiers_that_are_no_addresses_are_counted() -> None:
    import spacy
    from spacy.tokens import Doc, DocBin
    from spacy.tokens import Span as SpacySpan

    doc = Doc(spacy.blank("xx").vocab, ["Queen", "sang"])
    doc.ents = [SpacySpan(doc, 0, 1, "band", kb_id="Q15862")]
    data = DocBin(attrs=["ENT_IOB", "ENT_TYPE", "ENT_KB_ID"], docs=[doc]).to_bytes()
    (document,) = read_files([("one.spacy", data)])
    assert document.losses == {"identifiers of entities that are no addresses": 1}
    assert [span.entity for record in document.sentences for span in record.spans or ()] == [None]

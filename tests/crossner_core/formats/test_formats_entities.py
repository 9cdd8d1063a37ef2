"""Spans' resources in files: kept where a format can hold them, and counted where it cannot."""

from __future__ import annotations

from dataclasses import replace
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
    assert HOLDING == ["brat", "cas-json", "cas-xmi", "docbin", "gate", "jsonl", "label-studio", "webanno-tsv"]


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


def test_links_are_where_the_tools_look_for_them() -> None:
    import json

    files = {
        format: b"".join(data for _, data in written(format).files).decode("utf-8", "replace") for format in HOLDING
    }
    assert "N1\tReference T1 DBpedia:Queen_(band)\tQueen\nN2\tReference T2 NIL:NIL\tThe Gulls\n" in files["brat"]
    assert "N3\tReference T4 Wikidata:Q42\tBo Ek\n" in files["brat"]
    assert "1-1\t0-5\tQueen\thttp://dbpedia.org/resource/Queen\\_(band)\tband\t\n" in files["webanno-tsv"]
    assert "1-6\t24-26\tBo\thttp://www.wikidata.org/entity/Q42[2]\tperson[2]\t\n" in files["webanno-tsv"]
    assert f'>inst</Name><Value className="java.lang.String">{QUEEN}</Value>' in files["gate"]
    ((task,), notes) = json.loads(files["label-studio"]), [[QUEEN], [NIL], None, [OTHER]]
    assert [each.get("meta", {}).get("text") for each in task["annotations"][0]["result"]] == notes


@pytest.mark.parametrize(
    ("name", "link"),
    [("DBpedia:NIL", "http://dbpedia.org/resource/NIL"), ("NIL:NIL", NIL), ("URI:https://a.b/c", "https://a.b/c")],
)
def test_brat_normalizations_are_addresses_or_counted(name: str, link: str) -> None:
    lines = f"T1\tband 0 5\tQueen\nN1\tReference T1 {name}\tQueen\nN2\tReference T1 Wikipedia:42\tQueen\n"
    lines += "N3\tReference T9 Wikidata:Q1\tnobody\n"
    (document,) = read_files([("a.txt", b"Queen sang."), ("a.ann", lines.encode())])
    assert [span.entity for record in document.sentences for span in record.spans or ()] == [link]
    assert document.losses == {"normalizations": 2}
    (document,) = read_files([("a.txt", b"Queen sang."), ("a.ann", lines.replace(name, "Wikipedia:42").encode())])
    assert document.losses == {"normalizations": 3}


def test_other_layers_of_webanno_have_no_place_for_links() -> None:
    table = "#FORMAT=WebAnno TSV 3.3\n#T_SP=custom.Span|label\n\n\n#Text=Queen sang\n"
    table += "1-1\t0-5\tQueen\tband\t\n1-2\t6-10\tsang\t_\t\n"
    (document,) = read_files([("a.tsv", table.encode())])
    (record,) = document.sentences
    linked = replace(document, sentences=(replace(record, spans=(Span(0, 1, "band", QUEEN),)),))
    made = write_files([linked], "webanno-tsv")
    assert made.losses == {"links of entities to resources": 1} and made.files[0][1].decode() == table


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

"""Formats of other tools: any document comes back, real files are read right, and the tools read what is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import make_document, read_bytes, read_files, write_files
from crossner_core.formats.base import NamedFile, Parsed, format_ids, get_format, options_from_text, own_options
from crossner_core.formats.brat import BratLayout, BratOptions
from crossner_core.formats.standoff import Mark, Text, Utf16, document_of, text_of
from crossner_core.schema import NIL, FileLayout, Span

OF_TOOLS = [id for id in format_ids() if id not in ("conll", "jsonl", "plain", "tei", "zip")]
WHOLE = ("brat", "cas-xmi", "cas-json", "label-studio", "doccano", "prodigy", "docbin", "gate")
"""Formats that hold a document's text character for character."""
LETTERS = [
    "Oslo", "Ada", "won", ".", "!", " ", " ", "\n", "\t", "\r\n", "\\", "|", "[1]", "_", "*", "->", ";", "#", "<b>",
    "&amp;",
    "\U0001f469\u200d\U0001f680", "e\u0301", "שלום", "مرحبا", "\u200d", "\u200f", "\U00010437", '"', "ß",
]  # fmt: skip


ENTITIES = [
    None,
    NIL,
    "http://dbpedia.org/resource/A_b_(*)",
    "http://www.wikidata.org/entity/Q1",
    "https://a.org/?b[1]|c;&d",
]


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, list[Mark]]:
    """A text of any letters with flat entities at any places."""
    text = "".join(draw(st.lists(st.sampled_from(LETTERS), min_size=1, max_size=40))) + "x"
    edges = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    marks = [
        Mark(((start, end),), draw(st.sampled_from(["person", "Org|2", "a_b"])), entity=draw(st.sampled_from(ENTITIES)))
        for start, end in list(pairwise(edges))[::2]
        if text[start:end].strip()
    ]
    return text, marks


def entities(parsed: Sequence[Parsed]) -> list[tuple[str, str]]:
    """The entities of documents in order: their letters and their types."""
    return [
        ("".join(record.sentence.surface(span.start, span.end).split()), span.type)
        for document in parsed
        for record in document.sentences
        for span in record.spans or ()
    ]


def resources(parsed: Sequence[Parsed]) -> list[str | None]:
    """The resources of the entities of documents, in order."""
    return [span.entity for one in parsed for record in one.sentences for span in record.spans or ()]


def written(parsed: Sequence[Parsed], format: str) -> list[NamedFile]:
    """Write documents in another format, as the store would: each sentence knows its file."""
    made = []
    for one in parsed:
        file = FileLayout(one.name, one.layout.to_dict())
        records = [
            replace(record, sentence=replace(record.sentence, layout=replace(record.sentence.layout, file=file)))
            for record in one.sentences
            if record.sentence.layout is not None
        ]
        made.append(make_document(one.name, records, format, one.layout if one.format == format else None))
    return list(write_files(made, format).files)


@pytest.mark.parametrize("format", OF_TOOLS)
@settings(max_examples=60, deadline=None)
@given(drawn=texts())
def test_any_document_comes_back(format: str, drawn: tuple[str, list[Mark]]) -> None:
    text, marks = drawn
    document = document_of(Text("one", text), marks, BratOptions(), BratLayout(), file="one.ann", annotated=True)
    again = read_files(written([document], format), format)
    wanted = entities([document])
    if format == "conllu":  # no | in a value
        wanted = [(surface, type.replace("|", "_")) for surface, type in wanted]
    assert entities(again) == wanted
    if get_format(format).holds_entities:
        assert resources(again) == resources([document])
    words = "".join("".join(record.sentence.text.split()) for record in document.sentences)
    assert "".join("".join(record.sentence.text.split()) for one in again for record in one.sentences) == words
    if format in WHOLE:
        assert text_of(again[0])[0] == text_of(document)[0]
    assert entities(read_files(written(again, format), format)) == wanted


@given(st.text(st.sampled_from(["a", "é", "👩", "\U00010437", "ש"]), max_size=30))
def test_utf16_offsets_lead_to_code_points_and_back(text: str) -> None:
    units = Utf16.of(text)
    for place in range(len(text) + 1):
        unit = len(text[:place].encode("utf-16-le")) // 2
        assert (units.units(place), units.points(unit)) == (unit, place)


def _brat(text: str, *lines: str, **options: Any) -> Parsed:
    files = [("a.txt", text.encode()), ("a.ann", "".join(f"{line}\n" for line in lines).encode())]
    (made,) = read_files(files, **options)
    return made


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("T2\tb 0 14\tAda Lovelace w", "it overlaps another; spans neither overlap nor nest"),
        ("T2\tb 0 3;13 16\tAda won", "it is in 2 pieces; a span is one piece without gaps"),
    ],
)
def test_what_sentences_cannot_hold_is_refused_or_counted(line: str, words: str) -> None:
    with pytest.raises(
        BadInput, match=rf"a\.ann:[12]: entity .*{words}.*\nName the format, and its option unfit=leave_out"
    ):
        _brat("Ada Lovelace won.", "T1\ta 0 12\tAda Lovelace", line)
    made = _brat("Ada Lovelace won.", "T1\ta 0 12\tAda Lovelace", line, format="brat", unfit="leave_out")
    assert sum(made.losses.values()) == 1 and len(entities([made])) == 1


def test_sentences_with_a_bad_entity_are_skipped_whole() -> None:
    lines = ("T1\tperson 0 3\tAda", "T2\tcity 8 12\tOslo", "T3\tperson 18 20\tBo")
    made = _brat("Ada saw Oslo.\n\nTo Bo.\n\nEnd.", *lines, types=("person",), skip_bad=True)
    assert [record.sentence.text for record in made.sentences] == ["To Bo.", "End."]
    assert entities([made]) == [("Bo", "person")] and [problem.line for problem in made.problems] == [2]
    other = _brat("Ada saw Oslo.\n\nTo Bo.", "T1\tperson 0 3\tEva", "T2\tperson 18 20\tBo", skip_bad=True)
    assert [record.sentence.text for record in other.sentences] == ["To Bo."]


def test_offsets_beyond_the_text_are_an_error_whatever_is_left_out() -> None:
    with pytest.raises(BadInput, match=r"a\.ann:1: entity \[0, 99\) of type 'a' lies outside the text, which has 8"):
        _brat("Ada won.", "T1\ta 0 99", format="brat", unfit="leave_out")
    with pytest.raises(BadInput, match=r"a\.ann:1: a at 0 3 is 'Eva' here and 'Ada' in the text: it has changed"):
        _brat("Ada won.", "T1\ta 0 3\tEva")
    with pytest.raises(BadInput, match=r"b\.ann:1: its text b\.txt is missing"):
        read_files([("b.ann", b"T1\ta 0 3\tAda\n")])
    with pytest.raises(BadInput, match=r"a\.ann:1: 'T1 a 0 3' is no entity"):
        _brat("Ada won.", "T1 a 0 3")


def test_no_sentence_ends_within_an_entity_and_line_ends_make_pieces() -> None:
    made = _brat("Ada of St. Olav. Won.\nOs\nlo", "T1\ta 0 20\tAda of St. Olav. Won", "T2\tb 22 24;25 27\tOs lo")
    assert [record.sentence.text for record in made.sentences] == ["Ada of St. Olav. Won.", "Os\nlo"]
    assert entities([made]) == [("AdaofSt.Olav.Won", "a"), ("Oslo", "b")]
    assert b"T2\tb 22 24;25 27\tOs lo\n" in dict(written([made], "brat"))["a.ann"]


def test_real_brat_document_keeps_its_text_and_says_what_it_loses(shared: Path) -> None:
    folder = shared / "data" / "formats" / "brat"
    files = [(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]
    tutorial, small = read_files(files)
    assert dict(tutorial.losses) == {"attributes": 5, "relations": 2, "events": 1, "notes": 1, "normalizations": 1}
    assert ("RaulSalinasdeGortari", "Person") in entities([tutorial]) and len(entities([tutorial])) == 7
    assert entities([small]) == [("This", "Token"), ("isa", "Token"), ("test", "Token"), (".", "Token")]
    back = dict(written([tutorial, small], "brat"))
    assert {name: back[name] for name in dict(files) if not name.endswith(".ann")} == {
        name: data for name, data in files if not name.endswith(".ann")
    }
    assert back["document0c.ann"].splitlines() == dict(files)["document0c.ann"].splitlines()[:4]


def test_real_webanno_tables_agree_with_their_twins(shared: Path) -> None:
    compared = 0
    for folder in sorted((shared / "data" / "formats" / "webanno-tsv").iterdir()):
        table = read_bytes((folder / "reference.tsv").read_bytes(), name="reference.tsv", unfit="leave_out")
        assert table.format == "webanno-tsv"
        again = read_files(written([table], "webanno-tsv"))
        assert entities(again) == entities([table])
        twin = folder / "reference.xmi"
        if not twin.exists() or "Slot" in folder.name:  # its layers would be in a type system that is not there
            continue
        other = read_bytes(twin.read_bytes(), name=twin.name, unfit="leave_out")
        words = [[record.sentence.words for record in one.sentences] for one in (other, table)]
        assert words[0] == words[1]
        assert [surface for surface, _ in entities([other])] == [surface for surface, _ in entities([table])]
        compared += 1
    assert compared >= 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#FORMAT=WebAnno TSV 2\n", "read are WebAnno TSV 3.2 and 3.3"),
        ("#FORMAT=WebAnno TSV 3.3\n#T_SP=a.One|x\n#T_SP=a.Two|x\n\n\n#Text=a\n1-1\t0-1\ta\t_\t_\t\n", "choose one by"),
        (
            "#FORMAT=WebAnno TSV 3.3\n#T_SP=a.One|x|y\n\n\n#Text=a\n1-1\t0-1\ta\t_\t_\t\n",
            "by the option feature",
        ),
        ("#FORMAT=WebAnno TSV 3.3\n\n\n#Text=a\n1-1\t0\ta\t\n", "is no line of a token"),
        ("#FORMAT=WebAnno TSV 3.3\n\n\n#Text=a\n1-1\t0-1\tb\t\n", "the token 'b' is not in 'a' above it"),
    ],
)
def test_webanno_table_that_cannot_be_read_says_why(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_bytes(text.encode(), name="a.tsv")
    with pytest.raises(BadInput, match=r"no layer 'b\.C' of spans; those here are a\.One"):
        read_bytes(b"#FORMAT=WebAnno TSV 3.3\n#T_SP=a.One|x\n\n\n", name="a.tsv", layer="b.C")


def test_real_cas_with_astral_characters_is_read_and_read_back_by_the_library(shared: Path) -> None:
    from cassis import load_cas_from_json, load_cas_from_xmi, load_typesystem

    folder = shared / "data" / "formats" / "cas"
    files = [("a.xmi", (folder / "cas_with_smileys.xmi").read_bytes())]
    files.append(("TypeSystem.xml", (folder / "inception_typesystem.xml").read_bytes()))
    (read,) = read_files(files)
    wanted = [(surface, type) for surface, type in entities([read])]
    assert wanted == [("Transformers", "OTH")] * 3 + [("PyTorch", "OTH"), ("TensorFlow", "OTH")]
    xmi = dict(written([read], "cas-xmi"))
    system = load_typesystem(BytesIO(xmi["TypeSystem.xml"]))
    cases = [load_cas_from_xmi(BytesIO(xmi["a.xmi"]), system)]
    cases.append(load_cas_from_json(BytesIO(dict(written([read], "cas-json"))["a.json"])))
    for cas in cases:
        found = cas.select("de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity")
        assert [(each.get_covered_text(), each.value) for each in found] == wanted
        assert cas.sofa_string == text_of(read)[0]


def test_cas_without_its_type_system_or_layer_says_so(shared: Path) -> None:
    folder = shared / "data" / "formats" / "webanno-tsv" / "testSimpleSameRoleSlotFeature"
    data = (folder / "reference.xmi").read_bytes()
    assert "TypeSystem.xml" in " ".join(read_bytes(data, name="a.xmi").losses)
    with pytest.raises(BadInput, match=r"no layer 'custom\.Span' of spans"):
        read_bytes(data, name="a.xmi", layer="custom.Span")
    with pytest.raises(BadInput, match=r"a\.xmi:1: the XML cannot be read"):
        read_bytes(b"<xmi:XMI", name="a.xmi")


BOMB = b'<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b SYSTEM "file:///etc/passwd">]>\n'


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.xmi", b"<xmi:XMI>&a;</xmi:XMI>"),
        ("a.xml", b"<GateDocument>&b;</GateDocument>"),
        ("a.tei", b"<TEI><text>&a;</text></TEI>"),
    ],
)
def test_xml_with_a_document_type_is_refused(name: str, body: bytes) -> None:
    with pytest.raises(BadInput, match=rf"{name}:2: the XML declares a document type"):
        read_bytes(BOMB + body, name=name)
    with pytest.raises(BadInput, match="not in UTF-8"):
        read_bytes(b'<?xml version="1.0" encoding="latin-1"?>' + body, name=name)


def test_real_gate_document_is_read(shared: Path) -> None:
    data = (shared / "data" / "formats" / "gate" / "ner2002_ref_generic.xml").read_bytes()
    read = read_bytes(data, name="ner.xml")
    wanted = [("Wolff", "PER"), ("Argentina", "LOC"), ("DelBosque", "PER"), ("RealMadrid", "ORG")]
    assert read.format == "gate" and entities([read]) == wanted


def test_gate_asks_which_set_and_names_nodes_that_are_missing() -> None:
    sets = "".join(
        f'<AnnotationSet Name="{name}"><Annotation Id="1" Type="Person" StartNode="0" EndNode="3"/></AnnotationSet>'
        for name in ("Key", "Response")
    )
    text = '<GateDocument><TextWithNodes><Node id="0"/>Ada<Node id="3"/> won.</TextWithNodes>{}</GateDocument>'
    with pytest.raises(BadInput, match="entities are in the sets Key, Response; choose one by the option"):
        read_bytes(text.format(sets).encode(), name="a.xml")
    chosen = read_bytes(text.format(sets).encode(), name="a.xml", format="gate", annotation_set="Key")
    assert entities([chosen]) == [("Ada", "Person")] and chosen.losses == {"annotations of other sets": 1}
    with pytest.raises(BadInput, match="stands at node '7'"):
        read_bytes(text.format(sets.replace('"3"', '"7"')).encode(), name="a.xml", format="gate", annotation_set="Key")


TEI = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><title><persName>Not this</persName></title></teiHeader>
<text><body><head>On <rs type="ship" ref="#f">the
Fram</rs></head><p><persName key="a"
ref="https://a.org/Ada #ada">Ada <placeName>Oslo</placeName></persName>   came. <name>Bo</name>&#x1F469; left.</p>
</body></text></TEI>"""


def test_tei_marks_names_in_the_text_and_is_not_written() -> None:
    read = read_bytes(TEI.encode(), name="a.xml", format="tei", unfit="leave_out")
    assert [record.sentence.text for record in read.sentences] == ["On the Fram", "Ada Oslo came.", "Bo👩 left."]
    assert entities([read]) == [("theFram", "ship"), ("AdaOslo", "persName"), ("Bo", "name")]
    assert read.losses == {"overlapping entities": 1, "references of names (ref, key)": 3}
    assert resources([read]) == [None, "https://a.org/Ada", None]
    assert read_bytes(TEI.encode(), name="a.xml", unfit="leave_out").format == "tei"
    with pytest.raises(InvalidConfig, match="TEI is read only"):
        written([read], "tei")


def _task(*results: Any, text: str = "👩 Ada won.", **more: Any) -> dict[str, Any]:
    return {"id": 7, "data": {"text": text}, "annotations": [{"result": list(results)}], **more}


def _result(start: int, end: int, surface: str, *types: str) -> dict[str, Any]:
    return {"type": "labels", "value": {"start": start, "end": end, "text": surface, "labels": list(types)}}


def test_label_studio_offsets_are_counted_as_the_texts_say() -> None:
    for start, noted in ((2, 0), (3, 1)):
        data = json.dumps([_task(_result(start, start + 3, "Ada", "person"))]).encode()
        (read,) = read_files([("a.json", data)])
        assert (read.format, read.name) == ("label-studio", "a/7") and entities([read]) == [("Ada", "person")]
        assert len(read.notes) == noted
    mixed = json.dumps([_task(_result(2, 5, "Ada", "a")), _task(_result(3, 6, "Ada", "a"))]).encode()
    with pytest.raises(BadInput, match="count code points and of others UTF-16"):
        read_files([("a.json", mixed)])
    with pytest.raises(BadInput, match=r"task 1: \[0, 3\) is not 'Eva' in its text"):
        read_files([("a.json", json.dumps([_task(_result(0, 3, "Eva", "a"))]).encode())])


def test_label_studio_takes_the_ground_truth_and_counts_what_is_left() -> None:
    task = _task(_result(2, 5, "Ada", "person"), predictions=[{"result": [_result(2, 5, "Ada", "band")], "score": 0.5}])
    task["annotations"] += [
        {"result": [_result(2, 5, "Ada", "org"), {"type": "choices", "value": {}}], "ground_truth": True},
        {"result": [], "was_cancelled": True},
    ]
    data = json.dumps([task]).encode()
    (read,) = read_files([("a.json", data)])
    assert entities([read]) == [("Ada", "org")]
    assert read.losses == {
        "annotations by others": 1, "predictions": 1, "annotations that were cancelled": 1, "other results": 1,
    }  # fmt: skip
    (guess,) = read_files([("a.json", data)], "label-studio", take="predictions")
    assert entities([guess]) == [("Ada", "band")]
    short = [{"id": 1, "text": "Ada won.", "label": [{"start": 0, "end": 3, "labels": ["person"]}], "annotator": 1}]
    assert entities(read_files([("a.json", json.dumps(short).encode())])) == [("Ada", "person")]
    with pytest.raises(BadInput, match="task 1 has no text under 'title'"):
        read_files([("a.json", data)], "label-studio", text_key="title")


def test_real_doccano_and_prodigy_lines(shared: Path) -> None:
    data = (shared / "data" / "formats" / "doccano" / "example.jsonl").read_bytes()
    first, second = read_files([("e.jsonl", data)], "doccano", skip_bad=True)
    assert entities([first]) == [("e", "LOC")] and second.labelled == ()
    assert [problem.line for problem in (*first.problems, *second.problems)] == [3]
    line = {
        "text": "Ada won.",
        "tokens": [{"text": "Ada", "start": 0, "end": 3, "id": 0}, {"text": "won.", "start": 4, "end": 8, "id": 1}],
        "spans": [{"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "person"}],
    }
    kept, rejected = json.dumps({**line, "answer": "accept"}), json.dumps({**line, "answer": "reject"})
    one, two = read_files([("p.jsonl", f"{kept}\n{rejected}\n".encode())], "prodigy")
    assert one.sentences[0].sentence.words == ("Ada", "won.") and entities([one, two]) == [("Ada", "person")]
    assert two.labelled == () and two.losses == {"spans of tasks with answer reject": 1}
    back = json.loads(dict(written([one], "prodigy"))["p/1.jsonl"])
    assert back["spans"] == line["spans"] and back["answer"] == "accept"


def test_docbin_is_read_by_spacy_and_missing_entities_are_no_annotation() -> None:
    import spacy
    from spacy.tokens import Doc, DocBin

    vocab = spacy.blank("en").vocab
    doc = Doc(vocab, ["Ada", "won", ".", "Bo", "left", "."], sent_starts=[True, False, False, True, False, False])
    doc.set_ents([doc.char_span(0, 3, "person")], missing=[doc[3:4]], default="outside")
    doc.spans["sc"] = [doc.char_span(0, 7, "event"), doc.char_span(0, 3, "person")]
    data = DocBin(docs=[doc], store_user_data=True).to_bytes()
    (read,) = read_files([("a.spacy", data)])
    assert [record.spans for record in read.sentences] == [(Span(0, 1, "person"),), None]
    assert read.losses == {"spans of other groups": 2}
    (group,) = read_files([("a.spacy", data)], "docbin", span_group="sc", unfit="leave_out")
    assert entities([group]) == [("Adawon", "event")] and group.losses["overlapping entities"] == 1
    back = next(iter(DocBin().from_bytes(dict(written([read], "docbin"))["a/1.spacy"]).get_docs(vocab)))
    assert back.text == text_of(read)[0] and [(ent.text, ent.label_) for ent in back.ents] == [("Ada", "person")]
    assert [token.ent_iob_ for token in back] == ["B", "O", "O", "", "", ""]
    with pytest.raises(BadInput, match=r"a\.spacy:1: it is no DocBin"):
        read_files([("a.spacy", b"nothing")])


def test_parquet_is_read_by_datasets_and_bare_numbers_need_names(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets import load_dataset

    document = _brat("Ada Lee won. Nobody came.", "T1\tperson 0 7\tAda Lee")
    ((name, data),) = written([document], "parquet")
    path = tmp_path / name
    path.write_bytes(data)
    loaded = load_dataset("parquet", data_files=str(path), cache_dir=str(tmp_path / "cache"))["train"]
    names = loaded.features["ner_tags"].feature.names
    assert names == ["O", "B-person", "I-person"]
    assert [[names[tag] for tag in row["ner_tags"]] for row in loaded] == [
        ["B-person", "I-person", "O", "O"],
        ["O"] * 3,
    ]
    loaded.to_parquet(str(tmp_path / "theirs.parquet"))
    assert entities([read_bytes((tmp_path / "theirs.parquet").read_bytes(), name="t.parquet")]) == [
        ("AdaLee", "person")
    ]
    pq.write_table(pa.table({"tokens": [["Ada", "won"]], "ner_tags": [[1, 0]]}), tmp_path / "bare.parquet")
    bare = (tmp_path / "bare.parquet").read_bytes()
    with pytest.raises(BadInput, match="the tags in ner_tags are numbers, and the file does not name them"):
        read_bytes(bare, name="bare.parquet")
    named = read_bytes(bare, name="bare.parquet", format="parquet", names=("O", "B-person"))
    assert entities([named]) == [("Ada", "person")]


CONLLU = """# newdoc id = one
# global.Entity = GRP-etype-infstat
# text = Ada's son won.
1-2\tAda's\t_\t_\t_\t_\t_\t_\t_\t_
1\tAda\t_\t_\t_\t_\t_\t_\t_\tEntity=(1-person-new(2-person-acc)
2\t's\t_\t_\t_\t_\t_\t_\t_\t_
3\tson\t_\t_\t_\t_\t_\t_\t_\tEntity=1)
3.1\tsilent\t_\t_\t_\t_\t_\t_\t_\t_
4\twon\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
5\t.\t_\t_\t_\t_\t_\t_\t_\t_

# newdoc id = two
1\tBo\t_\t_\t_\t_\t_\t_\t_\tNER=B-person

"""


def test_conllu_reads_brackets_and_tags_and_is_read_by_its_library() -> None:
    from conllu import parse

    one, two = read_files([("a.conllu", CONLLU.encode())], unfit="leave_out")
    assert (one.format, one.name, two.name) == ("conllu", "one", "two")
    assert one.sentences[0].sentence.text == "Ada's son won."
    assert entities([one, two]) == [("Ada'sson", "person"), ("Bo", "person")]
    assert one.losses == {"overlapping entities": 1, "empty nodes": 1, "words of multi-word tokens": 2}
    ((_, data),) = written([one, two], "conllu")
    first, second = parse(data.decode())
    assert [token["form"] for token in first] == ["Ada's", "son", "won", "."] and first.metadata["newdoc id"] == "one"
    assert [token["misc"]["NER"] for token in first] == ["B-person", "I-person", "O", "O"]
    assert first[2]["misc"]["SpaceAfter"] == "No" and second[0]["form"] == "Bo"
    with pytest.raises(BadInput, match="fewer than the ten columns"):
        read_files([("a.conllu", b"1\tAda\tB-person\n\n")], "conllu")


def test_conllu_counts_the_pages_that_entities_are_linked_to() -> None:
    row, declared = (
        "{}\t{}\t_\t_\t_\t_\t_\t_\t_\tEntity=({}-person-new-{})\n",
        "# global.Entity = GRP-etype-infstat-identity\n",
    )
    lines = declared + row.format(1, "Ada", 1, "Ada_Lovelace") + row.format(2, "Bo", 2, "_")
    (read,) = read_files([("a.conllu", f"{lines}\n".encode())])
    assert entities([read]) == [("Ada", "person"), ("Bo", "person")]
    assert read.losses == {"identities of entities (Wikipedia pages)": 1}


def test_conll2003_has_four_columns_and_marks_documents() -> None:
    document = _brat("Ada won.", "T1\tperson 0 3\tAda")
    ((name, data),) = written([document], "conll2003")
    assert name == "a.conll"
    assert data.decode() == "-DOCSTART- -X- -X- O\n\nAda _ _ B-person\nwon _ _ O\n. _ _ O\n\n"
    assert entities([read_bytes(data, name=name)]) == [("Ada", "person")]


def test_options_of_a_format_are_read_from_text() -> None:
    assert options_from_text("parquet", {"names": "O B-a", "words_column": "w"}) == {
        "names": ("O", "B-a"), "words_column": "w",
    }  # fmt: skip
    assert options_from_text("brat", {"check_surface": "no"}) == {"check_surface": False}
    with pytest.raises(InvalidConfig, match="Format brat has no option 'layer'; it has unfit, check_surface"):
        options_from_text("brat", {"layer": "x"})
    with pytest.raises(InvalidConfig, match="check_surface is 'perhaps', which is no bool"):
        options_from_text("brat", {"check_surface": "perhaps"})
    with pytest.raises(InvalidConfig, match="unfit is 'drop'; allowed are refuse and leave_out"):
        _brat("Ada won.", "T1\ta 0 3\tAda", unfit="drop")
    for id in format_ids():
        assert all(one.metadata["doc"] for one in own_options(id))


@pytest.mark.parametrize("format", [*OF_TOOLS, "tei", "zip"])
def test_a_damaged_file_is_bad_input(format: str) -> None:
    suffix = get_format(format).suffixes[0]
    damaged = [b"\x00\x01\x02", b"\xff\xfe<\x00"] + [b"<", b"{", b"[", b"PAR1"] * (format != "conll2003")
    for data in damaged:
        with pytest.raises(BadInput, match=r"^a"):
            read_files([(f"a{suffix}", data)], format)


def test_readme_lists_the_formats_as_they_are() -> None:
    readme = (Path(__file__).resolve().parents[3] / "README.md").read_text(encoding="utf-8")
    rows = [
        line
        for line in readme.partition("## Formats")[2].partition("## Roles")[0].splitlines()
        if line.startswith("| `")
    ]
    assert rows == [_row(id) for id in format_ids()]


def _row(id: str) -> str:
    known = get_format(id)
    found = "named by `--format`" if known.is_chosen else "content" if known.content else "suffix"
    documents = "one file" if known.one_file else "a file each" if known.by_document else "–"
    files = " ".join(f"`{name}`" for name in (*known.suffixes, *known.beside))
    links = "yes" if known.holds_entities else "–"
    layers = "yes" if known.holds_layers else "–"
    written = "no" if known.no_writer else "yes"
    return f"| `{id}` | {known.title} | {files} | {found} | {written} | {documents} | {links} | {layers} |"

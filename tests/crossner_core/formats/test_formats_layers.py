"""Layers, people and times in files: written where a format has a place for them, counted where it has not."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_core.errors import BadInput
from crossner_core.formats import make_document, read_files, write_files
from crossner_core.formats.base import Parsed, Record, Work, Written, get_format, written_ids
from crossner_core.schema import NIL, Sentence, Span, Token

EARLY, LATE = dt.datetime(2026, 5, 1, 9, 0, tzinfo=dt.UTC), dt.datetime(2026, 5, 2, 10, 30, tzinfo=dt.UTC)
QUEEN = "http://dbpedia.org/resource/Queen_(band)"
HOLDING = [id for id in written_ids() if get_format(id).holds_layers]


def _sentence(id: str, text: str, offset: int) -> Sentence:
    starts = [place for place in range(len(text)) if place == 0 or text[place - 1] == " "]
    tokens = tuple(Token(start, start + len(text[start:].split(" ")[0])) for start in starts)
    return Sentence(id, text, tokens, document="doc", offset=offset)


ONE, TWO, THREE = _sentence("1", "Queen met Bo", 0), _sentence("2", "Gulls fly", 13), _sentence("3", "Nobody came", 23)
BAND, PERSON = Span(0, 1, "band", QUEEN), Span(2, 3, "person", NIL)
RECORDS = (
    Record(
        ONE,
        (BAND, PERSON),
        {
            "first": Work((BAND,), "person-1", EARLY),
            "second": Work((BAND, PERSON), "person-2", LATE),
            "gold": Work((BAND, PERSON), "person-3", LATE),
            "suggestions": Work((PERSON, BAND), proposed=(("model", 0.25), ("link", 0.75))),
        },
    ),
    Record(TWO, (), {"first": Work((), "person-2", LATE), "gold": Work((), "person-3", EARLY)}),
    Record(THREE, None, {"first": Work((Span(0, 1, "band"),), "person-1", LATE)}),
)


def written(format: str) -> Written:
    return write_files([make_document("doc", RECORDS, format)], format)


def spans(document: Parsed) -> list[Any]:
    """The spans of a document's sentences with their words, None for a sentence that is not annotated."""
    return [
        None
        if record.spans is None
        else [(record.sentence.surface(span.start, span.end), span.type, span.entity) for span in record.spans]
        for record in document.sentences
    ]


def test_formats_that_write_layers() -> None:
    assert HOLDING == ["cas-json", "cas-xmi", "docbin", "gate", "jsonl", "label-studio", "prodigy", "webanno-tsv"]


@pytest.mark.parametrize("format", [id for id in written_ids() if id not in HOLDING])
def test_what_a_format_has_no_place_for_is_counted(format: str) -> None:
    records = [replace(record, spans=record.spans or ()) for record in RECORDS]
    made = write_files([make_document("doc", records, format)], format)
    assert {kind: count for kind, count in made.losses.items() if "layer" in kind or "people" in kind} == {
        "sentences of the layer first": 3,
        "sentences of the layer second": 1,
        "sentences of the layer suggestions": 1,
        "people and times of sentences": 6,
    }
    plain = [replace(record, layers={}) for record in records]
    assert write_files([make_document("doc", plain, format)], format).files == made.files


@pytest.mark.parametrize("format", written_ids())
def test_sentences_that_look_annotated_in_the_file_are_counted(format: str) -> None:
    plain = [replace(record, layers={}) for record in RECORDS]
    try:
        made = write_files([make_document("doc", plain, format)], format)
    except BadInput as error:
        assert "annotated" in str(error)
        return
    (back,) = read_files(list(made.files), format, types=["band", "person"])
    lost = max(0, sum(record.spans is not None for record in back.sentences) - 2)  # plain text has no spans
    assert (
        sum(count for kind, count in made.losses.items() if "without entities" in kind or "not annotated" in kind)
        == lost
    )
    if get_format(format).annotates_documents:
        assert made.losses["sentences not annotated in their layer, written as without entities"] == lost == 1
        every = make_document("doc", plain[:2], format)
        assert not any("without entities" in kind for kind in write_files([every], format).losses)


def test_docbin_has_a_span_group_a_layer_and_leaves_entities_alone() -> None:
    import spacy
    from spacy.tokens import DocBin

    made = written("docbin")
    assert made.losses == {}
    (doc,) = DocBin().from_bytes(made.files[0][1]).get_docs(spacy.blank("xx").vocab)
    assert [(span.text, span.label_) for span in doc.ents] == [("Queen", "band"), ("Bo", "person")]
    groups = {name: [(span.text, span.kb_id_) for span in group] for name, group in doc.spans.items()}
    queen, bo = ("Queen", QUEEN), ("Bo", NIL)
    assert groups == {
        "first": [queen, ("Nobody", "")], "second": [queen, bo], "gold": [queen, bo], "suggestions": [queen, bo]
    }  # fmt: skip
    assert doc.spans["suggestions"].attrs["scores"] == [0.75, 0.25]
    assert doc.spans["suggestions"].attrs["sources"] == ["link", "model"]
    assert doc.spans["gold"].attrs["sentences"] == [
        {"start": 0, "by": "person-3", "at": "2026-05-02T10:30:00Z"},
        {"start": 13, "by": "person-3", "at": "2026-05-01T09:00:00Z"},
    ]


def test_docbin_groups_are_read_with_the_sentences_they_have() -> None:
    queen, bo = ("Queen", "band", QUEEN), ("Bo", "person", NIL)
    wanted = {
        "first": [[queen], [], [("Nobody", "band", None)]],
        "second": [[queen, bo], None, None],
        "gold": [[queen, bo], [], None],
        "suggestions": [[queen, bo], None, None],
        "": [[queen, bo], [], None],
    }
    bare = make_document("bare", [Record(ONE, (BAND,))], "docbin")
    files = write_files([make_document("doc", RECORDS, "docbin"), bare], "docbin").files
    for group, own in wanted.items():
        document, other = read_files(files, "docbin", span_group=group)
        assert spans(document) == own and spans(other) == ([None] if group else [[queen]])
        assert document.losses["spans of other groups"] == 8 - len(
            [span for each in own if group for span in each or ()]
        )


def test_gate_has_a_set_a_layer_and_sentences_say_whose_they_are() -> None:
    made = written("gate")
    assert made.losses == {"sentences not annotated in their layer, written as without entities": 1}
    text = made.files[0][1].decode()
    for name, value in (("first.annotator", "person-2"), ("gold.time", "2026-05-01T09:00:00Z"), ("score", "0.75")):
        assert f'>{name}</Name><Value className="java.lang.String">{value}</Value>' in text
    queen, bo = ("Queen", "band", QUEEN), ("Bo", "person", NIL)
    wanted = {"first": [[queen], [], [("Nobody", "band", None)]], "second": [[queen, bo], None, None],
              "suggestions": [[queen, bo], None, None]}  # fmt: skip
    bare = make_document("bare", [Record(ONE, (BAND,))], "gate")
    files = write_files([make_document("doc", RECORDS, "gate"), bare], "gate").files
    for chosen, own in wanted.items():
        document, other = read_files(files, "gate", annotation_set=chosen)
        assert spans(document) == own and spans(other) == [None]
        tokens = [record.sentence.tokens for record in document.sentences]
        assert tokens == [record.sentence.tokens for record in RECORDS]
    document, _ = read_files(files, "gate")
    assert spans(document)[:2] == [[queen, bo], []] and document.losses == {"annotations of other sets": 6}


def test_json_lines_have_layers_under_a_key_of_their_own() -> None:
    made = written("jsonl")
    assert made.losses == {}
    one, two, three = (json.loads(line) for line in made.files[0][1].decode().splitlines())
    assert one["layers"]["gold"] == {"by": "person-3", "at": "2026-05-02T10:30:00Z"} and "gold" not in three
    assert one["layers"]["suggestions"]["spans"] == [
        {"start": 0, "end": 5, "type": "band", "entity": QUEEN, "source": "link", "score": 0.75},
        {"start": 10, "end": 12, "type": "person", "entity": NIL, "source": "model", "score": 0.25},
    ]
    assert two["layers"]["first"] == {"by": "person-2", "at": "2026-05-02T10:30:00Z", "spans": []}


@pytest.mark.parametrize(
    ("layer", "wanted", "left"),
    [
        ("", [2, 0, None], {"first": 3, "second": 1, "suggestions": 1}),
        ("first", [1, 0, 1], {"second": 1, "suggestions": 1}),
        ("suggestions", [2, None, None], {"first": 3, "second": 1}),
        ("gold", [2, 0, None], {"first": 3, "second": 1, "suggestions": 1}),
    ],
)
def test_json_lines_are_read_by_layer(layer: str, wanted: list[int | None], left: dict[str, int]) -> None:
    files = written("jsonl").files
    (document,) = read_files(files, "jsonl", layer=layer)
    assert [None if own is None else len(own) for own in spans(document)] == wanted
    lost = {f"sentences of the layer {name}": count for name, count in left.items()}
    lost |= {"people and times of sentences": 6}
    besides = {"first": 2, "suggestions": 2}.get(layer, 0)
    assert document.losses == lost | ({"annotations besides the layer asked for": besides} if besides else {})
    assert not any(record.sentence.meta for record in document.sentences)
    assert b"person-" not in write_files([document], "jsonl").files[0][1]


@pytest.mark.parametrize("given", [{"soil": 3}, {"soil": {}}, {"first": {}}, {"first": {"spans": [], "x": 1}}, [], {}])
def test_json_lines_keep_what_others_call_layers(given: Any) -> None:
    line = json.dumps({"id": "a", "text": "Bo won", "layers": given}) + "\n"
    (document,) = read_files([("a.jsonl", line.encode())])
    (record,) = document.sentences
    assert record.sentence.meta == {"layers": given} and document.losses == {}
    with pytest.raises(BadInput, match="metadata may not be called 'layers'"):
        write_files([replace(document, sentences=(replace(record, layers={"first": Work(())}),))], "jsonl")


@st.composite
def layered(draw: st.DrawFn) -> list[Record]:
    """The three sentences with any flat spans in any layers; some layers lack some sentences."""
    records = []
    for sentence in (ONE, TWO, THREE):
        layers = {}
        for name in ("first", "second", "gold"):
            if draw(st.booleans()):
                edges = sorted(draw(st.sets(st.integers(0, len(sentence.tokens)), max_size=4)))
                kinds = [draw(st.sampled_from([("band", QUEEN), ("Org|2", None)])) for _ in edges]
                spans = [Span(a, b, *kind) for (a, b), kind in zip(list(pairwise(edges))[::2], kinds, strict=False)]
                layers[name] = Work(
                    tuple(spans), draw(st.sampled_from(["", "ada", "bo"])), draw(st.sampled_from([None, LATE]))
                )
        gold = layers.get("gold")
        records.append(Record(sentence, gold.spans if gold else None, layers))
    return records


@pytest.mark.parametrize(
    ("format", "option"), [("docbin", "span_group"), ("gate", "annotation_set"), ("jsonl", "layer")]
)
@settings(max_examples=40, deadline=None)
@given(records=layered())
def test_any_layer_comes_back(format: str, option: str, records: list[Record]) -> None:
    files = write_files([make_document("doc", records, format)], format).files
    for name in {name for record in records for name in record.layers} - ({"gold"} if format == "gate" else set()):
        (document,) = read_files(files, format, **{option: name})
        works = [record.layers.get(name) for record in records]
        own = [Record(each.sentence, work and work.spans) for each, work in zip(records, works, strict=True)]
        assert spans(document) == spans(replace(document, sentences=tuple(own)))


def test_prodigy_has_a_line_for_each_person_the_gold_first() -> None:
    made = written("prodigy")
    lines = [json.loads(line) for line in made.files[0][1].decode().splitlines()]
    said = [(line["_session_id"], line["_annotator_id"], line["answer"], len(line["spans"])) for line in lines]
    assert said == [
        ("gold-person-3", "person-3", "accept", 2),
        ("first-person-1", "person-1", "accept", 2),
        ("first-person-2", "person-2", "accept", 0),
        ("second-person-2", "person-2", "accept", 2),
        ("suggestions", "suggestions", "ignore", 2),
    ]
    assert [line.get("_timestamp") for line in lines] == [int(LATE.timestamp())] * 4 + [None]
    assert [(span["source"], span["score"]) for span in lines[-1]["spans"]] == [("link", 0.75), ("model", 0.25)]
    assert made.losses == {
        "links of entities to resources": 2 + 1 + 2 + 2,
        "sentences not annotated in their layer, written as without entities": 1 + 1 + 2 + 2,
        "times of single sentences": 2,
    }


def test_prodigy_texts_are_read_once_as_who_is_asked_for_has_them() -> None:
    files = written("prodigy").files
    queen, bo = ("Queen", "band", None), ("Bo", "person", None)
    wanted = {
        "": [[queen, bo], [], []],
        "person-1": [[queen], [], [("Nobody", "band", None)]],
        "second-person-2": [[queen, bo], [], []],
    }
    for name, own in wanted.items():
        (document,) = read_files(files, "prodigy", annotator=name)
        assert spans(document) == own and document.losses == {"tasks by other annotators": 4}
    with pytest.raises(BadInput, match=r"no line is by the annotator 'ada'; those here are first-person-1, first-"):
        read_files(files, "prodigy", annotator="ada")


@pytest.mark.parametrize(("format", "suffix"), [("cas-xmi", "xmi"), ("cas-json", "json"), ("webanno-tsv", "tsv")])
def test_inception_has_a_file_for_each_person_and_one_for_the_gold(format: str, suffix: str) -> None:
    made = written(format)
    files = {name: data for name, data in made.files if name != "TypeSystem.xml"}
    people = [f"annotation/doc/{name}.{suffix}" for name in ("person-1", "person-2")]
    assert list(files) == [*people, f"curation/doc/CURATION_USER.{suffix}"]
    assert made.losses == {
        "sentences not annotated in their layer, written as without entities": 1 + 1 + 1,
        "stages of sentences (first, second)": 4,
        "names of who did single sentences": 2,
        "times of single sentences": 6,
        "sentences of the layer suggestions": 1,
    }
    queen, bo, gulls = ("Queen", "band", QUEEN), ("Bo", "person", NIL), ("Nobody", "band", None)
    wanted = ([[queen], [], [gulls]], [[queen, bo], [], []], [[queen, bo], [], []])
    for name, own in zip(files, wanted, strict=True):
        (document,) = read_files([(name, data) for name, data in made.files if not name.endswith(suffix)]
                                 + [(name, files[name])], format)  # fmt: skip
        assert (document.name, spans(document)) == (name.removesuffix(f".{suffix}"), own)


def test_inception_keeps_documents_nobody_has_begun_and_says_what_was_imported() -> None:
    bare = make_document("bare", [Record(ONE, None)], "webanno-tsv")
    begun = make_document("begun", [Record(ONE, None, {"first": Work((BAND,))})], "webanno-tsv")
    assert [name for name, _ in write_files([bare, begun], "webanno-tsv").files] == [
        "annotation/bare/INITIAL_CAS.tsv", "annotation/begun/imported.tsv"
    ]  # fmt: skip
    only = Record(ONE, None, {"suggestions": Work((BAND,), proposed=(("model", 0.5),))})
    made = write_files([make_document("doc", [only], "webanno-tsv")], "webanno-tsv")
    assert [name for name, _ in made.files] == ["annotation/doc/INITIAL_CAS.tsv"]
    assert made.losses == {"sentences of the layer suggestions": 1}


def test_label_studio_has_an_annotation_a_person_and_a_prediction_a_source() -> None:
    made = written("label-studio")
    ((task,),) = (json.loads(data) for _, data in made.files)
    said = [(each["layer"], each["created_username"], each["created_at"]) for each in task["annotations"]]
    early, late = "2026-05-01T09:00:00Z", "2026-05-02T10:30:00Z"
    people = [("first", "person-1"), ("first", "person-2"), ("second", "person-2"), ("gold", "person-3")]
    assert said == [(*pair, late) for pair in people]
    assert early not in json.dumps(task) and made.losses == {
        "sentences not annotated in their layer, written as without entities": 1 + 2 + 2 + 1,
        "times of single sentences": 2,
    }
    assert [each["ground_truth"] for each in task["annotations"]] == [False, False, False, True]
    assert [region["value"]["text"] for region in task["annotations"][0]["result"]] == ["Queen", "Nobody"]
    models = [(each["model_version"], each["score"], each["result"][0]["value"]) for each in task["predictions"]]
    assert models == [
        ("link", 0.75, {"start": 0, "end": 5, "text": "Queen", "labels": ["band"]}),
        ("model", 0.25, {"start": 10, "end": 12, "text": "Bo", "labels": ["person"]}),
    ]


@pytest.mark.parametrize(
    ("options", "wanted", "left"),
    [
        ({}, [[("Queen", "band", QUEEN), ("Bo", "person", NIL)], [], []],
         {"predictions": 2, "annotations by others": 3}),
        ({"annotator": "person-1"}, [[("Queen", "band", QUEEN)], [], [("Nobody", "band", None)]],
         {"predictions": 2, "annotations by others": 3}),
        ({"annotator": "nobody"}, [None] * 3, {"predictions": 2, "annotations by others": 4}),
        ({"take": "predictions", "annotator": "link"}, [[("Queen", "band", QUEEN)], [], []],
         {"annotations by people": 4, "predictions of other models": 1}),
    ],
)  # fmt: skip
def test_label_studio_annotations_of_one_person_are_read(options: dict[str, str], wanted: Any, left: Any) -> None:
    (document,) = read_files(written("label-studio").files, "label-studio", **options)
    assert spans(document) == wanted and document.losses == left


@pytest.mark.parametrize("by", [{"completed_by": 7}, {"completed_by": {"id": 7, "email": "b@x.org"}}, {"annotator": 7}])
def test_label_studio_names_its_annotators_in_several_ways(by: dict[str, Any]) -> None:
    label = {"start": 0, "end": 3, "text": "Ada", "labels": ["person"]}
    if "annotator" in by:
        tasks = [{"id": n, "text": "Ada won.", "label": [label], "annotator": n} for n in (7, 8)]
    else:
        value = {"type": "labels", "value": label}
        old = {"result": [], "created_at": "2026-01-01", **by}
        new = {"result": [value], "created_at": "2026-02-01", **by}
        tasks = [{"id": 1, "data": {"text": "Ada won."}, "annotations": [{"result": []}, new, old]}]
    first, *_ = read_files([("a.json", json.dumps(tasks).encode())], "label-studio", annotator="7")
    assert spans(first) == [[("Ada", "person", None)]]
    if "annotator" not in by:
        assert first.losses == {"annotations by others": 2}

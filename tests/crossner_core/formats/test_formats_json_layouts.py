"""Other tools' JSON lines: read as ours, given back as they came, refused where half said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from crossner_core.errors import BadInput
from crossner_core.formats import read_bytes, write
from crossner_core.formats.base import Parsed, Record
from crossner_core.schema import LabelledSentence, Span, fields_from_kept

WORDS = ["Mara", "Vell", "left", "The", "Tin", "Gulls"]
TEXT = "Mara Vell left The Tin Gulls"
SPANS = (Span(0, 2, "person"), Span(3, 6, "band"))
TAGS = {
    "IOB2": ["B-person", "I-person", "O", "B-band", "I-band", "I-band"],
    "IOB1": ["I-person", "I-person", "O", "I-band", "I-band", "I-band"],
    "BIOES": ["B-person", "E-person", "O", "B-band", "I-band", "E-band"],
}
CHARS = [[0, 9, "person"], [15, 28, "band"]]
LAYOUTS: dict[str, dict[str, Any]] = {
    "words and tags": {"tokens": WORDS, "ner_tags": TAGS["IOB2"]},
    "other names": {"words": WORDS, "labels": TAGS["IOB2"]},
    "a sentence of words": {"id": "s7", "sentence": WORDS, "ner": TAGS["IOB2"], "source": "own"},
    "words in a text": {"text": TEXT, "tokens": WORDS, "tags": TAGS["IOB2"]},
    "ranges of words": {"tokenized_text": WORDS, "ner": [[0, 1, "person"], [3, 5, "band"]]},
    "lists of spans": {"text": TEXT, "label": CHARS},
    "objects": {"text": TEXT, "entities": [{"start": a, "end": b, "label": c} for a, b, c in CHARS]},
    "offsets": {
        "text": TEXT,
        "entities": [{"id": 1, "start_offset": a, "end_offset": b, "label": c} for a, b, c in CHARS],
    },
    "tokens as objects": {
        "text": TEXT,
        "tokens": [{"text": word, "start": TEXT.index(word), "end": TEXT.index(word) + len(word)} for word in WORDS],
        "spans": [{"start": a, "end": b, "token_start": 0, "label": c} for a, b, c in CHARS],
    },
    "ents": {"text": TEXT, "ents": [{"start": a, "end": b, "label": c} for a, b, c in CHARS]},
    "words in a text, spans by character": {"text": TEXT, "tokens": WORDS, "entities": CHARS},
    "ranges' words with tags": {"tokenized_text": WORDS, "ner_tags": TAGS["IOB2"]},
}  # fmt: skip


def lines(*values: dict[str, Any]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in values).encode()


def read(*values: dict[str, Any], **options: Any) -> Parsed:
    return read_bytes(lines(*values), name="f.jsonl", **options)


@pytest.mark.parametrize("name", LAYOUTS)
def test_json_layouts_are_read_and_given_back(name: str) -> None:
    values = LAYOUTS[name]
    parsed = read(values, values | {"id": "other"})
    for record in parsed.sentences:
        assert (list(record.sentence.words), record.sentence.text, record.spans) == (WORDS, TEXT, SPANS)
    kept = dict(parsed.sentences[0].sentence.meta)
    assert kept == ({"source": "own"} if "source" in values else {})
    assert write(parsed.sentences, "jsonl", parsed.layout).encode() == lines(values, values | {"id": "other"})


@pytest.mark.parametrize("name", LAYOUTS)
def test_json_layouts_changed_spans_are_written_in_our_keys_alone(name: str) -> None:
    parsed = read(LAYOUTS[name])
    changed = Record(parsed.sentences[0].sentence, (Span(2, 3, "verb"),))
    written = write([changed], "jsonl", parsed.layout)
    assert set(json.loads(written)) <= {"id", "text", "tokens", "gold", "source"}
    again = read_bytes(written.encode(), name="f.jsonl")
    assert again.labelled == (LabelledSentence(again.sentences[0].sentence, (Span(2, 3, "verb"),)),)
    assert list(again.sentences[0].sentence.words) == WORDS


@pytest.mark.parametrize("scheme", TAGS)
def test_json_layouts_the_scheme_is_that_of_the_whole_file(scheme: str) -> None:
    ranged = {"tokenized_text": WORDS, "ner_tags": TAGS[scheme]}
    assert read(ranged).sentences[0].spans == SPANS
    bare = {"tokens": ["Mara", "left"]}
    assert read(bare, {"tokens": WORDS, "ner_tags": TAGS[scheme]}).sentences[1].spans == SPANS
    plain = {"tokens": ["Mara", "left"], "ner_tags": ["O", "O"]}
    parsed = read(plain, {"tokens": WORDS, "ner_tags": TAGS[scheme]})
    assert [record.spans for record in parsed.sentences] == [(), SPANS]
    assert write(parsed.sentences, "jsonl", parsed.layout).encode() == lines(
        plain, {"tokens": WORDS, "ner_tags": TAGS[scheme]}
    )


def test_json_layouts_tell_unlabelled_from_empty() -> None:
    parsed = read({"tokens": WORDS}, {"text": TEXT, "entities": []}, {"text": TEXT, "label": "news"})
    assert [record.spans for record in parsed.sentences] == [None, (), None]
    assert parsed.sentences[2].sentence.meta["label"] == "news"  # what is no list of spans is metadata
    ours = {"text": TEXT, "entities": [[0, 4, "x"]], "gold": []}
    assert read(ours).sentences[0].spans == ()


def test_json_layouts_gold_is_what_somebody_stands_for() -> None:
    spans = [{"start": a, "end": b, "label": c} for a, b, c in CHARS]
    tokens = [{"text": word, "start": TEXT.index(word), "end": TEXT.index(word) + len(word)} for word in WORDS]
    tasks = [
        {"text": TEXT, "tokens": tokens, "spans": spans, "answer": "reject"},
        {"text": TEXT, "tokens": tokens, "spans": [], "answer": "ignore"},
        {"text": TEXT, "tokens": tokens, "spans": [], "answer": "accept"},
        {"text": TEXT, "tokens": tokens},
        {"text": TEXT, "entities": CHARS, "answer": "Rome"},  # a field of one's own
        {"text": TEXT, "label": []},
        {"text": TEXT, "entities": [], "relations": []},
        {"text": TEXT, "spans": []},
        {"tokenized_text": WORDS, "ner": []},
    ]
    parsed = read(*tasks)
    assert [record.spans for record in parsed.sentences] == [None, None, (), None, SPANS, None, None, (), ()]
    assert all(list(record.sentence.words) == WORDS for record in parsed.sentences)
    assert write(parsed.sentences, "jsonl", parsed.layout).encode() == lines(*tasks)


def test_json_layouts_blank_tokens_are_left_out() -> None:
    tokens = [{"start": 0, "end": 4}, {"start": 5, "end": 6}, {"start": 6, "end": 10}]
    parsed = read({"text": "Mara  left", "tokens": tokens, "ents": [{"start": 0, "end": 4, "label": "person"}]})
    assert parsed.sentences[0].sentence.words == ("Mara", "left") and parsed.sentences[0].spans == (
        Span(0, 1, "person"),
    )


def test_json_layouts_a_line_that_was_read_otherwise_before_can_be_written() -> None:
    line = '{"text": "a b",  "label": [[0, 2, "x"]]}\n'  # its spacing is no layout's, so it was kept as it came
    layout = read({"text": "a b"}).layout
    sentence = read({"text": "a b"}).sentences[0].sentence
    meta = {"label": [[0, 2, "x"]], "_layout": {"jsonl": {"raw": line.strip(), "keys": ["text", "label"]}}}
    kept = replace(sentence, **fields_from_kept(meta))
    assert json.loads(write([Record(kept, None)], "jsonl", layout)) == {
        "text": "a b",
        "label": [[0, 2, "x"]],
        "gold": None,
    }


def test_json_layouts_spans_inside_a_word_cut_it() -> None:
    text = "Velmark-based U.S. bands"
    parsed = read({"text": text, "entities": [[0, 7, "city"], [14, 18, "country"]]})
    sentence, spans = parsed.sentences[0].sentence, parsed.sentences[0].spans
    assert spans is not None
    assert [sentence.surface(span.start, span.end) for span in spans] == ["Velmark", "U.S."]
    assert write(parsed.sentences, "jsonl", parsed.layout).encode() == lines(
        {"text": text, "entities": [[0, 7, "city"], [14, 18, "country"]]}
    )


def test_json_layouts_types_are_mapped_and_checked() -> None:
    parsed = read(LAYOUTS["words and tags"], type_map={"band": "group", "person": ""})
    assert parsed.sentences[0].spans == (Span(3, 6, "group"),)
    with pytest.raises(BadInput, match="entity type 'band' is not one of person"):
        read(LAYOUTS["lists of spans"], types=("person",))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tokens": ["a", "b"], "ner_tags": [0, 3]}, "ner_tags are numbers, .* write tags such as"),
        ({"tokens": ["a", "b"], "ner_tags": ["O"]}, "1 ner_tags for 2 words"),
        ({"tokens": ["a", "b"], "ner_tags": ["O", "song"]}, "'song' is not a tag"),
        ({"tokens": ["a", "b"], "tags": ["O", "I-song"]}, "I-song"),
        ({"text": "a b", "tokens": ["a", "c"]}, "tokens holds 'c', which is not in the text after character 1"),
        ({"tokens": ["a", ""], "ner_tags": ["O", "O"]}, "tokens holds ''"),
        ({"tokenized_text": ["a"], "ner": [[0, 1, "x"]]}, "lies outside the 1 words"),
        ({"tokenized_text": ["a"], "ner": [["0", 1, "x"]]}, "write .first word, last word, type."),
        ({"text": "a b", "entities": [[0, 1, "x"], [2, "x"]]}, "entities holds .* write .start, end, type."),
        ({"text": "a b", "spans": [{"start": 0, "end": 1}]}, "which has no type"),
        ({"text": "a b", "entities": [[0, 1]]}, "entities holds .* without integer offsets"),
        ({"text": "a b", "entities": [["0", "1", "x"]]}, "entities holds .* without integer offsets"),
        ({"tokens": ["a", "b"], "entities": [{"type": "x", "start": 0, "end": 1}]}, "write ner_tags, one per word"),
        ({"tokens": ["a", "b"], "spans": [[0, 1, "x"]]}, "spans holds .* beside tokens"),
        ({"text": "a b", "label": [[0, 9, "x"]]}, "lies outside the text's 3 characters"),
        ({"text": "a b", "label": [[0, 3, "x"], [2, 3, "y"]]}, "overlaps"),
        ({"text": "a b", "label": [[0, 2, "x"]]}, "not on a token boundary"),
    ],
)
def test_json_layouts_what_is_half_said_is_refused(values: dict[str, Any], message: str) -> None:
    good = {"tokens": ["a", "b"], "tags": ["O", "B-song"]}
    with pytest.raises(BadInput, match=f"^f.jsonl:2: .*{message}"):
        read(good, values)
    parsed = read(good, values, skip_bad=True)
    assert len(parsed.sentences) == 1 and [problem.line for problem in parsed.problems] == [2]


def test_json_layouts_a_list_of_objects_says_what_to_do() -> None:
    with pytest.raises(BadInput, match="The file is one JSON list; write one object per line"):
        read_bytes(b'[\n{"text": "a"}\n]\n', name="f.json")

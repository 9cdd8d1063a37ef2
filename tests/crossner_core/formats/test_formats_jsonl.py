from __future__ import annotations

import json

import pytest

from crossner_core.errors import BadInput
from crossner_core.formats import read_bytes, write
from crossner_core.formats.base import Parsed, Record
from crossner_core.schema import Link, Sentence, Span, Token
from crossner_core.tokenize import tokenize

TEXT = "Mira Kostova's café 👩🏽‍🚀"


def read(*lines: str | dict[str, object], **options: object) -> Parsed:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines)
    return read_bytes(f"{text}\n".encode(), name="f.jsonl", **options)


def back(parsed: Parsed) -> str:
    return write(parsed.sentences, "jsonl", parsed.layout).removesuffix("\n")


def test_jsonl_reads_text_links_gold_and_meta() -> None:
    gold = [{"start": 0, "end": 12, "type": "person", "surface": "Mira Kostova"}]
    links = [{"start": 15, "end": 19, "target": "Café"}]
    parsed = read({"id": "m-1", "text": TEXT, "links": links, "gold": gold, "page": {"n": [1, None]}})
    record = parsed.sentences[0]
    assert record.spans == (Span(0, 2, "person"),)
    assert record.sentence.links == (Link(3, 4, "Café"),)
    assert record.sentence.id == "m-1"
    assert record.sentence.tokens == tokenize(TEXT)
    assert record.sentence.meta["page"] == {"n": [1, None]}


def test_jsonl_offsets_are_code_points_and_tokens_may_be_given() -> None:
    parsed = read(
        {"text": "👩🏽‍🚀ab", "tokens": [[0, 4], [4, 5], [5, 6]], "gold": [{"start": 5, "end": 6, "type": "x"}]}
    )
    assert parsed.sentences[0].sentence.tokens == (Token(0, 4), Token(4, 5), Token(5, 6))
    assert parsed.sentences[0].spans == (Span(2, 3, "x"),)
    assert parsed.sentences[0].sentence.id == "f-1"


def test_jsonl_tells_no_gold_from_empty_gold() -> None:
    spans = [
        record.spans for record in read({"text": "a"}, {"text": "b", "gold": []}, {"text": "c", "gold": None}).sentences
    ]
    assert spans == [None, (), None]


@pytest.mark.parametrize(
    "line",
    [
        '{"text": "a b", "zeta": 1, "id": "q", "gold": [], "alpha": {"b": 1, "a": 2}}',
        '{"id":"q","text":"a é","gold":[{"start":0,"end":1,"type":"x"}]}',
        '{"id": "q", "text": "a \\u00e9"}',
        '{ "id": "q" , "text": "a \\/ b", "n": 1.50e3, "n": 2 }',
        '{"id": 7, "text": "a b", "gold": [{"end": 3, "start": 2, "type": "x", "note": "?"}]}',
        '{"text": "a b", "gold": [{"start": 2, "end": 3, "type": "x"}, {"start": 0, "end": 1, "type": "y"}]}',
        '{"id": "q", "text": "a b", "tokens": [[0, 1], [2, 3]]}',
        '{"id": "q", "text": "a b", "links": [], "tokens": null, "gold": null}',
        '{"id": "q", "text": "a\\nb\\u2028c", "_layout": {"conll": {"raw": "?"}}}',
        '  {"id": "q", "text": " a "}  ',
        '{"text": "no id", "gold": []}',
        '{"id": "q", "text": "a b", "gold": [{"start": 0, "end": 1, "surface": "a", "type": "x"}]}',
    ],
)
def test_jsonl_gives_back_every_line(line: str) -> None:
    parsed = read(line, '{"id": "other", "text": "plain"}')
    assert back(parsed) == f'{line}\n{{"id": "other", "text": "plain"}}'


def test_jsonl_new_gold_keeps_order_and_meta() -> None:
    parsed = read('{"zeta": 1, "text": "a b", "id": "q", "alpha": [2]}')
    changed = Record(parsed.sentences[0].sentence, (Span(1, 2, "x"),))
    line = write([changed], "jsonl", parsed.layout)
    assert (
        line == '{"zeta": 1, "text": "a b", "id": "q", "alpha": [2], "gold": [{"start": 2, "end": 3, "type": "x"}]}\n'
    )


def test_jsonl_raw_line_gives_way_to_what_changed() -> None:
    parsed = read('{"id": "q",  "text": "a b", "gold": [], "n": 1}')
    sentence = parsed.sentences[0].sentence
    assert '"type": "x"' in write([Record(sentence, (Span(0, 1, "x"),))], "jsonl", parsed.layout)
    meta = {**sentence.meta, "n": 2}
    changed = Sentence(sentence.id, sentence.text, sentence.tokens, sentence.links, meta)
    assert json.loads(write([Record(changed, ())], "jsonl", parsed.layout))["n"] == 2


def test_jsonl_maps_types_there_and_back() -> None:
    line = '{"id": "q", "text": "a b", "gold": [{"start": 0, "end": 1, "type": "PER"}]}'
    parsed = read(line, type_map={"PER": "person"}, types=("person",))
    assert parsed.sentences[0].spans == (Span(0, 1, "person"),)
    assert back(parsed) == line


GOOD = {"id": "good", "text": "fine"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON list where an object with text is expected"),
        ('{"text": NaN}', "NaN is not a JSON value"),
        ("[" * 50_000, "nested too deeply"),
        ({"id": "q"}, "text must be a non-empty string, not 'null'"),
        ({"text": "  "}, "text must be a non-empty string"),
        ({"text": 3}, "text must be a non-empty string"),
        ('{"text": "a \\ud800"}', "half a surrogate pair"),
        ({"text": "a", "id": ["q"]}, "id must be"),
        ({"text": "a", "id": "good"}, "id 'good' is already on line 1"),
        ({"text": "a b", "tokens": [[0, 2], [1, 3]]}, r"token \[1, 3\] overlaps"),
        ({"text": "a b", "tokens": [[0, 9]]}, "lies outside the text's 3 characters"),
        ({"text": "a b", "tokens": [[1, 2]]}, "white space"),
        ({"text": "a b", "tokens": [1, 2]}, "list of .start, end. character offsets"),
        ({"text": "a b", "tokens": []}, "a sentence of 0 tokens"),
        ({"text": "a b", "gold": {}}, "gold must be a list of objects"),
        ({"text": "a b", "gold": [{"start": 0, "end": 1}]}, "gold span .* has no type"),
        ({"text": "a b", "gold": [{"start": 0, "end": 9, "type": "x"}]}, r"\[0, 9\) lies outside"),
        ({"text": "a b", "gold": [{"start": True, "end": 1, "type": "x"}]}, "lies outside"),
        ({"text": "a b", "gold": [{"start": 0.0, "end": 1, "type": "x"}]}, "lies outside"),
        ({"text": "ab c", "gold": [{"start": 0, "end": 1, "type": "x"}]}, "'a': 1 is not on a token boundary"),
        ({"text": "ab c", "gold": [{"start": 1, "end": 2, "type": "x"}]}, "'b': 1 is not on a token boundary"),
        ({"text": "a b", "gold": [{"start": 0, "end": 1, "type": "x", "surface": "b"}]}, "covers 'a', not 'b'"),
        (
            {"text": "a b", "gold": [{"start": 0, "end": 3, "type": "x"}, {"start": 2, "end": 3, "type": "y"}]},
            "overlaps",
        ),
        ({"text": "a b", "gold": [{"start": 0, "end": 1, "type": "z"}]}, "entity type 'z' is not one of x, y"),
        ({"text": "a b", "links": [{"start": 0, "end": 1}]}, "link .* has no target"),
        ({"text": "a b", "links": "no"}, "links must be a list"),
    ],
)
def test_jsonl_bad_lines_are_named_and_may_be_skipped(line: str | dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=f"^f.jsonl:2: .*{message}"):
        read(GOOD, line, types=("x", "y"))
    parsed = read(GOOD, line, {"id": "last", "text": "end"}, types=("x", "y"), skip_bad=True)
    assert [record.sentence.id for record in parsed.sentences] == ["good", "last"]
    assert [problem.line for problem in parsed.problems] == [2]


def test_jsonl_meta_may_not_hide_a_field() -> None:
    with pytest.raises(BadInput, match="metadata may not be called 'gold'"):
        write([Sentence("s", "a", tokenize("a"), meta={"gold": 1})], "jsonl")


def test_jsonl_ids_that_several_files_share_are_told_apart() -> None:
    records = [Record(Sentence(id, text, tokenize(text))) for id, text in (("a", "x"), ("a", "y"), ("a-2", "z"))]
    again = read_bytes(write(records, "jsonl").encode(), name="f", format="jsonl").sentences
    assert [(r.sentence.id, r.sentence.text) for r in again] == [("a", "x"), ("a-3", "y"), ("a-2", "z")]


def test_jsonl_half_a_surrogate_pair_is_refused_in_a_file_of_escapes() -> None:
    with pytest.raises(BadInput, match="f:2: Sentence 'f-2': its text holds a character that cannot be stored"):
        read_bytes(b'{"text": "\\u00e9"}\n{"text": "\\ud800"}\n', name="f", format="jsonl")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"id": "\0"}, "its id holds a character"),
        ({"links": [{"start": 0, "end": 3, "target": "\0"}]}, "its link '.x00' holds a character"),
        ({"n": {"\0": 1}}, "its metadata holds a character"),
        ({"n": json.loads("[" * 101 + "]" * 101)}, "its metadata is nested deeper than 100 levels"),
        ({"gold": [{"start": 0, "end": 3, "type": "a\tb"}]}, "a character that a tag cannot hold"),
        ({"gold": [{"start": 0, "end": 3, "type": " x"}]}, "white space at an end"),
    ],
)
def test_jsonl_refuses_what_could_not_come_out_again(values: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=f"f:1: .*{message}"):
        read_bytes(json.dumps({"text": "Ada", **values}).encode(), name="f", format="jsonl")


@pytest.mark.parametrize("meta", [{"entities": [[0, 3, "x"]]}, {"spans": [{"start": 0}]}, {"words": ["no"]}])
def test_jsonl_metadata_that_looks_like_annotation_stays_metadata(meta: dict[str, object]) -> None:
    record = Record(Sentence("a", "Ada", tokenize("Ada"), meta=meta))
    (again,) = read_bytes(write([record], "jsonl").encode(), name="f", format="jsonl").sentences
    assert (again.spans, again.sentence.meta) == (None, meta)


def test_jsonl_holds_the_longest_text_that_comes_in() -> None:
    text = "\U00010348" * 99_999
    record = read_bytes(text.encode(), name="f", format="plain").sentences[0]
    line = json.dumps({"text": text}) + "\n"
    for data in (line, write([record], "jsonl"), write([record], "conll")):
        format = "jsonl" if data.startswith("{") else "conll"
        assert read_bytes(data.encode(), name="f", format=format).sentences[0].sentence.text == text

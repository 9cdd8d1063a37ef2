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

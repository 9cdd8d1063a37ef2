"""What holds for every format in the registry."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import make_document, open_file, read_bytes, write, write_files
from crossner_core.formats.base import Record, format_ids, get_format, layout_from_dict
from crossner_core.schema import LabelledSentence, Link, Sentence, SentenceLayout, Span
from crossner_core.tokenize import tokenize

# Formats of documents have tests of their own.
OF_ONE_TEXT = ["conll", "jsonl", "plain"]
TEXTS = ["Mira Kostova left The Tin Gulls .", "Nobody came .", "שלום 👩🏽‍🚀 cafe\u0301 !"]
SAMPLES = {
    "plain": "Mira Kostova sang.\nNobody came.\n",
    "conll": "Mira\tB-person\nKostova\tI-person\nsang\tO\n\nNobody\tO\n",
    "jsonl": '{"id": "a", "text": "Mira sang.", "gold": [{"start": 0, "end": 4, "type": "person"}]}\n',
}


def stored(number: int, spans: tuple[Span, ...] | None = ()) -> Record:
    """A sentence as the store holds it: no layout of any file."""
    text = TEXTS[number]
    return Record(Sentence(f"s-{number}", text, tokenize(text)), spans)


STORED = [stored(0, (Span(0, 2, "musicalartist"), Span(3, 6, "band"))), stored(1), stored(2)]


def test_formats_registry_has_ours_under_stable_ids() -> None:
    assert set(format_ids()) >= {"conll", "jsonl", "plain"}
    assert all(get_format(id).title and get_format(id).suffixes for id in format_ids())
    with pytest.raises(InvalidConfig, match="'xml'; choose one of brat, cas-json"):
        get_format("xml")


@pytest.mark.parametrize("format", OF_ONE_TEXT)
def test_formats_sentences_of_the_store_can_be_written_and_read(format: str) -> None:
    parsed = read_bytes(write(STORED, format).encode(), name="export", format=format)
    assert [r.sentence.words for r in parsed.sentences] == [r.sentence.words for r in STORED]
    if format != "plain":
        assert [record.spans for record in parsed.sentences] == [record.spans for record in STORED]
        assert parsed.labelled[0] == LabelledSentence(parsed.sentences[0].sentence, STORED[0].spans or ())
    else:
        assert parsed.labelled == ()


@pytest.mark.parametrize("format", OF_ONE_TEXT)
def test_formats_tell_unlabelled_from_empty(format: str) -> None:
    bare = write([stored(0, None), stored(1, None)], format)
    assert all(r.spans is None for r in read_bytes(bare.encode(), name="bare", format=format).sentences)


@pytest.mark.parametrize("format", OF_ONE_TEXT)
@pytest.mark.parametrize("change", ["none", "crlf", "cr", "bom", "no end", "blank lines", "blank start", "spaces"])
def test_formats_give_back_the_layout(format: str, change: str) -> None:
    text = {
        "none": SAMPLES[format],
        "crlf": SAMPLES[format].replace("\n", "\r\n"),
        "cr": SAMPLES[format].replace("\n", "\r"),
        "bom": "\ufeff" + SAMPLES[format],
        "no end": SAMPLES[format].rstrip("\n"),
        "blank lines": SAMPLES[format].replace("\n", "\n\n\n").replace("\tO\n\n\n", "\tO\n") + "\n\n",
        "blank start": "\n \n" + SAMPLES[format],
        "spaces": SAMPLES[format] + "  \n\t",
    }[change]
    if format == "conll" and change == "blank lines":
        text = SAMPLES["conll"].replace("\n\n", "\n\n\n \n") + "\n\n"
    parsed = read_bytes(text.encode(), name="file", format=format)
    assert write(parsed.sentences, format, parsed.layout) == text
    again = layout_from_dict(json.loads(json.dumps(parsed.layout.to_dict())))
    assert again == parsed.layout


@pytest.mark.parametrize("format", OF_ONE_TEXT)
@given(st.lists(st.text(st.sampled_from('Ab#.-O \t\n\r{}"\u00a0\u2028\u0301\ufeff'), max_size=9), max_size=9))
@settings(deadline=None, max_examples=150)
def test_formats_any_text_is_given_back_or_refused(format: str, lines: list[str]) -> None:
    text = SAMPLES[format] + "\n".join(lines)
    try:
        parsed = read_bytes(text.encode(), name="file", format=format)
    except BadInput as error:
        assert error.problems
    else:
        assert write(parsed.sentences, format, parsed.layout) == text


@pytest.mark.parametrize("format", OF_ONE_TEXT)
@pytest.mark.parametrize("data", [b"", b"\n\n", b" \r\n"])
def test_formats_refuse_an_empty_file(format: str, data: bytes) -> None:
    for skip_bad in (False, True):
        with pytest.raises(BadInput, match="x:1: the file is empty"):
            read_bytes(data, name="x", format=format, skip_bad=skip_bad)


@pytest.mark.parametrize("format", OF_ONE_TEXT)
def test_formats_bad_utf8_names_line_and_byte(format: str) -> None:
    lines = SAMPLES[format].encode().splitlines(keepends=True)
    data = b"".join([*lines, b"\n" if format == "conll" else b"", b"\xff\xfebad\n"])
    line = len(data.splitlines())
    with pytest.raises(BadInput, match=f"f.x:{line}: byte 0xff at character 1 is not UTF-8"):
        read_bytes(data, name="f.x", format=format)
    parsed = read_bytes(data, name="f.x", format=format, skip_bad=True)
    assert parsed.sentences == read_bytes(b"".join(lines), name="f.x", format=format).sentences
    assert [problem.line for problem in parsed.problems] == [line]


@pytest.mark.parametrize("format", OF_ONE_TEXT)
def test_formats_refuse_binary_and_utf16(format: str) -> None:
    with pytest.raises(BadInput, match="NUL"):
        read_bytes(SAMPLES[format].encode() + b"a\x00b\n", name="x", format=format)
    with pytest.raises(BadInput, match="UTF-16"):
        read_bytes(SAMPLES[format].encode("utf-16"), name="x", format=format)


@pytest.mark.parametrize("format", OF_ONE_TEXT)
@pytest.mark.parametrize("word", ["word ", "a\t", "[", '{"a":', "I-", "\u0301"])
def test_formats_a_line_of_millions_of_tokens_is_refused_in_no_time(format: str, word: str) -> None:
    data = (SAMPLES[format] + "\n" + word * 2_100_000 + "\n").encode()
    begin = time.perf_counter()
    with pytest.raises(BadInput, match=r"characters in one line; at most [\d,]+00,000 are read") as caught:
        read_bytes(data, name="x", format=format)
    assert time.perf_counter() - begin < 5
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("format", OF_ONE_TEXT)
def test_formats_a_sentence_has_a_most_of_tokens(format: str) -> None:
    long = Sentence("long", "a " * 30, tokenize("a " * 30))
    text = write([long], format)
    with pytest.raises(BadInput, match=r"x:1: a sentence of 30 tokens; (at most|1 to) 29"):
        read_bytes(text.encode(), name="x", format=format, max_tokens=29)
    assert len(read_bytes(text.encode(), name="x", format=format, max_tokens=30).sentences) == 1


def test_formats_message_shows_twenty_problems_and_counts_the_rest() -> None:
    data = b"".join(b"A\tO\nB\tX-x\n\n" for _ in range(25))
    with pytest.raises(BadInput) as caught:
        read_bytes(data, name="x.tsv")
    assert len(caught.value.problems) == 25
    assert "… and 5 more problems." in str(caught.value)
    assert str(caught.value).count("x.tsv:") == 20


def test_formats_nothing_is_left_when_every_sentence_is_bad() -> None:
    with pytest.raises(BadInput, match="every sentence is bad"):
        read_bytes(b"A\tX-x\nB\tO\n", name="x.tsv", skip_bad=True)


def test_formats_unknown_option_names_the_valid() -> None:
    with pytest.raises(InvalidConfig, match=r"plain has no option scheme; it has skip_bad, types, .*split"):
        read_bytes(b"a\n", name="x.txt", scheme="IOB2")
    with pytest.raises(InvalidConfig, match="at least 1"):
        read_bytes(b"a\n", name="x.txt", max_tokens=0)


@pytest.mark.parametrize(
    ("name", "text", "format"),
    [
        ("a.jsonl", SAMPLES["jsonl"], "jsonl"),
        ("a.txt", SAMPLES["jsonl"], "jsonl"),
        ("a.txt", SAMPLES["conll"], "conll"),
        ("a.txt", SAMPLES["conll"].replace("\t", " "), "conll"),
        ("a.txt", "-DOCSTART- -X- O O\n\nMira NN B O\n", "conll"),
        ("a.txt", "Mira\nsang\n\nNobody\ncame\n", "conll"),
        ("a.txt", SAMPLES["plain"], "plain"),
        ("a.txt", "Two words\nTwo more\n", "plain"),
        ("a", "One\n", "plain"),
        ("a.bio", "One\tO\n", "conll"),
        ("a.TSV", "One\tO\n", "conll"),
        ("a.weird", SAMPLES["conll"], "conll"),
    ],
)
def test_formats_guess_by_suffix_and_content(name: str, text: str, format: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert open_file(path).format == format


@pytest.mark.parametrize("text", ["Mira\tB-x\nsang\n", "Mira B-x\nsang VB O O\n"])
def test_formats_broken_columns_are_not_taken_for_prose(text: str) -> None:
    with pytest.raises(BadInput, match=r"a.txt:2: . columns where the file has 2 columns"):
        read_bytes(text.encode(), name="a.txt")


def test_formats_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        open_file(tmp_path / "none.txt")


def test_formats_links_and_meta_of_the_store_go_to_json_only() -> None:
    text = "See Tromsø\nnow"
    sentence = Sentence("s", text, tokenize(text), (Link(1, 2, "Tromsø"),), {"page": 7}, layout=SentenceLayout("conll"))
    line = json.loads(write([sentence], "jsonl"))
    assert line == {"id": "s", "text": text, "links": [{"start": 4, "end": 10, "target": "Tromsø"}], "page": 7}
    assert write([sentence], "plain") == "See Tromsø now\n"
    assert write([sentence], "conll") == "See\nTromsø\nnow\n"


def test_formats_layout_fits_its_format_only() -> None:
    parsed = read_bytes(SAMPLES["plain"].encode(), name="x", format="plain")
    with pytest.raises(InvalidConfig, match="layout of format plain does not fit format conll"):
        write(parsed.sentences, "conll", parsed.layout)
    with pytest.raises(InvalidConfig, match="Unknown layout keys x; valid are newline"):
        layout_from_dict({"format": "plain", "x": 1})


@pytest.mark.parametrize("format", ["conll", "jsonl"])
def test_formats_stop_after_many_problems_and_say_how_far_they_came(format: str) -> None:
    bad = {"conll": "Ada\tQ-x\n\n", "jsonl": "{\n"}[format] * 100_000
    with pytest.raises(BadInput) as caught:
        read_bytes((SAMPLES[format] + bad).encode(), name="file", format=format)
    assert len(caught.value.problems) == 2_000 and "… and 1980 more problems." in str(caught.value)
    last, total = {"conll": ("4,004", "200,005"), "jsonl": ("2,001", "100,001")}[format]
    assert f"Reading stopped after 2,000 problems, at line {last} of {total}." in str(caught.value)
    few = read_bytes((SAMPLES[format] + bad[:50_000]).encode(), name="file", format=format, skip_bad=True)
    assert len(few.problems) > 5_000 and few.sentences


@pytest.mark.timeout(20)
@pytest.mark.parametrize("run", ['"', "(", "x.", "…", "http://a.b/", '"a', "Dr. ", ". "])
def test_formats_paragraphs_of_long_runs_are_refused_or_read_at_once(run: str) -> None:
    text = f"Ada {run * (90_000 // len(run))} sang . Ben left."
    try:
        parsed = read_bytes(text.encode(), name="file", format="plain", split="paragraphs")
        assert parsed.sentences
    except BadInput as error:
        assert "at most 2,000 are read" in str(error)


@pytest.mark.parametrize("format", OF_ONE_TEXT)
def test_formats_a_text_that_begins_with_a_byte_order_mark_keeps_it(format: str) -> None:
    text = "\ufeffAda sang"
    record = Record(Sentence("a", text, tokenize(text)))
    data = dict(write_files([make_document("x", [record], format)], format).files)["x"]
    assert read_bytes(data, name="x", format=format).sentences[0].sentence.words == record.sentence.words


@pytest.mark.parametrize("format", OF_ONE_TEXT)
def test_formats_without_the_file_s_layout_its_gaps_are_left_out(format: str) -> None:
    """The ends of an old Mac's lines between lines that end otherwise would join two sentences."""
    gap = "\n\n" if format == "conll" else "\n"
    text = SAMPLES[format].rstrip("\n") + gap + SAMPLES[format].replace('"a"', '"b"')
    parsed = read_bytes(text.replace(gap, f"{gap}\n").replace("\n", "\r").encode(), name="x", format=format)
    again = read_bytes(write(parsed.sentences, format).encode(), name="x", format=format)
    assert [r.sentence.words for r in again.sentences] == [r.sentence.words for r in parsed.sentences]


@pytest.mark.parametrize("format", OF_ONE_TEXT)
def test_formats_a_file_name_that_is_no_text_does_not_spoil_its_sentences(format: str) -> None:
    sentence = read_bytes(SAMPLES[format].encode(), name="a\udce9\0", format=format).sentences[-1].sentence
    assert (sentence.document or "").startswith("a\ufffd\ufffd") and sentence.id.isprintable()


def test_formats_a_type_of_two_words_comes_back_from_columns() -> None:
    record = Record(Sentence("a", "Ada sang", tokenize("Ada sang")), (Span(0, 2, "hip hop"),))
    assert read_bytes(write([record], "conll").encode(), name="x").sentences[0].spans == record.spans

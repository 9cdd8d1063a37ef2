from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import make_document, read_bytes, write, write_files
from crossner_core.formats.base import Parsed, Record
from crossner_core.schema import Sentence
from crossner_core.tokenize import tokenize


def read(text: str, **options: object) -> Parsed:
    return read_bytes(text.encode("utf-8"), name="f.txt", format="plain", **options)


def back(parsed: Parsed) -> str:
    return write(parsed.sentences, "plain", parsed.layout)


def texts(parsed: Parsed) -> list[str]:
    return [record.sentence.text for record in parsed.sentences]


def test_plain_reads_a_sentence_a_line_as_it_stands() -> None:
    text = "  One sentence. Still one. \n\nשלום 👍🏽\n"
    parsed = read(text)
    assert texts(parsed) == ["  One sentence. Still one. ", "שלום 👍🏽"]
    assert all(record.spans is None for record in parsed.sentences)
    assert back(parsed) == text


def test_plain_splits_paragraphs_and_joins_them_again() -> None:
    text = "\nA heading\n\n  Dr. Lund came.  She  left\nat once. Bye\r\n\r\nEnd\n\n"
    parsed = read(text, split="paragraphs")
    assert texts(parsed) == ["A heading", "Dr. Lund came.", "She  left\nat once.", "Bye", "End"]
    assert back(parsed) == text


@given(
    st.text(st.sampled_from("Ab. !\n\r é👍\u0301"), min_size=1, max_size=60), st.sampled_from(["lines", "paragraphs"])
)
@settings(deadline=None)
def test_plain_gives_back_any_text(text: str, split: str) -> None:
    try:
        parsed = read(text, split=split)
    except BadInput:
        assert not text.strip()
    else:
        assert back(parsed) == text


def test_plain_bad_lines_spoil_only_their_sentences() -> None:
    data = b"One here. Two\nhere \xff bad. Three here.\n\nFour.\n"
    with pytest.raises(BadInput, match=r"f.txt:2: byte 0xff at character 6 is not UTF-8"):
        read_bytes(data, name="f.txt", split="paragraphs")
    parsed = read_bytes(data, name="f.txt", split="paragraphs", skip_bad=True)
    assert texts(parsed)[0] == "One here." and texts(parsed)[-1] == "Four."
    assert len(parsed.problems) == 1


def test_plain_refuses_an_unknown_split() -> None:
    with pytest.raises(InvalidConfig, match="lines or paragraphs, not 'words'"):
        read("a", split="words")


@pytest.mark.parametrize("left", [(0, 2, 4), (4, 1, 0)])
def test_plain_paragraphs_of_which_some_are_missing_or_moved_are_written_as_lines(left: tuple[int, ...]) -> None:
    parsed = read("He came. She\n\nleft\n\nin a hurry. Nobody\nsaw her.", split="paragraphs")
    records = [parsed.sentences[number] for number in left]
    written = write_files([make_document("f", records, "plain", parsed.layout)], "plain")
    texts = [record.sentence.text.replace("\n", " ") for record in records]
    assert [r.sentence.text for r in read(written.files[0][1].decode()).sentences] == texts
    assert written.losses == {"line breaks": 1}


def test_plain_writes_line_breaks_within_a_text_as_spaces_and_counts_them() -> None:
    texts = ["a\nb", "a\r\nb", "a\rb", "a\r"]
    records = [Record(Sentence(str(number), text, tokenize(text))) for number, text in enumerate(texts)]
    written = write_files([make_document("f", records, "plain")], "plain")
    assert written.losses == {"line breaks": 3}
    assert [r.sentence.text for r in read(written.files[0][1].decode()).sentences] == ["a b", "a b", "a\rb", "a "]

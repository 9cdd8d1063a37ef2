from __future__ import annotations

import dataclasses

import pytest

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import make_document, read_bytes, read_files, write, write_files
from crossner_core.formats.base import Parsed, Record
from crossner_core.formats.conll import ConllLayout
from crossner_core.schema import Sentence, Span, sentence_from_words

TWO = "Mira\tB-person\nKostova\tI-person\nsang\tO\n\nin\tO\nPorto\tB-location\n"


def read(text: str, **options: object) -> Parsed:
    return read_bytes(text.encode(), name="f.conll", **options)


def layout(parsed: Parsed) -> ConllLayout:
    assert isinstance(parsed.layout, ConllLayout)
    return parsed.layout


def back(parsed: Parsed) -> str:
    return write(parsed.sentences, "conll", parsed.layout)


def test_conll_reads_words_and_spans() -> None:
    parsed = read(TWO)
    assert [record.sentence.words for record in parsed.sentences] == [("Mira", "Kostova", "sang"), ("in", "Porto")]
    assert [record.spans for record in parsed.sentences] == [(Span(0, 2, "person"),), (Span(1, 2, "location"),)]
    assert [record.sentence.id for record in parsed.sentences] == ["f-1", "f-2"]
    assert parsed.type_names == ("location", "person")


@pytest.mark.parametrize(
    ("text", "token", "tag", "index"),
    [
        ("Mira\nsang\n", 0, None, None),
        ("Mira NN\nsang VB\n", 0, None, None),
        ("Mira NN I-NP B-per\nsang VB B-VP O\n", 0, 3, None),
        ("0\tMira\tB-per\n1\tsang\tO\n\n0\tNo\tO\n", 1, 2, 0),
        ("1\tMira\n2\tsang\n", 1, None, 0),
        ("B-per\tMira\nO\tsang\n", 1, 0, None),
        ("1\tB-year\n2\tI-year\n", 0, 1, None),
        ("Mira B-per x\nsang O y\n", 0, 1, None),
    ],
)
def test_conll_finds_the_columns(text: str, token: int, tag: int | None, index: int | None) -> None:
    parsed = read(text)
    found = layout(parsed)
    assert (found.token_column, found.tag_column, found.index_column) == (token, tag, index)
    assert (parsed.sentences[0].spans is None) == (tag is None)
    assert back(parsed) == text
    own = parsed.sentences[0].sentence.layout
    assert (own and not own.notes) or found.width > 2 or tag is None


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("A I-x\nB I-x\nC B-x\n\nD O\nE I-y\n", "IOB1"),
        ("A B-x\nB I-x\nC B-x\n", "IOB2"),
        ("A B-x\nB E-x\nC S-x\n", "BIOES"),
        ("A B-x\nB L-x\nC U-x\n", "BILOU"),
    ],
)
def test_conll_keeps_the_tag_scheme(text: str, scheme: str) -> None:
    parsed = read(text)
    assert layout(parsed).scheme == scheme
    assert parsed.sentences[0].spans == (Span(0, 2, "x"), Span(2, 3, "x"))
    assert back(parsed) == text


@pytest.mark.parametrize(
    "text",
    [
        "-DOCSTART- -X- O O\n\nMira NN B-NP B-x\nsang VB O O\n\n\n-DOCSTART- -X- O O\n\nNo UH O O",
        "-DOCSTART-\tO\nMira\tB-x\n-DOCSTART-\tO\nNo\tO\n",
        "# a note\nMira\tB-x\n\n# another\n# more\nNo\tO\n\n# end\n",
        "Mira   B-x\nsang\t O \n\nNo    O\n",
        "New York\tB-x\nsang\tO\n",
        "#\tO\nMira\tB-x\n",
        "# O\nMira B-x\n",
        "Mira\tB-x\r\nsang\tO\n\nNo\tO\r\n\r\n",
        "x\u00a0y O\nz B-x\n",
        "3\tMira\tB-x\n1\tsang\tO\n",
    ],
)
def test_conll_gives_back_odd_layouts(text: str) -> None:
    assert back(read(text)) == text


@pytest.mark.parametrize("blank", [" ", "  ", "\u00a0", "\r"])
def test_conll_white_space_after_a_tag_makes_no_type(blank: str) -> None:
    text = f"Ada\tB-person{blank}\nsang\tO\n\nBo\tB-person\nleft\tO{blank}\n"
    parsed = read_bytes(text.encode(), name="f.conll")
    assert [record.spans for record in parsed.sentences] == [(Span(0, 1, "person"),)] * 2
    assert write(parsed.sentences, "conll", parsed.layout) == text
    with pytest.raises(BadInput, match="is not a tag"):
        read_bytes(b'{"tokens": ["a"], "ner_tags": ["B-song "]}\n', name="f.jsonl")


def test_conll_extra_columns_survive_new_spans() -> None:
    parsed = read("0 Mira NN B-per\n1 Kostova NN O\n2 sang VB O\n")
    changed = dataclasses.replace(parsed.sentences[0], spans=(Span(0, 2, "musicalartist"),))
    text = write([changed], "conll", parsed.layout)
    assert text == "0 Mira NN B-musicalartist\n1 Kostova NN I-musicalartist\n2 sang VB O\n"


def test_conll_raw_text_gives_way_to_new_spans() -> None:
    text = "Mira  B-x\nsang O\n"
    parsed = read(text)
    assert write([Record(parsed.sentences[0].sentence, ())], "conll", parsed.layout) == "Mira O\nsang O\n"
    assert back(parsed) == text


def test_conll_unlabelled_file_gets_a_tag_column_once_annotated() -> None:
    parsed = read("Mira NN\nsang VB\n")
    annotated = [Record(record.sentence, (Span(0, 1, "x"),)) for record in parsed.sentences]
    assert write(annotated, "conll", parsed.layout) == "Mira NN B-x\nsang VB O\n"
    with pytest.raises(BadInput, match=r"f-1 has no annotation but others do"):
        write([*annotated, *parsed.sentences], "conll", parsed.layout)


def test_conll_lenient_reading_gives_back_the_stray_tags() -> None:
    text = "A\tB-x\nB\tO\nC\tI-x\n"
    with pytest.raises(BadInput, match=r"f.conll:3: tag 'I-x' cannot follow 'O' .IOB2."):
        read(text)
    parsed = read(text, lenient=True)
    assert parsed.sentences[0].spans == (Span(0, 1, "x"), Span(2, 3, "x"))
    assert back(parsed) == text
    with pytest.raises(BadInput, match=r"f.conll:2: 'x-B' is not a tag"):
        read("A\tB-x\nB\tx-B\n", lenient=True)


def test_conll_recommends_lenient_reading_for_stray_tags_only() -> None:
    with pytest.raises(BadInput, match="with --lenient"):
        read("A\tB-x\nB\tO\nC\tI-x\n")
    with pytest.raises(BadInput, match="'cannot follow' is not a tag") as caught:
        read("A\tB-x\nB\tcannot follow\n")
    assert "--lenient" not in str(caught.value)


def test_conll_maps_types_there_and_back() -> None:
    text = "A\tB-PER\nB\tI-PER\nC\tB-LOC\n"
    parsed = read(text, type_map={"PER": "person", "LOC": "location"}, types=("person", "location"))
    assert parsed.sentences[0].spans == (Span(0, 2, "person"), Span(2, 3, "location"))
    assert back(parsed) == text
    merged = read(text, type_map={"PER": "misc", "LOC": "misc"})
    assert merged.type_names == ("misc",)
    assert back(merged) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\tB-x\nB\n", "f.conll:2: 1 columns where the file has 2 columns: 'B'"),
        ("A\tO\n\nB\tO\tO\nC\tO\n", "f.conll:3: 3 columns where the file has 2 columns"),
        ("A\tO\n\tO\n", "f.conll:2: column 1, the token, is empty"),
        ("A\tO\nB\tperson\n", "f.conll:2: 'person' is not a tag: O, or B-, I-, E-, S-, L- or U- and an entity type"),
        ("A\tO\nB\t\n", "f.conll:2: '' is not a tag"),
        ("A\tB-x\nB\tI-y\n", "f.conll:2: tag 'I-y' cannot follow 'B-x' .IOB2."),
        ("A\tB-x\nB\tE-x\nC\tB-x\n", "f.conll:3: tag 'B-x' ends the sentence inside an entity .BIOES."),
        ("A\tB-x\nB\tE-x\n\nC\tI-x\n", "f.conll:4: tag 'I-x' cannot follow 'O' .BIOES."),
    ],
)
def test_conll_bad_lines_are_named_and_may_be_skipped(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(text)
    parsed = read(f"A\tO\nG\tO\n\n{text}\nZ\tS-ok\n".replace("S-ok", "O"), skip_bad=True)
    assert parsed.sentences[0].sentence.words == ("A", "G")
    assert parsed.sentences[-1].sentence.words == ("Z",)
    assert parsed.problems


def test_conll_wrong_type_names_the_allowed() -> None:
    text = "A\tB-band\n\nB\tB-singer\nC\tI-singer\n"
    with pytest.raises(BadInput, match=r"f.conll:3: entity type 'singer' is not one of band, song"):
        read(text, types=("band", "song"))
    parsed = read(text, types=("band", "song"), skip_bad=True)
    assert [record.sentence.id for record in parsed.sentences] == ["f-1"]


def test_conll_ids_do_not_shift_when_a_sentence_is_skipped() -> None:
    parsed = read("A\tO\nB\tO\n\nX\n\nC\tO\n", skip_bad=True)
    assert [record.sentence.id for record in parsed.sentences] == ["f-1", "f-3"]


def test_conll_a_million_lines_without_a_blank_one_are_refused() -> None:
    with pytest.raises(BadInput, match=r"f.conll:1: a sentence of 1,000,000 tokens; at most 2,000"):
        read("A\tO\n" * 1_000_000)


def test_conll_options_are_checked() -> None:
    with pytest.raises(InvalidConfig, match="Unknown tag scheme 'IO'; known are IOB2"):
        read(TWO, scheme="IO")
    with pytest.raises(BadInput, match="no tag column 5; columns are 0 to 1"):
        read(TWO, tag_column=5)
    with pytest.raises(BadInput, match="IOB1"):
        read(TWO, scheme="IOB1")


def test_conll_a_named_column_wins_over_the_guess() -> None:
    parsed = read("Mira B-NP B-x\nsang O O\n", tag_column=1)
    assert parsed.type_names == ("NP",)
    assert back(parsed) == "Mira B-NP B-x\nsang O O\n"


def test_conll_changes_and_counts_tokens_a_column_cannot_hold() -> None:
    words = ["a\tb", "-DOCSTART-", "c d", "# e", "-DOCSTART-s"]
    tagged = Record(sentence_from_words(words, id="s"), (Span(1, 2, "x"),))
    written = write_files([make_document("f", [tagged], "conll")], "conll")
    assert written.files[0][1].decode() == "a_b\tO\n_DOCSTART-\tB-x\nc d\tO\n#_e\tO\n-DOCSTART-s\tO\n"
    assert written.losses == {"tokens unchanged": 3}
    (again,) = read_files(written.files, "conll")
    assert again.sentences[0].spans == tagged.spans
    # A single column has no tab that would tell a space from the end of the token.
    assert write([sentence_from_words(words, id="s")], "conll").split("\n")[2] == "c_d"


def test_conll_refuses_a_sentence_without_tokens() -> None:
    with pytest.raises(BadInput, match="s has no tokens"):
        write([Sentence("s", "", ())], "conll")


def test_conll_a_broken_row_does_not_turn_the_count_into_tokens() -> None:
    good = "".join(f"{at}\tw{at}\tO\n" for at in range(20))
    parsed = read(f"{good}\n0\tbroken\n\n{good}", skip_bad=True)
    assert {record.sentence.words[0] for record in parsed.sentences} == {"w0"}
    assert [problem.line for problem in parsed.problems] == [22]


def test_conll_stray_tags_leave_no_trace_without_their_layout() -> None:
    parsed = read("A\tB-x\nB\tO\nC\tI-x\n", lenient=True)
    assert write(parsed.sentences, "conll") == "A\tB-x\nB\tO\nC\tB-x\n"


@pytest.mark.parametrize("bad", [b"caf\xe9", b"a\x00b"])
def test_conll_a_comment_that_is_no_text_does_not_spoil_the_export(bad: bytes) -> None:
    data = b"# " + bad + b" x y\nAda\tO\n\n# " + bad + b" x y\nBo\tO\n# " + bad + b" x y\n"
    (parsed,) = read_files([("f", data)], "conll", skip_bad=True)
    (again,) = read_files(write_files([parsed], "conll").files, "conll", skip_bad=True)
    assert again.sentences == parsed.sentences and parsed.sentences

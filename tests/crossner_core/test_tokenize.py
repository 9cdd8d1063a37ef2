from __future__ import annotations

import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_core.tokenize import split_sentences, tokenize


def words(text: str) -> list[str]:
    return [text[token.start : token.end] for token in tokenize(text)]


TEXTS = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from(
            list("aZ9 .'’-,\u0301\u200d\ufe0f\u05d0\u0645\u0928\u094d\U0001f469\U0001f3fd\U0001f1eb\u00ad\n\t")
        ),
    )
)


@given(TEXTS)
@settings(deadline=None)
def test_tokenize_covers_every_visible_character_exactly_once(text: str) -> None:
    covered = [0] * len(text)
    for token in tokenize(text):
        assert token.start < token.end
        for at in range(token.start, token.end):
            covered[at] += 1
    assert covered == [0 if char.isspace() else 1 for char in text]


@given(TEXTS)
@settings(deadline=None)
def test_tokenize_keeps_combining_marks_with_their_base(text: str) -> None:
    starts = {token.start for token in tokenize(text)}
    for at in range(1, len(text)):
        if unicodedata.category(text[at]) in {"Mn", "Mc", "Me"} and not text[at - 1].isspace():
            assert at not in starts


@given(
    st.text(st.characters(categories=["Lu", "Ll", "Nd"]), min_size=1), st.text(st.sampled_from("ab. ,;"), max_size=20)
)
@settings(deadline=None)
def test_tokenize_splits_a_name_alone_as_in_a_sentence(name: str, rest: str) -> None:
    assert words(f"{name} {rest}") == words(name) + words(rest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kostova's fans", ["Kostova", "'s", "fans"]),
        ("Kostova’s fans", ["Kostova", "’s", "fans"]),
        ("the Gulls' van", ["the", "Gulls", "'", "van"]),
        ("O'Brien don't", ["O'Brien", "don't"]),
        ("in the U.S. charts, e.g. here", ["in", "the", "U.S.", "charts", ",", "e.g.", "here"]),
        ("a rock-based sound--ish", ["a", "rock-based", "sound", "-", "-", "ish"]),
        ("1,000.5 copies (3.5%)", ["1,000.5", "copies", "(", "3.5", "%", ")"]),
        ("end.The", ["end", ".", "The"]),
        ("cafe\u0301 नमस्ते", ["cafe\u0301", "नमस्ते"]),
        ("👩🏽\u200d🚀🇫🇷🇩🇪 1️⃣#️⃣", ["👩🏽\u200d🚀", "🇫🇷", "🇩🇪", "1️⃣", "#️⃣"]),
        ("👍👍🏿", ["👍", "👍🏿"]),
        ("שלום, עולם!", ["שלום", ",", "עולם", "!"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_tokenize_known_cases(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.alone
@pytest.mark.parametrize("piece", ["a-", "a'", "1,", "a.", "\u0301", "👩\u200d", "🇫", "'s"])
def test_tokenize_time_grows_with_the_text_only(piece: str) -> None:
    tokenize("warm up")
    begin = time.perf_counter()
    tokenize(piece * 100_000)
    assert time.perf_counter() - begin < 2


def test_tokenize_imports_without_spacy() -> None:
    modules = "crossner_core.tokenize, crossner_core.formats, crossner_core.domains"
    code = f"import sys, {modules}; print('spacy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


def test_split_sentences_keeps_abbreviations_together() -> None:
    text = "It was No. 5 for Dr. Lund and Sen. Pell of St. Ives. J. R. Moss said no. Then he left!"
    assert sentences(text) == [
        "It was No. 5 for Dr. Lund and Sen. Pell of St. Ives.",
        "J. R. Moss said no.",
        "Then he left!",
    ]


def test_split_sentences_ends_at_blank_lines_or_at_every_line() -> None:
    assert sentences("A heading\n\nOne line\ngoes on. Two.\n") == ["A heading", "One line\ngoes on.", "Two."]
    assert sentences("A heading\nOne line\n") == ["A heading", "One line"]
    assert sentences("") == []


@given(st.text(st.sampled_from("Ab. !\n\r é👍"), max_size=60))
@settings(deadline=None, max_examples=60)
def test_split_sentences_loses_nothing_but_white_space(text: str) -> None:
    at, between = 0, ""
    for start, end in split_sentences(text):
        assert at <= start < end
        assert text[start:end] == text[start:end].strip()
        between += text[at:start]
        at = end
    assert not (between + text[at:]).strip()


@pytest.mark.alone
@pytest.mark.parametrize("text", [" " * 200_000, "a\n" + " \n" * 100_000, "a\n\n" * 20_000, "\n" * 300_000 + "a"])
def test_split_sentences_time_grows_with_the_text_only(text: str) -> None:
    split_sentences("Warm. Up.")
    begin = time.perf_counter()
    split_sentences(text)
    assert time.perf_counter() - begin < 10


def test_split_sentences_gives_an_opening_quote_to_what_it_opens() -> None:
    text = 'She nodded. "Why not?" he asked. (Nobody knew.) He said “no.” “Fine.” They left.'
    assert [text[low:high] for low, high in split_sentences(text)] == [
        "She nodded.",
        '"Why not?"',
        "he asked.",
        "(Nobody knew.)",
        "He said “no.”",
        "“Fine.”",
        "They left.",
    ]

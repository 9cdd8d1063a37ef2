"""Text to tokens with character offsets, and paragraphs to sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from crossner_core.schema import Token

_PICTOGRAPHS = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2194-\u21aa\u231a-\u23ff\u25aa-\u25fe\u2600-\u27bf"
    "\u2934\u2935\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001faff"
)
# The sentencizer's own exceptions cover Mr., Dr., St., Inc.; these are what it misses in encyclopedic prose.
_BEFORE_NAME = re.compile(
    r"(?:sen|rep|gov|gen|col|capt|lt|sgt|rev|hon|prof|pres|mt|ft|feat|vs|cf|ca|approx|dept|univ)\."
)
_OPENING = "\"'“‘«([{"
_BEFORE_NUMBER = re.compile(r"(?:nos?|vol|op|pp?|ch|fig|sec|art|ed|jan|feb|mar|apr|aug|sept|oct|nov|dec)\.")

# Most tokens, tried first only for speed: the other alternatives would match the same. ASCII letters and digits before
# white space, and ASCII punctuation (no apostrophe, no underscore) before an ASCII character.
_PLAIN = r"[A-Za-z0-9]++(?=[ \n]|\Z)|[!-&(-/:-@\[-^`{-~](?=[\x00-\x7f]|\Z)"


@lru_cache(maxsize=1)
def _extenders() -> str:
    """Build the character class of what attaches to the preceding character: marks (M*) and format characters (Cf)."""
    ranges: list[list[int]] = []
    for code in (*range(0xAD, 0x20000), *range(0xE0000, 0xE0200)):
        if unicodedata.category(chr(code)) in {"Mn", "Mc", "Me", "Cf"}:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in ranges)


@lru_cache(maxsize=1)
def _token_pattern() -> re.Pattern[str]:
    ext = _extenders()
    after = rf"[{ext}\U0001f3fb-\U0001f3ff]*"
    emoji = rf"[{_PICTOGRAPHS}]{after}(?:(?<=\u200d)[{_PICTOGRAPHS}]{after})*"
    flag = rf"[\U0001f1e6-\U0001f1ff]{{2}}[{ext}]*"
    abbreviation = rf"[^\W\d_](?:\.[^\W\d_])+(?![\w{ext}])\.?"
    run = rf"\w[\w{ext}]*(?:(?<=\d)[.,]\d[\w{ext}]*)*"
    word = rf"{run}(?:(?:-|['’](?![sS](?![\w{ext}]))){run})*"
    clitic = rf"['’][sS](?![\w{ext}])"
    return re.compile(rf"{_PLAIN}|{flag}|{emoji}|{abbreviation}|{word}|{clitic}|[^\s][{ext}]*")


@lru_cache(maxsize=1)  # a line is read and at once written again, to see what its layout needs
def tokenize(text: str) -> tuple[Token, ...]:
    """Split a text into tokens; every character that is not white space is in exactly one.

    One token each: a run of letters, digits and their marks, kept together over an inner hyphen or apostrophe
    (`opinion-based`, `O'Brien`); numbers with inner `.` and `,` (`1,000.5`); single letters with dots (`U.S.`); an
    emoji with its modifiers and joiners; any other symbol by itself. The possessive `'s` is its own token, so that a
    name before it can be a span. The rules do not depend on neighbouring tokens: a name alone splits as it does in a
    sentence.
    """
    return tuple(Token(match.start(), match.end()) for match in _token_pattern().finditer(text))


def tokenize_at_most(text: str, most: int) -> tuple[tuple[Token, ...], int]:
    """Return a text's tokens and their number; of a text with more than `most` only the number, which is cheap."""
    if len(text) > most and (count := len(words_of(text))) > most:
        return (), count
    tokens = tokenize(text)
    return tokens, len(tokens)


def words_of(text: str) -> list[str]:
    """Return only the texts of the tokens: several times faster than `tokenize` when offsets are not needed."""
    return _token_pattern().findall(text)


def word_pattern() -> str:
    """Return the rules as a regular expression of Python 3.11 or later: its matches in a text are the tokens."""
    return _token_pattern().pattern


@lru_cache(maxsize=1)
def _sentencizer() -> Any:
    import spacy  # imported late: only splitting paragraphs needs it

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.max_length = 100_000_000  # the limit guards parsers; a sentencizer's memory is its tokens
    return nlp


# Chunks whose time in spaCy's tokenizer grows with the square of their length: it takes marks off one by one.
_SLOW = re.compile(r"[^\w\s]{8}|(?<!\S)\S{100}")
_STOPS, _CLOSING = ".!?…", "\"'”’)]}»"
_PIECES = re.compile(r"[。！？｡]|[^。！？｡]+")


def _sentences(text: str) -> Any:
    """Return spaCy's sentences of a text, in time linear in its length."""
    nlp = _sentencizer()
    if _SLOW.search(text) is None:
        return nlp(text).sents
    from spacy.tokens import Doc

    words: list[str] = []
    spaces: list[bool] = []
    for match in re.finditer(r"\s+|\S+", text):
        chunk = match.group()
        if chunk == " " and words and not spaces[-1]:
            spaces[-1] = True
            continue
        words += _slow_words(chunk) if _SLOW.search(chunk) else [token.text for token in nlp.tokenizer(chunk)]
        spaces += [False] * (len(words) - len(spaces))
    return nlp.get_pipe("sentencizer")(Doc(nlp.vocab, words, spaces)).sents


def _slow_words(chunk: str) -> list[str]:
    """Cut a long chunk without white space where a sentence may end: at a full stop of Chinese, and at its own end."""
    core = chunk.rstrip(_STOPS + _CLOSING)
    tail = chunk[len(core) :]
    stop = next((place for place, mark in enumerate(tail) if mark in _STOPS), len(tail))
    return [*_PIECES.findall(core), *filter(None, (tail[:stop], tail[stop : stop + 1], tail[stop + 1 :]))]


def forget_words() -> None:
    """Free the vocabulary of the sentence splitter, which grows with every new text."""
    _sentencizer.cache_clear()


def split_sentences(text: str, *, by_line: bool | None = None) -> list[tuple[int, int]]:
    """Split a text into sentences; character offsets into `text`, without the white space around each.

    A blank line ends a paragraph and so a sentence; in a text without any blank line every line is a paragraph.
    `by_line` is whether every line is one, for a part of a text.
    """
    spans: list[tuple[int, int]] = []
    for start, end in _paragraphs(text, by_line):
        spans.extend(_split_paragraph(text, start, end))
    return spans


def has_paragraphs(text: str) -> bool:
    """Tell whether a blank line stands between two lines that are not blank."""
    lines = [bool(line.strip()) for line in text.split("\n")]
    return any(lines) and not all(lines[lines.index(True) : len(lines) - lines[::-1].index(True)])


def _paragraphs(text: str, by_line: bool | None) -> list[tuple[int, int]]:
    """Return each paragraph's offsets, line by line: a regular expression would be quadratic in blank space."""
    spans: list[tuple[int, int]] = []
    starts_new, has_blank, position = True, False, 0
    for line in text.split("\n"):
        end = position + len(line)
        if not line.strip():
            starts_new = True
        elif starts_new or not spans:
            has_blank = has_blank or bool(spans)
            spans.append((position, end))
            starts_new = False
        else:
            spans[-1] = (spans[-1][0], end)
        position = end + 1
    if has_blank if by_line is None else not by_line:
        return spans
    return [span for start, end in spans for span in _lines(text, start, end)]


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for line in text[start:end].split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


def _split_paragraph(text: str, start: int, end: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    opened = end
    for sentence in _sentences(text[start:end]):
        low, high = min(opened, start + sentence.start_char), start + sentence.end_char
        opened = _opened(text, low, high, end)
        high = min(opened, high)
        while low < high and text[low].isspace():
            low += 1
        while high > low and text[high - 1].isspace():
            high -= 1
        if low == high:
            continue
        if spans and _goes_on(text[max(spans[-1][0], spans[-1][1] - 20) : spans[-1][1]], text[low]):
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return spans


def _opened(text: str, low: int, high: int, end: int) -> int:
    """Return where an opening quote or bracket begins the next sentence, `end` if none does.

    The sentencizer attaches all punctuation after a full stop to the preceding sentence: `He left. "Why?"`.
    """
    position = high
    while position > low and text[position - 1] in _OPENING:
        position -= 1
    return (
        position if low < position < high < end and text[position - 1].isspace() and not text[high].isspace() else end
    )


def _goes_on(before: str, following: str) -> bool:
    """Return whether `before`, a sentence's end, is an abbreviation; `following` is the next one's first character."""
    last = before.split()[-1].lower().lstrip("(\"'“‘[")
    if _BEFORE_NAME.fullmatch(last):
        return True
    return following.isdigit() and _BEFORE_NUMBER.fullmatch(last) is not None

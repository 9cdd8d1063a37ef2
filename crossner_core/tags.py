"""Conversion between IOB1, IOB2, BIOES and BILOU tags and spans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from crossner_core.errors import BadInput, InvalidConfig, InvalidSpan
from crossner_core.schema import FLAT, ONE_PIECE, Span

SCHEMES = ("IOB2", "IOB1", "BIOES", "BILOU")
_PREFIXES = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU"}
_TO_BIOES = {"L": "E", "U": "S"}
_SEVERAL = re.compile(r"\|[BIESLU]-")  # in a tag such as B-song|I-album
_OF_PIECES = re.compile(r"(?:[BI][HD]|[HD][BI])-\S+")  # head or part of a discontinuous entity


@lru_cache(maxsize=4096)
def parse_tag(tag: str) -> tuple[str, str]:
    """Split a tag into prefix and entity type, `O` into `("O", "")`; raise BadInput if it is not a tag."""
    if tag == "O":
        return "O", ""
    if not is_tag(tag):
        if _SEVERAL.search(tag):
            raise BadInput(f"{_short(tag)} names several entities; {FLAT}: keep one of them.")
        if _OF_PIECES.fullmatch(tag):
            raise BadInput(
                f"{_short(tag)} marks a piece of an entity; {ONE_PIECE}: keep one, or all that lies between."
            )
        raise BadInput(f"{_short(tag)} is not a tag: O, or B-, I-, E-, S-, L- or U- and an entity type.")
    return tag[0], tag[2:]


def is_tag(tag: str) -> bool:
    """Return whether `parse_tag` accepts it."""
    if tag == "O":
        return True
    well_formed = tag[1:2] == "-" and len(tag) > 2 and tag[0] in "BIESLU" and tag[2:] == tag[2:].strip()
    return well_formed and ("|" not in tag or _SEVERAL.search(tag) is None)


def detect_scheme(sequences: Iterable[Sequence[str]]) -> str:
    """Return the scheme with the fewest invalid tags in the sequences; IOB2 if ambiguous."""
    prefixes: set[str] = set()
    bare_starts = needless_b = 0
    for tags in sequences:
        previous = ("O", "")
        for tag in tags:
            if tag == "O":
                previous = ("O", "")
                continue
            current = parse_tag(tag)
            prefixes.add(current[0])
            if previous[1] != current[1]:
                bare_starts += current[0] == "I"
                needless_b += current[0] == "B"
            previous = current
    if prefixes & {"L", "U"}:
        return "BILOU"
    if prefixes & {"E", "S"}:
        return "BIOES"
    return "IOB1" if needless_b < bare_starts else "IOB2"


class TagProblem(NamedTuple):
    """A tag, by its position from 0, that is malformed or not allowed there; `is_stray`: it continues no entity."""

    position: int
    reason: str
    is_stray: bool = False


def tag_problems(tags: Sequence[str], scheme: str) -> Iterator[TagProblem]:
    """Yield each tag that is malformed or not allowed at its position."""
    allowed = _prefixes(scheme)
    previous = ("O", "")
    for position, tag in enumerate(tags):
        try:
            current = parse_tag(tag)
        except BadInput as error:
            yield TagProblem(position, str(error))
            current = ("O", "")
        else:
            if current[0] != "O" and current[0] not in allowed:
                prefixes = ", ".join(f"{prefix}-" for prefix in allowed)
                yield TagProblem(position, f"tag {_short(tag)}: {scheme} has only {prefixes} and O.")
            elif reason := _bad_step(previous, current, scheme):
                is_stray = _is_stray(previous, current, scheme)
                yield TagProblem(position, f"tag {_short(tag)} {reason} ({scheme}).", is_stray)
        previous = current
    if scheme in {"BIOES", "BILOU"} and previous[0] in "BI":
        yield TagProblem(len(tags) - 1, f"tag {_short(tags[-1])} ends the sentence inside an entity ({scheme}).")


def spans_from_tags(tags: Sequence[str], scheme: str = "IOB2", *, strict: bool = True) -> tuple[Span, ...]:
    """Read spans from tags; offsets are token indices into `tags`.

    Strict raises BadInput at the first tag that `scheme` does not allow there. Lenient reads like conlleval, whatever
    the scheme: an `I-x` after `O` or after another type begins an entity.
    Source: conlleval.pl, startOfChunk and endOfChunk.
    """
    if strict:
        for problem in tag_problems(tags, scheme):
            raise BadInput(f"Token {problem.position + 1} of {len(tags)}: {problem.reason}")
    spans: list[Span] = []
    start, type_name, ended = 0, "", True  # `ended`: no entity is open before this tag
    for position, tag in enumerate(tags):
        if tag == "O":
            if not ended:
                spans.append(Span(start, position, type_name))
            ended = True
            continue
        prefix, current = parse_tag(tag)
        if ended or prefix in "BSU" or current != type_name:
            if not ended:
                spans.append(Span(start, position, type_name))
            start, type_name = position, current
        ended = prefix in "ESLU"
        if ended:
            spans.append(Span(start, position + 1, type_name))
    if not ended:
        spans.append(Span(start, len(tags), type_name))
    return tuple(spans)


def tags_from_spans(spans: Iterable[Span], length: int, scheme: str = "IOB2") -> list[str]:
    """Write spans as `length` tags; raise InvalidSpan if one is outside or two overlap."""
    _prefixes(scheme)
    tags = ["O"] * length
    previous: Span | None = None
    for span in sorted(spans):
        what = f"Span [{span.start}, {span.end}) {span.type}"
        if not 0 <= span.start < span.end <= length:
            raise InvalidSpan(f"{what} lies outside {length} tokens.")
        if previous and span.start < previous.end:
            raise InvalidSpan(f"{what} overlaps the one before it; {FLAT}: keep one of the two.")
        touches = previous is not None and previous.end == span.start and previous.type == span.type
        tags[span.start : span.end] = _entity_tags(span, scheme, touches)
        previous = span
    return tags


def convert_tags(tags: Sequence[str], source: str, target: str, *, strict: bool = True) -> list[str]:
    """Convert tags from one scheme to another."""
    return tags_from_spans(spans_from_tags(tags, source, strict=strict), len(tags), target)


def _entity_tags(span: Span, scheme: str, touches: bool) -> list[str]:
    """Return one entity's tags; `touches`: an entity of the same type ends where this one begins."""
    size = span.end - span.start
    if scheme == "IOB1":
        prefixes = ("B" if touches else "I") + "I" * (size - 1)
    elif scheme == "IOB2":
        prefixes = "B" + "I" * (size - 1)
    else:
        last, single = ("E", "S") if scheme == "BIOES" else ("L", "U")
        prefixes = single if size == 1 else "B" + "I" * (size - 2) + last
    return [f"{prefix}-{span.type}" for prefix in prefixes]


def _bad_step(previous: tuple[str, str], current: tuple[str, str], scheme: str) -> str:
    """Return why `current` may not follow `previous`; empty if it may."""
    before, before_type = previous
    now, now_type = current
    if scheme == "IOB1":
        return "" if now != "B" or before_type == now_type else "starts an entity that does not touch one of its type"
    if _is_stray(previous, current, scheme):
        return f"cannot follow {_name(previous)}"
    if scheme in {"BIOES", "BILOU"} and before in "BI" and _TO_BIOES.get(now, now) not in "IE":
        return f"leaves {_name(previous)} unfinished"
    return ""


def _is_stray(previous: tuple[str, str], current: tuple[str, str], scheme: str) -> bool:
    """Return whether `current` continues an entity that is not open; never in IOB1, where an I- may begin one."""
    before, before_type = previous
    now, now_type = current
    continues = _TO_BIOES.get(now, now) in "IE"
    return scheme != "IOB1" and continues and not (before in "BI" and before_type == now_type)


def _prefixes(scheme: str) -> str:
    if scheme not in _PREFIXES:
        raise InvalidConfig(f"Unknown tag scheme {scheme!r}; supported are {', '.join(SCHEMES)}.")
    return _PREFIXES[scheme]


def _name(parsed: tuple[str, str]) -> str:
    return _short("-".join(part for part in parsed if part))


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "…")

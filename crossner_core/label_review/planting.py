"""Plant known errors into gold, to measure whether a label review finds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossner_core.errors import InvalidConfig
from crossner_core.schema import LabelledSentence, Span

KINDS = ("type", "boundary", "missing", "spurious")
_TRIES = 200


@dataclass(frozen=True, slots=True)
class Planted:
    """An error in item `item`: gold's span `true` (None if there was none) was replaced by `given`."""

    item: int
    kind: str
    true: Span | None
    given: Span | None


def plant(
    items: Sequence[LabelledSentence], types: Sequence[str], share: float, rng: np.random.Generator
) -> tuple[list[LabelledSentence], list[Planted]]:
    """Corrupt a share of the entities, the four kinds in turn; each entity and each place at most once.

    Type: another type, drawn uniformly. Boundary: one token more or fewer on one side, as far as neighbours allow.
    Missing: the entity is removed. Spurious: one to three tokens that no entity covers, at least one of them a word,
    become an entity of a uniformly drawn type.
    """
    if len(types) < 2:
        raise InvalidConfig(f"Wrong types cannot be planted with {len(types)} entity type; two or more are needed.")
    spans = [list(item.spans) for item in items]
    untouched = [(index, span) for index, item in enumerate(items) for span in item.spans]
    wanted = round(share * len(untouched))
    order = [untouched[index] for index in rng.permutation(len(untouched))]
    planted: list[Planted] = []
    for number in range(wanted):
        kind = KINDS[number % len(KINDS)]
        mistake = (
            _spurious(items, spans, types, rng) if kind == "spurious" else _spoil(items, spans, order, kind, types, rng)
        )
        if mistake is not None:
            planted.append(mistake)
    made = [LabelledSentence(item.sentence, tuple(sorted(now))) for item, now in zip(items, spans, strict=True)]
    return made, planted


def _spoil(
    items: Sequence[LabelledSentence],
    spans: list[list[Span]],
    order: list[tuple[int, Span]],
    kind: str,
    types: Sequence[str],
    rng: np.random.Generator,
) -> Planted | None:
    for number, (index, span) in enumerate(order):
        given = _changed(items[index], spans[index], span, kind, types, rng)
        if kind != "missing" and given is None:
            continue
        del order[number]
        spans[index].remove(span)
        if given is not None:
            spans[index].append(given)
        return Planted(index, kind, span, given)
    return None


def _changed(
    item: LabelledSentence, now: list[Span], span: Span, kind: str, types: Sequence[str], rng: np.random.Generator
) -> Span | None:
    if kind == "missing":
        return None
    if kind == "type":
        others = [name for name in types if name != span.type]
        return Span(span.start, span.end, others[rng.integers(len(others))])
    covered = {token for other in now if other != span for token in range(other.start, other.end)}
    shifted = [
        (span.start - 1, span.end),
        (span.start, span.end + 1),
        (span.start + 1, span.end),
        (span.start, span.end - 1),
    ]
    free = [
        (start, end)
        for start, end in shifted
        if 0 <= start < end <= len(item.sentence.tokens) and not covered & set(range(start, end))
    ]
    if not free:
        return None
    start, end = free[rng.integers(len(free))]
    return Span(start, end, span.type)


def _spurious(
    items: Sequence[LabelledSentence], spans: list[list[Span]], types: Sequence[str], rng: np.random.Generator
) -> Planted | None:
    for _ in range(_TRIES):
        index, size = int(rng.integers(len(items))), int(rng.integers(1, 4))
        words = items[index].sentence.words
        if len(words) < size:
            continue
        start = int(rng.integers(len(words) - size + 1))
        # Tokens of the true gold stay free, too: a removed entity must not come back by chance.
        taken = {token for span in (*spans[index], *items[index].spans) for token in range(span.start, span.end)}
        if taken & set(range(start, start + size)) or not any(word.isalpha() for word in words[start : start + size]):
            continue
        given = Span(start, start + size, types[int(rng.integers(len(types)))])
        spans[index].append(given)
        return Planted(index, "spurious", None, given)
    return None

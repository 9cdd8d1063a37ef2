"""What an outside model names, checked against the sentence: offsets are computed here, never taken over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crossner_core.domains import Domain
from crossner_core.outside.base import Named, Reading
from crossner_core.schema import Sentence, Suggestion
from crossner_core.suggest.identical import places

INVENTED = "not in the sentence"
WITHIN = "begins or ends within a word"
TOO_OFTEN = "more often than it stands there, or overlapping"
UNKNOWN = "unknown type"
MALFORMED = "malformed entry"
REASONS = (INVENTED, WITHIN, TOO_OFTEN, UNKNOWN, MALFORMED)


@dataclass(frozen=True, slots=True)
class Checked:
    """The suggestions that an answer comes to, in the order of the text, and what was dropped, by reason."""

    suggestions: tuple[Suggestion, ...]
    dropped: Counter[str]

    @property
    def is_foreign(self) -> bool:
        """Whether the answer names things, and none of them stands in the sentence."""
        return not self.suggestions and self.dropped[INVENTED] > 0 and set(self.dropped) <= {INVENTED, UNKNOWN}


def check(reading: Reading, sentence: Sentence, domain: Domain, source: str) -> Checked:
    """Find the named texts in the sentence, longest first, each at its next free place in the order of the text.

    A text that is named twice takes two places. What does not stand there as whole words is dropped and counted, and
    so is an unknown type. No two suggestions overlap.
    """
    types = type_names(domain)
    dropped, made = Counter({MALFORMED: reading.malformed} if reading.malformed else {}), list[Suggestion]()
    taken: list[tuple[int, int]] = []
    for named in _longest_first(reading.named):
        text, kind = named.text.strip(), types.get(_folded(named.type))
        if kind is None:
            dropped[UNKNOWN] += 1
            continue
        free = _free(sentence, text, taken)
        if (place := next(free, None)) is None:
            dropped[_why_not(sentence, text)] += 1
            continue
        taken.append(place)
        made.append(Suggestion(*place, kind, source, named.score))
    return Checked(tuple(sorted(made, key=lambda each: each.span)), dropped)


def type_names(domain: Domain) -> dict[str, str]:
    """Return what an answer may call the types, each name or title without case → the type's name."""
    titles = {_folded(title): name for name, title in domain.titles.items()}
    return titles | {_folded(name): name for name in domain.type_names}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _longest_first(named: Sequence[Named]) -> list[Named]:
    return sorted(named, key=lambda each: -len(each.text.strip()))  # stable: equal texts stay in the answer's order


def _free(sentence: Sentence, text: str, taken: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for start, end in places(sentence, text):
        if not any(start < other_end and other_start < end for other_start, other_end in taken):
            yield start, end


def _why_not(sentence: Sentence, text: str) -> str:
    if not text or text not in sentence.text:
        return INVENTED
    return TOO_OFTEN if next(places(sentence, text), None) is not None else WITHIN

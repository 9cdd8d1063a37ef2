"""Which stretches of a sentence may be names, and which of them win: token-aligned, leftmost-longest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from crossner_core.errors import InvalidConfig
from crossner_core.gazetteer.titles import collapse, detokenise
from crossner_core.schema import Sentence

# Never a name alone, and no evidence of one at the start of a sentence: function words, pronouns and their like,
# months and weekdays. Case-folded.
_STOP_WORDS = """
a about above after again against all along also although am among an and another any are around as at away back
be because been before behind being below between both but by can could day de did do does down during each either
every few first for from further had has have he her here hers him his how however i if in instead into is it its
itself la last later le less like many may me meanwhile more most mr mrs ms much my near neither never new next no
nor not nothing now of off often on once one only or other others our out over own part per she should since so
some something soon still such than that the their them themselves then there these they this those though three
through thus to today together too two under until up upon us very was we were what when where whether which while
who whom whose why will with within without would yet you your
january february march april june july august september october november december
monday tuesday wednesday thursday friday saturday sunday
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
_CLOSING = frozenset(")]!?.\"'”’")
_MOST_PLAIN_WORDS = 2  # lower-case words in a name with capitals, stop words not counted
_OPENING = frozenset("([\"'“‘")


@dataclass(frozen=True, slots=True)
class ScanRules:
    """What the scan of unlinked text takes for a possible name."""

    max_tokens: int = field(default=8, metadata={"doc": "longest name with a capital, in tokens"})
    max_lower_tokens: int = field(default=4, metadata={"doc": "longest name without a capital; 1 or less: none at all"})
    single_lower: bool = field(default=False, metadata={"doc": "also match a single lower-case word"})
    stop_words: frozenset[str] = field(default=STOP_WORDS, metadata={"doc": "words that are no name, case-folded"})

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise InvalidConfig(f"ScanRules: max_tokens is {self.max_tokens}, must be 1 or more.")
        if self.max_lower_tokens > self.max_tokens:
            raise InvalidConfig(
                f"ScanRules: max_lower_tokens is {self.max_lower_tokens}, at most {self.max_tokens} (max_tokens)."
            )


@dataclass(frozen=True, slots=True)
class NGram:
    """A stretch of tokens `[start, end)` of a sentence that may be a name.

    `names` are the spellings to look up, best first. `case` in (0, 1] says how much its letters look like a name.
    """

    start: int
    end: int
    names: tuple[str, ...]
    case: float


CASE_PROPER, CASE_INITIAL, CASE_LOWER = 1.0, 0.6, 0.75
PART_OF_LONGER = 0.5  # times the above


def names_of(sentence: Sentence, start: int, end: int) -> tuple[str, ...]:
    """Return the spellings of tokens `[start, end)` to look up: as written, and without a corpus's extra spaces."""
    surface = collapse(sentence.surface(start, end))
    return tuple(dict.fromkeys((surface, detokenise(surface))))


def free_stretches(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """Yield the longest token ranges `[start, end)` that no link touches, in order."""
    at = 0
    for start, end in sorted((link.start, link.end) for link in sentence.links):
        if start > at:
            yield at, start
        at = max(at, end)
    if at < len(sentence.tokens):
        yield at, len(sentence.tokens)


def ngrams(sentence: Sentence, rules: ScanRules, *, linked: bool = False) -> list[NGram]:
    """Return the possible names in the unlinked text, with `linked` in all of it, by start, longest first."""
    words, first = sentence.words, _first_word(sentence.words)
    found = []
    for low, high in [(0, len(words))] if linked else free_stretches(sentence):
        for start in range(low, high):
            for end in range(min(high, start + rules.max_tokens), start, -1):
                if case := _case(words[start:end], start == first, rules):
                    if any(_continues(words, at, first, rules) for at in (start - 1, end)):
                        case *= PART_OF_LONGER
                    found.append(NGram(start, end, names_of(sentence, start, end), case))
    return found


def _continues(words: Sequence[str], at: int, first: int, rules: ScanRules) -> bool:
    """Tell whether the token beside a name looks like more of it: `West` before `Berlin`."""
    return first < at < len(words) and words[at][0].isupper() and words[at].casefold() not in rules.stop_words


def longest(found: Sequence[NGram], known: Callable[[NGram], bool]) -> list[NGram]:
    """Choose among n-grams of one sentence those known, leftmost first and of these the longest; none overlap."""
    chosen: list[NGram] = []
    at = 0
    for item in sorted(found, key=lambda item: (item.start, -item.end)):
        if item.start >= at and known(item):
            chosen.append(item)
            at = item.end
    return chosen


def _first_word(words: Sequence[str]) -> int:
    """Return the index of the first token that is a word, where a capital says little."""
    return next((at for at, word in enumerate(words) if word[0].isalnum()), 0)


def _case(words: Sequence[str], initial: bool, rules: ScanRules) -> float:
    """Weigh the letters of a possible name in (0, 1]; 0 if it can be none."""
    first, last = words[0], words[-1]
    if not (first[0].isalnum() or (first in _OPENING and len(words) > 2)):
        return 0.0
    if not (any(char.isalnum() for char in last) or (last in _CLOSING and len(words) > 1)):
        return 0.0
    stop = [word.casefold() in rules.stop_words for word in words]
    if (stop[-1] and last.islower()) or (len(words) == 1 and (stop[0] or not any(char.isalpha() for char in first))):
        return 0.0
    capital = [word[0].isupper() or (any(map(str.isupper, word)) and word[0].isalnum()) for word in words]
    # A stop word counts as written with a capital only where the sentence did not ask for one.
    evidence = [here and not (at == 0 and (initial or stop[at])) for at, here in enumerate(capital)]
    if any(evidence):
        return CASE_PROPER if _is_title_like(words, capital, stop, rules) else 0.0
    if capital[0] and not stop[0]:
        return CASE_INITIAL
    return _lower_case(words, stop, rules)


def _is_title_like(words: Sequence[str], capital: Sequence[bool], stop: Sequence[bool], rules: ScanRules) -> bool:
    """Tell whether capitals stand as in a title: first, and last too in a long one, with few plain words between."""
    if not (capital[0] or words[0][0].isdigit() or words[0] in _OPENING):
        return False
    if len(words) > max(rules.max_lower_tokens, 1) and words[-1][0].islower():
        return False
    plain = [word[0].islower() and not small for word, small in zip(words, stop, strict=True)]
    return sum(plain) <= _MOST_PLAIN_WORDS


def _lower_case(words: Sequence[str], stop: Sequence[bool], rules: ScanRules) -> float:
    """Weigh a stretch without a capital that counts: only several words, none of the outer ones a stop word."""
    if len(words) == 1:
        return CASE_LOWER if rules.single_lower else 0.0
    if len(words) > rules.max_lower_tokens or stop[0] or stop[-1]:
        return 0.0
    return CASE_LOWER if words[0][0].isalpha() and words[-1][-1].isalpha() else 0.0

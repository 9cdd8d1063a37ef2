"""The token ranges of a sentence that may be names, judged by their letters, and the leftmost-longest of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from crossner_core.errors import InvalidConfig
from crossner_core.gazetteer.candidates import Candidates, Choice
from crossner_core.gazetteer.titles import collapse, detokenise
from crossner_core.schema import Sentence
from crossner_core.tokenize import tokenize, words_of

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
# Words with a capital that stand beside a name and are no part of it: `Senator Lee`, `Ohio Governor`.
_OFFICES = """
Mr Mrs Ms Miss Dr Sir Lord Lady Dame President Senator Governor Chancellor Minister King Queen Prince Princess General
Colonel Captain Judge Justice Professor Bishop Pope Secretary Mayor Representative Congressman Congresswoman MP
Ambassador Attorney Commissioner Premier Speaker Chairman
"""
OFFICES = frozenset(_OFFICES.split()) | {f"{word}s" for word in _OFFICES.split()}
_CLOSING = frozenset(")]!?.\"'”’")
_MOST_PLAIN_WORDS = 2  # lower-case words in a name with capitals, stop words not counted
_LONG = 7  # words; a longer name must end on a capital too
_OPENING = frozenset("([\"'“‘")


@dataclass(frozen=True, slots=True)
class ScanRules:
    """What the scan of unlinked text takes for a possible name."""

    max_tokens: int = field(default=10, metadata={"doc": "longest name with a capital, in tokens"})
    max_lower_tokens: int = field(default=4, metadata={"doc": "longest name without a capital; 1 or less: none at all"})
    single_lower: bool = field(default=False, metadata={"doc": "also match a single lower-case word"})
    common_lower: bool = field(
        default=True,
        metadata={"doc": "also match a single lower-case word if its class is written in lower case, such as a genre"},
    )
    part_of_longer: bool = field(
        default=False,
        metadata={"doc": "also match a single word beside another with a capital: `Lynn` in an unknown `Ann Lynn`"},
    )
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

    `names` are the spellings to look up, best first. `case` in (0, 1] is how much its letters look like a name.
    """

    start: int
    end: int
    names: tuple[str, ...]
    case: float


CASE_PROPER, CASE_INITIAL, CASE_LOWER = 1.0, 0.6, 0.75
CASE_COMMON = 0.5  # a single lower-case word; only a common noun (`jazz`) may be one
PART_OF_LONGER = 0.5  # times the above

# Letter features of one word.
_STOP, _UPPER, _SMALL_FIRST, _SMALL, _CAPITAL, _DIGIT_FIRST = 1, 2, 4, 8, 16, 32
_STARTS, _OPENS, _WORDLIKE, _CLOSES, _ALPHA, _ALPHA_FIRST, _ALPHA_LAST = 64, 128, 256, 512, 1024, 2048, 4096
# A stop word in capitals (`US`); one that a lower-case name may begin with (`new wave`); an office.
_SHOUTED, _SOFT, _OFFICE = 8192, 16384, 32768
_MAY_START = _STARTS | _OPENS
_SOFT_WORDS = frozenset({"new"})


@lru_cache(maxsize=1 << 17)
def _letters(word: str, stop_words: frozenset[str]) -> int:
    first = word[0]
    folded = word.casefold()
    return (
        _STOP * (folded in stop_words)
        | _SHOUTED * (folded in stop_words and len(word) > 1 and word.isupper())
        | _SOFT * (word in _SOFT_WORDS)
        | _OFFICE * (word in OFFICES)
        | _UPPER * first.isupper()
        | _SMALL_FIRST * first.islower()
        | _SMALL * word.islower()
        | _CAPITAL * (first.isupper() or (first.isalnum() and any(map(str.isupper, word))))
        | _DIGIT_FIRST * first.isdigit()
        | _STARTS * first.isalnum()
        | _OPENS * (word in _OPENING)
        | _WORDLIKE * any(map(str.isalnum, word))
        | _CLOSES * (word in _CLOSING)
        | _ALPHA * any(map(str.isalpha, word))
        | _ALPHA_FIRST * first.isalpha()
        | _ALPHA_LAST * word[-1].isalpha()
    )


class Letters:
    """Judges by the rules which stretches of one sentence's words may be names."""

    def __init__(self, words: Sequence[str], rules: ScanRules) -> None:
        stop = rules.stop_words
        self._of = of = [_letters(word, stop) for word in words]
        self._rules = rules
        if any(bits & _SHOUTED for bits in of) and any(bits & _SMALL for bits in of):
            self._of = [bits & ~_STOP if bits & _SHOUTED else bits for bits in of]
        self._first = next((index for index, bits in enumerate(self._of) if bits & _STARTS), 0)

    def case(self, start: int, end: int) -> float:
        """Score the letters of words `[start, end)` and of their neighbours in (0, 1]; 0 if they can be no name."""
        of, size = self._of, end - start
        first, last = of[start], of[end - 1]
        if not first & _MAY_START or (size == 1 and (first & _STOP or not first & _ALPHA)):
            return 0.0
        if size > self._rules.max_tokens:
            return 0.0
        case = self._one(first, start) if size == 1 else self._several(of[start:end], first, last, start)
        if case and (self.continues(start - 1) or self.continues(end)):
            return case * PART_OF_LONGER if size > 1 or self._rules.part_of_longer else 0.0
        return case

    def continues(self, at: int) -> bool:
        """Tell whether the word beside a name looks like more of it: `West` before `Berlin`."""
        return self._first < at < len(self._of) and self._of[at] & (_UPPER | _STOP | _OFFICE) == _UPPER

    def is_capital(self, at: int) -> bool:
        """Tell whether there is a word here with a capital first letter that is no stop word."""
        return 0 <= at < len(self._of) and self._of[at] & (_UPPER | _STOP) == _UPPER

    def _one(self, bits: int, at: int) -> float:
        if not bits & _STARTS:
            return 0.0
        if bits & _CAPITAL:
            return CASE_INITIAL if at == self._first else CASE_PROPER
        if self._rules.single_lower:
            return CASE_LOWER
        return CASE_COMMON if self._rules.common_lower and bits & _SMALL and bits & _ALPHA_LAST else 0.0

    def _several(self, of: Sequence[int], first: int, last: int, start: int) -> float:
        if not (first & _STARTS or len(of) > 2) or not last & (_WORDLIKE | _CLOSES):
            return 0.0
        if last & _STOP and last & _SMALL:
            return 0.0
        # A stop word counts as written with a capital only where its position does not require one.
        asked = start == self._first or first & _STOP
        if (first & _CAPITAL and not asked) or any(bits & _CAPITAL for bits in of[1:]):
            return CASE_PROPER if self._is_title_like(of, first, last) else 0.0
        if first & _CAPITAL and not first & _STOP:
            return CASE_INITIAL
        if len(of) > self._rules.max_lower_tokens or last & _STOP or first & (_STOP | _SOFT) == _STOP:
            return 0.0
        return CASE_LOWER if first & _ALPHA_FIRST and last & _ALPHA_LAST else 0.0

    def _is_title_like(self, of: Sequence[int], first: int, last: int) -> bool:
        """Tell whether capitals stand as in a title: first, last too in a long one, and few plain words between."""
        if not first & (_CAPITAL | _DIGIT_FIRST | _OPENS):
            return False
        if len(of) > _LONG and not last & _CAPITAL:
            return False
        return sum(bits & (_SMALL_FIRST | _STOP) == _SMALL_FIRST for bits in of) <= _MOST_PLAIN_WORDS


def names_of(sentence: Sentence, start: int, end: int) -> tuple[str, ...]:
    """Return the spellings of tokens `[start, end)` to look up: as written, and without a corpus's extra spaces."""
    surface = collapse(sentence.surface(start, end))
    return tuple(dict.fromkeys((surface, detokenise(surface))))


def free_stretches(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """Yield the longest token ranges `[start, end)` that no link touches, in order."""
    position = 0
    for start, end in sorted((link.start, link.end) for link in sentence.links):
        if start > position:
            yield position, start
        position = max(position, end)
    if position < len(sentence.tokens):
        yield position, len(sentence.tokens)


def ngrams(sentence: Sentence, rules: ScanRules, *, linked: bool = False) -> list[NGram]:
    """Return the possible names in the unlinked text, with `linked` in all of it, by start, longest first."""
    words = sentence.words
    letters = Letters(words, rules)
    found = []
    for low, high in [(0, len(words))] if linked else free_stretches(sentence):
        for start in range(low, high):
            for end in range(min(high, start + rules.max_tokens), start, -1):
                if case := letters.case(start, end):
                    found.append(NGram(start, end, names_of(sentence, start, end), case))
    return found


LINK, PAGE, DBPEDIA = "link", "page", "dbpedia"


@dataclass(slots=True)
class Place:
    """Tokens `[start, end)` and what they may mean; `choice` is None for a link to an unknown page."""

    start: int
    end: int
    source: str
    score: float
    choice: Choice | None
    candidates: Candidates
    type: str | None
    case: float = 1.0
    target: str = ""


class Words:
    """The words of a sentence, which of them are free of links, and how they align with the tokens of `tokenize`."""

    __slots__ = ("_ends", "_starts", "letters", "ours", "segments", "sentence", "words")

    def __init__(self, sentence: Sentence, rules: ScanRules, *, links: bool) -> None:
        self.sentence, self.words = sentence, sentence.words
        self.letters = Letters(self.words, rules)
        self.segments = _segments(sentence) if links and sentence.links else None
        self.ours: Sequence[str] = words_of(sentence.text)
        self._starts: dict[int, int] | None = None
        self._ends: dict[int, int] = {}
        # Ours cover every character but white space, so the same words in the same order are at the same places.
        if len(self.ours) != len(self.words) or tuple(self.ours) != self.words:
            starts = {token.start: index for index, token in enumerate(sentence.tokens)}
            ends = {token.end: index + 1 for index, token in enumerate(sentence.tokens)}
            tokens = tokenize(sentence.text)
            self._starts = {index: starts[token.start] for index, token in enumerate(tokens) if token.start in starts}
            self._ends = {index + 1: ends[token.end] for index, token in enumerate(tokens) if token.end in ends}

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the sentence's tokens for some of ours; None where they begin or end inside one, or touch a link."""
        if self._starts is not None:
            low, high = self._starts.get(start), self._ends.get(end)
            if low is None or high is None or low >= high:
                return None
            start, end = low, high
        if (segments := self.segments) is not None and (segments[start] < 0 or segments[start] != segments[end - 1]):
            return None
        return start, end

    def is_free(self, start: int, end: int) -> bool:
        """Tell whether no link touches tokens `[start, end)`."""
        segments = self.segments
        return segments is None or (segments[start] >= 0 and segments[start] == segments[end - 1])


def _segments(sentence: Sentence) -> list[int]:
    """Number the stretches between links token by token; -1 inside a link."""
    found = [0] * len(sentence.tokens)
    for link in sentence.links:
        for index in range(link.start, link.end):
            found[index] = -1
    number, before = 0, False
    for index, value in enumerate(found):
        if value < 0:
            number += not before
            before = True
        else:
            found[index], before = number, False
    return found


def leftmost_longest(places: Iterable[Place]) -> list[Place]:
    """Choose places so that none overlap: the leftmost first, of these the longest."""
    chosen: list[Place] = []
    position = 0
    for place in sorted(places, key=lambda place: (place.start, -place.end)):
        if place.start >= position:
            chosen.append(place)
            position = place.end
    return chosen


def best_links(places: Sequence[Place]) -> list[Place]:
    """Choose links so that none overlap: those with a type first, then the longer, then by score."""
    chosen: list[Place] = []
    for place in sorted(
        places,
        key=lambda candidate: (
            candidate.type is None,
            candidate.start - candidate.end,
            -candidate.score,
            candidate.start,
        ),
    ):
        if all(place.end <= other.start or other.end <= place.start for other in chosen):
            chosen.append(place)
    return chosen

"""Later mentions of entities that a page has named: linked ones, and its own subject from the start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from crossner_core.gazetteer.candidates import PAGE_SCORE, RIVAL_SURNAME, SURNAME, Candidate, is_described
from crossner_core.gazetteer.matcher import OFFICES, PART_OF_LONGER, Letters, ScanRules
from crossner_core.gazetteer.titles import strip_suffix
from crossner_core.tokenize import words_of

_GENERATION = frozenset({"Jr", "Jr.", "Sr", "Sr.", ".", ","})
_REGNAL_NUMBERS = """I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI"""
_REGNAL = frozenset(_REGNAL_NUMBERS.split())
_PARTICLES = frozenset({"of", "the", "and", "in", "from"})
_SURNAME, _NAME = "surname", "name"


@dataclass(slots=True)
class PageName:
    """A name that a page has given to a resource; valid from token `after` of sentence `sentence` on.

    `rivals` counts the resources that had it before; `clashes` tells that their types differ or are unknown.
    """

    words: tuple[str, ...]
    candidate: Candidate
    type: str | None
    kind: str
    sentence: int
    after: int
    rivals: int = 0
    clashes: bool = False

    def score(self, *, goes_on: bool) -> float:
        """Score a mention by this name; `goes_on` tells that the next word looks like part of a longer name."""
        score = PAGE_SCORE / max(len(self.candidate.types), 1)
        if goes_on:
            score *= PART_OF_LONGER
        if self.kind == _SURNAME:
            score *= SURNAME
        return score * RIVAL_SURNAME if self.rivals else score


class PageNames:
    """The names a page has given so far, found again in its later text; sentences come in their order."""

    def __init__(self, rules: ScanRules) -> None:
        self._rules = rules
        self._of_first: dict[str, list[PageName]] = {}
        self._known: dict[tuple[str, ...], PageName] = {}
        self._subject: str | None = None

    def add_subject(self, candidate: Candidate) -> None:
        """Add the names of the page's own subject; they are valid from the start."""
        self._subject = candidate.entity
        for words in _titles(candidate):
            self._add(PageName(words, candidate, _type(candidate), _NAME, -1, 0))
        self._add_surname(candidate, -1, 0)

    def add_link(self, surface: str, target: str, candidate: Candidate, sentence: int, after: int) -> None:
        """Add a link's text, its page's title, and a person's surname."""
        words = _split(surface)
        if not is_described(surface, target) and self._may_be_repeated(words, candidate):
            self._add(PageName(words, candidate, _type(candidate), _NAME, sentence, after))
        for title in _titles(candidate):
            self._add(PageName(title, candidate, _type(candidate), _NAME, sentence, after))
        self._add_surname(candidate, sentence, after)

    def found(self, words: Sequence[str], letters: Letters, sentence: int) -> Iterator[tuple[int, int, PageName]]:
        """Yield the places of a sentence that repeat a name, by start, longest first."""
        of_first = self._of_first
        for start, word in enumerate(words):
            if (names := of_first.get(word)) is None:
                continue
            for name in names:
                end = start + len(name.words)
                if name.clashes or (name.sentence == sentence and start < name.after):
                    continue
                if len(name.words) > 1 and tuple(words[start:end]) != name.words:
                    continue
                if _stands_alone(name, words, letters, start, end):
                    yield start, end, name

    def _may_be_repeated(self, words: tuple[str, ...], candidate: Candidate) -> bool:
        """Tell whether link text names its page wherever it stands: by capitals, or in lower case by its title."""
        if not words:
            return False
        if words[0][0].isupper() or any(map(str.isupper, words[0])):
            return words[0].casefold() not in self._rules.stop_words or len(words) > 1
        return words in _titles(candidate)

    def _add_surname(self, candidate: Candidate, sentence: int, after: int) -> None:
        if candidate.is_person and (surname := _surname(candidate.entity)):
            self._add(PageName((surname,), candidate, _type(candidate), _SURNAME, sentence, after))

    def _add(self, name: PageName) -> None:
        if not name.words or (len(name.words) == 1 and name.words[0].casefold() in self._rules.stop_words):
            return
        old = self._known.get(name.words)
        if old is not None:
            if old.candidate.entity == name.candidate.entity or old.candidate.entity == self._subject:
                return  # the first mention wins, and the page's own subject keeps its names
            if old.kind == _NAME and name.kind == _SURNAME:
                return  # it is somebody's whole name
            if old.kind == name.kind:  # the most recent wins, but only if all have the same type
                name.rivals = old.rivals + 1
                name.clashes = old.clashes or name.type is None or old.type != name.type
        self._known[name.words] = name
        same = [known for known in self._of_first.get(name.words[0], ()) if known.words != name.words]
        self._of_first[name.words[0]] = sorted([*same, name], key=lambda known: -len(known.words))


def _stands_alone(name: PageName, words: Sequence[str], letters: Letters, start: int, end: int) -> bool:
    """Tell whether a name of one word is no part of a longer one: `Boston` in `Boston Globe`, `Ann Lee` for a Lee."""
    if len(name.words) > 1 or not words[start][0].isupper():
        return True
    if letters.is_capital(end):
        return False
    if name.kind != _SURNAME or start == 0:
        return True
    before = words[start - 1]
    if before in OFFICES:
        return True
    initial = before == "." and start > 1 and len(words[start - 2]) == 1 and words[start - 2].isupper()
    return not (letters.is_capital(start - 1) or initial or _is_initial(before))


def _is_initial(word: str) -> bool:
    return len(word) <= 4 and word.endswith(".") and word[0].isupper()


def _type(candidate: Candidate) -> str | None:
    return candidate.types[0] if candidate.types else None


@lru_cache(maxsize=1 << 14)
def _split(name: str) -> tuple[str, ...]:
    return tuple(words_of(name))


def _titles(candidate: Candidate) -> tuple[tuple[str, ...], ...]:
    """Return the title without its suffix, also with a lower-case first letter if it is a common noun."""
    title = strip_suffix(candidate.entity) or candidate.entity
    words = _split(title)
    if candidate.is_common and title[:1].isupper() and title[1:] == title[1:].lower():
        return words, _split(title[0].lower() + title[1:])
    return (words,)


@lru_cache(maxsize=1 << 14)
def _surname(title: str) -> str | None:
    """Return the last word of a person's title of two words or more; None for rulers and `somebody of somewhere`."""
    words = list(_split(strip_suffix(title) or title))
    while len(words) > 1 and words[-1] in _GENERATION:
        words.pop()
    if len(words) < 2 or words[-1] in _REGNAL or _PARTICLES & set(words):
        return None
    last = words[-1]
    return last if len(last) > 1 and last[0].isupper() and last[-1].isalpha() else None

"""How much the vocabularies of corpora and data sets overlap: CrossNER's figure 1.

Source: Liu et al. 2021 (CrossNER), "Vocabulary overlap": the 5,000 most frequent words of each, without stop words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.schema import LabelledSentence, Sentence

TOP = 5000
_PRUNE_ABOVE = 5_000_000


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The most frequent words of a corpus or data set, most frequent first, and how many words were counted."""

    name: str
    words: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """Shares of common words in percent, `matrix[i][j]` between `names[i]` and `names[j]`.

    Two vocabularies are compared over as many words as the smaller has (`sizes`), the most frequent of each, so that
    the matrix is symmetric.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    matrix: tuple[tuple[float, ...], ...]

    def to_csv(self) -> str:
        """Write the matrix with a header and one row per name."""
        lines = [",".join(("", *map(_quoted, self.names)))]
        for name, row in zip(self.names, self.matrix, strict=True):
            lines.append(",".join((_quoted(name), *(f"{cell:.2f}" for cell in row))))
        return "\n".join(lines) + "\n"

    def to_markdown(self) -> str:
        """Write the matrix as a table, with the number of words of each."""
        lines = [f"| % | {' | '.join(self.names)} | words |", "|" + "---|" * (len(self.names) + 2)]
        for name, row, size in zip(self.names, self.matrix, self.sizes, strict=True):
            lines.append(f"| {name} | {' | '.join(f'{cell:.1f}' for cell in row)} | {size:,} |")
        return "\n".join(lines) + "\n"


def vocabulary(name: str, words: Iterable[Iterable[str]], *, top: int = TOP) -> Vocabulary:
    """Find the most frequent words of a stream of token lists; ties are broken alphabetically.

    Words are case-folded; tokens with non-letters and spaCy's English stop words are excluded. Beyond 5 million
    distinct words, those seen once are dropped periodically, which does not affect frequent words.
    """
    if top < 1:
        raise InvalidConfig(f"top is {top}; give 1 or more.")
    stop, counts, total = _stop_words(), Counter[str](), 0
    raw: Counter[str] = Counter()
    for tokens in words:
        raw.update(tokens)
        if len(raw) > 200_000:
            total += _fold(raw, counts, stop)
            raw.clear()
            if len(counts) > _PRUNE_ABOVE:
                counts = Counter({word: number for word, number in counts.items() if number > 1})
    total += _fold(raw, counts, stop)
    if not counts:
        raise BadInput(f"{name} has no words to compare.")
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:top]
    return Vocabulary(name, tuple(word for word, _ in best), total)


def sentence_words(sentences: Iterable[Sentence | LabelledSentence]) -> Iterator[tuple[str, ...]]:
    """Yield the tokens of sentences, labelled or not."""
    for item in sentences:
        yield (item.sentence if isinstance(item, LabelledSentence) else item).words


def overlap(vocabularies: Iterable[Vocabulary]) -> Overlap:
    """Compare all pairs of vocabularies; raise InvalidConfig unless there are two or more with distinct names."""
    gathered = tuple(vocabularies)
    names = tuple(vocabulary.name for vocabulary in gathered)
    if len(gathered) < 2 or len(set(names)) < len(names):
        raise InvalidConfig(f"An overlap needs two or more sources with different names, not {', '.join(names)}.")
    rows = tuple(tuple(_share(vocabulary, other) for other in gathered) for vocabulary in gathered)
    return Overlap(names, tuple(len(vocabulary.words) for vocabulary in gathered), rows)


def _share(first: Vocabulary, other: Vocabulary) -> float:
    size = min(len(first.words), len(other.words))
    return 100 * len({*first.words[:size]} & {*other.words[:size]}) / size


def _fold(raw: Mapping[str, int], counts: Counter[str], stop: frozenset[str]) -> int:
    total = 0
    for token, number in raw.items():
        if token.isalpha() and (word := token.casefold()) not in stop:
            counts[word] += number
            total += number
    return total


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    """Return spaCy's English stop words, read from their file: importing spaCy takes seconds."""
    spacy = find_spec("spacy")
    assert spacy is not None and spacy.origin is not None
    return frozenset(run_path(str(Path(spacy.origin).parent / "lang" / "en" / "stop_words.py"))["STOP_WORDS"])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(char in name for char in ',"\n') else name

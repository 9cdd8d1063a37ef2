"""WordNet: NLTK's, or from its own files, as Debian's package `wordnet-base` installs them; no torch."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from crossner_core.errors import BadInput, InvalidConfig

DEBIAN_FOLDER = Path("/usr/share/wordnet")
Lexicon = Callable[[str], set[str]]
"""From a word to all words of its synsets, itself included; several words are joined by underscores."""
_ENDINGS = {
    "noun": ("s", "ses s", "ves f", "xes x", "zes z", "ches ch", "shes sh", "men man", "ies y"),
    "verb": ("s", "ies y", "es e", "es", "ed e", "ed", "ing e", "ing"),
    "adj": ("er", "est", "er e", "est e"),
    "adv": (),
}
"""By part of speech the endings of inflected words, and what stands in their place in base forms. Source: WordNet's
manual, morphy(7), and NLTK 3.10, which alone has "ves".
"""


def wordnet() -> Lexicon | None:
    """Return WordNet: NLTK's, else Debian's package `wordnet-base`; None if neither is installed."""
    try:
        corpus = importlib.import_module("nltk.corpus").wordnet
        corpus.ensure_loaded()
    except (ImportError, LookupError):
        return _of_folder(Path(os.environ.get("WNSEARCHDIR") or DEBIAN_FOLDER))
    return lambda word: {lemma for synset in corpus.synsets(word) for lemma in synset.lemma_names()}


def pick_wordnet(wanted: str) -> Lexicon | None:
    """Return WordNet for auto or wordnet, None for the encoder; raise InvalidConfig if required but missing."""
    lexicon = wordnet() if wanted != "encoder" else None
    if wanted == "wordnet" and lexicon is None:
        raise InvalidConfig(
            "pdaln_synonyms is 'wordnet', but WordNet is not installed here: install Debian's package wordnet-base, or "
            f"nltk and its corpus 'wordnet'; or set WNSEARCHDIR to WordNet's folder if that is not {DEBIAN_FOLDER}; "
            "or choose auto or encoder."
        )
    return lexicon


def read_wordnet(folder: Path) -> Lexicon | None:
    """Return the WordNet in a folder, None if its index and data files are not all there.

    Words are looked up as they are, and by their base forms: those of its lists of exceptions, or else without an
    ending, as NLTK 3.10 does. Raises BadInput if its files cannot be understood. Source: WordNet's manual, wndb(5).
    """
    files = {part: (folder / f"index.{part}", folder / f"data.{part}") for part in _ENDINGS}
    if not all(path.is_file() for pair in files.values() for path in pair):
        return None
    index = {part: _index(path) for part, (path, _) in files.items()}
    data = {part: path.read_bytes() for part, (_, path) in files.items()}
    exceptions = {part: _exceptions(folder / f"{part}.exc") for part in _ENDINGS}

    def words(word: str) -> set[str]:
        synonyms: set[str] = set()
        for part, endings in _ENDINGS.items():
            for form in _forms(word.lower(), index[part], exceptions[part], endings):
                for offset in index[part][form]:
                    synonyms |= _words_of(data[part], offset, files[part][1])
        return synonyms

    return words


_of_folder = lru_cache(maxsize=1)(read_wordnet)  # plan and stages of a run ask for it


def _index(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the offsets of each word's synsets: the last numbers of its line, as many as its third field has."""
    offsets: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(path.read_text(encoding="ascii", errors="replace").splitlines(), 1):
        if not line or line.startswith(" "):  # the licence
            continue
        word, *fields = line.split()
        try:
            offsets[word] = tuple(int(offset) for offset in fields[-int(fields[1]) :])
        except (IndexError, ValueError) as error:
            raise BadInput(f"{path}, line {number}: not an entry of WordNet's index. Install WordNet again.") from error
    return offsets


def _forms(
    word: str, index: Collection[str], exceptions: Mapping[str, Sequence[str]], endings: Sequence[str]
) -> list[str]:
    """Return the forms of a word that the index has: itself and its base forms."""
    bases = exceptions[word] if word in exceptions else _without_endings(word, endings)
    return [form for form in dict.fromkeys((word, *bases)) if form in index]


def _without_endings(word: str, endings: Sequence[str]) -> Iterator[str]:
    for old, _, new in (ending.partition(" ") for ending in endings):
        if word.endswith(old):
            yield word.removesuffix(old) + new


def _exceptions(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the base forms of irregular words; none without the file."""
    if not path.is_file():
        return {}
    lines = (line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines())
    return {word: tuple(bases) for word, *bases in filter(None, lines)}


def _words_of(data: bytes, offset: int, path: Path) -> set[str]:
    """Return the words of the synset at an offset; an adjective's mark of position is cut off."""
    fields = data[offset : data.find(b"\n", offset)].decode("ascii", errors="replace").split()
    if len(fields) < 5 or not fields[0].isdigit() or int(fields[0]) != offset:
        raise BadInput(f"{path} has no synset at byte {offset}: it is not of the same WordNet as its index.")
    return {word.partition("(")[0] for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]}

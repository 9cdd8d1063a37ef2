"""Word vectors, of a file or random, and an LSTM or a CNN over characters: a body without pre-trained layers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar
from zlib import crc32

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from crossner_core.encoders._word_vectors import MOST_VALUES, MOST_WORDS, WordVectors, read_vectors
from crossner_core.encoders.base import Encoder, register
from crossner_core.encoders.names import SETTINGS, WORDS
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.folders import write_json
from crossner_core.records import Record

Stated = TypeVar("Stated", bound=Record)

VOCABULARY = "words.json"
MAX_LENGTH = 512
# Learned vectors are shared by words of the same hash: any word has one, and a checkpoint needs no vocabulary for them.
BUCKETS = 2**16
# Of a longer word, this many characters from each end.
CHARACTERS_OF_AN_END = 12
CHARACTERS = 2 * CHARACTERS_OF_AN_END
CHARACTER_BUCKETS = 512
# Sizes of a character's vector and of what is made of a word's: Lample et al. 2016 (25 in each direction), Ma and Hovy
# 2016 (30 filters over three characters).
LSTM_SIZE = 25
CNN_SIZE, CNN_WIDTH = 30, 3


@dataclass(frozen=True, slots=True)
class Settings(Record):
    """What a body is built from: what reads characters, the vectors' size, and how many words have a fixed vector.

    By `case` a word that the file lacks is looked up in lower case (fold), or has no vector of it (exact).
    """

    chars: Literal["none", "lstm", "cnn"] = "none"
    size: Annotated[int, Field(ge=2, le=MOST_VALUES)] = 100
    known: Annotated[int, Field(ge=0, le=MOST_WORDS)] = 0
    case: Literal["fold", "exact"] = "fold"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; without `case` where words are folded, so that fingerprints are as before it existed."""
        values = Record.to_dict(self)
        return values if self.case == "exact" else {name: value for name, value in values.items() if name != "case"}

    @property
    def hidden_size(self) -> int:
        """The size of a token's vector."""
        return self.size + {"none": 0, "lstm": 2 * LSTM_SIZE, "cnn": CNN_SIZE}[self.chars]


class CharLstm(nn.Module):
    """The last states of a BiLSTM over a word's characters. Source: Lample et al. 2016, section 4.1."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTER_BUCKETS, LSTM_SIZE)
        self.lstm = nn.LSTM(LSTM_SIZE, LSTM_SIZE, batch_first=True, bidirectional=True)

    def forward(self, characters: Tensor) -> Tensor:
        """Return (N, H) for the characters (N, C) of N words, each of one or more."""
        sizes = (characters > 0).sum(1).cpu()
        packed = pack_padded_sequence(self.characters(characters), sizes, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)  # (2, N, LSTM_SIZE)
        return torch.cat((last[0], last[1]), -1)


class CharCnn(nn.Module):
    """The maximum of filters over a word's characters. Source: Ma and Hovy 2016, section 2.1."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTER_BUCKETS, CNN_SIZE, padding_idx=0)
        self.filters = nn.Conv1d(CNN_SIZE, CNN_SIZE, CNN_WIDTH, padding=CNN_WIDTH // 2)

    def forward(self, characters: Tensor) -> Tensor:
        """Return (N, H) for the characters (N, C) of N words, each of one or more."""
        filtered = self.filters(self.characters(characters).transpose(1, 2))  # (N, H, C)
        return filtered.masked_fill((characters == 0).unsqueeze(1), float("-inf")).amax(-1)


class Body(nn.Module):
    """x = V[word] + D[hash(word)], then what is read of its characters.

    V are the vectors of a file, which stay as they are; D is learned: from zero beside V, of which it is then the
    difference that training makes, else from small random values. Words outside the file have D alone.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.learned = nn.Embedding(BUCKETS, settings.size)
        self.fixed: Tensor | None
        vectors = torch.zeros(settings.known + 1, settings.size, dtype=torch.float16) if settings.known else None
        self.register_buffer("fixed", vectors)
        if vectors is not None:
            nn.init.zeros_(self.learned.weight)
        else:
            nn.init.uniform_(self.learned.weight, -((3 / settings.size) ** 0.5), (3 / settings.size) ** 0.5)
        self.chars = {"none": lambda: None, "lstm": CharLstm, "cnn": CharCnn}[settings.chars]()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Return the vectors (B, L, H) of words (B, L, 2 + C): row of the file, hash, characters."""
        vectors = self.of_words(input_ids)  # (B, L, D)
        if self.chars is not None:
            here = attention_mask.bool()  # (B, L)
            read = self.chars(input_ids[..., 2:][here])  # (N, H)
            spelt = read.new_zeros((*here.shape, read.shape[-1]))
            spelt[here] = read
            vectors = torch.cat((vectors, spelt.to(vectors.dtype)), -1)
        return SimpleNamespace(last_hidden_state=vectors)

    def of_words(self, input_ids: Tensor) -> Tensor:
        """Return the vectors (B, L, D) of words (B, L, 2 + C) without their characters."""
        vectors = self.learned(input_ids[..., 1])
        return vectors if self.fixed is None else vectors + self.fixed[input_ids[..., 0]].to(vectors.dtype)


@register
@dataclass(slots=True)
class Words(Encoder):
    """Vectors of words; a word is one position of a window, and `max_length` counts words.

    Its name says what it is made of: `words:PART,PART…`. Parts are a text file of vectors or `glove`; `chars=lstm` or
    `chars=cnn`; with a file `case=exact`, without one `size=N`, the size of the random vectors. `rows` are the words of
    the file, whose row in the table of vectors is their place, from 1; a word that is not among them is looked up in
    lower case, but not by `case=exact`.
    """

    kind: ClassVar[str] = WORDS
    from_scratch: ClassVar[bool] = True

    chosen: Settings = field(default_factory=Settings)
    rows: dict[str, int] = field(default_factory=dict)

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        chosen = Settings.from_dict(settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return cls(Body(chosen), None, chosen.hidden_size, MAX_LENGTH, "", "", chosen=chosen)

    @classmethod
    def new(cls, given: str = "") -> Self:
        options, source = _parts(given)
        if source and "size" in options:
            raise InvalidConfig("size is the size of random vectors; leave it out beside a file of vectors.")
        if "case" in options and not source:
            raise InvalidConfig("case says how words are looked up in a file of vectors; name one, or leave it out.")
        read = read_vectors(source) if source else None
        if read is not None:
            options |= {"size": read.vectors.shape[1], "known": len(read.words)}
        try:
            encoder = cls.make(options)
        except BadInput as error:
            raise InvalidConfig(f"The encoder {cls.kind}:{given}: {error}") from error
        if read is not None:
            encoder._take(read)
        encoder.name = f"{cls.kind}:{given}" if given else cls.kind
        encoder.fingerprint = encoder.measure_fingerprint()
        return encoder

    def _take(self, read: WordVectors) -> None:
        self.rows = _rows(read.words)
        self.model.fixed[1:] = torch.from_numpy(read.vectors)

    def settings(self) -> dict[str, Any]:
        return self.chosen.to_dict()

    def reading(self) -> str:
        words = hashlib.sha256(json.dumps(list(self.rows)).encode()).hexdigest() if self.rows else ""
        return json.dumps([self.kind, self.settings(), self.max_length, words], sort_keys=True)

    def pieces(self, sentences: Sequence[Sequence[str]]) -> list[list[list[Any]]]:
        known = {word: [self._numbers(word)] for sentence in sentences for word in sentence}
        return [[known[word] for word in sentence] for sentence in sentences]

    def _numbers(self, word: str) -> tuple[int, ...]:
        """Return a word's row, its hash, and its characters, of which 0 fills up."""
        row = self.rows.get(word) or (self.rows.get(word.lower(), 0) if self.chosen.case == "fold" else 0)
        kept = word if len(word) <= CHARACTERS else word[:CHARACTERS_OF_AN_END] + word[-CHARACTERS_OF_AN_END:]
        characters = [1 + ord(character) % (CHARACTER_BUCKETS - 1) for character in kept or " "]
        filled = characters + [0] * (CHARACTERS - len(characters))
        return row, crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS, *filled

    def save(self, folder: Path, *, weights: bool = True) -> None:
        Encoder.save(self, folder, weights=weights)
        self.write_words(folder)

    def write_words(self, folder: Path) -> None:
        """Write the words that have a vector of the file, row by row; nothing if there are none."""
        if self.rows:
            write_json(folder / VOCABULARY, {"words": list(self.rows)})

    @classmethod
    def empty(cls, folder: Path, *, weights: Mapping[str, Tensor] | None = None) -> Self:
        chosen = read_settings(folder, Settings)
        if weights is not None:
            check_size(lambda: Body(chosen), weights)
        encoder = cls.make(chosen.to_dict())
        encoder.rows = read_rows(folder, chosen.known)
        return encoder


def _parts(given: str) -> tuple[dict[str, Any], str]:
    """Return the options and the source of vectors named after `words:`."""
    options: dict[str, Any] = {}
    source = ""
    for part in filter(None, (part.strip() for part in given.split(","))):
        name, sign, value = part.partition("=")
        if sign and name in ("chars", "size", "case") and name not in options:
            options[name] = int(value) if name == "size" and value.isascii() and value.isdecimal() else value
        elif not sign and not source:
            source = part
        else:
            raise InvalidConfig(
                f"the part {part!r} is unknown, or there are two of its kind. After words: stand, separated by commas, "
                "a text file of vectors or glove, chars=lstm or chars=cnn, case=exact, and without a file size=N."
            )
    return options, source


def _rows(words: Sequence[str]) -> dict[str, int]:
    return {word: row for row, word in enumerate(words, 1)}


def read_settings(folder: Path, kind: type[Stated]) -> Stated:
    """Return the settings that an encoder's folder states; raise ValueError for others."""
    try:
        return kind.from_dict(json.loads((folder / SETTINGS).read_text(encoding="utf-8"))["settings"])
    except BadInput as error:
        raise ValueError(str(error)) from error


def read_rows(folder: Path, known: int) -> dict[str, int]:
    """Return the rows of the `known` words that a folder lists; raise ValueError if it lists others."""
    words = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))["words"] if known else []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"its {VOCABULARY} is no list of words")
    if len(rows := _rows(words)) != known:
        raise ValueError(f"its {VOCABULARY} has {len(rows):,} words; there are vectors of {known:,}")
    return rows


def check_size(make: Callable[[], nn.Module], weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError if a body has more weights than there are; it is made without memory for them."""
    with torch.device("meta"):
        size = sum(value.numel() for value in make().state_dict().values())
    if size > (most := sum(value.numel() for value in weights.values())):
        raise ValueError(f"its {SETTINGS} describes {size:,} weights; there are {most:,}")

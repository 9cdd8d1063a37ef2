"""FLAIR embeddings: the states of two frozen character language models at the edges of words, and word vectors.

Source: Akbik et al. 2018, "Contextual String Embeddings for Sequence Labeling", sections 2.1 to 2.3.

There, and in the released code: language models with states of 2048; on them and GloVe one BiLSTM of 256 and a CRF,
SGD at 0.1, halved where training stalls, batches of 32, at most 150 epochs, dropout of whole words (0.05) and of
dimensions (0.5). Here: states of 1024 unless chosen; in the study `baselines` a `bilstm_crf` of the same size, AdamW at
1e-3, batches of 32, ten epochs, dropout 0.5 of single values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from crossner_core.encoders.base import Encoder, register
from crossner_core.encoders.names import FLAIR, SETTINGS, kind_at
from crossner_core.encoders.words import Body as WordsBody
from crossner_core.encoders.words import Settings as WordsSettings
from crossner_core.encoders.words import Words, check_size, read_rows, read_settings
from crossner_core.errors import InvalidConfig
from crossner_core.records import Record

MAX_LENGTH = 512
# Of a longer word, this many characters from each end.
CHARACTERS_OF_AN_END = 32
CHARACTERS = 2 * CHARACTERS_OF_AN_END
# Numbers that are no character of the list; EDGE begins and ends a text, GAP is the space between words.
PADDING, UNKNOWN, EDGE, GAP = range(4)
SPECIAL = 4
MOST_CHARACTERS = 2**16
EMBEDDING_SIZE = 100


@dataclass(frozen=True, slots=True)
class Settings(Record):
    """What a body is built from: the characters that are told apart, the LSTMs' size, and the settings of `Words`.

    With `after_gap` states are taken one character later, as FLAIR does by default: onward after the space behind a
    word, backward after the one before it. At the end of what is read a space stands in place of the edge.
    """

    characters: Annotated[str, Field(max_length=MOST_CHARACTERS)]
    hidden_size: Annotated[int, Field(ge=1, le=8192)]
    words: WordsSettings | None = None
    after_gap: bool = False

    @property
    def vocabulary(self) -> int:
        """How many numbers of characters there are."""
        return SPECIAL + len(self.characters)

    @property
    def size(self) -> int:
        """The size of a token's vector."""
        return 2 * self.hidden_size + (self.words.hidden_size if self.words else 0)


class CharacterModel(nn.Module):
    """A language model over characters: p(x_t | x_<t) = softmax(V h_t + b), h_t an LSTM's state after x_{t−1}."""

    def __init__(self, vocabulary: int, hidden_size: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(vocabulary, EMBEDDING_SIZE)
        self.lstm = nn.LSTM(EMBEDDING_SIZE, hidden_size, batch_first=True)
        self.scores = nn.Linear(hidden_size, vocabulary)

    def states(self, text: Tensor) -> Tensor:
        """Return the states (B, T, H) after each character of texts (B, T)."""
        states, _ = self.lstm(self.characters(text))
        return states

    def loss_sum(self, text: Tensor) -> Tensor:
        """Return the summed cross entropy, a scalar in nats, of all characters of texts (B, T) but each one's first."""
        scores = self.scores(self.states(text[:, :-1]))  # (B, T-1, V)
        return functional.cross_entropy(
            scores.flatten(0, 1), text[:, 1:].flatten(), ignore_index=PADDING, reduction="sum"
        )


class Body(nn.Module):
    """x_t = [h→ after the word's last character; h← after its first, read from the right; word vector].

    With `after_gap` each state is that after the next character, which is a space (see `Settings`).
    The language models are frozen, whatever `requires_grad_` is called with, unless `learns`.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.onward, self.backward = (CharacterModel(settings.vocabulary, settings.hidden_size) for _ in range(2))
        self.words = WordsBody(settings.words) if settings.words else None
        self.after_gap = settings.after_gap
        self.learns = False
        self.requires_grad_()

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let the vectors of words learn or not; the language models only if `learns`."""
        super().requires_grad_(requires_grad)
        for model in (self.onward, self.backward):
            model.requires_grad_(requires_grad and self.learns)
        return self

    def loss_sum(self, text: Tensor) -> Tensor:
        """Return the summed cross entropy of both models, a scalar in nats, over texts (B, T) padded at the end."""
        return self.onward.loss_sum(text) + self.backward.loss_sum(mirrored(text))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Return the vectors (B, L, H) of words (B, L, C + …): characters, then what `Words` reads."""
        here = attention_mask.bool()  # (B, L)
        text, first, last = as_text(input_ids[..., :CHARACTERS], here)
        sizes = (text != PADDING).sum(1, keepdim=True)  # (B, 1)
        read = [self._states(self.onward, text, last, sizes)]
        read.append(self._states(self.backward, mirrored(text), sizes - 1 - first, sizes))
        if self.words is not None:
            read.append(self.words(input_ids[..., CHARACTERS:], attention_mask).last_hidden_state)
        return SimpleNamespace(last_hidden_state=torch.cat(read, -1) * here.unsqueeze(-1))

    def _states(self, model: CharacterModel, text: Tensor, places: Tensor, sizes: Tensor) -> Tensor:
        """Return a model's states (B, L, H) for words that end at `places` (B, L) of texts (B, T) of `sizes` (B, 1)."""
        if self.after_gap:
            text, places = text.scatter(1, (sizes - 1).clamp(min=0), GAP), places + 1
        return _states_at(model, text, places)


def as_text(characters: Tensor, here: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Join words (B, L, C) with gaps, edges around them; return texts (B, T), and where each word begins and ends.

    `here` (B, L) is where there is a word; the places are those of its first and last character, (B, L) each.
    """
    rows, words, _ = characters.shape
    before = characters.new_full((rows, words, 1), GAP)
    before[:, :1] = EDGE
    cells = torch.cat((before, characters), -1) * here.unsqueeze(-1)  # (B, L, 1 + C)
    filled = cells != PADDING
    ends = filled.sum(-1).cumsum(1)  # (B, L) characters up to each word's end
    text = characters.new_full((rows, int(ends[:, -1].max()) + 1), PADDING)
    row, word, place = filled.nonzero(as_tuple=True)
    number = filled.flatten(1).cumsum(1).view_as(filled) - 1
    text[row, number[row, word, place]] = cells[row, word, place]
    text[torch.arange(rows, device=text.device), ends[:, -1]] = EDGE
    return text, number[..., 0].clamp(min=0) + 1, (ends - 1).clamp(min=0)


def mirrored(text: Tensor) -> Tensor:
    """Return texts (B, T) from the end to the beginning; padding stays at the end."""
    sizes = (text != PADDING).sum(1, keepdim=True)
    places = sizes - 1 - torch.arange(text.shape[1], device=text.device)  # (B, T)
    return text.gather(1, places.clamp(min=0)).masked_fill(places < 0, PADDING)


def _states_at(model: CharacterModel, text: Tensor, places: Tensor) -> Tensor:
    """Return the states (B, L, H) of a model after the characters at `places` (B, L) of texts (B, T)."""
    states = model.states(text)
    places = places.clamp(0, text.shape[1] - 1)
    return states.gather(1, places.unsqueeze(-1).expand(-1, -1, states.shape[-1]))


class CharacterNumbers:
    """The numbers of characters: those of a list from 4, 3 a space, 1 any other."""

    def __init__(self, characters: str) -> None:
        self._known = {character: number for number, character in enumerate(characters, SPECIAL)} | {" ": GAP}

    def of(self, text: str) -> list[int]:
        """Return the number of each character."""
        return [self._known.get(character, UNKNOWN) for character in text]


@register
@dataclass(slots=True)
class Flair(Encoder):
    """Words by the states of character models; a word is one position of a window, and `max_length` counts words.

    A folder of it, made by `character-models` of `crossner_core.adaptation` or of the workbench, or by `convert-flair`
    from models that FLAIR released, is an encoder by itself. With word vectors beside the states its name is
    `flair:FOLDER,words=FILE` or `flair:FOLDER,words=glove`, where a name in a library can stand for the folder.
    """

    kind: ClassVar[str] = FLAIR
    from_scratch: ClassVar[bool] = True

    chosen: Settings = field(default_factory=lambda: Settings("", 1))
    numbers: CharacterNumbers = field(default_factory=lambda: CharacterNumbers(""))
    words: Words | None = None

    @classmethod
    def make(cls, settings: Mapping[str, Any], seed: int = 0) -> Self:
        chosen = Settings.from_dict(settings)
        words = Words.make(chosen.words.to_dict()) if chosen.words else None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            body = Body(chosen)
        if words is not None:
            body.words = words.model
        numbers = CharacterNumbers(chosen.characters)
        return cls(body, None, chosen.size, MAX_LENGTH, "", "", chosen=chosen, numbers=numbers, words=words)

    @classmethod
    def new(cls, given: str = "") -> Self:
        folder, source = _parts(given)
        encoder = cls.load(folder, f"{cls.kind}:{given}")
        if source:
            if encoder.chosen.words is not None:
                raise InvalidConfig(f"the encoder in {folder} has word vectors of its own; leave words= out.")
            encoder._read_beside(Words.new(source))
        encoder.name, encoder.folder, encoder.fingerprint = f"{cls.kind}:{given}", None, encoder.measure_fingerprint()
        return encoder

    def _read_beside(self, words: Words) -> None:
        """Take word vectors beside the states."""
        self.chosen = replace(self.chosen, words=words.chosen)
        self.words, self.model.words, self.hidden_size = words, words.model, self.chosen.size

    def settings(self) -> dict[str, Any]:
        stated = self.chosen.to_dict()
        if not self.chosen.after_gap:
            del stated["after_gap"]  # older folders do not state it, and their fingerprints stay
        return {**stated, "words": self.chosen.words.to_dict()} if self.chosen.words else stated

    def reading(self) -> str:
        words = self.words.reading() if self.words else ""
        return json.dumps([self.kind, self.settings(), self.max_length, words], sort_keys=True)

    def pieces(self, sentences: Sequence[Sequence[str]]) -> list[list[list[Any]]]:
        known = sorted({word for sentence in sentences for word in sentence})
        numbers = {word: self._spelt(word) for word in known}
        if self.words is not None:
            (read,) = self.words.pieces([known])
            numbers = {word: (*numbers[word], *own) for word, (own,) in zip(known, read, strict=True)}
        return [[[numbers[word]] for word in sentence] for sentence in sentences]

    def _spelt(self, word: str) -> tuple[int, ...]:
        """Return the numbers of a word's characters, filled up."""
        kept = word if len(word) <= CHARACTERS else word[:CHARACTERS_OF_AN_END] + word[-CHARACTERS_OF_AN_END:]
        numbers = self.numbers.of(kept) or [UNKNOWN]
        return (*numbers, *[PADDING] * (CHARACTERS - len(numbers)))

    def save(self, folder: Path, *, weights: bool = True) -> None:
        if self.words is not None:
            self.words.save(folder, weights=False)
        Encoder.save(self, folder, weights=weights)

    @classmethod
    def empty(cls, folder: Path, *, weights: Mapping[str, Tensor] | None = None) -> Self:
        chosen = read_settings(folder, Settings)
        if weights is not None:
            check_size(lambda: Body(chosen), weights)
        encoder = cls.make(chosen.to_dict())
        if encoder.words is not None:
            encoder.words.rows = read_rows(folder, encoder.words.chosen.known)
        return encoder


def _parts(given: str) -> tuple[Path, str]:
    """Return the folder and the source of word vectors named after `flair:`; raise InvalidConfig."""
    place, *others = (part.strip() for part in given.split(","))
    sources = [part.removeprefix("words=") for part in others]
    if not place or len(others) > 1 or not all(part.startswith("words=") and part != "words=" for part in others):
        raise InvalidConfig(
            "After flair: stands the name or folder of character models, and words=FILE or words=glove after a comma; "
            "make some with `workbench encoder character-models` or `python -m crossner_core.adaptation "
            "character-models`."
        )
    folder = Path(place).expanduser()
    if folder.suffix == ".pt" or (folder.is_dir() and any(folder.glob("*.pt")) and not (folder / SETTINGS).exists()):
        raise InvalidConfig(
            f"{folder} holds flair's own files (.pt), which are pickles and are not read. Make an encoder of them with "
            "`python -m crossner_core.adaptation convert-flair --forward FILE --backward FILE --out FOLDER`."
        )
    if kind_at(folder) != FLAIR:
        raise InvalidConfig(f"there are no character models in {str(folder)!r}; a folder of them has {SETTINGS}.")
    return folder, sources[0] if sources else ""

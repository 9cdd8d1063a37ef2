"""The encoder under a tagger: it turns sentences into windows, and batches of windows into vectors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from crossner_core.encoders import packing
from crossner_core.encoders.names import SETTINGS, kind_at, no_recompute
from crossner_core.encoders.windows import Batch, Window, collate, cut
from crossner_core.errors import EncoderUnavailable, InvalidConfig
from crossner_core.folders import write_json
from crossner_core.registry import Registry
from crossner_core.schema import Sentence

WEIGHTS = "model.safetensors"


@dataclass(slots=True)
class Encoder:
    """A module, and the code that makes its input from sentences; each kind is a subclass in a file of this package.

    `model` is called with `input_ids` (B, L, …) and `attention_mask` (B, L); `last_hidden_state` of its result is (B,
    L, H). It may draw random numbers only from torch. Layer-wise learning-rate decay needs modules named `layer.N` or
    `layers.N`, with 0 at the bottom. `max_length` counts the positions of a window; `folder` holds its files and is
    unset for an encoder from the hub or made in memory.
    """

    model: Any
    tokenizer: Any  # of subwords; None if it has none
    hidden_size: int
    max_length: int
    name: str
    fingerprint: str  # see `measure_fingerprint`
    folder: Path | None = None

    kind: ClassVar[str] = ""
    # Whether recipes accept its kind as an encoder name: it needs no pre-trained weights.
    from_scratch: ClassVar[bool] = False

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """Make an untrained encoder from `settings` (empty: the defaults), with the same weights each time."""
        raise NotImplementedError

    @property
    def pad_id(self) -> int:
        """The padding value of `input_ids` after the end of a window."""
        return 0

    @property
    def values_a_position(self) -> int:
        """How many values the hidden states of one position are, of all layers together."""
        return self.hidden_size

    def settings(self) -> dict[str, Any]:
        """Return what `make` needs as plain values."""
        raise NotImplementedError

    def pieces(self, sentences: Sequence[Sequence[str]]) -> list[list[list[Any]]]:
        """Return the input ids (at least one) of each word of each sentence."""
        raise NotImplementedError

    def ends(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the input ids that precede and follow the words of each window."""
        return (), ()

    def reading(self) -> str:
        """Return what determines a text's vectors besides the weights."""
        return json.dumps([self.kind, self.settings(), self.max_length], sort_keys=True)

    def windows(self, sentences: Sequence[Sentence], max_length: int | None = None) -> list[Window]:
        """Split sentences into windows of at most `max_length` positions; each token is scored in exactly one.

        A token longer than a third of a window is truncated. Sentences without tokens yield no windows.
        """
        filled = [index for index, sentence in enumerate(sentences) if sentence.tokens]
        if not filled:
            return []
        pieces = self.pieces([sentences[index].words for index in filled])
        room, ends = max_length or self.max_length, self.ends()
        return [window for index, own in zip(filled, pieces, strict=True) for window in cut(index, own, room, ends)]

    def collate(self, windows: Sequence[Window], tags: Sequence[Sequence[int]] | None = None) -> Batch:
        """Pad windows into one batch; see `windows.collate`."""
        return collate(windows, self.pad_id, tags)

    def last_layers(self, batch: Batch, most: int) -> Tensor:
        """Return the vectors of up to `most` last layers, concatenated, (B, L, layers · H); here the last one's."""
        return vectors(self.model, batch)

    def recompute(self) -> None:
        """Enable activation checkpointing to save memory; raise InvalidConfig if unsupported."""
        raise no_recompute(self.name)

    def require_subwords(self, what: str) -> Any:
        """Return the tokenizer; raise EncoderUnavailable if there is none, naming `what` needs it."""
        if self.tokenizer is None:
            raise EncoderUnavailable(
                f"Encoder {self.name!r} has no subwords, which {what} needs; choose a BERT-like encoder."
            )
        return self.tokenizer

    def measure_fingerprint(self) -> str:
        """SHA-256 of all that determines its output: names, shapes and bytes of all weights, and `reading`.

        Equal for equal encoders, wherever they came from.
        """
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().contiguous().cpu().view(torch.uint8).numpy().data if tensor.dim() else b"")
        digest.update(self.reading().encode())
        return digest.hexdigest()

    @classmethod
    def new(cls, given: str = "") -> Self:
        """Make a new one, named after its kind; `given` is what its name has after a colon."""
        if given:
            raise InvalidConfig(f"an encoder of the kind {cls.kind} takes nothing after a colon.")
        encoder = cls.make({})
        encoder.name, encoder.fingerprint = cls.kind, encoder.measure_fingerprint()
        return encoder

    def save(self, folder: Path, *, weights: bool = True) -> None:
        """Write what `load` reads, or, without weights, what `empty` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / SETTINGS, {"kind": self.kind, "settings": self.settings()})
        if weights:
            save_file(self.model.state_dict(), folder / WEIGHTS)

    @classmethod
    def empty(cls, folder: Path, *, weights: Mapping[str, Tensor] | None = None) -> Self:
        """Read an encoder without its weights; name, fingerprint and `max_length` are not those of the saved one.

        `weights` are those it will get; a body larger than these is refused before it is made.
        """
        return cls.make(json.loads((folder / SETTINGS).read_text(encoding="utf-8"))["settings"])

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        """Read an encoder with its weights."""
        encoder = cls.empty(folder)
        encoder.model.load_state_dict(load_file(folder / WEIGHTS))
        encoder.name, encoder.folder, encoder.fingerprint = name, folder, encoder.measure_fingerprint()
        return encoder


ENCODERS: Registry[type[Encoder]] = Registry(
    "crossner_core.encoders",
    "kind of encoder",
    by_name=True,
    apart=("base", "windows", "loading", "names", "packing", "pooling"),
)


def register(kind: type[Encoder]) -> type[Encoder]:
    """Register a kind of encoder under its `kind`, which is the name of its file."""
    return ENCODERS.add(kind.kind, kind)


def kind_in(folder: Path) -> type[Encoder]:
    """Return the kind of the encoder in a folder; raise InvalidConfig if it is unknown."""
    return ENCODERS.one(kind_at(folder))


def vectors(model: Any, batch: Batch) -> Tensor:
    """Return the vectors (B, L, H) of an encoder's module; of one with a decoder, such as BART, those of its encoder.

    A transformer gets no mask where the host knows that nothing is padded: it would drop the mask itself, but only
    after waiting for the GPU to look at it. Where something is, see `packing`.
    """
    if packing.PACKED and packing.can_pack(model) and batch.sizes.padded:
        return packing.packed_vectors(model, batch)
    whole = batch.host is not None and not batch.host.padded and hasattr(model, "config")
    mask = None if whole else batch.attention_mask
    return encoding_part(model)(input_ids=batch.input_ids, attention_mask=mask).last_hidden_state


def encoding_part(model: Any) -> Any:
    """Return the part of a module that reads a text: its encoder, where it has a decoder too."""
    return model.get_encoder() if getattr(getattr(model, "config", None), "is_encoder_decoder", False) else model

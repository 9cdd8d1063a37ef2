"""FLAIR's released character language models as a folder for `flair:FOLDER`; nothing that their pickles name is run.

Sources: the repository flairNLP/flair for the layout of the files (flair/models/language_model.py, `save` and
`load_language_model`; flair/data.py, `Dictionary`) and for the places where states are taken
(flair/embeddings/token.py, `FlairEmbeddings` as it is by default); Akbik et al. 2018, section 2.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile

import torch
from torch import Tensor

from crossner_core.adaptation.restated import restated_file
from crossner_core.encoders.flair import EMBEDDING_SIZE, PADDING, Flair
from crossner_core.errors import BadInput
from crossner_core.folders import check_writable, replace_folder

# What a pickle may name: the dictionary of characters, which a stand-in takes the place of, and what tensors are of.
DICTIONARY = "flair.data.Dictionary"
ALLOWED = (
    DICTIONARY, "collections.OrderedDict", "_codecs.encode", "torch._utils._rebuild_tensor_v2", "torch.FloatStorage",
    "torch.cuda.FloatStorage",
)  # fmt: skip
# What the encoder has, too: a file that states another value is of a model that it cannot be.
_SHAPE = {"nlayers": 1, "nout": None, "embedding_size": EMBEDDING_SIZE, "recurrent_type": "lstm"}
_NEEDED = ("state_dict", "dictionary", "is_forward_lm", "hidden_size", "nlayers", "nout", "embedding_size")
_NEVER = -1e4  # the bias of what is never predicted
# What a file raises that was cut off, changed, or made up.
_DAMAGED = (
    UnpicklingError, BadZipFile, ValueError, ArithmeticError, RuntimeError, EOFError, LookupError, TypeError,
    AttributeError, AssertionError, MemoryError,
)  # fmt: skip


def convert_flair(forward: Path, backward: Path, out: Path) -> Flair:
    """Write an encoder's folder of a model that reads from the left and one that reads from the right; return it.

    The words' states are those of `FlairEmbeddings` (at most 64 characters of a word are read): see
    `Settings.after_gap`. Raises BadInput if a file is not one of FLAIR's character models, is of the other direction or
    of a model that the encoder cannot be, if the two do not go together, or if `out` holds something; StorageError.
    """
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise BadInput(f"{out} exists; choose another folder.")
    models = [read_released(path) for path in (forward, backward)]
    for model, onward, option in zip(models, (True, False), ("--forward", "--backward"), strict=True):
        if model.onward != onward:
            raise BadInput(
                f"{model.path} reads {'on' if model.onward else 'back'}ward, so it is no file for {option}; give one "
                "model of each direction."
            )
    first, second = models
    if first.hidden_size != second.hidden_size:
        raise BadInput(
            f"{forward} has states of {first.hidden_size}, {backward} of {second.hidden_size}; give two of one size."
        )
    apart = {" ", first.delimiter, second.delimiter}
    own, other = (set(model.rows) - apart for model in models)
    if own != other:
        raise BadInput(
            f"{forward} and {backward} tell different characters apart ({len(own ^ other)} are of one alone); give two "
            "of one release."
        )
    characters = "".join(sorted(own, key=first.rows.__getitem__))
    encoder = Flair.make({"characters": characters, "hidden_size": first.hidden_size, "after_gap": True})
    encoder.model.onward.load_state_dict(first.weights_for(characters))
    encoder.model.backward.load_state_dict(second.weights_for(characters))
    check_writable(out.parent)
    replace_folder(out, encoder.save)
    return Flair.load(out, str(out))


@dataclass(frozen=True, slots=True)
class Released:
    """What a file holds: a model's direction, the row of each character, and its weights by FLAIR's names."""

    path: Path
    onward: bool
    delimiter: str  # what a text begins with
    hidden_size: int
    rows: Mapping[str, int]
    weights: Mapping[str, Tensor]

    def weights_for(self, characters: str) -> dict[str, Tensor]:
        """Return the weights of a `CharacterModel` for some characters.

        A character that the model lacks is its row 0. Padding, which the model does not know, is never predicted.
        """
        rows = torch.tensor([0, 0, *(self.rows.get(character, 0) for character in (self.delimiter, " ", *characters))])
        given = {f"lstm.{name[4:]}": weights for name, weights in self.weights.items() if name.startswith("rnn.")}
        given["characters.weight"] = self.weights["encoder.weight"][rows]  # (V, E)
        given["scores.weight"] = self.weights["decoder.weight"][rows]  # (V, H)
        given["scores.bias"] = self.weights["decoder.bias"][rows]  # (V)
        for name, value in (("characters.weight", 0.0), ("scores.weight", 0.0), ("scores.bias", _NEVER)):
            given[name][PADDING] = value
        return given


def read_released(path: Path) -> Released:
    """Read a file of FLAIR's; raise BadInput if it is none, or of a model that the encoder cannot be."""
    state = _read_safely(path)
    state = state if isinstance(state, dict) else {}
    if missing := [name for name in _NEEDED if name not in state]:
        raise BadInput(
            f"{path} is no character model of FLAIR's: it lacks {', '.join(missing)}. Use a file as FLAIR releases its "
            "character models."
        )
    stated = {name: state.get(name, wanted) for name, wanted in _SHAPE.items()}
    stated["recurrent_type"] = str(stated["recurrent_type"]).lower()
    if wrong := [f"{name} {stated[name]!r}" for name in _SHAPE if stated[name] != _SHAPE[name]]:
        allowed = ", ".join(f"{name} {value!r}" for name, value in _SHAPE.items())
        raise BadInput(f"{path} is of a model with {', '.join(wrong)}; only {allowed} is read. Use another model.")
    hidden_size, delimiter, rows = state["hidden_size"], state.get("document_delimiter", "\n"), state["dictionary"]
    if not isinstance(rows, _Dictionary) or not rows.rows:
        raise BadInput(f"{path} is no character model of FLAIR's: its dictionary is no {DICTIONARY} of characters.")
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise BadInput(f"{path} begins a text with {delimiter!r}; only one character is read. Use another model.")
    if not isinstance(hidden_size, int):
        raise BadInput(f"{path} states {hidden_size!r} as hidden_size, which must be a whole number.")
    weights = _checked_weights(path, state["state_dict"], hidden_size, rows.size)
    return Released(path, bool(state["is_forward_lm"]), delimiter, hidden_size, rows.rows, weights)


def _checked_weights(path: Path, weights: Any, hidden_size: int, items: int) -> dict[str, Tensor]:
    """Return all weights if they have the names and shapes of a model with so many items; raise BadInput if not."""
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.weight": (items, EMBEDDING_SIZE),
        "rnn.weight_ih_l0": (4 * hidden_size, EMBEDDING_SIZE),
        "rnn.weight_hh_l0": (4 * hidden_size, hidden_size),
        "rnn.bias_ih_l0": (4 * hidden_size,),
        "rnn.bias_hh_l0": (4 * hidden_size,),
        "decoder.weight": (items, hidden_size),
        "decoder.bias": (items,),
    }
    weights = weights if isinstance(weights, dict) else {}
    actual = {name: tuple(getattr(value, "shape", ())) for name, value in weights.items()}
    if wrong := sorted(name for name in shapes.keys() | actual.keys() if shapes.get(name) != actual.get(name)):
        shown = ", ".join(f"{name} {actual.get(name, 'missing')}" for name in wrong)
        raise BadInput(
            f"{path} has other weights than a model of {items} characters and states of {hidden_size}: {shown}; only "
            f"{', '.join(f'{name} {shape}' for name, shape in shapes.items())} are read. Use another model."
        )
    return {name: value.detach().float() for name, value in weights.items()}


class _Dictionary:
    """Stands in for FLAIR's dictionary, and has none of its code: the row of each character that it knows.

    An item of several characters (`<unk>`) is left out: FLAIR looks up single ones. Unknown ones are row 0.
    """

    def __init__(self) -> None:
        self.size, self.rows = 0, dict[str, int]()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take what a pickle states: `item2idx`, the row of each item, which is UTF-8; `idx2item` for their number."""
        items = {bytes(item).decode(): int(row) for item, row in state["item2idx"].items()}
        self.size = len(state["idx2item"])
        if not all(0 <= row < self.size for row in items.values()):
            raise ValueError(f"item2idx has a row that is not among {self.size}.")
        self.rows = {item: row for item, row in items.items() if len(item) == 1}


def _read_safely(path: Path) -> Any:
    """Return what a file holds, read by PyTorch's reader of weights alone; raise BadInput if that cannot read it."""
    try:
        copy, names = restated_file(path)
        if foreign := sorted(names - set(ALLOWED)):
            raise BadInput(
                f"{path} holds {', '.join(foreign)}, which could run code, so it is not read; allowed are "
                f"{', '.join(ALLOWED)}. Use a file as FLAIR releases its character models."
            )
        with torch.serialization.safe_globals([(_Dictionary, DICTIONARY)]):
            return torch.load(copy, map_location="cpu", weights_only=True)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except _DAMAGED as error:
        # Of an UnpicklingError what was raised first: PyTorch puts its advice in the place, to read the file unsafely.
        first = (isinstance(error, UnpicklingError) and error.__context__) or error
        reason = str(first).strip().partition("\n")[0].rstrip(".") or type(first).__name__
        raise BadInput(
            f"{path} is damaged, or no file that PyTorch wrote ({reason}); allowed is a file as FLAIR releases its "
            "character models (.pt). Download it anew."
        ) from error

"""The parts of a tagger on word vectors that an ONNX graph computes otherwise than training: LSTMs and characters."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from crossner_core.encoders.words import Body, CharLstm

# Version of the operator LSTM; 22, the next, only adds types.
_VERSION = 14
_DIRECTIONS = ("", "_reverse")


class GraphLstm(nn.Module):
    """A BiLSTM as ONNX's operator LSTM, which takes the sizes of padded rows; it has values in an exported graph alone.

    PyTorch's exporter would unroll `nn.LSTM` for the length it sees, and cannot write packed sequences.
    Source: the definition of the operator LSTM in ONNX, whose gates stand in another order.
    """

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.size, self.layers = lstm.hidden_size, lstm.num_layers
        for layer in range(self.layers):
            biases = [_in_order(lstm, f"bias_{given}", layer) for given in ("ih", "hh")]
            self.register_buffer(f"inputs_{layer}", _in_order(lstm, "weight_ih", layer))  # (2, 4H, D)
            self.register_buffer(f"states_{layer}", _in_order(lstm, "weight_hh", layer))  # (2, 4H, H)
            self.register_buffer(f"bias_{layer}", torch.cat(biases, 1))  # (2, 8H)

    def forward(self, vectors: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states (B, L, 2H), and the last ones of both directions (B, 2H), of vectors (B, L, D).

        Of each row the first `sizes` (B,) count, at least one; the other states are zero.
        """
        rows, length = vectors.shape[:2]
        by_place = vectors.transpose(0, 1)  # (L, B, D)
        last = vectors
        for layer in range(self.layers):
            states, last = torch.onnx.ops.symbolic_multi_out(
                "LSTM",
                (
                    by_place,
                    self.get_buffer(f"inputs_{layer}"),
                    self.get_buffer(f"states_{layer}"),
                    self.get_buffer(f"bias_{layer}"),
                    sizes.to(torch.int32),
                ),
                {"direction": "bidirectional", "hidden_size": self.size},
                dtypes=(vectors.dtype, vectors.dtype),
                shapes=((length, 2, rows, self.size), (2, rows, self.size)),
                version=_VERSION,
            )
            by_place = states.transpose(1, 2).flatten(2)  # (L, B, 2H)
        return by_place.transpose(0, 1), torch.cat((last[0], last[1]), -1)


class GraphWords(nn.Module):
    """The body of an encoder `words`, computed at padding too, where it is zero in the end."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body, self.chars = body, body.chars
        self.lstm = GraphLstm(body.chars.lstm) if isinstance(body.chars, CharLstm) else None

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Return the vectors (B, L, H) of words (B, L, 2 + C)."""
        vectors = self.body.of_words(input_ids)  # (B, L, D)
        if self.chars is not None:
            spelt = self._spelt(input_ids[..., 2:].flatten(0, 1))  # (B L, H)
            vectors = torch.cat((vectors, spelt.unflatten(0, input_ids.shape[:2])), -1)
        return SimpleNamespace(last_hidden_state=torch.where(attention_mask.bool().unsqueeze(-1), vectors, 0.0))

    def _spelt(self, characters: Tensor) -> Tensor:
        """Return what is read of the characters (N, C) of N words, of which a word at padding has none: (N, H)."""
        assert self.chars is not None
        if self.lstm is None:
            return self.chars(characters)
        sizes = (characters > 0).sum(1).clamp(min=1)
        return self.lstm(self.chars.characters(characters), sizes)[1]


def _in_order(lstm: nn.LSTM, name: str, layer: int) -> Tensor:
    """Return weights or biases of both directions (2, 4H, …), gates in ONNX's order: i, o, f, c for i, f, c, o."""
    both = torch.stack([getattr(lstm, f"{name}_l{layer}{direction}").detach() for direction in _DIRECTIONS])
    enter, forget, new, out = both.chunk(4, 1)
    return torch.cat((enter, out, forget, new), 1)

"""The parts of a tagger that an ONNX graph computes otherwise than training: LSTMs, cells of types, characters."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan  # torch.export cannot write a loop over as many tokens as there are

from crossner_core.encoders.flair import PADDING
from crossner_core.encoders.flair import Body as FlairBody
from crossner_core.encoders.words import Body, CharLstm
from crossner_core.models._recurrent import reversal, taken
from crossner_core.models.multi_cell import CellWeights, TypedCells

# Version of the operator LSTM; 22, the next, only adds types.
_VERSION = 14
_DIRECTIONS = ("", "_reverse")


class GraphLstm(nn.Module):
    """An LSTM, of one direction or both, as ONNX's operator LSTM, which takes the sizes of padded rows.

    It has values in an exported graph alone. PyTorch's exporter would unroll `nn.LSTM` for the length that it sees, and
    cannot write packed sequences. Source: the definition of the operator, whose gates stand in another order.
    """

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.size, self.layers, self.ways = lstm.hidden_size, lstm.num_layers, 1 + lstm.bidirectional
        for layer in range(self.layers):
            biases = [_in_order(lstm, f"bias_{given}", layer) for given in ("ih", "hh")]
            self.register_buffer(f"inputs_{layer}", _in_order(lstm, "weight_ih", layer))  # (V, 4H, D)
            self.register_buffer(f"states_{layer}", _in_order(lstm, "weight_hh", layer))  # (V, 4H, H)
            self.register_buffer(f"bias_{layer}", torch.cat(biases, 1))  # (V, 8H)

    def forward(self, vectors: Tensor, sizes: Tensor) -> Tensor:
        """Return the states (B, L, V · H) of vectors (B, L, D); see `read`."""
        return self.read(vectors, sizes)[0]

    def read(self, vectors: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states of V directions (B, L, V · H), and the last ones (B, V · H), of vectors (B, L, D).

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
                {"direction": ("forward", "bidirectional")[self.ways - 1], "hidden_size": self.size},
                dtypes=(vectors.dtype, vectors.dtype),
                shapes=((length, self.ways, rows, self.size), (self.ways, rows, self.size)),
                version=_VERSION,
            )
            by_place = states.transpose(1, 2).flatten(2)  # (L, B, V · H)
        return by_place.transpose(0, 1), last.transpose(0, 1).flatten(1)


class GraphCells(nn.Module):
    """The cells of a multi-cell LSTM, of which a graph keeps the loop over tokens instead of unrolling it."""

    def __init__(self, layer: TypedCells) -> None:
        super().__init__()
        self.layer = layer
        with torch.no_grad():
            weights = layer.weights()
        # Of both directions side by side: weights in two dimensions can become int8.
        weights = weights._replace(inputs=weights.inputs.transpose(0, 1).flatten(1))  # (D, 2 G)
        for name, part in weights._asdict().items():
            self.register_buffer(name, part.contiguous())

    def forward(self, vectors: Tensor, sizes: Tensor) -> Tensor:
        """Return the composed states (B, W, 2H) of vectors (B, W, D); of each row the first `sizes` (B,) count."""
        back = reversal(torch.arange(vectors.shape[1]) < sizes.unsqueeze(1))
        weights = CellWeights(*map(self.get_buffer, CellWeights._fields))
        ahead, behind = (vectors @ weights.inputs).chunk(2, -1)  # (B, W, G) each
        gates = torch.stack((ahead, taken(behind, back))).permute(2, 0, 1, 3)  # (W, 2, B, G)
        gates = gates + weights.bias.unsqueeze(1)

        def step(carried: tuple[Tensor, Tensor], given: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
            state, cell, *_ = self.layer.step(given, weights, *carried)
            return (state, cell), state.clone()

        nothing = torch.zeros_like(gates[0, ..., : self.layer.hidden])  # (2, B, H)
        _, states = scan(step, (nothing, nothing.clone()), gates)  # (W, 2, B, H)
        ahead, behind = states.permute(1, 2, 0, 3).unbind(0)
        return torch.cat((ahead, taken(behind, back)), -1)


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
        return self.lstm.read(self.chars.characters(characters), sizes)[1]


class GraphFlair(nn.Module):
    """The body of an encoder `flair`, for texts that the decoder joins and turns around."""

    def __init__(self, body: FlairBody) -> None:
        super().__init__()
        models = (body.onward, body.backward)
        self.characters = nn.ModuleList(model.characters for model in models)
        self.lstms = nn.ModuleList(GraphLstm(model.lstm) for model in models)
        self.words = GraphWords(body.words) if body.words is not None else None

    def forward(self, input_ids: Tensor | None, attention_mask: Tensor, texts: Tensor, ends: Tensor) -> Tensor:
        """Return the vectors (B, L, H) of words whose states stand at `ends` (B, 2, L) of texts (B, 2, T).

        The second text is read from the right; `input_ids` (B, L, …) are what `words` reads.
        """
        read = []
        for way, (characters, lstm) in enumerate(zip(self.characters, self.lstms, strict=True)):
            text = texts[:, way]
            states = lstm(characters(text), (text != PADDING).sum(1))  # (B, T, H)
            read.append(states.gather(1, ends[:, way].unsqueeze(-1).expand(-1, -1, states.shape[-1])))
        if self.words is not None:
            read.append(self.words(input_ids, attention_mask).last_hidden_state)
        return torch.where(attention_mask.bool().unsqueeze(-1), torch.cat(read, -1), 0.0)


def _in_order(lstm: nn.LSTM, name: str, layer: int) -> Tensor:
    """Return weights or biases of all directions (V, 4H, …), gates in ONNX's order: i, o, f, c for i, f, c, o."""
    ways = _DIRECTIONS[: 1 + lstm.bidirectional]
    stacked = torch.stack([getattr(lstm, f"{name}_l{layer}{way}").detach() for way in ways])
    enter, forget, new, out = stacked.chunk(4, 1)
    return torch.cat((enter, out, forget, new), 1)

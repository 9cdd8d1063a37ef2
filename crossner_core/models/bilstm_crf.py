"""A BiLSTM with a conditional random field on it: the tagger from before pre-trained encoders, for word vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch
from crossner_core.models._recurrent import with_backward
from crossner_core.models.base import TokenTagger
from crossner_core.models.crf import Crf
from crossner_core.models.registry import register
from crossner_core.options.bilstm_crf import BilstmCrfOptions
from crossner_core.options.crf import CrfOptions


@register("bilstm_crf")
class BilstmCrf(Crf):
    """h_t = [LSTM→(x_1…x_t); LSTM←(x_W…x_t)], token scores W h_t + b, and a linear-chain CRF over them.

    Source: Lample et al. 2016, sections 2 and 3. x_t is the encoder's vector of a token; with the encoder `words` it is
    [word vector; vector of its characters]. p(y|x) = exp(Σ_t (P_{t,y_t} + A_{y_{t−1},y_t})) / Z; the loss is the mean
    of −log p(y|x) over tokens. Dropout comes before the BiLSTM, between its layers and before the head.

    As in CrossNER and LANER (word; word + char): two layers of 256, dropout 0.5 (politics 0.3), learning rate 1e-3,
    batches of 32, CoNLL-2003 and the target's sentences ten times (`joint`, `upsample` 10); their characters are
    n-gram vectors of a release, ours are learned. As in PDALN's table: `words` with chars=lstm (25 each way), one layer
    of 100; its SGD at 0.01 is AdamW here. The BiLSTM starts anew in each window.
    """

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: BilstmCrfOptions) -> None:
        super().__init__(encoder, tags, options)
        self.lstm = nn.LSTM(
            encoder.hidden_size,
            options.lstm_size,
            options.lstm_layers,
            batch_first=True,
            bidirectional=True,
            dropout=options.dropout if options.lstm_layers > 1 else 0.0,
        )

    @staticmethod
    def read_size(encoder: Encoder, options: CrfOptions) -> int:
        assert isinstance(options, BilstmCrfOptions)
        return 2 * options.lstm_size

    def read(self, batch: Batch) -> Tensor:
        """Return the BiLSTM's states (B, W, 2 · lstm_size); zero where there is no token."""
        vectors = self.dropout(self.token_vectors(batch))  # (B, W, H)
        packed = pack_padded_sequence(vectors, batch.sizes.lengths, batch_first=True, enforce_sorted=False)
        with with_backward(self):
            states, _ = self.lstm(packed)
        padded, _ = pad_packed_sequence(states, batch_first=True, total_length=batch.mask.shape[1])
        return padded

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy the rows of shared tags, and the BiLSTM whole, from a model of the same shape."""
        if not isinstance(other, BilstmCrf):
            return ()
        mine, theirs = self.lstm.state_dict(), other.lstm.state_dict()
        if {name: value.shape for name, value in mine.items()} != {name: value.shape for name, value in theirs.items()}:
            return ()
        self.lstm.load_state_dict(theirs)
        return super().copy_shared_tags(other, parents)

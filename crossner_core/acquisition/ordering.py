"""Re-order a pool: score new sentences, then let a strategy choose. Live projects and simulations share this code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crossner_core.acquisition import signals
from crossner_core.acquisition.base import Pool
from crossner_core.acquisition.selecting import Selection, Strategy, select
from crossner_core.acquisition.signal_store import SignalStore
from crossner_core.acquisition.signals import Part, changes
from crossner_core.schema import LabelledSentence, Sentence, Span
from crossner_core.tags import spans_from_tags

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crossner_core.encoders.base import Encoder
    from crossner_core.training.predictor import Predictor

# Of a larger pool, encoder and model read so many sentences a round; the others keep their places.
MOST_READ = 3_000
# Earlier models whose tags are kept for the history signal; older ones are removed.
REMEMBERED = 4


@dataclass(frozen=True)
class Scorer:
    """What scores a pool: a trained model, identified by `key`, and the encoder of sentence embeddings.

    `earlier` are the keys of earlier models, oldest first. Without a model or encoder, its signals are absent too.
    """

    predictor: Predictor | None = None
    key: str = ""
    earlier: tuple[str, ...] = ()
    encoder: Encoder | None = None


@dataclass(frozen=True)
class _Reading:
    """The sentences that one reader (encoder or model) has not scored yet, and an iterator that scores them."""

    reader: str
    store: SignalStore
    wanted: frozenset[str]
    missing: Sequence[Sentence]
    parts: Iterator[Part]


@dataclass
class PoolOrdering:
    """One re-ordering of a pool; `folder` keeps signals from round to round.

    `on_progress` receives the share done in [0, 1] of the sentences that encoder and model had not read, and a message.
    """

    folder: Path
    scorer: Scorer
    types: Sequence[str]
    should_stop: Callable[[], bool] = lambda: False
    on_progress: Callable[[float, str], None] = lambda share, message: None
    most_read: int = MOST_READ
    """Sentences that are read of a larger pool."""
    scored: int = field(default=0, init=False)
    """Sentences that had to be scored: those the model had not seen yet."""
    notes: tuple[str, ...] = field(default=(), init=False)
    """Notes on the pool's scores, for display."""

    def order(
        self,
        sentences: Sequence[Sentence],
        count: int,
        strategy: Strategy,
        rng: np.random.Generator,
        *,
        gold: Sequence[LabelledSentence] = (),
        proposed: Sequence[Sequence[Span]] | None = None,
        batch: int | None = None,
    ) -> Selection:
        """Return the best `count` sentences of the pool in order; indices are into `sentences`.

        The first `batch` will be annotated before the next round (default: all). `proposed` are a gazetteer's spans.
        Of a pool larger than `most_read` it orders a part. Raises CheckpointError if stopped before all were scored;
        scores so far are kept.
        """
        chosen = self._part(sentences, strategy, rng)
        if chosen is not None:
            sentences = [sentences[index] for index in chosen]
            proposed = None if proposed is None else [proposed[index] for index in chosen]
        pool = self.pool(sentences, strategy, gold=gold, proposed=proposed)
        selection = select(pool, count, strategy, rng, batch=batch)
        order = selection.order if chosen is None else chosen[selection.order]
        return replace(selection, order=order, notes=(*self.notes, *selection.notes))

    def pool(
        self,
        sentences: Sequence[Sentence],
        strategy: Strategy,
        *,
        gold: Sequence[LabelledSentence] = (),
        proposed: Sequence[Sequence[Span]] | None = None,
    ) -> Pool:
        """Return the pool with the signals that a strategy reads."""
        both = [*sentences, *(item.sentence for item in gold)]
        of_text, of_model = self._by_encoder(both, strategy), self._by_model(sentences, strategy)
        self._read([reading for reading in (of_text, of_model) if reading is not None])
        arrays: dict[str, NDArray[np.generic]] = {}
        known = predicted = None
        if of_text is not None:
            none = np.zeros((0, 1), dtype=np.float32)
            vectors = of_text.store.load(both, of_text.wanted).get(signals.EMBEDDING, none).astype(np.float32)
            arrays[signals.EMBEDDING], known = vectors[: len(sentences)], vectors[len(sentences) :]
        if of_model is not None:
            assert self.scorer.predictor is not None
            loaded = of_model.store.load(sentences, of_model.wanted)
            tags, names = loaded.pop(signals.TAGS), self.scorer.predictor.model.tags
            arrays |= loaded
            if signals.HISTORY in strategy.needs:
                arrays[signals.HISTORY] = self._changes(sentences, tags)
            self._forget()
            predicted = [_spans(row, names) for row in tags]
        return Pool(sentences, self.types, arrays, gold, known, proposed, predicted)

    def _part(
        self, sentences: Sequence[Sentence], strategy: Strategy, rng: np.random.Generator
    ) -> NDArray[np.int64] | None:
        """Return the sentences of a large pool to read, as sorted indices; None for all of it.

        A strategy that asks neither model nor embeddings orders all of it, at no cost. First come those that the model
        has read already; then, half and half, those that the model before it doubted most and others by chance.
        After the subsampling of Tsvigun et al. 2022 (Towards Computationally Feasible Deep Active Learning).
        """
        reads = strategy.model or any(signals.EMBEDDING in member.function.needs for member in strategy.members)
        if len(sentences) <= self.most_read or not reads:
            return None
        read, _ = self._doubts(sentences, self.scorer.key)
        left = np.flatnonzero(~read)
        room = max(0, self.most_read - int(read.sum()))
        parts = [np.flatnonzero(read)]
        if self.scorer.earlier:
            known, doubts = self._doubts(sentences, self.scorer.earlier[-1])
            before = left[known[left]]
            parts.append(before[np.argsort(-doubts[before], kind="stable")][: room // 2])
            left, room = np.setdiff1d(left, parts[-1]), room - len(parts[-1])
        parts.append(rng.permutation(left)[:room])
        chosen = np.sort(np.concatenate(parts))
        self.notes = (*self.notes, f"{len(chosen):,} of the {len(sentences):,} sentences were read and ordered.")
        return chosen

    def _doubts(self, sentences: Sequence[Sentence], key: str) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which sentences (N,) a model has read, and its mean entropy of their tokens."""
        entropies, read = SignalStore(self.folder / f"model-{key}").known(sentences, [signals.ENTROPY])
        lengths = np.array([max(1, len(sentence.tokens)) for sentence in sentences])
        return read, np.asarray(entropies.get(signals.ENTROPY, np.zeros(len(sentences))) / lengths, dtype=np.float64)

    def _by_encoder(self, sentences: Sequence[Sentence], strategy: Strategy) -> _Reading | None:
        from crossner_core.acquisition.scoring import embedding_parts

        encoder, wanted = self.scorer.encoder, frozenset({signals.EMBEDDING})
        if encoder is None or not wanted <= strategy.needs:
            return None
        store = SignalStore(self.folder / f"text-{encoder.fingerprint[:16]}")
        missing = store.missing(sentences, wanted)
        parts = embedding_parts(encoder, missing, should_stop=self.should_stop)
        return _Reading("encoder", store, wanted, missing, parts)

    def _by_model(self, sentences: Sequence[Sentence], strategy: Strategy) -> _Reading | None:
        from crossner_core.acquisition.scoring import model_parts

        predictor, derived = self.scorer.predictor, {signals.PREDICTED, signals.HISTORY}
        if predictor is None or not strategy.model or not sentences:
            return None
        wanted = ((strategy.needs & signals.OF_MODEL) - derived) | {signals.TAGS}
        store = SignalStore(self.folder / f"model-{self.scorer.key}")
        missing = store.missing(sentences, wanted)
        self.scored += len(missing)
        parts = model_parts(predictor, missing, wanted, should_stop=self.should_stop)
        return _Reading("model", store, wanted, missing, parts)

    def _read(self, readings: Sequence[_Reading]) -> None:
        """Compute missing signals chunk by chunk, one reader after the other, and store them."""
        total, before = sum(len(reading.missing) for reading in readings), 0
        for reading in readings:
            count, done = len(reading.missing), 0
            if count:
                self._tell(reading, 0, before / total)
            for part in reading.parts:
                reading.store.add(part)
                done += len(part.hashes)
                self._tell(reading, done, (before + done) / total)
            before += count

    def _tell(self, reading: _Reading, done: int, share: float) -> None:
        self.on_progress(
            share, f"the {reading.reader} has read {done:,} of {len(reading.missing):,} sentences new to it"
        )

    def _changes(self, sentences: Sequence[Sentence], newest: NDArray[np.object_]) -> NDArray[np.float64]:
        """Compare the newest tags with those of earlier models that scored the sentence; note the rest."""
        stores = [SignalStore(self.folder / f"model-{key}") for key in self.scorer.earlier[-REMEMBERED:]]
        earlier = [store.tags(sentences) for store in stores]
        unseen = sum(all(tags[index] is None for tags in earlier) for index in range(len(sentences)))
        if unseen == len(sentences):
            self.notes = (*self.notes, "No earlier model has read these sentences: fluctuation uses entropy alone.")
        elif unseen:
            how_many = f"{unseen:,} of {len(sentences):,} sentences"
            self.notes = (*self.notes, f"No earlier model has read {how_many}: fluctuation treats them as unchanged.")
        return changes([*earlier, newest])

    def _forget(self) -> None:
        """Remove the signals of models that are no longer compared, from this campaign or an earlier one."""
        kept = {f"model-{key}" for key in (*self.scorer.earlier[-REMEMBERED:], self.scorer.key)}
        for folder in self.folder.glob("model-*"):
            if folder.name not in kept:
                SignalStore(folder).forget()


def _spans(tags: NDArray[np.uint16], names: Sequence[str]) -> tuple[Span, ...]:
    return spans_from_tags([names[tag] for tag in tags], strict=False)

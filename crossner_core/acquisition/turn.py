"""Order a pool anew: score what is not scored yet, then let a strategy choose. One path for live and simulated."""

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

    from crossner_core.encoders import Encoder
    from crossner_core.training.predictor import Predictor

# Models whose tags are compared for a history; those before them are forgotten.
REMEMBERED = 4


@dataclass(frozen=True)
class Scorer:
    """What scores a pool: a trained model under a key of its own, and the encoder of sentence embeddings.

    `earlier` are the keys of the models before, oldest first. Either may be absent: then its signals are, too.
    """

    predictor: Predictor | None = None
    key: str = ""
    earlier: tuple[str, ...] = ()
    encoder: Encoder | None = None


@dataclass
class Turn:
    """One re-ordering of a pool; `folder` keeps signals from turn to turn, `on_progress` hears a share in [0, 1]."""

    folder: Path
    scorer: Scorer
    types: Sequence[str]
    should_stop: Callable[[], bool] = lambda: False
    on_progress: Callable[[float], None] = lambda share: None
    scored: int = field(default=0, init=False)
    """Sentences that had to be scored: those the model had not seen yet."""
    notes: tuple[str, ...] = field(default=(), init=False)
    """What has to be said about the scores of the pool."""

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

        The first `batch` are what will be annotated until the next turn (all, if not said). `proposed` are a
        gazetteer's spans. Raises CheckpointError where it was stopped before all were scored; what was scored is kept.
        """
        pool = self.pool(sentences, strategy, gold=gold, proposed=proposed)
        found = select(pool, count, strategy, rng, batch=batch)
        return replace(found, notes=(*self.notes, *found.notes))

    def pool(
        self,
        sentences: Sequence[Sentence],
        strategy: Strategy,
        *,
        gold: Sequence[LabelledSentence] = (),
        proposed: Sequence[Sequence[Span]] | None = None,
    ) -> Pool:
        """Return the pool with the signals that a strategy reads."""
        found: dict[str, NDArray[np.generic]] = {}
        known = None
        if self.scorer.encoder is not None and signals.EMBEDDING in strategy.needs:
            labelled = [item.sentence for item in gold]
            both = self._embeddings([*sentences, *labelled])
            found[signals.EMBEDDING], known = both[: len(sentences)], both[len(sentences) :]
        predicted = None
        if self.scorer.predictor is not None and strategy.model and len(sentences):
            found |= self._of_model(sentences, strategy)
            names = self.scorer.predictor.model.tags
            predicted = [_spans(row, names) for row in found.pop(signals.TAGS)]
        return Pool(sentences, self.types, found, gold, known, proposed, predicted)

    def _embeddings(self, sentences: Sequence[Sentence]) -> NDArray[np.float32]:
        from crossner_core.acquisition.scoring import embedding_parts

        encoder = self.scorer.encoder
        assert encoder is not None
        if not sentences:
            return np.zeros((0, encoder.hidden_size), dtype=np.float32)
        store = SignalStore(self.folder / f"text-{encoder.fingerprint[:16]}")
        missing = store.missing(sentences, [signals.EMBEDDING])
        self._keep(store, embedding_parts(encoder, missing, should_stop=self.should_stop), len(missing))
        return store.load(sentences, [signals.EMBEDDING])[signals.EMBEDDING].astype(np.float32)

    def _of_model(self, sentences: Sequence[Sentence], strategy: Strategy) -> dict[str, NDArray[np.generic]]:
        from crossner_core.acquisition.scoring import model_parts

        predictor = self.scorer.predictor
        assert predictor is not None
        derived = {signals.PREDICTED, signals.HISTORY}
        wanted = ((strategy.needs & signals.OF_MODEL) - derived) | {signals.TAGS}
        store = SignalStore(self.folder / f"model-{self.scorer.key}")
        missing = store.missing(sentences, wanted)
        self.scored += len(missing)
        self._keep(store, model_parts(predictor, missing, wanted, should_stop=self.should_stop), len(missing))
        found = store.load(sentences, wanted)
        if signals.HISTORY in strategy.needs:
            found[signals.HISTORY] = self._changes(sentences, found[signals.TAGS])
        self._forget()
        return found

    def _keep(self, store: SignalStore, parts: Iterator[Part], total: int) -> None:
        done = 0
        for part in parts:
            store.add(part)
            done += len(part.hashes)
            self.on_progress(done / total)

    def _changes(self, sentences: Sequence[Sentence], newest: NDArray[np.object_]) -> NDArray[np.float64]:
        """Compare the newest tags with those of the models before, where these have seen a sentence; note the rest."""
        stores = [SignalStore(self.folder / f"model-{key}") for key in self.scorer.earlier[-REMEMBERED:]]
        earlier = [store.tags(sentences) for store in stores]
        unseen = sum(all(tags[at] is None for tags in earlier) for at in range(len(sentences)))
        if unseen == len(sentences):
            self.notes = (*self.notes, "No earlier model has read these sentences: fluctuation goes by entropy alone.")
        elif unseen:
            how_many = f"{unseen:,} of {len(sentences):,} sentences"
            self.notes = (*self.notes, f"No earlier model has read {how_many}: fluctuation takes them for unchanged.")
        return changes([*earlier, newest])

    def _forget(self) -> None:
        """Remove what models said that are no longer compared, be they of this campaign or of one before it."""
        kept = {f"model-{key}" for key in (*self.scorer.earlier[-REMEMBERED:], self.scorer.key)}
        for folder in self.folder.glob("model-*"):
            if folder.name not in kept:
                SignalStore(folder).forget()


def _spans(tags: NDArray[np.uint16], names: Sequence[str]) -> tuple[Span, ...]:
    return spans_from_tags([names[at] for at in tags], strict=False)

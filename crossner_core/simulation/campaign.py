"""A simulated campaign: select, suggest, annotate, retrain, measure, with the live campaign's own functions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from crossner_core.acquisition.ordering import PoolOrdering, Scorer
from crossner_core.acquisition.queue import with_random_share
from crossner_core.acquisition.selecting import strategy
from crossner_core.calibration.proposals import best_of, best_spans, learn, propose
from crossner_core.calibration.sources import SourceWeights
from crossner_core.encoders.base import Encoder
from crossner_core.errors import BadInput
from crossner_core.evaluation.learning_curves import RoundPoint
from crossner_core.folders import write_json
from crossner_core.schema import LabelledSentence, Sentence, Span, Suggestion
from crossner_core.simulation.annotators import Work, annotate
from crossner_core.simulation.config import Simulation
from crossner_core.training.checkpoint import read_json
from crossner_core.training.data import TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.loop import TAGGER, WarmStart, train
from crossner_core.training.predictor import Predictor, load_tagger
from crossner_core.training.recipe import SOURCE_ONLY, Recipe
from crossner_core.training.settings.registry import needs_unlabelled

STATE, ASKED, ZERO_SHOT = "state.json", "asked.json", "zero-shot"
# Combined with the seed: random streams for dev sentences, choosing, annotating, and assigning annotators.
_DEV, _CHOOSE, _ANNOTATE, _WHOSE = 1, 2, 3, 4

Suggested = Callable[[Sequence[Sentence]], Sequence[Sequence[Suggestion] | None]]
"""The suggestions of gazetteer and links for each sentence; None if they were not requested."""


@dataclass(frozen=True, slots=True)
class Round:
    """A finished round: the newest point and a message; `done` on the last one."""

    point: RoundPoint | None
    message: str
    done: bool = False


STOPPED = Round(None, "Stopped; what was annotated is kept.")


@dataclass
class _Labelled:
    """The annotations so far: pool indices in order, their suggestions, spans, and cost."""

    chosen: list[int]
    suggested: list[tuple[Suggestion, ...]]
    spans: list[tuple[Span, ...]]
    seconds: float = 0.0
    kept: int = 0
    changed: int = 0
    added: int = 0
    deleted: int = 0

    def add(self, index: int, suggested: tuple[Suggestion, ...], work: Work) -> None:
        self.chosen.append(index)
        self.suggested.append(suggested)
        self.spans.append(work.spans)
        self.seconds += work.seconds
        for name in ("kept", "changed", "added", "deleted"):
            setattr(self, name, getattr(self, name) + getattr(work, name))


def split_pool(
    train_and_dev: Sequence[LabelledSentence], dev_sentences: int, seed: int
) -> tuple[tuple[LabelledSentence, ...], tuple[LabelledSentence, ...]]:
    """Return the pool and the dev sentences drawn with a seed; duplicates are removed."""
    first: dict[str, LabelledSentence] = {}
    for item in train_and_dev:
        if item.sentence.tokens:
            first.setdefault(item.sentence.content_hash, item)
    whole = list(first.values())
    if len(whole) <= dev_sentences:
        raise BadInput(f"There are {len(whole)} sentences; {dev_sentences} of them for dev leaves no pool.")
    dev = set(np.random.default_rng([seed, _DEV]).permutation(len(whole))[:dev_sentences].tolist())
    return (
        tuple(item for index, item in enumerate(whole) if index not in dev),
        tuple(item for index, item in enumerate(whole) if index in dev),
    )


def play(
    simulation: Simulation,
    data: TrainingData,
    encoder: Encoder,
    folder: Path,
    *,
    suggested: Suggested | None = None,
    source_cache: Path | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Round]:
    """Play a campaign and yield each round; the corpus's gold is the annotators' oracle.

    `data` has train, dev and test, and the source if the recipe reads one. `suggested` queries a gazetteer;
    `source_cache` keeps source checkpoints for other campaigns. Suggestions, annotations and points are stored in
    `folder`, from which the campaign resumes; it can be deleted at the end. Raises BadInput if the pool is smaller than
    the largest number in `at`.
    """
    yield from _Campaign(simulation, data, encoder, Path(folder), suggested, source_cache).play(should_stop)


class _Campaign:
    def __init__(
        self,
        simulation: Simulation,
        data: TrainingData,
        encoder: Encoder,
        folder: Path,
        suggested: Suggested | None,
        source_cache: Path | None,
    ) -> None:
        self.simulation, self.data, self.encoder, self.folder = simulation, data, encoder, folder
        self.source_cache = source_cache
        self.options, self.strategy = simulation.options, strategy(simulation.options.strategy)
        both = (*data.train, *data.dev)
        self.pool, self.dev = split_pool(both, self.options.dev_sentences, self.options.seed)
        if self.options.at[-1] > len(self.pool):
            raise BadInput(
                f"The pool has {len(self.pool)} sentences, fewer than the {self.options.at[-1]} requested; use a "
                "smaller number in at."
            )
        whose = np.random.default_rng([self.options.seed, _WHOSE])
        self.whose = whose.integers(len(simulation.annotators), size=len(self.pool)).tolist()
        self.recipe = simulation.models_recipe
        self.asked = self._ask(suggested)
        self.labelled = _Labelled([], [], [])
        self.points: list[RoundPoint] = []
        self.predictor: Predictor | None = None
        self.keys: list[str] = []

    def _ask(self, suggested: Suggested | None) -> list[tuple[Suggestion, ...] | None] | None:
        """Return the pool's suggestions; they are computed once, so that a resumed campaign has the same."""
        path = self.folder / ASKED
        if path.exists():
            kept = read_json(path)["asked"]
            return [
                None if suggestions is None else tuple(Suggestion(**values) for values in suggestions)
                for suggestions in kept
            ]
        if suggested is None:
            return None
        asked = [
            None if suggestions is None else tuple(suggestions)
            for suggestions in suggested([item.sentence for item in self.pool])
        ]
        write_json(
            path,
            {
                "asked": [
                    None if suggestions is None else [asdict(suggestion) for suggestion in suggestions]
                    for suggestions in asked
                ]
            },
        )
        return asked

    def play(self, should_stop: Callable[[], bool]) -> Iterator[Round]:
        self._resume()
        for point in self.points:
            yield Round(
                point, f"{point.sentences} sentences: measured before", len(self.points) == len(self.options.at)
            )
        for number, size in enumerate(self.options.at):
            if number < len(self.points):
                continue
            if len(self.labelled.chosen) < size:
                self._load(number)
                if not number and self.options.zero_shot:
                    yield from self._know_by_sources(should_stop)
                    if self.predictor is None:
                        yield STOPPED
                        return
                yield Round(None, self._annotate_up_to(size, number))
            results: list[RunResult] = []
            for result, message in self._train(number, should_stop):
                results += [result] if result is not None else []
                if message:
                    yield Round(None, message)
            if not results:
                yield STOPPED
                return
            self.points.append(self._point(number, results[0]))
            self._save()
            last = number + 1 == len(self.options.at)
            yield Round(self.points[-1], f"{size} sentences: test F1 {100 * self.points[-1].f1:.2f}", last)

    def _annotate_up_to(self, size: int, number: int) -> str:
        """Choose and annotate the next sentences; return a message."""
        rest, weights = self._rest(), self._weights()
        wanted = size - len(self.labelled.chosen)
        order, notes = self._choose(rest, wanted, number, weights)
        chosen = [rest[index] for index in order]
        suggested = self._suggestions(chosen)
        rng = np.random.default_rng([self.options.seed, _ANNOTATE, number])
        for index, suggestions in zip(chosen, suggested, strict=True):
            shown = self._shown(suggestions, weights)
            annotator = self.simulation.annotators[self.whose[index]]
            work = annotate(self.pool[index], shown, self.data.types, annotator, rng)
            self.labelled.add(index, suggestions, work)
        self._save()
        return " ".join([f"Round {number + 1}: {len(chosen)} more sentences.", *notes])

    def _choose(
        self, rest: Sequence[int], wanted: int, number: int, weights: SourceWeights
    ) -> tuple[list[int], tuple[str, ...]]:
        rng = np.random.default_rng([self.options.seed, _CHOOSE, number])
        scorer = Scorer(self.predictor, self.keys[-1] if self.keys else "", tuple(self.keys[:-1]), self.encoder)
        ordering = PoolOrdering(self.folder / "signals", scorer, self.data.types)
        asked = None if self.asked is None else [best_spans(self.asked[index] or (), weights) for index in rest]
        sentences = [self.pool[index].sentence for index in rest]
        ordered = ordering.order(sentences, wanted, self.strategy, rng, gold=self._gold(), proposed=asked)
        places = with_random_share(ordered.order.tolist(), len(rest), self.options.random_share, rng)
        return [place.index for place in places[:wanted]], ordered.notes

    def _suggestions(self, chosen: Sequence[int]) -> list[tuple[Suggestion, ...]]:
        """Return the suggestions of gazetteer and newest model; none if annotators work from scratch."""
        if not self.options.suggestions:
            return [()] * len(chosen)
        known = [(self.asked[index] or ()) if self.asked is not None else () for index in chosen]
        if self.predictor is None:
            return known
        predicted = self.predictor.predict([self.pool[index].sentence for index in chosen])
        return [(*names, *model) for names, model in zip(known, predicted, strict=True)]

    def _shown(self, suggestions: Sequence[Suggestion], weights: SourceWeights) -> tuple[Span, ...]:
        """Return the proposals shown to an annotator; less confident ones are hints, which cost nothing."""
        proposals = best_of(propose(suggestions, weights))
        return tuple(proposal.span for proposal in proposals if proposal.score >= self.options.suggestions_from)

    def _weights(self) -> SourceWeights:
        """Return the weights of the prediction sources from the gold so far, as in a live campaign."""
        if not any(self.labelled.suggested):
            return SourceWeights()
        return learn(zip(self.labelled.suggested, map(frozenset, self.labelled.spans), strict=True))

    def _rest(self) -> list[int]:
        """Return the indices of the pool's sentences that nobody has annotated."""
        chosen = set(self.labelled.chosen)
        return [index for index in range(len(self.pool)) if index not in chosen]

    def _gold(self) -> list[LabelledSentence]:
        pairs = zip(self.labelled.chosen, self.labelled.spans, strict=True)
        return [LabelledSentence(self.pool[index].sentence, spans) for index, spans in pairs]

    def _train(self, number: int, should_stop: Callable[[], bool]) -> Iterator[tuple[RunResult | None, str]]:
        """Train a model on the labelled sentences; yield messages, then the result."""
        bare: tuple[Sentence, ...] = ()
        recipe = self.simulation.recipe_at(len(self.labelled.chosen))
        if needs_unlabelled(recipe.setting):
            bare = tuple(self.pool[index].sentence for index in self._rest())
        data = replace(self.data, train=tuple(self._gold()), dev=self.dev, unlabelled=bare, proposed=self._names())
        warm = None
        if number and self.options.warm_epochs:
            warm = WarmStart(self._folder(number - 1) / TAGGER, self.options.warm_epochs)
        result = None
        for newest, message in self._model(str(number), recipe, data, should_stop, warm):
            result = newest
            yield None, message
        if result is None:
            return
        if result.test is None:
            raise BadInput(" ".join(result.notes) or "There is no score on the test sentences.")
        shutil.rmtree(self._folder(number - 1) if number else self._folder(ZERO_SHOT), ignore_errors=True)
        yield result, ""

    def _know_by_sources(self, should_stop: Callable[[], bool]) -> Iterator[Round]:
        """Train the source stage alone, whose model chooses and suggests until there is one of the gold."""
        recipe, data = replace(self.recipe, setting=SOURCE_ONLY), replace(self.data, dev=())  # it reads no train
        for _, message in self._model(ZERO_SHOT, recipe, data, should_stop):
            if message:
                yield Round(None, message)

    def _model(
        self,
        key: str,
        recipe: Recipe,
        data: TrainingData,
        should_stop: Callable[[], bool],
        warm: WarmStart | None = None,
    ) -> Iterator[tuple[RunResult | None, str]]:
        """Train the newest model; yield messages, the last with its result unless it was stopped."""
        folder, result = self._folder(key), None
        for event in train(
            recipe, data, checkpoint_dir=folder, encoder=self.encoder, should_stop=should_stop,
            source_cache=self.source_cache, warm_start=warm,
        ):  # fmt: skip
            result = event.result if event.result is None or event.result.outcome != "stopped" else None
            yield result, event.message
        if result is not None:
            self.predictor, self.keys = load_tagger(folder, device=recipe.device), [*self.keys, key]

    def _names(self) -> dict[str, tuple[Span, ...]]:
        """Return what gazetteer and links propose for the queried sentences; empty if teachers do not use it."""
        if not self.options.gazetteer_teaches or self.asked is None:
            return {}
        pairs = zip(self.pool, self.asked, strict=True)
        return {
            item.sentence.content_hash: best_spans(suggestions)
            for item, suggestions in pairs
            if suggestions is not None
        }

    def _point(self, number: int, result: RunResult) -> RoundPoint:
        assert result.test is not None
        gold = self._gold()
        return RoundPoint(
            strategy=self.options.label,
            seed=self.options.seed,
            round=number + 1,
            sentences=len(gold),
            f1=result.test.f1,
            tokens=sum(len(item.sentence.tokens) for item in gold),
            entities=sum(len(item.spans) for item in gold),
            seconds=self.labelled.seconds,
            per_type={name: score.f1 for name, score in result.test.per_type.items()},
        )

    def _folder(self, key: int | str) -> Path:
        return self.folder / f"model-{key}"

    def _load(self, number: int) -> None:
        """Load the model of the previous round if the campaign is resumed from a saved state."""
        if number and self.predictor is None and (self._folder(number - 1) / TAGGER).is_dir():
            self.predictor = load_tagger(self._folder(number - 1), device=self.recipe.device)

    def _save(self) -> None:
        labelled = asdict(self.labelled)
        labelled["heard"] = labelled.pop("suggested")
        labelled["spans"] = [[[s.start, s.end, s.type] for s in spans] for spans in self.labelled.spans]
        write_json(self.folder / STATE, {"labelled": labelled, "points": [asdict(point) for point in self.points]})

    def _resume(self) -> None:
        if not (self.folder / STATE).exists():
            return
        values = read_json(self.folder / STATE)
        labelled = dict(values["labelled"])
        if "heard" not in labelled:  # from an earlier version, which did not store what annotators were shown
            return
        labelled["suggested"] = [
            tuple(Suggestion(**values) for values in suggestions) for suggestions in labelled.pop("heard")
        ]
        labelled["spans"] = [tuple(Span(*span) for span in spans) for spans in labelled["spans"]]
        self.labelled = _Labelled(**labelled)
        self.points = [RoundPoint(**point) for point in values["points"]]
        first = [ZERO_SHOT] if self.options.zero_shot and self.labelled.chosen else []
        self.keys = [*first, *(str(number) for number in range(len(self.points)))]

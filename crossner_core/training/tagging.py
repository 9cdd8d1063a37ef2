"""A stage of a run as a task: batches of windows, the loss of the model or of an objective, F1 on dev."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossner_core.calibration.model_scores import TagScores
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import sent_ahead
from crossner_core.evaluation.scores import score_tags
from crossner_core.models.base import TokenTagger, TypeTexts
from crossner_core.tags import tags_from_spans
from crossner_core.training.batches import mixed_batches, shuffled_batches, tag_indices
from crossner_core.training.engine import Evaluation, Plan, Progress, Task, TaskRun, Work
from crossner_core.training.events import EpochRecord
from crossner_core.training.machine import RunRandom, fix_workspace, pick_device, use_bf16
from crossner_core.training.predictor import Predictor, build_model
from crossner_core.training.recipe import Recipe, source_recipe
from crossner_core.training.stage import Objective, Stage

COMPILED = False
"""Whether torch.compile makes the encoder's kernels when a stage begins."""
MOST_VALUES = 768 * 384 * 6
"""On a CPU a batch is cut into parts of at most so many values of hidden states: 768 subwords of MiniLM."""


@dataclass(frozen=True, slots=True)
class Part:
    """Windows of a step, as indices; `weight` is their fraction of the step's tokens, `step` its number."""

    windows: Sequence[int]
    weight: float
    step: int


class TaggerTask(Task):
    """Token tagging on a stage's sentences."""

    def __init__(
        self, stage: Stage, recipe: Recipe, predictor: Predictor, random: RunRandom, former: TokenTagger | None = None
    ) -> None:
        self.stage, self.recipe, self.predictor = stage, recipe, predictor
        self.model: TokenTagger = predictor.model
        self.device = next(self.model.parameters()).device
        self.measure_first = self.first_counts = stage.measure_first and bool(stage.dev)
        self.keep_last = stage.keep_last
        self.deterministic = recipe.deterministic
        # An objective may compare all of a batch's sentences: its batches are never cut into parts.
        self.in_parts = stage.objective is None
        self.windows = predictor.encoder.windows([item.sentence for item in stage.train])
        self.lengths = [len(window.input_ids) for window in self.windows]
        self.tags = tag_indices(stage.train, self.model.tags)
        self.foreign = _foreign(stage.annotated, self.model.tags)
        self.dev_windows = predictor.encoder.windows([item.sentence for item in stage.dev])
        self.dev_gold = [tags_from_spans(item.spans, len(item.sentence.tokens)) for item in stage.dev]
        self._batches: tuple[int, list[list[int]]] | None = None
        self.epoch_steps = max(1, len(self.epoch_batches(0)))
        self.objective: Objective | None = None
        if stage.objective is not None:
            with random.active():
                steps = stage.epochs * self.epoch_steps
                self.objective = stage.objective(self.model, predictor.encoder, former, steps)
            self.model.objective_parts = self.objective.parts.to(self.device)

    @property
    def plan(self) -> Plan:
        stage, recipe = self.stage, self.recipe
        return Plan(
            steps=(stage.epochs - stage.head_first_epochs) * self.epoch_steps,
            learning_rate=stage.learning_rate,
            head_learning_rate=stage.head_learning_rate,
            weight_decay=recipe.weight_decay,
            warmup_share=stage.warmup_share,
            clip_norm=recipe.clip_norm or math.inf,
            accumulate=recipe.accumulate,
            layer_decay=recipe.layer_decay,
            schedule=recipe.schedule,
            head_steps=stage.head_first_epochs * self.epoch_steps,
            head_rate=stage.head_first_learning_rate,
        )

    def epoch_batches(self, epoch: int) -> list[list[int]]:
        """Return an epoch's batches, determined by seed and epoch; a small set is repeated."""
        if self._batches is None or self._batches[0] != epoch:
            rng = np.random.default_rng([self.stage.seed, epoch])
            batches: list[list[int]] = []
            while self.lengths and len(batches) < self.recipe.min_epoch_steps:
                batches.extend(self._batches_of_all(rng))
            self._batches = epoch, batches
        return self._batches[1]

    def _batches_of_all(self, rng: np.random.Generator) -> list[list[int]]:
        size, mixed = self.stage.batch_size, self.stage.mixed
        if not mixed:
            return shuffled_batches(self.lengths, size, rng)
        first = sum(window.sentence < mixed for window in self.windows)
        return mixed_batches(self.lengths, first, size, rng)

    def indices(self, step: int) -> list[int]:
        """Return the windows of a step, from 0."""
        epoch, batch = divmod(step, self.epoch_steps)
        return self.epoch_batches(epoch)[batch]

    def work(self, step: int, parts: int) -> Work:
        """Return a step's batch; each part has long and short windows and is weighted by its tokens."""
        indices = self.indices(step)
        tokens = self._tokens(indices)
        cut = (indices[number::parts] for number in range(min(parts, len(indices))))
        return Work([Part(part, self._tokens(part) / tokens, step) for part in cut], tokens)

    def least_parts(self, step: int) -> int:
        """Return the parts of a step's batch that keep its padded hidden states within MOST_VALUES, on a CPU."""
        if self.device.type != "cpu":
            return 1
        indices = self.indices(step)
        padded = len(indices) * max(self.lengths[index] for index in indices)
        return min(len(indices), -(-padded * self.predictor.encoder.values_a_position // MOST_VALUES))

    def loss(self, part: Part) -> Tensor:
        windows = [self.windows[index] for index in part.windows]
        batch = self.predictor.encoder.collate(windows, self.tags).to(self.device)
        if self.foreign is not None:
            batch.foreign = sent_ahead(self.foreign[[window.sentence for window in windows]], self.device)
        if self.objective is None:
            return self.model.loss(batch) * part.weight
        return self.objective.loss(self.model, batch, [window.sentence for window in windows], part.step)

    def after_step(self) -> None:
        if self.objective is not None:
            self.objective.after_step(self.model)

    def closes(self, step: int) -> bool:
        return step % self.epoch_steps == 0

    def measures(self, step: int) -> bool:
        return bool(self.stage.dev) and self.stage.scores_dev(step // self.epoch_steps)

    def answers(self, rank: int, size: int) -> list[TagScores]:
        """Score the tags of this process's part of the dev sentences; the others stay empty."""
        own = [window for window in self.dev_windows if window.sentence % size == rank]
        return self.predictor.window_scores(own, len(self.dev_gold))

    def evaluate(self, answers: Sequence[list[TagScores]]) -> Evaluation:
        joined = [answers[index % len(answers)][index] for index in range(len(self.dev_gold))]
        tags = [scored.tags(self.predictor.tags) for scored in joined]
        scores = score_tags(self.dev_gold, tags, self.predictor.types)
        return Evaluation(scores.f1, scores, joined)

    def record(self, step: int, loss: float, value: float | None) -> EpochRecord:
        return EpochRecord(self.stage.phase, step // self.epoch_steps, loss, value)

    def is_stale(self, progress: Progress) -> bool:
        """Return whether too many epochs have passed since the best one, excluding head-only epochs."""
        best = max(self.best_epoch(progress) or 0, self.stage.head_first_epochs)
        return progress.step // self.epoch_steps - best >= self.stage.patience

    def best_epoch(self, progress: Progress) -> int | None:
        """Return the best epoch, from 1, or 0 for the initial model; None if none was measured."""
        return None if progress.best is None else progress.best_step // self.epoch_steps

    def state(self) -> dict[str, Tensor]:
        return self.objective.state() if self.objective is not None else {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        if self.objective is not None:
            self.objective.load_state(state)

    def stored(self, progress: Progress) -> dict[str, Any]:
        epoch, batch = divmod(progress.step, self.epoch_steps)
        return {
            "epoch": epoch,
            "batch": batch,
            "step": progress.step,
            "loss_sum": progress.loss_sum,
            "best_epoch": self.best_epoch(progress),
            "best_f1": -1.0 if progress.best is None else progress.best,
            "seconds": progress.seconds,
            "learning_seconds": progress.learning_seconds,
            "tokens": progress.tokens,
            "outcome": progress.outcome,
            "history": [asdict(record) for record in progress.history],
        }

    def restored(self, values: Mapping[str, Any]) -> Progress:
        best_epoch = values["best_epoch"]
        return Progress(
            step=values["step"],
            loss_sum=values["loss_sum"],
            loss_count=values["batch"],
            best=None if best_epoch is None else values["best_f1"],
            best_step=(best_epoch or 0) * self.epoch_steps,
            tokens=values["tokens"],
            seconds=values["seconds"],
            learning_seconds=values["learning_seconds"],
            outcome=values["outcome"],
            history=[EpochRecord(**record) for record in values["history"]],
        )

    def _tokens(self, indices: Sequence[int]) -> int:
        return sum(len(self.windows[index].positions) for index in indices)


def _foreign(annotated: Sequence[frozenset[str]] | None, tags: Sequence[str]) -> Tensor | None:
    """Return by sentence which tags (S, K) its corpus does not annotate; None where all annotate the same."""
    if annotated is None:
        return None
    rows = {types: [tag != "O" and tag[2:] not in types for tag in tags] for types in set(annotated)}
    return torch.tensor([rows[types] for types in annotated])


def begin_stage(
    recipe: Recipe,
    stage: Stage,
    encoder: Encoder,
    former: TokenTagger | None = None,
    *,
    parents: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    described: TypeTexts | None = None,
) -> TaskRun[TaggerTask]:
    """Create a stage's run: the given body, and a new head with the rows of types shared with `former`.

    `parents` maps a new type to the type whose rows it starts from; `meta` goes into the tagger; `described` are the
    texts of the types, for a model that reads what they mean.
    """
    if recipe.deterministic:
        fix_workspace()
    random = RunRandom(stage.seed, pick_device(recipe.device))
    with random.active():
        model = build_model(source_recipe(recipe) if stage.cached else recipe, encoder, stage.types).to(random.device)
    if described is not None:
        model.describe(described)
    model.use_bf16 = use_bf16(recipe.precision, random.device)
    if recipe.recompute:
        encoder.recompute()
    if COMPILED:
        encoder.model.compile(dynamic=True)
    if former is not None and not stage.fresh:
        model.copy_shared_tags(former, parents)
    length = min(recipe.max_length, encoder.max_length)
    types = stage.types[: stage.scored]
    predictor = Predictor(model, encoder, types, max_length=length, meta=dict(meta or {}))
    return TaskRun(TaggerTask(stage, recipe, predictor, random, former), random)

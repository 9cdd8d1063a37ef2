"""One stage of a run: optimise, measure on dev after each epoch, keep the best."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossner_core.adaptation.transfer import Stage
from crossner_core.evaluation.scores import Scores, score_tags
from crossner_core.models.base import TokenTagger
from crossner_core.schema import LabelledSentence
from crossner_core.tags import tags_from_spans
from crossner_core.training.batches import collate, encode, shuffled_batches
from crossner_core.training.checkpoint import optimizer_tensors, prefixed, restore_optimizer, within
from crossner_core.training.events import EpochRecord, TrainEvent
from crossner_core.training.objective import Objective
from crossner_core.training.optim import hold_rate, make_optimizer, set_rate
from crossner_core.training.precision import RunRandom
from crossner_core.training.predictor import Predictor
from crossner_core.training.processes import ALONE, LEAVE, SCORE, STEP, present
from crossner_core.training.recipe import Recipe

# Orders to the helpers: make a step (epoch, batch, step, seed), tag dev sentences, leave the stage.
# Sentences of a bad batch that are named.
NAMED = 16


@dataclass
class Progress:
    """How far a stage has come; `epoch` and `batch` name the next step, both from 0."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    best_epoch: int | None = None
    best_f1: float = -1.0
    seconds: float = 0.0
    learning_seconds: float = 0.0
    tokens: int = 0
    outcome: str = ""
    history: list[EpochRecord] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        """Training tokens (not subwords) a second, time for dev scores left out."""
        return self.tokens / self.learning_seconds if self.learning_seconds else 0.0


class StageRun:
    """The state of one stage; `run()` yields after each step, and between two yields everything can be saved."""

    def __init__(
        self,
        stage: Stage,
        recipe: Recipe,
        predictor: Predictor,
        random: RunRandom,
        first_step: int,
        former: TokenTagger | None = None,
        *,
        is_last: bool = True,
    ) -> None:
        self.stage, self.recipe, self.predictor, self.random = stage, recipe, predictor, random
        self.first_step, self.is_last, self.trouble = first_step, is_last, ""
        self.model: TokenTagger = predictor.model
        self.device = next(self.model.parameters()).device
        self.objective: Objective | None = None
        if stage.objective is not None:
            with random.active():
                self.objective = stage.objective(predictor, former)
            self.model.objective_parts = self.objective.parts.to(self.device)
        self.windows = encode([item.sentence for item in stage.train], predictor.tokenizer, predictor.max_length)
        self.lengths = [len(window.input_ids) for window in self.windows]
        self.tags = tag_indices(stage.train, self.model.tags)
        self.dev_windows = encode([item.sentence for item in stage.dev], predictor.tokenizer, predictor.max_length)
        self.dev_gold = [tags_from_spans(item.spans, len(item.sentence.tokens)) for item in stage.dev]
        self.names: dict[Tensor, str] = {value: name for name, value in self.model.named_parameters()}
        self.optimizer = make_optimizer(
            self.model,
            learning_rate=stage.learning_rate,
            head_learning_rate=stage.head_learning_rate,
            weight_decay=recipe.weight_decay,
            layer_decay=recipe.layer_decay,
        )
        # A loss of its own may compare all of a batch's sentences: such a stage is never cut into parts.
        self.processes = present() if self.objective is None else ALONE
        self.progress = Progress()
        self.best: dict[str, Tensor] | None = None
        self.best_scores: Scores | None = None
        self.epoch_steps = len(self.epoch_batches(0))

    def epoch_batches(self, epoch: int) -> list[list[int]]:
        """Return an epoch's batches: from seed and epoch alone; a small set is passed over more than once."""
        rng = np.random.default_rng([self.stage.seed, epoch])
        batches: list[list[int]] = []
        while len(batches) < self.recipe.min_epoch_steps:
            batches.extend(shuffled_batches(self.lengths, self.stage.batch_size, rng))
        return batches

    def run(self) -> Iterator[TrainEvent]:
        """Go on from `progress` to the stage's end; `progress.outcome` says how it ended."""
        try:
            yield from self._epochs()
        finally:
            self.processes.tell(LEAVE)

    def _epochs(self) -> Iterator[TrainEvent]:
        progress = self.progress
        if self.stage.measure_first and self.stage.dev and not progress.step:
            self._keep(self.measure())
        while not progress.outcome:
            batches = self.epoch_batches(progress.epoch)
            while progress.batch < len(batches):
                began = time.perf_counter()
                loss = self._step(batches[progress.batch])
                if not math.isfinite(loss):
                    progress.outcome = "not_finite"
                    self.trouble = self._not_finite(loss, batches[progress.batch])
                    yield self.event(loss, message=self.trouble)
                    return
                progress.loss_sum += loss
                progress.batch += 1
                progress.step += 1
                progress.seconds += time.perf_counter() - began
                progress.learning_seconds += time.perf_counter() - began
                if progress.batch < len(batches):
                    yield self.event(loss)
            yield self._end_epoch(len(batches))

    @property
    def keeps_weights(self) -> bool:
        """Say whether there are weights to keep if it ends now: the best on dev, or finite ones that learned."""
        if self.best is not None:
            return True
        return self.progress.step > 0 and all(bool(one.isfinite().all()) for one in self.model.state_dict().values())

    def restore_best(self) -> None:
        """Put the best epoch's weights into the model, if one was measured."""
        if self.best is not None:
            self.model.load_state_dict(self.best)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything but `progress` that going on needs."""
        saved = prefixed("model", self.model.state_dict()) | prefixed("random", self.random.state)
        saved |= prefixed("optimizer", optimizer_tensors(self.optimizer, self.names))
        if self.objective is not None:
            saved |= prefixed("objective", self.objective.state())
        return saved | (prefixed("best", self.best) if self.best is not None else {})

    def meta(self) -> dict[str, Any]:
        """Return `progress` and the best scores as plain values."""
        scores = self.best_scores.to_dict() if self.best_scores else None
        return {"progress": asdict(self.progress), "best_scores": scores}

    def restore(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Put back what `meta` and `tensors` gave."""
        history = [EpochRecord(**record) for record in meta["progress"]["history"]]
        self.progress = Progress(**{**meta["progress"], "history": history})
        self.best_scores = Scores.from_dict(meta["best_scores"]) if meta["best_scores"] else None
        self.model.load_state_dict(within("model", tensors))
        self.random.state = within("random", tensors)
        restore_optimizer(self.optimizer, self.names, within("optimizer", tensors))
        if self.objective is not None:
            self.objective.load_state(within("objective", tensors))
        self.best = within("best", tensors) or None

    def _step(self, indices: Sequence[int]) -> float:
        """Learn from a batch, with the helpers where there are some; return its loss."""
        progress = self.progress
        seed = self.random.draw_seed() if self._parts > 1 else 0
        self.processes.tell(STEP, progress.epoch, progress.batch, progress.step, seed)
        self.processes.broken = self.processes.size > 1
        value = self.learn(indices, seed)
        self.processes.broken = False
        return value

    def learn(self, indices: Sequence[int], seed: int) -> float:
        """Make one step of the optimizer, unless the loss is not finite; return the loss of the whole batch."""
        self._set_rate()
        self.model.train()
        value = self.processes.add_up(self.model.parameters(), self._gradients(indices, seed))
        if not math.isfinite(value):
            return value
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        if not bool(torch.isfinite(norm)):
            return float("nan")
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.objective is not None:
            self.objective.after_step(self.model)
        self.progress.tokens += self._tokens(indices)
        return value

    @property
    def _parts(self) -> int:
        """Into how many parts a batch is cut: those of one process times the processes."""
        return self.recipe.accumulate * self.processes.size if self.objective is None else 1

    def _gradients(self, indices: Sequence[int], seed: int) -> float:
        """Add up the gradients of this process's parts of a batch; return their share of the batch's loss.

        A model's loss is a mean over tokens, so a part counts by its tokens. Each part draws dropout from a seed of
        its own: the same whichever process computes it.
        """
        parts, total = self._parts, 0.0
        first = self.processes.rank * self.recipe.accumulate
        for number in range(first, min(first + self.recipe.accumulate, parts)):
            part = indices[number::parts]  # sorted by length: each part gets long ones and short ones
            if not part:
                continue
            with self.random.active() if parts == 1 else self.random.seeded((seed + number) % 2**62):
                loss = self._loss(part)
            if parts > 1:
                loss = loss * (self._tokens(part) / self._tokens(indices))
            total += float(loss.item())
            if not math.isfinite(total):
                break
            loss.backward()
        return total

    def _tokens(self, indices: Sequence[int]) -> int:
        return sum(len(self.windows[at].positions) for at in indices)

    def _loss(self, indices: Sequence[int]) -> Tensor:
        """Return the loss of a batch of windows, a scalar."""
        windows = [self.windows[at] for at in indices]
        batch = collate(windows, self.predictor.tokenizer.pad_token_id, self.tags).to(self.device)
        if self.objective is None:
            return self.model.loss(batch)
        return self.objective.loss(self.model, batch, [window.sentence for window in windows], self.progress.step)

    def _set_rate(self) -> None:
        """Set the rates of the next step; while the head alone learns, the encoder gets no gradient at all."""
        stage = self.stage
        head_alone = self.progress.epoch < stage.head_first_epochs
        self.model.encoder.requires_grad_(not head_alone)
        if head_alone:
            hold_rate(self.optimizer, stage.head_first_learning_rate)
        else:
            before = stage.head_first_epochs * self.epoch_steps
            total = stage.epochs * self.epoch_steps - before
            set_rate(self.optimizer, self.progress.step - before, total, stage.warmup_share, self.recipe.schedule)

    def _end_epoch(self, steps: int) -> TrainEvent:
        progress, began = self.progress, time.perf_counter()
        loss, dev_f1, is_best = progress.loss_sum / steps, None, False
        progress.epoch, progress.batch, progress.loss_sum = progress.epoch + 1, 0, 0.0
        if self.stage.dev and self.stage.scores_dev(progress.epoch):
            scores = self.measure()
            dev_f1, is_best = scores.f1, scores.f1 > progress.best_f1
            if is_best:
                self._keep(scores)
        progress.history.append(EpochRecord(self.stage.phase, progress.epoch, loss, dev_f1))
        progress.seconds += time.perf_counter() - began
        if progress.epoch >= self.stage.epochs:
            progress.outcome = "all_epochs"
        elif dev_f1 is not None and self._stale() >= self.stage.patience:
            progress.outcome = "early_stop"
        return self.event(loss, dev_f1=dev_f1, is_best=is_best, epoch=progress.epoch)

    def _stale(self) -> int:
        """Return how many epochs have passed since the best one, those of the head alone left out."""
        best = self.progress.best_epoch or 0
        return self.progress.epoch - max(best, self.stage.head_first_epochs)

    def _keep(self, scores: Scores) -> None:
        """Keep the weights as they are as the best so far, of the epochs done by now."""
        self.progress.best_f1, self.progress.best_epoch, self.best_scores = scores.f1, self.progress.epoch, scores
        self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def measure(self) -> Scores:
        """Score the model as it is on the stage's dev sentences."""
        self.processes.tell(SCORE)
        shares = self.processes.gather(self.answers())
        answers = [shares[at % len(shares)][at] for at in range(len(self.dev_gold))]
        return score_tags(self.dev_gold, [tags for tags, _ in answers], self.predictor.types)

    def answers(self) -> list[tuple[tuple[str, ...], tuple[float, ...]]]:
        """Tag this process's share of the dev sentences; the others are left empty."""
        rank, size = self.processes.rank, self.processes.size
        own = [window for window in self.dev_windows if window.sentence % size == rank]
        return self.predictor.predict_windows(own, len(self.dev_gold))

    def event(
        self,
        loss: float,
        *,
        dev_f1: float | None = None,
        is_best: bool = False,
        message: str = "",
        epoch: int | None = None,
    ) -> TrainEvent:
        """Report the present step; the epoch is the one under way unless told otherwise."""
        progress = self.progress
        speed = progress.tokens_per_second
        number = progress.epoch + 1 if epoch is None else epoch
        step = self.first_step + progress.step
        return TrainEvent(step, number, self.stage.phase, loss, dev_f1, is_best, message, speed)

    def _not_finite(self, loss: float, indices: Sequence[int]) -> str:
        progress = self.progress
        which = f"epoch {progress.best_epoch}" + ("" if self.is_last else f" of the {self.stage.phase} stage")
        kept = "nothing was kept"
        if self.best is not None:
            kept = f"the weights of {which} are kept"
        elif self.keeps_weights:
            kept = f"the weights after step {self.first_step + progress.step} are kept, which dev did not choose"
        ids = list(dict.fromkeys(self.stage.train[self.windows[at].sentence].sentence.id for at in indices))
        more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
        return (
            f"Stopped: the loss is {loss} at step {self.first_step + progress.step + 1} (epoch {progress.epoch + 1}, "
            f"batch {progress.batch + 1}) on sentences {', '.join(ids[:NAMED])}{more}; {kept}. "
            "Lower the learning rate, lengthen the warm-up, or use precision fp32."
        )


def tag_indices(items: Sequence[LabelledSentence], tags: Sequence[str]) -> list[list[int]]:
    """Return the index of each token's tag, sentence by sentence."""
    index = {tag: at for at, tag in enumerate(tags)}
    return [[index[tag] for tag in tags_from_spans(item.spans, len(item.sentence.tokens))] for item in items]

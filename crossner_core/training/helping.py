"""A stage shared out: what the first process sends to the helpers, and what they do with it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from crossner_core.adaptation.transfer import Stage
from crossner_core.encoders import Encoder, recompute_activations
from crossner_core.models.base import TokenTagger
from crossner_core.training.checkpoint import on_cpu, optimizer_tensors, restore_optimizer
from crossner_core.training.precision import RunRandom, pick_device, use_bf16
from crossner_core.training.predictor import Predictor, build_model
from crossner_core.training.processes import LEAVE, SCORE, STEP, Processes
from crossner_core.training.recipe import Recipe
from crossner_core.training.source_cache import source_recipe
from crossner_core.training.stage import StageRun


@dataclass(frozen=True)
class _SharedStage:
    """All that a helper needs to compute as the first process does; tensors are on the CPU."""

    recipe: Recipe
    stage: Stage
    encoder: Encoder
    weights: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]

    def take_part(self, here: Processes) -> None:
        """Compute this process's share of each step, and of what is scored, until there are no more."""
        recipe, stage, encoder = self.recipe, self.stage, self.encoder
        random = RunRandom(stage.seed, pick_device(recipe.device))
        model = build_stage_model(recipe, stage, encoder, random)
        model.load_state_dict(dict(self.weights))
        length = min(recipe.max_length, encoder.max_length)
        predictor = Predictor(model, encoder.tokenizer, stage.types[: stage.scored], max_length=length, meta={})
        run = StageRun(stage, recipe, predictor, random, 0)
        restore_optimizer(run.optimizer, run.names, self.moments)
        progress = run.progress
        while (order := here.hear())[0] != LEAVE:
            if order[0] == STEP:
                progress.epoch, progress.batch, progress.step = order[1:4]
                run.learn(run.epoch_batches(progress.epoch)[progress.batch], order[4])
            elif order[0] == SCORE:
                here.gather(run.answers())


def build_stage_model(recipe: Recipe, stage: Stage, encoder: Encoder, random: RunRandom) -> TokenTagger:
    """Make a stage's model on the run's device: the body as it is, a new head."""
    with random.active():
        model = build_model(source_recipe(recipe) if stage.cached else recipe, encoder, stage.types).to(random.device)
    model.use_bf16 = use_bf16(recipe.precision, random.device)
    if recipe.recompute:
        recompute_activations(model.encoder, encoder.name)
    return model


def share_stage(run: StageRun, encoder: Encoder) -> None:
    """Send a stage as it stands, begun or resumed, to the helpers that will compute with it."""
    if run.processes.size == 1:
        return
    order = _SharedStage(
        run.recipe,
        run.stage,
        replace(encoder, model=copy.deepcopy(run.model.encoder).cpu()),
        on_cpu(run.model.state_dict()),
        on_cpu(optimizer_tensors(run.optimizer, run.names)),
    )
    run.processes.send(order)


def help_out(here: Processes) -> None:
    """Take part in one stage or pre-training after the other until there are no more."""
    while (order := here.receive()) is not None:
        order.take_part(here)

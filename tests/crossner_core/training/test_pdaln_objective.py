"""PDALN's plan, and each term of its loss and each off switch against what it should be."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crossner_core.encoders.windows import Batch, collate
from crossner_core.errors import CheckpointMismatch, InvalidConfig
from crossner_core.options.pdaln import PdalnOptions
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.engine import TaskRun
from crossner_core.training.machine import RunRandom
from crossner_core.training.mmd import squared_mmd, tag_mmd
from crossner_core.training.perturbation import input_noise, unit_noise
from crossner_core.training.predictor import Predictor, build_model
from crossner_core.training.recipe import Recipe, effective
from crossner_core.training.settings.pdaln import objective
from crossner_core.training.settings.pdaln.objective import (
    PdalnObjective,
    Projection,
    contrastive_loss,
    sentence_vectors,
)
from crossner_core.training.settings.pdaln.plan import source_sample
from crossner_core.training.settings.registry import needs_source, needs_unlabelled, setting
from crossner_core.training.tagging import Part, TaggerTask
from tests.support.training_builders import TYPES, labelled, own_sentences, tiny_data, tiny_encoder, tiny_recipe

OFF = {
    "pdaln_use_contrastive": False,
    "pdaln_use_sentence_mmd": False,
    "pdaln_use_word_mmd": False,
    "pdaln_use_distillation": False,
}


def data_with_text(count: int = 10) -> TrainingData:
    bare = tuple(item.sentence for item in own_sentences(10, offset=60))
    return replace(tiny_data(count, source=True), unlabelled=bare)


def plan_of(data: TrainingData | None = None, **changes: Any) -> tuple[Any, ...]:
    recipe = tiny_recipe(**{"setting": "pdaln", **changes})
    return setting(recipe.setting).plan(recipe, data or data_with_text())


def stage_run(number: int = 0, data: TrainingData | None = None, **changes: Any) -> TaskRun[TaggerTask]:
    """Return a stage that is ready to go, without dropout; its model is the same for all changes."""
    recipe = tiny_recipe(**{"setting": "pdaln", "dropout": 0.0, "batch_size": 6, **changes})
    stage = setting(recipe.setting).plan(recipe, data or data_with_text())[number]
    random = RunRandom(5, torch.device("cpu"))
    with random.active():
        encoder = tiny_encoder(dropout=0.0)
        model = build_model(recipe, encoder, stage.types)
        # A first head of zeros would make all tags equally likely, and a term's gradient might hide.
        torch.nn.init.normal_(next(part for part in model.modules() if isinstance(part, torch.nn.Linear)).weight)
    predictor = Predictor(model, encoder, stage.types[: stage.scored], max_length=64, meta={})
    return TaskRun(TaggerTask(replace(stage, dev=()), recipe, predictor, random), random)


def loss_of(run: TaskRun[TaggerTask], step: int = 3) -> Tensor:
    with run.random.active():
        return run.task.loss(Part(range(6), 1.0, step))


def parts_of(run: TaskRun[TaggerTask], step: int = 3) -> tuple[Batch, Batch | None, Batch | None, list[Batch]]:
    """Return the step's batches as the objective draws them: its own, target, bare, distorted copies."""
    objective = run.task.objective
    assert isinstance(objective, PdalnObjective)
    rng = np.random.default_rng([run.task.recipe.seed, 3, objective.material.round, step])
    own = objective.encoded(run.model, collate([run.task.windows[at] for at in range(6)], 0, run.task.tags))
    target, bare = objective.companions.draw(rng, 6)
    items = [objective.companions.items([run.task.windows[at].sentence for at in range(6)])]
    items += [target.items] if target else []
    copies = [objective.encoded(run.model, objective.companions.distort(part, rng)) for part in items]
    return (
        own,
        objective.encoded(run.model, target.batch) if target else None,
        objective.encoded(run.model, bare) if bare else None,
        copies,
    )


def tag_loss(run: TaskRun[TaggerTask], batches: list[Batch]) -> Tensor:
    sizes = [int((batch.tags >= 0).sum()) for batch in batches]
    return sum(run.model.loss(b) * n for b, n in zip(batches, sizes, strict=True)) / sum(sizes)  # type: ignore[return-value]


def test_pdaln_settings_need_source_and_bare_text() -> None:
    for id in ("pdaln", "pdaln_unsupervised"):
        assert needs_source(id) and needs_unlabelled(id)
    assert not needs_unlabelled("joint")
    with pytest.raises(InvalidConfig, match="needs sentences of the source"):
        setting("pdaln").plan(tiny_recipe(setting="pdaln"), tiny_data())


def test_pdaln_plan_is_a_base_stage_and_rounds_on_adaptive_data() -> None:
    drawn = {"pdaln_source_sentences": 5, "pdaln_base_source": "drawn"}
    base, first, second = plan_of(**drawn, pdaln_round_epochs=7, pdaln_round_rate=0.5)
    assert [stage.phase for stage in (base, first, second)] == ["base", "round 1", "round 2"]
    assert len(base.train) == 5 and base.epochs == 5 and first.epochs == second.epochs == 7
    assert first.train == second.train and len(first.train) <= 10 * 4 + 5 * 2
    assert all("~" in item.sentence.id for item in first.train)
    assert not any("~" in item.sentence.id for item in base.train)
    assert first.learning_rate == base.learning_rate / 2 and first.measure_first and not base.measure_first
    assert len({base.seed, first.seed, second.seed}) == 3
    assert any("Adaptive data: 40 sentences from 10 target" in note for note in base.notes) and not first.notes


def test_pdaln_plan_without_augmentation_goes_over_the_same_sentences_unchanged() -> None:
    data = data_with_text()
    _, exchanged = plan_of(data, pdaln_source_sentences=5, pdaln_rounds=1)
    base, first = plan_of(data, pdaln_source_sentences=5, pdaln_rounds=1, pdaln_use_augmentation=False)
    assert len(first.train) == len(exchanged.train) == 4 * 10 + 2 * 5 and len(base.train) == len(data.source_train)
    assert {item.sentence.id for item in first.train} == {
        item.sentence.id.partition("~")[0] for item in exchanged.train
    }
    assert first.train[:4] == (data.train[0],) * 4 and len(plan_of(pdaln_rounds=0)) == 1
    former = {"pdaln_use_augmentation": False, "pdaln_base_source": "drawn", "pdaln_source_sentences": 5}
    base, first = plan_of(data, **former, pdaln_rounds=1)
    assert first.train == base.train and len(base.train) == 5


def test_pdaln_labels_can_be_learnt_once_an_epoch_in_the_base_stage_alone() -> None:
    data = data_with_text()
    drawn, once = (plan_of(data, pdaln_rounds=1, pdaln_labels=labels) for labels in ("drawn", "once"))
    assert once[0].train == data.source_train + data.train and drawn[0].train == data.source_train
    assert once[1].train == drawn[1].train and all("~" in item.sentence.id for item in once[1].train)
    for at in (0, 1):
        run = stage_run(at, **OFF, pdaln_rounds=1, pdaln_labels="once")
        own, target, bare, _ = parts_of(run)
        assert target is None and bare is None and loss_of(run).item() == pytest.approx(tag_loss(run, [own]).item())
    # The terms that compare the domains still have them.
    words = {**OFF, "pdaln_use_word_mmd": True, "pdaln_beta": 2.0}
    on, off = (stage_run(pdaln_labels=labels, **words) for labels in ("once", "drawn"))
    (own, target, _, _), (_, same, _, _) = parts_of(on), parts_of(off)
    assert target is not None and same is not None and len(target.tags) == len(same.tags) == 3
    aligned = (loss_of(on) - tag_loss(on, [own])).item()
    assert abs(aligned) > 1e-3
    assert aligned == pytest.approx((loss_of(off) - tag_loss(off, [own, same])).item(), abs=1e-5)
    copied = stage_run(**OFF, pdaln_labels="once", pdaln_label_distorted=True)
    own, target, _, copies = parts_of(copied)
    assert target is None and len(copies) == 1
    assert loss_of(copied).item() == pytest.approx((tag_loss(copied, [own]) + tag_loss(copied, copies)).item())


def test_pdaln_base_stage_has_its_own_batches_epochs_and_looks() -> None:
    former = {"pdaln_batch_size": 0, "pdaln_base_epochs": 0, "pdaln_dev_every": 0}
    changes: dict[str, Any] = {"batch_size": 7, "max_epochs": 9, "dev_every": 3}
    assert [(one.batch_size, one.epochs, one.dev_every) for one in plan_of(**changes, **former)] == [
        (7, 9, 3), (7, 3, 3), (7, 3, 3),
    ]  # fmt: skip
    changes |= {"pdaln_batch_size": 32, "pdaln_base_epochs": 2}
    assert [(one.batch_size, one.epochs, one.dev_every) for one in plan_of(**changes)] == [
        (32, 2, 1), (32, 3, 1), (32, 3, 1),
    ]  # fmt: skip
    own = tiny_recipe(setting="pdaln", pdaln_batch_size=32, pdaln_base_epochs=2)
    assert replace(own, batch_size=7, max_epochs=9, dev_every=3).hash == own.hash
    assert replace(own, pdaln_batch_size=0, batch_size=7).hash != replace(own, pdaln_batch_size=0, batch_size=8).hash


def test_pdaln_recipe_of_an_earlier_version_keeps_its_meaning() -> None:
    later = {spec.name for spec in fields(PdalnOptions) if spec.metadata["later"]}
    assert later >= {"pdaln_batch_size", "pdaln_base_source", "pdaln_keep", "pdaln_bare_text"}
    stored = {name: value for name, value in Recipe(setting="pdaln").to_dict().items() if name not in later}
    stored |= {"pdaln_estimator": "biased"}
    read = Recipe.from_dict(stored)
    assert (read.pdaln_batch_size, read.pdaln_base_source, read.pdaln_base_epochs, read.pdaln_dev_every) == (
        0, "drawn", 0, 0,
    )  # fmt: skip
    assert not read.pdaln_with_entities and read.pdaln_estimator == "biased"
    assert not later & set(effective(stored)) and effective(stored) == effective(read.to_dict())
    assert Recipe.from_dict({"setting": "pdaln", "pdaln_alpha": 2.0}).pdaln_batch_size == 32
    assert Recipe(setting="pdaln").hash != read.hash


def test_pdaln_draws_source_sentences_with_an_entity_to_exchange() -> None:
    plain = tuple(labelled(["It", "rained", str(day)], []) for day in range(40))
    data = replace(data_with_text(), sources=(SourceCorpus(plain + own_sentences(5, offset=100)),))
    recipe = tiny_recipe(setting="pdaln", pdaln_source_sentences=5, pdaln_rounds=1)
    _, first = setting("pdaln").plan(recipe, data)
    assert len(first.train) == 4 * 10 + 2 * 5
    former = source_sample(replace(recipe, pdaln_with_entities=False), data)
    assert len(former) == 5 and any(not item.spans for item in former)
    with_none = replace(data, sources=(SourceCorpus(plain),))
    assert len(source_sample(recipe, with_none)) == 5


@pytest.mark.parametrize("id", ["pdaln", "pdaln_unsupervised"])
def test_pdaln_bare_text_can_be_the_test_sentences_and_says_so(id: str) -> None:
    data = data_with_text()
    run = stage_run(0, data, setting=id, pdaln_bare_text="test")
    material = run.task.objective.material  # type: ignore[union-attr]
    assert material.unlabelled == tuple(item.sentence for item in data.test)
    assert any(note.startswith("Transductive") for note in run.task.stage.notes)
    assert not any("Transductive" in note for note in plan_of(data, setting=id)[0].notes)
    with pytest.raises(InvalidConfig, match="no test sentences"):
        plan_of(replace(data, test=()), setting=id, pdaln_bare_text="test")


def test_pdaln_distils_over_entity_tokens_alone() -> None:
    changes = {**OFF, "pdaln_use_distillation": True, "pdaln_gamma": 1.0, "pdaln_rounds": 1}
    run = stage_run(1, **changes, pdaln_distil_tokens="entities")
    every = stage_run(1, **changes)
    own, *_ = parts_of(run)
    teacher = run.task.objective.teacher  # type: ignore[union-attr]
    soft = teacher.tag_log_probabilities(own).exp()
    losses = -(soft * run.model.tag_log_probabilities(own)).sum(-1)
    entities = (own.tags > 0) & own.mask
    assert run.model.tags[0] == "O" and 0 < entities.sum() < own.mask.sum()
    assert loss_of(run).item() == pytest.approx(losses[entities].mean().item(), rel=1e-5)
    assert loss_of(every).item() == pytest.approx(losses[own.mask].mean().item(), rel=1e-5)
    without_tags = replace(own, tags=torch.full_like(own.tags, -100))
    assert torch.equal(objective.entity_tokens(without_tags, soft, 0), soft.argmax(-1) != 0)


def test_pdaln_plan_without_shared_types_has_no_adaptive_data_and_never_decodes_source_types() -> None:
    there = (labelled(["Hops", "won"], [(0, 1, "horse")]), labelled(["It", "rained"], []))
    base, first, _ = plan_of(replace(data_with_text(), sources=(SourceCorpus(there),)))
    assert base.train == there and first.train[-2:] == (there[0], there[0]) and there[1] not in first.train
    assert base.types == (*TYPES, "horse") and base.scored == len(TYPES)


def test_pdaln_unsupervised_plan_uses_no_target_labels() -> None:
    data = data_with_text()
    stages = plan_of(data, setting="pdaln_unsupervised")
    assert len(stages) == 1 and stages[0].train == data.source_train
    wrong = tuple(replace(item, spans=()) for item in data.train)
    torn = [stage_run(0, one, setting="pdaln_unsupervised") for one in (data, replace(data, train=wrong))]
    assert torch.equal(loss_of(torn[0]), loss_of(torn[1]))
    material = torn[0].task.objective.material  # type: ignore[union-attr]
    assert material.target == () and len(material.unlabelled) == 20
    more = plan_of(data, setting="pdaln_unsupervised", pdaln_distil_on="augmented+unlabelled")
    assert [stage.phase for stage in more] == ["base", "round 1", "round 2"] and more[1].train == more[0].train


def test_pdaln_source_sample_follows_the_seed() -> None:
    data = data_with_text()
    recipe = tiny_recipe(setting="pdaln", pdaln_source_sentences=6)
    first = source_sample(recipe, data)
    assert len(first) == 6 and first == source_sample(recipe, data) != source_sample(replace(recipe, seed=1), data)
    assert source_sample(replace(recipe, pdaln_source_sentences=0), data) == data.source_train


def test_pdaln_options_matter_in_their_settings_alone() -> None:
    direct, semi, bare = (
        effective(tiny_recipe(setting=id).to_dict()) for id in ("direct", "pdaln", "pdaln_unsupervised")
    )
    assert not [name for name in direct if name.startswith("pdaln")]
    assert "pdaln_beta" in semi and "pdaln_beta" not in bare and "pdaln_alpha_unsupervised" in bare
    assert "pdaln_noise" not in semi
    assert Recipe(pdaln_rounds=5).hash == Recipe().hash != Recipe(setting="pdaln").hash


@pytest.mark.parametrize(
    ("base", "without"),
    [
        ({"pdaln_student": "vat"}, ()),
        ({"pdaln_use_sentence_mmd": False}, ("alpha",)),
        ({"pdaln_use_word_mmd": False}, ("beta", "tag_weight")),
        ({"pdaln_use_sentence_mmd": False, "pdaln_use_word_mmd": False}, ("alpha", "beta", "tag_weight", "estimator")),
        ({"pdaln_use_contrastive": False}, ("temperature", "contrastive_weight", "synonyms")),
        ({"pdaln_use_contrastive": False, "pdaln_label_distorted": True}, ("temperature", "contrastive_weight")),
        ({"pdaln_labels": "once"}, ()),
        ({"pdaln_labels": "once", **OFF, "pdaln_use_distillation": True}, ("target_share",)),
        ({"pdaln_use_augmentation": False}, ("replace",)),
        ({"pdaln_use_augmentation": False, "pdaln_base_source": "drawn"}, ("target_copies", "replace")),
        ({"pdaln_rounds": 0}, ("source_sentences", "with_entities", "keep")),
        ({"setting": "pdaln_unsupervised"}, ("source_sentences", "keep", "distil_tokens")),
        ({"pdaln_use_distillation": False, "pdaln_student": "vat"}, ("gamma", "student", "noise")),
        (
            {"pdaln_rounds": 0, "pdaln_student": "vat"},
            (
                "round_epochs",
                "round_rate",
                "gamma",
                "student",
                "noise",
                "use_distillation",
                "use_augmentation",
                "replace",
            ),
        ),
        (
            {"setting": "pdaln_unsupervised", "pdaln_student": "vat"},
            ("rounds", "round_epochs", "round_rate", "gamma", "student", "noise", "use_distillation"),
        ),
        ({"setting": "pdaln_unsupervised", "pdaln_student": "vat", "pdaln_distil_on": "augmented+unlabelled"}, ()),
        (
            {"setting": "pdaln_unsupervised", "pdaln_use_sentence_mmd": False},
            ("alpha_unsupervised", "estimator", "rounds", "round_epochs"),
        ),
    ],
)
def test_pdaln_option_without_effect_changes_no_loss_and_no_hash(
    base: dict[str, Any], without: tuple[str, ...]
) -> None:
    other: dict[str, Any] = {
        "alpha": 7.0, "alpha_unsupervised": 7.0, "beta": 7.0, "tag_weight": 0.9, "temperature": 0.5,
        "contrastive_weight": 0.7, "synonyms": "encoder", "estimator": "biased", "target_copies": 1, "replace": "all",
        "gamma": 0.9, "student": "progressive", "noise": 3.0, "rounds": 1, "round_epochs": 9, "round_rate": 0.1,
        "use_distillation": False, "use_augmentation": False, "source_sentences": 6, "with_entities": False,
        "distil_tokens": "entities", "keep": "last", "target_share": 1.0,
    }  # fmt: skip
    unseen = ("synonyms", "noise", "round_epochs", "round_rate", "rounds", "keep", "with_entities")
    plain = {"setting": "pdaln", "pdaln_rounds": 2, "pdaln_synonyms": "auto", **base}
    losses = [loss_of(stage_run(at, **plain)) for at in range(len(plan_of(**plain)))]
    own = tiny_recipe(**plain)
    for name, value in other.items():
        values = {**plain, f"pdaln_{name}": value}
        assert name not in without or tiny_recipe(**values).hash == own.hash, name
        if tiny_recipe(**values).hash == own.hash:
            assert [(one.epochs, one.learning_rate) for one in plan_of(**values)] == [
                (one.epochs, one.learning_rate) for one in plan_of(**plain)
            ], name
            again = [loss_of(stage_run(at, **values)) for at in range(len(losses))]
            assert all(map(torch.equal, again, losses)), name
        elif not without and name not in unseen:
            again = [loss_of(stage_run(at, **values)) for at in range(len(losses))]
            assert not all(map(torch.equal, again, losses)), name


def test_pdaln_unsupervised_says_that_there_are_no_rounds() -> None:
    (base,) = plan_of(setting="pdaln_unsupervised")
    (note,) = (note for note in base.notes if note.startswith("No rounds"))
    assert "augmented+unlabelled" in note
    for changes in ({"pdaln_rounds": 0}, {"pdaln_distil_on": "augmented+unlabelled"}):
        stages = plan_of(setting="pdaln_unsupervised", **changes)
        assert not any("rounds" in note for stage in stages for note in stage.notes)


def test_pdaln_data_counts_bare_text_in_its_fingerprint_only_where_there_is_some() -> None:
    data = data_with_text()
    assert replace(data, unlabelled=()).fingerprint == tiny_data(10, source=True).fingerprint != data.fingerprint


@pytest.mark.parametrize("architecture", ["tagger", "crf", "label_aware"])
def test_pdaln_all_off_is_the_tag_loss_of_batch_and_target(architecture: str) -> None:
    run = stage_run(**OFF, architecture=architecture)
    own, target, _, _ = parts_of(run)
    assert target is not None and len(target.tags) == 3
    assert loss_of(run).item() == pytest.approx(tag_loss(run, [own, target]).item(), rel=1e-5)


def test_pdaln_sentence_mmd_is_added_with_its_weight() -> None:
    off, on = stage_run(**OFF), stage_run(**{**OFF, "pdaln_use_sentence_mmd": True}, pdaln_alpha=2.0)
    own, target, bare, _ = parts_of(on)
    assert target is not None and bare is not None
    there = torch.cat([sentence_vectors(target), sentence_vectors(bare)])
    assert torch.allclose(sentence_vectors(own), on.model.encoder(own.input_ids, own.attention_mask)[0][:, 0])
    assert loss_of(on).item() == pytest.approx(
        (loss_of(off) + 2.0 * squared_mmd(sentence_vectors(own), there, estimator="unbiased")).item(), rel=1e-5
    )


def test_pdaln_word_mmd_goes_tag_by_tag() -> None:
    changes = {**OFF, "pdaln_use_word_mmd": True, "pdaln_estimator": "unbiased", "pdaln_bandwidths": "median"}
    off, on = stage_run(**OFF), stage_run(**changes, pdaln_beta=3.0, pdaln_tag_weight=0.5)
    own, target, _, _ = parts_of(on)
    assert target is not None
    ours, theirs, total = on.model.token_vectors(own), on.model.token_vectors(target), torch.zeros(())
    for tag in range(len(on.model.tags)):
        here, there = ours[own.tags == tag], theirs[target.tags == tag]
        total = total + 0.5 * squared_mmd(here, there, estimator="unbiased", bandwidths="median")
    assert total.abs() > 1e-3
    assert loss_of(on).item() == pytest.approx((loss_of(off) + 3.0 * total).item(), rel=1e-5)
    nothing = torch.full_like(target.tags, -100)
    weights = [0.25] * len(on.model.tags)
    assert tag_mmd(ours, own.tags, theirs, nothing, weights=weights, estimator="biased", bandwidths="fixed") == 0


def test_pdaln_contrast_is_added_and_its_projection_learns() -> None:
    off, on = stage_run(**OFF), stage_run(**{**OFF, "pdaln_use_contrastive": True}, pdaln_contrastive_weight=0.7)
    assert isinstance(on.model.objective_parts, Projection) and not list(off.model.objective_parts.parameters())
    own, target, _, copies = parts_of(on)
    assert target is not None
    first = on.model.objective_parts(torch.cat([sentence_vectors(own), sentence_vectors(target)]))
    second = on.model.objective_parts(torch.cat([sentence_vectors(part) for part in copies]))
    found = loss_of(on)
    # Both models draw their first weights alike: the projection is made after them.
    assert found.item() == pytest.approx((loss_of(off) + 0.7 * contrastive_loss(first, second, 0.05)).item(), rel=1e-5)
    found.backward()
    assert all(value.grad is not None and value.grad.abs().max() > 0 for value in on.model.objective_parts.parameters())


def test_pdaln_distorted_copies_can_be_learned_too() -> None:
    off, on = stage_run(**OFF), stage_run(**OFF, pdaln_label_distorted=True)
    copies = parts_of(on)[3]
    assert loss_of(on).item() == pytest.approx((loss_of(off) + tag_loss(on, copies)).item(), rel=1e-5)


@pytest.mark.parametrize("distil_on", ["augmented", "augmented+unlabelled"])
@pytest.mark.parametrize("architecture", ["tagger", "crf"])
def test_pdaln_distillation_is_soft_cross_entropy_over_tokens(architecture: str, distil_on: str) -> None:
    changes = {"architecture": architecture, "pdaln_distil_on": distil_on}
    off = stage_run(1, **OFF, **changes)
    on = stage_run(1, **{**OFF, "pdaln_use_distillation": True}, pdaln_gamma=0.3, **changes)
    own, _, bare, _ = parts_of(on)
    assert bare is not None or distil_on == "augmented"
    terms = []
    for batch in (own, bare) if distil_on != "augmented" else (own,):
        log_shares = on.model.tag_log_probabilities(batch)  # type: ignore[arg-type]
        assert torch.allclose(log_shares.exp().sum(-1), torch.ones_like(log_shares[..., 0]), atol=1e-5)
        # The teacher has the student's weights as yet: its cross-entropy is the entropy.
        terms += [-(row.exp() * row).sum(-1)[mask] for row, mask in zip(log_shares, batch.mask, strict=True)]  # type: ignore[union-attr]
    taught = torch.cat(terms).mean()
    assert loss_of(on).item() == pytest.approx((0.7 * loss_of(off) + 0.3 * taught).item(), rel=1e-5)


def test_pdaln_base_stage_has_no_teacher_and_rounds_have_one_by_variant() -> None:
    def teacher(number: int, **changes: Any) -> Any:
        return stage_run(number, **changes).task.objective.teacher  # type: ignore[union-attr]

    assert teacher(0) is None and teacher(1) is not None and teacher(1, pdaln_student="vat") is None
    assert teacher(1, pdaln_use_distillation=False) is None


def test_pdaln_teacher_stays_or_follows_by_its_variant() -> None:
    for student, moves in (("progressive", 0.0), ("mean_teacher", 0.25)):
        run = stage_run(1, pdaln_student=student, pdaln_mean_decay=0.75)
        teacher = run.task.objective.teacher  # type: ignore[union-attr]
        before = {name: value.clone() for name, value in teacher.named_parameters()}
        run.step()
        student_now = dict(run.model.named_parameters())
        for name, value in teacher.named_parameters():
            assert not value.requires_grad and not value.grad
            assert torch.allclose(value, before[name] + moves * (student_now[name] - before[name]), atol=1e-6), name
        assert any(not torch.equal(student_now[name], before[name]) for name in before)


def test_pdaln_vat_finds_noise_that_hurts_more_than_chance() -> None:
    run = stage_run(1, pdaln_student="vat")
    own = parts_of(run)[0]
    rng = np.random.default_rng(1)
    worst = objective.adversarial_loss(run.model, [own], 1.0, rng)
    worst.backward()
    table = run.model.encoder.get_input_embeddings().weight
    assert table.grad is not None and not run.model.encoder.get_input_embeddings()._forward_hooks
    clean = run.model.tag_log_probabilities(own).detach()
    length = table[own.input_ids].norm(dim=-1)[own.attention_mask.bool()].mean().detach()
    chance = []
    for seed in range(10):
        noise = torch.randn(*own.input_ids.shape, 32, generator=torch.Generator().manual_seed(seed))
        with input_noise(run.model, unit_noise(noise, own) * length), torch.no_grad():
            moved = run.model.tag_log_probabilities(replace(own, hidden=None))
        chance.append(float(objective.kl_divergence(clean, moved, own.mask) / own.mask.sum()))
    assert worst.item() > 1.5 * max(chance) > 0


def test_pdaln_step_draws_from_seed_and_step_alone() -> None:
    one, other = stage_run(1), stage_run(1)
    assert torch.equal(loss_of(one, 4), loss_of(other, 4)) and not torch.equal(loss_of(one, 4), loss_of(other, 5))
    assert not torch.equal(loss_of(stage_run(1, seed=1), 4), loss_of(other, 4))


def test_pdaln_one_sentence_of_one_word_gives_a_number() -> None:
    one = (labelled(["Oslo"], [(0, 1, "location")]),)
    data = TrainingData(train=one, types=TYPES, sources=(SourceCorpus(one),))
    run = stage_run(1, data, batch_size=1)
    assert torch.isfinite(run.task.loss(Part([0], 1.0, 0)))


def test_pdaln_does_not_go_on_with_synonyms_of_another_source(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = stage_run(pdaln_synonyms="encoder")
    state = (begun.meta(), begun.tensors())
    stage_run(pdaln_synonyms="encoder").restore(*state)
    monkeypatch.setattr("crossner_core.training.settings.pdaln.wordnet.wordnet", lambda: lambda word: {word, "other"})
    with pytest.raises(CheckpointMismatch, match="synonyms came from another source"):
        stage_run(pdaln_synonyms="auto").restore(*state)

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from crossner_core.errors import InvalidConfig
from crossner_core.training.data import SourceCorpus
from crossner_core.training.loop import train
from crossner_core.training.recipe import (
    Recipe,
    effective,
    is_outdated,
    source_key,
    source_options,
    source_recipe,
    source_weights,
)
from crossner_core.training.settings.registry import needs_source, setting, setting_ids
from crossner_core.training.stage import Stage
from crossner_core.training.tagging import begin_stage
from tests.support.training_builders import TYPES, own_sentences, tiny_data, tiny_encoder, tiny_recipe


def test_recipe_round_trip_and_hash() -> None:
    recipe = Recipe(seed=7, setting="joint")
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    assert recipe.hash == Recipe(setting="joint", seed=7).hash != Recipe(seed=8, setting="joint").hash
    assert Recipe(dropout=0) == Recipe(dropout=0.0) and Recipe(dropout=0).hash == Recipe(dropout=0.0).hash


def test_recipe_unknown_key_names_the_valid_ones() -> None:
    with pytest.raises(InvalidConfig, match=r"learning_rat\b.*learning_rate"):
        Recipe.from_dict({"learning_rat": 1e-4})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("setting", "sideways"),
        ("architecture", "forest"),
        ("device", "abacus"),
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("batch_size", True),
        ("learning_rate", float("nan")),
        ("learning_rate", "fast"),
        ("learning_rate", -1.0),
        ("dropout", 1.0),
        ("encoder", " "),
        ("constrained", 1),
    ],
)
def test_recipe_refuses_bad_values(name: str, value: object) -> None:
    with pytest.raises(InvalidConfig, match=name):
        Recipe.from_dict({name: value})


def test_recipe_fields_explain_themselves() -> None:
    for spec in fields(Recipe):
        assert spec.metadata["help"].endswith("."), spec.name
        assert spec.metadata["group"] in {"model", "target", "source", "machine"}
        if isinstance(spec.default, int | float) and not isinstance(spec.default, bool):
            assert spec.metadata["min"] <= spec.default <= spec.metadata["max"]


def test_recipe_and_results_import_without_torch() -> None:
    code = (
        "import sys\n"
        "import crossner_core.training.recipe, crossner_core.training.events, crossner_core.training.data\n"
        "import crossner_core.evaluation.agreement, crossner_core.experiments.few_shot\n"
        "import crossner_core.experiments.published\n"
        "crossner_core.training.recipe.Recipe()\n"
        "heavy = {'torch', 'transformers', 'streamlit', 'sqlalchemy', 'spacy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_recipe_field_that_is_no_more_is_read_and_means_nothing() -> None:
    stored = {**tiny_recipe(architecture="type_aware").to_dict(), "type_size": 64}
    assert is_outdated(stored) and not is_outdated({**stored, "architecture": "tagger"})
    assert Recipe.from_dict(stored) == tiny_recipe(architecture="type_aware")
    assert effective(stored) == effective(tiny_recipe(architecture="type_aware").to_dict())
    with pytest.raises(InvalidConfig, match="Unknown recipe field type_sizes"):
        Recipe.from_dict({"type_sizes": 64})


def test_setting_registry_names_the_known_ones() -> None:
    own = ("direct", "pretrain_finetune", "joint", "pdaln", "pdaln_unsupervised")
    assert setting_ids() == (
        *own,
        "self_training",
        "transfer_self_training",
        "source_only",
        "la_dtl",
        "datnet",
        "cross_domain_lm",
        "cross_domain_lm_unsupervised",
    )
    assert [id for id in setting_ids() if not needs_source(id)] == ["direct", "self_training"]
    with pytest.raises(InvalidConfig, match="direct, pretrain_finetune, joint"):
        setting("sideways")


def test_setting_order_does_not_depend_on_what_is_imported_first() -> None:
    code = (
        "import crossner_core.training.settings.self_training.plan\n"
        "from crossner_core.training.settings.registry import setting_ids\n"
        "print(*setting_ids())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split()) == setting_ids()


def test_recipe_of_several_sources_learns_from_all_of_them() -> None:
    recipe = tiny_recipe(setting="joint", source="conll2003, wnut17")
    assert recipe.sources == ("conll2003", "wnut17") and tiny_recipe().sources == ("conll2003",)
    first, second = own_sentences(4, offset=100), own_sentences(3, offset=200)
    data = replace(tiny_data(), sources=(SourceCorpus(first), SourceCorpus(second, own_sentences(2, offset=300))))
    assert data.source_train == first + second and len(data.source_dev) == 2
    (stage,) = setting("joint").plan(recipe, data)
    assert stage.train == data.train * recipe.upsample + first + second
    assert replace(data, sources=(SourceCorpus(first),)).fingerprint != data.fingerprint


def test_source_stage_in_the_targets_head_leaves_every_row_of_it(tmp_path: Path) -> None:
    renamed = tuple(
        replace(item, spans=tuple(replace(span, type=f"{span.type}s") for span in item.spans))
        for item in own_sentences(6, offset=100)
    )
    data = replace(tiny_data(), sources=(SourceCorpus(own_sentences(6, offset=200) + renamed),))
    recipe = tiny_recipe(setting="pretrain_finetune", source_head="target", head_first_epochs=0)
    source, target = setting("pretrain_finetune").plan(recipe, data)
    assert source.types == (*data.types, *(name for name in data.source_types if name not in data.types))
    assert set(source.types) > set(data.types) == set(target.types) and source.cached
    usual = replace(recipe, source_head="source")
    assert setting("pretrain_finetune").plan(usual, data)[0].types == data.source_types
    # The checkpoint depends on the target's types, which only this head has; there is nothing left to inherit.
    other = replace(data, types=(*data.types, "album"))
    assert source_key(recipe, data, "e") != source_key(recipe, other, "e")
    assert source_key(usual, data, "e") == source_key(usual, other, "e") != source_key(recipe, data, "e")
    assert replace(recipe, inherit=False).hash == recipe.hash != usual.hash != replace(usual, inherit=False).hash
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=tiny_encoder())
    assert last.result is not None and {record.phase for record in last.result.history} == {"source", "target"}


def test_target_head_begins_with_all_rows_of_a_source_stage_in_it() -> None:
    data = replace(tiny_data(), types=(*TYPES, "album"), sources=(SourceCorpus(own_sentences(6, offset=200)),))
    recipe = tiny_recipe(setting="pretrain_finetune", source_head="target")
    source, target = setting("pretrain_finetune").plan(recipe, data)
    first = begin_stage(recipe, source, tiny_encoder())
    with torch.no_grad():
        for number, row in enumerate(first.model.head.weight):
            row.fill_(float(number + 1))
    second = begin_stage(recipe, target, tiny_encoder(), first.model)
    assert first.model.tags == second.model.tags and "B-album" in second.model.tags
    assert torch.equal(first.model.head.weight, second.model.head.weight)


def test_clip_norm_of_0_scales_no_gradient_down() -> None:
    plans = [
        begin_stage(recipe, setting("direct").plan(recipe, tiny_data())[0], tiny_encoder()).plan
        for recipe in (tiny_recipe(clip_norm=0), tiny_recipe())
    ]
    assert [plan.clip_norm for plan in plans] == [math.inf, 1.0]
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([3e5, 4e5])
    norm = torch.nn.utils.clip_grad_norm_([parameter], plans[0].clip_norm)
    assert norm == 5e5 and parameter.grad.tolist() == [3e5, 4e5]


def test_source_counts_as_often_as_its_weight_says() -> None:
    recipe = tiny_recipe(setting="joint", source="conll2003*0.5, wnut17 * 2")
    assert recipe.sources == ("conll2003", "wnut17")
    assert source_weights(recipe.source) == {"conll2003": 0.5, "wnut17": 2.0}
    first, second = own_sentences(4, offset=100), own_sentences(3, offset=200)
    data = replace(tiny_data(), sources=(SourceCorpus(first, weight=0.5), SourceCorpus(second, weight=2.0)))
    assert len(data.source_train) == 2 + 6 and all(item in first for item in data.source_train[:2])
    assert data.source_train[2:] == second * 2
    quarter = replace(data, sources=(SourceCorpus(first, weight=0.25),))
    assert len(quarter.source_train) == 1 and quarter.source_train[0] in data.source_train[:2]


@pytest.mark.parametrize("source", ["conll2003*0", "conll2003*-1", "conll2003*1e3", "conll2003*", "a, a*2", "a*nan"])
def test_source_that_counts_never_or_twice_is_refused(source: str) -> None:
    with pytest.raises(InvalidConfig, match="source"):
        tiny_recipe(source=source)


def test_stage_says_which_types_each_sentence_was_annotated_for() -> None:
    first, second = own_sentences(4, offset=100), own_sentences(3, offset=200)
    bare = tuple(replace(item, spans=()) for item in second)
    data = replace(tiny_data(), sources=(SourceCorpus(first), SourceCorpus(bare)))
    marked = SourceCorpus(first).types
    recipe = tiny_recipe(setting="pretrain_finetune", source_unmarked="unknown")
    source, target = setting("pretrain_finetune").plan(recipe, data)
    assert source.annotated == (marked,) * 4 + (frozenset(),) * 3 and target.annotated is None
    (joint,) = setting("joint").plan(replace(recipe, setting="joint"), data)
    assert joint.annotated is not None and len(joint.annotated) == len(joint.train)
    assert set(joint.annotated[: len(data.train)]) == {frozenset(data.types)}
    (before,) = setting("joint").plan(tiny_recipe(setting="joint"), data)
    assert before.annotated is None


def test_source_checkpoint_serves_whatever_history_the_target_learns_with() -> None:
    paper = Recipe(architecture="label_aware", setting="pretrain_finetune")
    ours = replace(paper, label_embedding_dropout=0.3, label_history="mixed", label_noise=0.1, constrained=False)
    assert source_options(ours) == source_options(paper) and ours.hash != paper.hash
    assert source_options(replace(paper, label_context=False)) != source_options(paper)
    assert source_recipe(ours).label_embedding_dropout == 0.0


def test_recipe_rate_of_a_head_that_never_learns_alone_and_what_no_copy_exchanges_do_not_count() -> None:
    alone = Recipe(setting="pretrain_finetune", head_first_epochs=0)
    assert replace(alone, head_first_learning_rate=1e-4).hash == alone.hash
    assert replace(alone, head_first_epochs=1).hash != replace(alone, head_first_learning_rate=1e-4).hash
    bare = Recipe(setting="pdaln", pdaln_target_copies=0, pdaln_source_copies=0)
    assert replace(bare, pdaln_replace="all").hash == bare.hash
    some = replace(bare, pdaln_source_copies=1)
    assert replace(some, pdaln_replace="all").hash != some.hash


def _plan(recipe: Recipe) -> list[Stage]:
    """Return a recipe's stages on own sentences, without what cannot be compared."""
    data = replace(tiny_data(source=True), unlabelled=tuple(item.sentence for item in own_sentences(4, offset=60)))
    return [replace(stage, objective=None) for stage in setting(recipe.setting).plan(recipe, data)]


@pytest.mark.parametrize("id", setting_ids())
def test_recipe_field_of_a_stage_counts_exactly_where_the_plan_reads_it(id: str) -> None:
    other: dict[str, object] = {
        "learning_rate": 1e-5, "head_learning_rate": 1e-2, "batch_size": 2, "max_epochs": 50, "dev_every": 1,
        "warmup_share": 0.5, "patience": 3, "upsample": 7, "source_learning_rate": 1e-6,
        "source_head_learning_rate": 1e-6, "source_epochs": 9, "source_batch_size": 3, "source_warmup_share": 0.4,
        "head_first_epochs": 3, "head_first_learning_rate": 1e-2, "self_training_rounds": 3,
        "self_training_epochs": 9, "pdaln_rounds": 3, "pdaln_round_epochs": 9, "pdaln_round_rate": 0.1,
        "source_unmarked": "unknown",
    }  # fmt: skip
    trained = "crf" if setting(id).trains("crf") else setting(id).architectures[0]
    encoder = "minilm" if setting(id).subwords else "words:size=8"
    plain = Recipe(setting=id, architecture=trained, encoder=encoder, lstm_layers=1)
    for name, value in other.items():
        changed = replace(plain, **{name: value})
        assert (_plan(changed) == _plan(plain)) == (changed.hash == plain.hash), (id, name)

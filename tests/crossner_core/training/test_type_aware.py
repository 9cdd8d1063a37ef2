"""The type-aware tagger: types are known by what is written about them, also those it was not trained on."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crossner_core.calibration.span_maps import SpanMap
from crossner_core.domains import load_domain
from crossner_core.domains.texts import texts_of, texts_of_name
from crossner_core.errors import CheckpointMismatch, InvalidConfig
from crossner_core.models.base import TokenTagger, TypeTexts
from crossner_core.models.heads import tag_types
from crossner_core.models.type_aware import TypeAware
from crossner_core.training import zero_shot
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.descriptions import read_texts
from crossner_core.training.loop import WarmStart, train
from crossner_core.training.predictor import Predictor, build_model, load_tagger
from crossner_core.training.recipe import data_hash, source_key
from crossner_core.training.settings.pdaln.objective import PdalnObjective
from crossner_core.training.sources import prepared
from tests.support.training_builders import TYPES, batch_for, own_sentences, tiny_encoder, tiny_recipe

TEXTS = {"person": ("ada sang",), "band": ("marble toured", "lanterns"), "location": ("born in oslo",)}
AGAIN = {"human": TEXTS["person"], "act": TEXTS["band"], "place": TEXTS["location"]}
ITEMS = own_sentences(40)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """A tagger that has learnt three types, read back from its folder."""
    folder = tmp_path_factory.mktemp("run")
    recipe = tiny_recipe(architecture="type_aware", max_epochs=30, patience=30, type_rows_dropout=0.8)
    data = TrainingData(train=ITEMS[:24], dev=ITEMS[24:32], test=ITEMS[32:], types=TYPES, texts=TEXTS)
    *_, last = train(recipe, data, checkpoint_dir=folder, encoder=tiny_encoder())
    assert last.result is not None and last.result.test is not None and last.result.test.f1 > 0.8
    return load_tagger(folder)


def test_types_of_other_names_are_found_by_what_they_mean(tagger: Predictor) -> None:
    renamed = zero_shot.for_types(tagger, tiny_encoder(), AGAIN)
    names = dict(zip(AGAIN, TYPES, strict=True))
    test = [item.sentence for item in ITEMS[32:]]
    spans = [[(span.start, span.end, names[span.type]) for span in own] for own in renamed.predict_spans(test)]
    gold = [[(span.start, span.end, span.type) for span in item.spans] for item in ITEMS[32:]]
    right = sum(len({*own} & {*wanted}) for own, wanted in zip(spans, gold, strict=True))
    assert right >= 0.7 * sum(map(len, gold))
    swapped = zero_shot.for_types(tagger, tiny_encoder(), {"human": TEXTS["location"], "place": TEXTS["person"]})
    other = [[(span.start, span.end, span.type) for span in own] for own in swapped.predict_spans(test)]
    assert other != [[(start, end, kind) for start, end, kind in own if kind != "act"] for own in spans]


def test_a_new_type_starts_from_its_parents_weights(tagger: Predictor) -> None:
    texts = {"singer": TEXTS["person"], "band": TEXTS["band"]}
    alone = zero_shot.for_types(tagger, tiny_encoder(), texts).model
    child = zero_shot.for_types(tagger, tiny_encoder(), texts, {"singer": "person"}).model
    assert isinstance(tagger.model, TypeAware) and isinstance(alone, TypeAware) and isinstance(child, TypeAware)
    row, there = (model.tags.index(tag) for model, tag in ((child, "B-singer"), (tagger.model, "B-person")))
    assert not alone.head.weight[row].any()
    torch.testing.assert_close(child.head.weight[row], tagger.model.head.weight[there])


def test_a_known_type_keeps_what_it_learnt(tagger: Predictor) -> None:
    same = zero_shot.for_types(tagger, tiny_encoder(), TEXTS)
    test = [item.sentence for item in ITEMS]
    assert same.predict_spans(test) == tagger.predict_spans(test)


def test_a_tagger_says_by_which_texts_it_knows_its_types(tagger: Predictor) -> None:
    assert zero_shot.knows(tagger, TEXTS)
    assert not zero_shot.knows(tagger, {**TEXTS, "band": ("marble toured",)})
    assert not zero_shot.knows(tagger, {name: TEXTS[name] for name in reversed(TEXTS)})
    assert zero_shot.knows(zero_shot.for_types(tagger, tiny_encoder(), AGAIN), AGAIN)


def test_measuring_leaves_types_out_and_keeps_the_calibration(tagger: Predictor) -> None:
    whole = zero_shot.measure(tagger, ITEMS[32:])
    before, halved = tagger.calibration, SpanMap("isotonic", ((0.0, 1.0), (0.0, 0.5)))
    tagger.calibrate(replace(before, spans=halved))
    without_bands = zero_shot.for_types(tagger, tiny_encoder(), {name: TEXTS[name] for name in ("person", "location")})
    tagger.calibrate(before)
    assert without_bands.calibration == replace(before, spans=halved) != before
    part = zero_shot.measure(without_bands, zero_shot.without_types(ITEMS[32:], ("band",)))
    assert whole.scores.overall.support == sum(len(item.spans) for item in ITEMS[32:])
    assert part.scores.overall.support == sum(span.type != "band" for item in ITEMS[32:] for span in item.spans)
    assert "band" not in part.scores.per_type and 0 <= part.error <= 1


def test_other_taggers_and_encoders_are_refused(tagger: Predictor, tmp_path: Path) -> None:
    with pytest.raises(CheckpointMismatch, match="another encoder"):
        zero_shot.for_types(tagger, tiny_encoder(seed=4), AGAIN)
    data = TrainingData(train=ITEMS[:8], types=TYPES)
    *_, last = train(tiny_recipe(max_epochs=1), data, checkpoint_dir=tmp_path, encoder=tiny_encoder())
    assert last.result is not None
    with pytest.raises(InvalidConfig, match="'tagger' knows its own types alone"):
        zero_shot.for_types(load_tagger(tmp_path), tiny_encoder(), AGAIN)


def test_types_with_one_description_score_alike_until_they_learn_apart() -> None:
    recipe = tiny_recipe(architecture="type_aware")
    model = build_model(recipe, tiny_encoder(), TYPES)
    assert isinstance(model, TypeAware)
    model.describe(read_texts(recipe, tiny_encoder(), dict.fromkeys(TYPES, ("ada",))))
    scores = model.eval().scores(batch_for(model))  # (B, W, 5)
    assert torch.equal(scores[..., 1:3], scores[..., 3:5])
    model.describe(read_texts(recipe, tiny_encoder(), {**TEXTS, "band": ("marble",)}))
    scores = model.scores(batch_for(model))
    assert not torch.equal(scores[..., 1:3], scores[..., 3:5])
    with pytest.raises(InvalidConfig, match="no description of band, location"):
        model.describe(TypeTexts({"person": torch.zeros(1, 32)}))


def test_what_is_read_of_a_type() -> None:
    texts = texts_of(load_domain("music"))
    title, classes, guideline = texts["musicalartist"]
    assert title == "musical artist" and classes.startswith("musical artist: musical artist, singer")
    assert guideline.startswith("musical artist: ") and len(guideline) > 100
    assert texts_of_name("Restaurant_Name") == texts_of_name("restaurantName") == "restaurant name"
    encoder, words = tiny_encoder(), {"person": ("ada", "ada sang"), "band": ("marble",)}
    titles = read_texts(tiny_recipe(architecture="type_aware", type_texts="titles"), encoder, words).vectors
    both = read_texts(tiny_recipe(architecture="type_aware"), encoder, words).vectors
    assert titles["person"].shape == (1, 32) and both["person"].shape == (2, 32)
    random = tiny_recipe(architecture="type_aware", type_texts="random")
    control = read_texts(random, encoder, words).vectors
    assert torch.equal(control["band"], read_texts(random, encoder, {"band": ("other words",)}).vectors["band"])
    long = read_texts(tiny_recipe(architecture="type_aware"), encoder, {"band": ("marble " * 10_000,)}).vectors
    assert long["band"].isfinite().all()


def test_texts_are_part_of_what_a_run_learns_from() -> None:
    source = SourceCorpus(ITEMS[:4], texts={"person": ("ada",)})
    data = TrainingData(train=ITEMS[:8], types=TYPES, texts=TEXTS, sources=(source,))
    other = replace(data, texts={**TEXTS, "band": ("others",)})
    aware, plain = tiny_recipe(architecture="type_aware", setting="pretrain_finetune"), tiny_recipe()
    assert data_hash(plain, data) == data_hash(plain, other) == data.fingerprint
    assert data_hash(aware, data) != data_hash(aware, other)
    assert source_key(aware, data, "") == source_key(aware, other, "")  # the source stage serves any target
    retold = replace(data, sources=(replace(source, texts={"person": ("ines",)}),))
    assert source_key(aware, data, "") != source_key(aware, retold, "")
    assert data.texts_of(("person", "unknownType")) == {"person": TEXTS["person"], "unknownType": ("unknown type",)}
    assert data.texts_of(("person",), of_sources=True) == {"person": ("ada",)}


def test_texts_follow_what_a_sources_types_are_called_here() -> None:
    source = SourceCorpus(
        ITEMS[:4], name="news", texts={"person": ("ada",), "band": ("marble",), "location": ("oslo",)}
    )
    recipe = tiny_recipe(setting="joint", source="news", source_types="person=human, band=human, location")
    (here,) = prepared(recipe, [source], ("human",))
    assert here.texts == {"human": ("ada", "marble"), "location@news": ("oslo",)}
    assert texts_of_name("home_town@news") == "home town"


def test_transfer_carries_what_belongs_to_no_type() -> None:
    recipe = tiny_recipe(architecture="type_aware", setting="pretrain_finetune", head_first_epochs=0, max_epochs=1)
    former = build_model(recipe, tiny_encoder(), ("person", "venue"))
    model = build_model(recipe, tiny_encoder(), ("band", "person"))
    assert isinstance(model, TypeAware) and isinstance(former, TypeAware)
    with torch.no_grad():
        former.head.weight.normal_()
        former.token_side.weight.normal_()
    assert model.copy_shared_tags(former) == ("O", "B-person", "I-person")
    assert torch.equal(model.token_side.weight, former.token_side.weight)
    assert torch.equal(model.head.weight[3:5], former.head.weight[1:3]) and not model.head.weight[1:3].any()
    assert tag_types(model.tags) == ("band", "person")


def test_source_only_knows_a_target_by_its_words_before_its_first_sentence(tmp_path: Path) -> None:
    news = SourceCorpus(ITEMS[:24], ITEMS[24:32], name="news", texts=TEXTS)
    names = dict(zip(TYPES, AGAIN, strict=True))
    target = tuple(
        replace(item, spans=tuple(replace(span, type=names[span.type]) for span in item.spans)) for item in ITEMS
    )
    data = TrainingData(
        train=target[:1], dev=target[24:32], test=target[32:], types=tuple(AGAIN), sources=(news,), texts=AGAIN
    )
    recipe = tiny_recipe(architecture="type_aware", setting="source_only", source_epochs=30, source_learning_rate=5e-3,
                         source_head_learning_rate=1e-2, type_rows_dropout=0.8)  # fmt: skip
    *_, last = train(recipe, data, checkpoint_dir=tmp_path / "run", source_cache=tmp_path, encoder=tiny_encoder())
    result = last.result
    assert result is not None and result.test is not None and result.test.f1 > 0.5
    assert result.train_sentences == result.best_epoch == result.epochs == 0
    assert "No target sentence was trained on." in result.notes
    known = load_tagger(tmp_path / "run")
    assert set(known.meta["trained_types"]) == set(TYPES) and known.types == tuple(AGAIN)
    with pytest.raises(InvalidConfig, match="there is nothing to continue"):
        next(train(recipe, data, checkpoint_dir=tmp_path / "on", warm_start=WarmStart(tmp_path / "run", 2)))
    other = replace(data, train=target[1:9])
    finetuned = replace(recipe, setting="pretrain_finetune")
    assert source_key(recipe, other, "") == source_key(finetuned, data, "")  # one source checkpoint serves both
    by_name = replace(recipe, architecture="tagger")
    *_, last = train(by_name, data, checkpoint_dir=tmp_path / "by name", encoder=tiny_encoder())
    assert last.result is not None and last.result.test is not None and last.result.test.f1 < 0.5


@pytest.mark.parametrize("measured", [True, False])
def test_its_own_encoder_learns_to_read_texts(measured: bool, tmp_path: Path) -> None:
    recipe = tiny_recipe(architecture="type_aware", type_encoder="own", max_epochs=4)
    data = TrainingData(train=ITEMS[:24], types=TYPES, texts=TEXTS)
    if measured:
        data = replace(data, dev=ITEMS[24:32], test=ITEMS[32:])
    list(train(recipe, data, checkpoint_dir=tmp_path, encoder=tiny_encoder()))
    tagger = load_tagger(tmp_path)
    assert isinstance(tagger.model, TypeAware)
    before = read_texts(recipe, tiny_encoder(), TEXTS).vectors
    for row, name in enumerate(TYPES):
        kept = tagger.model.texts[row, : len(TEXTS[name])]
        assert not torch.allclose(kept, before[name], atol=1e-3)
        torch.testing.assert_close(kept, read_texts(recipe, tagger.encoder, TEXTS).vectors[name], atol=1e-5, rtol=0)
    same = zero_shot.for_types(tagger, tiny_encoder(), TEXTS)
    test = [item.sentence for item in ITEMS]
    assert same.predict_spans(test) == tagger.predict_spans(test)


@pytest.mark.parametrize("architecture", ["type_aware", "type_label_aware"])
@pytest.mark.parametrize("student", ["mean_teacher", "vat"])
def test_its_own_encoder_reads_texts_in_pdalns_rounds(
    student: str, architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teachers, after_step = list[TokenTagger](), PdalnObjective.after_step

    def after(self: PdalnObjective, model: TokenTagger) -> None:
        after_step(self, model)
        teachers.extend([self.teacher] if self.teacher is not None else [])

    monkeypatch.setattr(PdalnObjective, "after_step", after)
    recipe = tiny_recipe(
        architecture=architecture, setting="pdaln", type_encoder="own", pdaln_student=student, pdaln_rounds=1,
        pdaln_round_epochs=1, pdaln_mean_decay=0.5, max_epochs=1, label_size=8, lstm_size=8,
    )  # fmt: skip
    news = SourceCorpus(ITEMS[12:28], texts=TEXTS)
    data = TrainingData(train=ITEMS[:12], dev=ITEMS[28:], types=TYPES, sources=(news,), texts=TEXTS)
    *_, last = train(recipe, data, checkpoint_dir=tmp_path / "whole", encoder=tiny_encoder())
    assert last.result is not None and last.result.outcome == "all_epochs"
    left = iter(range(18))
    stopped, resumed = (
        list(train(recipe, data, checkpoint_dir=tmp_path / "parts", encoder=tiny_encoder(), should_stop=should_stop))
        for should_stop in (lambda: next(left, None) is None, lambda: False)
    )
    phases = [{event.phase for event in events} for events in (stopped, resumed)]
    assert phases == [{"base", "round 1"}, {"round 1"}]
    assert resumed[-1].result is not None and resumed[-1].result.history == last.result.history
    whole, parts = (load_tagger(tmp_path / name).model.state_dict() for name in ("whole", "parts"))
    assert whole.keys() == parts.keys() and all(torch.equal(whole[name], parts[name]) for name in whole)
    if student == "vat":
        assert not teachers
        return
    teacher, batch = teachers[-1], batch_for(teachers[-1], 4)
    with torch.no_grad():
        used = teacher.tag_log_probabilities(batch)
        torch.testing.assert_close(teacher.eval().tag_log_probabilities(batch), used)


def test_its_own_encoder_reads_one_text_of_each_type_that_takes_part() -> None:
    recipe = tiny_recipe(architecture="type_aware", type_encoder="own", dropout=0.0)
    model = build_model(recipe, tiny_encoder(), TYPES)
    assert isinstance(model, TypeAware)
    model.describe(read_texts(recipe, tiny_encoder(), TEXTS))
    model.eval()
    model.train()
    model.encoder.eval()
    kept = torch.tensor([True, False, True])
    chosen = model._chosen_texts(kept)
    vectors = read_texts(recipe, tiny_encoder(), TEXTS).vectors
    torch.testing.assert_close(chosen[0], vectors["person"][0], atol=1e-5, rtol=0)
    assert not chosen[1].any() and chosen.requires_grad
    drawn = [model._chosen_texts()[1] for _ in range(20)]
    for text in vectors["band"]:
        assert any(torch.allclose(each, text, atol=1e-5) for each in drawn)
    assert not model._chosen_texts(torch.zeros(3, dtype=torch.bool)).any()


@pytest.mark.parametrize("negatives", ["drawn", "hard"])
def test_a_batch_is_compared_with_the_types_it_mentions_and_some_others(negatives: str) -> None:
    names = (*TYPES, *(f"other{number}" for number in range(20)))
    recipe = tiny_recipe(architecture="type_aware", type_negatives=negatives, label_smoothing=0.1)
    model = build_model(recipe, tiny_encoder(), names)
    assert isinstance(model, TypeAware)
    vectors = torch.nn.functional.normalize(torch.randn(len(names), 1, 32), dim=-1)
    model.describe(TypeTexts(dict(zip(names, vectors, strict=True))))
    batch = batch_for(model, 1)
    mentioned = sorted({(tag - 1) // 2 for tag in batch.tags.flatten().tolist() if tag > 0})
    near = (vectors[mentioned, 0] @ vectors[:, 0].T).topk(5).indices.flatten().tolist()
    sizes = set()
    for _ in range(30):
        kept = model._taking_part(batch)
        assert kept is not None and kept[mentioned].all()
        sizes.add(int(kept.sum()))
        if negatives == "hard":
            assert kept[near].all()
    assert len(sizes) > 1 and max(sizes) < len(names)
    model.train()
    model.loss(batch).backward()
    assert torch.isfinite(model.loss(batch))
    never = build_model(replace(recipe, type_negatives="all"), tiny_encoder(), names)
    assert isinstance(never, TypeAware) and never._taking_part(batch) is None


@torch.no_grad()
def test_tokens_take_up_what_the_texts_that_are_read_say() -> None:
    recipe = tiny_recipe(architecture="type_aware", type_interaction=True)
    model, plain = (
        build_model(each, tiny_encoder(), TYPES).eval() for each in (recipe, replace(recipe, type_interaction=False))
    )
    assert isinstance(model, TypeAware) and isinstance(plain, TypeAware)
    plain.load_state_dict({name: value for name, value in model.state_dict().items() if name in plain.state_dict()})
    features = torch.randn(2, 5, 32)
    texts = torch.nn.functional.normalize(torch.randn(len(TYPES), 32), dim=-1)
    torch.testing.assert_close(model.type_scores(features, texts), plain.type_scores(features, texts))  # at the start
    texts[1] = 0.0  # not read now
    for name in ("query", "uptake"):
        torch.nn.init.normal_(getattr(model, name).weight, std=0.3)
    taken = torch.zeros_like(features)
    for place in ((row, column) for row in range(2) for column in range(5)):
        query = torch.nn.functional.normalize(model.query(features[place]), dim=0)
        weights = {each: math.exp(10 * float(query @ texts[each])) for each in range(len(TYPES)) if each != 1}
        mixed = sum(weight * texts[each] for each, weight in weights.items()) / sum(weights.values())
        taken[place] = model.uptake(mixed)
    torch.testing.assert_close(model.type_scores(features, texts), plain.type_scores(features + taken, texts))


def test_a_new_head_takes_over_what_tokens_take_up_where_both_have_it() -> None:
    recipe = tiny_recipe(architecture="type_aware", type_interaction=True)
    former, target = build_model(recipe, tiny_encoder(), ("song",)), build_model(recipe, tiny_encoder(), TYPES)
    plain = build_model(replace(recipe, type_interaction=False), tiny_encoder(), TYPES)
    assert isinstance(former, TypeAware) and isinstance(target, TypeAware) and isinstance(plain, TypeAware)
    torch.nn.init.normal_(former.uptake.weight)
    target.copy_shared_tags(former)
    assert torch.equal(target.uptake.weight, former.uptake.weight)
    before = plain.token_side.weight.clone()
    plain.copy_shared_tags(former)
    assert torch.equal(plain.token_side.weight, before)

"""Simulated campaigns: annotators, the campaign itself, going on after an interruption, and running several."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from crossner_core.acquisition.ordering import PoolOrdering, Scorer
from crossner_core.acquisition.selecting import strategy
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.evaluation.coverage import Coverage
from crossner_core.evaluation.learning_curves import RoundPoint
from crossner_core.experiments.__main__ import main
from crossner_core.experiments.records import SIMULATIONS, Records
from crossner_core.experiments.results import read_study
from crossner_core.experiments.studies.strategies import (
    Known,
    StrategiesConfig,
    notes_on,
    simulations,
    strategies_figure,
    strategies_table,
)
from crossner_core.experiments.study import study
from crossner_core.experiments.tables import Measured
from crossner_core.schema import Sentence, Span, Suggestion
from crossner_core.simulation import campaign
from crossner_core.simulation.annotators import AnnotatorOptions, annotate
from crossner_core.simulation.campaign import STATE, Round, play, split_pool
from crossner_core.simulation.config import Simulation, SimulationOptions
from crossner_core.tags import tags_from_spans
from crossner_core.training.checkpoint import read_json
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.loop import train
from crossner_core.training.recipe import Recipe
from tests.support.on_ray import needs_ray, run_study_on_ray
from tests.support.paths import ROOT
from tests.support.training_builders import TYPES, labelled, own_sentences, save_encoder, tiny_encoder, tiny_recipe

ITEM = labelled(
    ["Ada", "Brook", "met", "Marble", "in", "Oslo", "."], [(0, 2, "person"), (3, 4, "band"), (5, 6, "location")]
)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def simulation(**changes: object) -> Simulation:
    options = {"strategy": "token_entropy", "at": (4, 8), "dev_sentences": 4, "seed": 7, **changes}
    return Simulation("own", SimulationOptions(**options), tiny_recipe(max_epochs=6))


def data() -> TrainingData:
    items = own_sentences(20)
    return TrainingData(items[:12], TYPES, items[12:], own_sentences(6, offset=40))


def rounds(folder: Path, chosen: Simulation, **more: object) -> list[Round]:
    return list(play(chosen, data(), tiny_encoder(), folder, **more))


def test_models_of_few_sentences_have_the_recipe_of_so_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, small, seen = simulation(), tiny_recipe(max_epochs=2, batch_size=2), []

    def seeing(recipe: Recipe, *args: object, **more: object) -> Iterator[object]:
        seen.append(recipe)
        return train(recipe, *args, **more)

    monkeypatch.setattr(campaign, "train", seeing)
    chosen = replace(usual, below=((5, small), (8, tiny_recipe(max_epochs=3))))
    assert rounds(tmp_path, chosen)[-1].done
    assert seen == [replace(small, seed=7), replace(usual.recipe, seed=7)]
    assert Simulation.from_dict(json.loads(json.dumps(chosen.to_dict()))) == chosen
    assert len({one.key("data", "encoder") for one in (usual, chosen, replace(chosen, below=chosen.below[:1]))}) == 3


def test_annotator_without_suggestions_adds_every_entity_at_its_price() -> None:
    work = annotate(ITEM, (), TYPES, AnnotatorOptions(), rng())
    assert work.spans == ITEM.spans
    assert (work.added, work.kept, work.seconds) == (3, 0, 21.0)


def test_annotator_keeps_changes_and_deletes_suggestions() -> None:
    suggested = (Span(0, 2, "person"), Span(3, 4, "location"), Span(6, 7, "band"))
    work = annotate(ITEM, suggested, TYPES, AnnotatorOptions(), rng())
    assert work.spans == ITEM.spans
    assert (work.kept, work.changed, work.added, work.deleted) == (1, 1, 1, 1)
    assert work.seconds == 3.5 + 5 + 7 + 2


def test_annotator_led_by_suggestions_takes_wrong_ones() -> None:
    suggested = (Span(3, 4, "location"), Span(6, 7, "band"))
    work = annotate(ITEM, suggested, TYPES, AnnotatorOptions(led=1.0), rng())
    assert work.spans == (Span(0, 2, "person"), Span(3, 4, "location"), Span(5, 6, "location"), Span(6, 7, "band"))


@pytest.mark.parametrize(
    ("options", "spans"),
    [
        ({"missed": 1.0}, ()),
        ({"wrong_boundary": 1.0}, (Span(1, 2, "person"), Span(3, 5, "band"), Span(5, 7, "location"))),
    ],
)
def test_annotator_errs_as_told(options: dict[str, float], spans: tuple[Span, ...]) -> None:
    found = annotate(ITEM, (), TYPES, AnnotatorOptions(**options), np.random.default_rng(0)).spans
    assert [(s.end - s.start, s.type) for s in found] == [(s.end - s.start, s.type) for s in spans]


def test_annotator_gives_wrong_types_of_the_domain() -> None:
    found = annotate(ITEM, (), TYPES, AnnotatorOptions(wrong_type=1.0), rng()).spans
    assert all(span.type in TYPES and span not in ITEM.spans for span in found) and len(found) == 3
    assert annotate(ITEM, (), ("band",), AnnotatorOptions(wrong_type=1.0), rng()).spans[1] == ITEM.spans[1]


def test_split_pool_is_the_seeds_and_has_every_sentence_once() -> None:
    items = own_sentences(20)
    pool, dev = split_pool((*items, items[0]), 5, 3)
    assert len(dev) == 5 and len(pool) + len(dev) == len({item.sentence.content_hash for item in items})
    assert (pool, dev) == split_pool((*items, items[0]), 5, 3)
    assert dev != split_pool(items, 5, 4)[1]
    with pytest.raises(BadInput, match="leaves no pool"):
        split_pool(items, 100, 3)


@pytest.mark.parametrize("strategy", ["random", "token_entropy + k_centre", "fluctuation", "bald", "disagreement"])
def test_campaign_grows_and_is_measured_at_each_size(tmp_path: Path, strategy: str) -> None:
    points = [one.point for one in rounds(tmp_path, simulation(strategy=strategy)) if one.point is not None]
    assert [(point.sentences, point.round) for point in points] == [(4, 1), (8, 2)]
    assert points[0].entities < points[1].entities and points[0].seconds == 7.0 * points[0].entities
    assert set(points[0].per_type) == set(TYPES)


def test_campaign_with_suggestions_costs_less_and_keeps_gold(tmp_path: Path) -> None:
    bare = rounds(tmp_path / "a", simulation(at=(8, 12)))[-1].point
    shown = rounds(tmp_path / "b", simulation(at=(8, 12), suggestions=True))[-1].point
    assert bare is not None and shown is not None
    assert shown.entities == bare.entities
    assert shown.seconds != bare.seconds


def test_campaign_goes_on_after_an_interruption_and_ends_the_same(tmp_path: Path) -> None:
    whole = [one.point for one in rounds(tmp_path / "whole", simulation()) if one.point is not None]
    calls = iter(range(10**9))
    stopped = rounds(tmp_path / "parts", simulation(), should_stop=lambda: next(calls) > 11)
    assert stopped[-1].message.startswith("Stopped") and not stopped[-1].done
    resumed = [one.point for one in rounds(tmp_path / "parts", simulation()) if one.point is not None]
    assert resumed == whole


@pytest.mark.slow
def test_campaign_leaves_its_share_of_the_sentences_to_chance(tmp_path: Path) -> None:
    many = TrainingData(own_sentences(70), TYPES, (), own_sentences(6, offset=400))

    def chosen(share: float) -> list[int]:
        told = simulation(strategy="longest", at=(10, 20), random_share=share)
        list(play(told, many, tiny_encoder(), tmp_path / str(share)))
        found = read_json(tmp_path / str(share) / "state.json")["labelled"]["chosen"]
        assert len(found) == len(set(found)) == 20
        return list(found)

    longest, mixed = chosen(0.0), chosen(0.5)
    assert set(longest[:5]) <= set(mixed[:10])
    assert 3 <= len(set(mixed[:10]) - set(longest[:10])) <= 5  # chance may pick one of the longest, too
    assert len(set(chosen(1.0)[:10]) - set(longest[:10])) > 5


def test_campaign_without_chance_annotates_what_the_strategy_chose_in_its_order(tmp_path: Path) -> None:
    rounds(tmp_path / "played", simulation(strategy="longest + bert_km", at=(6,)))
    pool, _ = split_pool((*data().train, *data().dev), 4, 7)
    ordering = PoolOrdering(tmp_path / "signals", Scorer(encoder=tiny_encoder()), TYPES)
    sentences = [item.sentence for item in pool]
    found = ordering.order(sentences, 6, strategy("longest + bert_km"), np.random.default_rng([7, 2, 0]))
    assert read_json(tmp_path / "played" / "state.json")["labelled"]["chosen"] == found.order.tolist()


def test_campaign_with_self_training_learns_from_the_rest_of_the_pool(tmp_path: Path) -> None:
    chosen = simulation(self_training=True, at=(6,))
    assert chosen.models_recipe.setting == "self_training"
    assert [one.point.sentences for one in rounds(tmp_path, chosen) if one.point is not None] == [6]
    with pytest.raises(InvalidConfig, match="not with 'joint'"):
        replace(chosen, recipe=tiny_recipe(setting="joint"))
    with pytest.raises(InvalidConfig, match="set self_training"):
        replace(chosen.options, strategy="longest with self-training")


def test_campaign_whose_teachers_hear_a_gazetteer_is_told_what_it_proposes_in_the_rest(tmp_path: Path) -> None:
    spans = {item.sentence.content_hash: item.spans for item in (*data().train, *data().dev)}
    asked = lambda some: [[suggest(span) for span in spans[one.content_hash]] for one in some]  # noqa: E731
    chosen = simulation(self_training=True, gazetteer_teaches=True, at=(6,), strategy="longest")
    assert chosen.models_recipe.uses_gazetteer and chosen.asks_gazetteer
    assert chosen.options.label == "longest, self-training and gazetteer"
    alone = simulation(self_training=True, at=(6,), strategy="longest")
    assert len({one.key("d", "e", "g") for one in (chosen, alone)}) == 2
    rounds(tmp_path, chosen, suggested=asked)
    notes = read_json(tmp_path / "model-0" / "result.json")["notes"]
    gold = sum(map(len, spans.values()))
    heard = next(int(note.split("propose ")[1].split()[0]) for note in notes if "gazetteer and links propose" in note)
    assert 0 < heard < gold
    with pytest.raises(InvalidConfig, match="needs self_training"):
        simulation(gazetteer_teaches=True)


def suggest(span: Span) -> Suggestion:
    return Suggestion(span.start, span.end, span.type, "dbpedia", 0.9, None)


def test_campaign_with_warm_start_goes_on_from_the_round_before(tmp_path: Path) -> None:
    chosen = simulation(warm_epochs=1, at=(4, 8))
    assert chosen.key("d", "e") != simulation(at=(4, 8)).key("d", "e")
    seen = rounds(tmp_path, chosen)
    result = read_json(tmp_path / "model-1" / "result.json")
    assert "Continued from an earlier tagger for 1 epochs." in result["notes"] and result["epochs"] == 1
    cold = [one.point for one in rounds(tmp_path / "cold", simulation(at=(4, 8))) if one.point is not None]
    warm = [one.point for one in seen if one.point is not None]
    assert warm[0].f1 == cold[0].f1 and warm[1].sentences == cold[1].sentences


def of_sources(**changes: object) -> Simulation:
    given = {"strategy": "token_entropy", "at": (4, 8), "dev_sentences": 4, "seed": 7, "suggestions": True, **changes}
    options = SimulationOptions(**given)
    return Simulation("own", options, tiny_recipe(max_epochs=6, setting="pretrain_finetune", source_epochs=20))


def test_campaign_that_starts_from_the_sources_chooses_and_suggests_before_the_first_label(tmp_path: Path) -> None:
    known = replace(data(), sources=(SourceCorpus(own_sentences(30, offset=60)),))

    def first(name: str, chosen: Simulation) -> Round:
        played = play(chosen, known, tiny_encoder(), tmp_path / name, source_cache=tmp_path / "source")
        points = [one for one in played if one.point is not None]
        assert [one.point.sentences for one in points if one.point is not None] == [4, 8]
        return points[0]

    bare, told = first("bare", of_sources()), first("told", of_sources(zero_shot=True))
    assert bare.point is not None and told.point is not None
    assert told.point.seconds / told.point.entities < 0.9 * bare.point.seconds / bare.point.entities
    assert told.point.strategy == "token_entropy, zero-shot start, suggestions"
    assert not list(tmp_path.glob("told/model-zero-shot"))


@pytest.mark.parametrize("labelled", [False, True])
def test_campaign_that_starts_from_the_sources_goes_on_after_an_interruption(tmp_path: Path, labelled: bool) -> None:
    known = replace(data(), sources=(SourceCorpus(own_sentences(30, offset=60)),))
    chosen = of_sources(zero_shot=True, strategy="fluctuation", at=(4, 8))
    whole = list(play(chosen, known, tiny_encoder(), tmp_path / "whole", source_cache=tmp_path / "source"))

    def stop() -> bool:
        return not labelled or (tmp_path / "own" / STATE).exists()

    stopped = list(play(chosen, known, tiny_encoder(), tmp_path / "own", should_stop=stop))
    assert "Stopped" in stopped[-1].message and not stopped[-1].done
    on = list(play(chosen, known, tiny_encoder(), tmp_path / "own", source_cache=tmp_path / "source"))
    assert [one.point for one in on if one.point] == [one.point for one in whole if one.point]
    second = [[one.message for one in played if one.message.startswith("Round 2:")] for played in (on, whole)]
    assert second[0] == second[1] == ["Round 2: 4 more sentences."]  # the second model is not the first to read them


def test_simulation_without_a_source_stage_cannot_start_from_it() -> None:
    with pytest.raises(InvalidConfig, match="setting 'direct' has none"):
        simulation(zero_shot=True)


def test_campaign_of_a_pool_that_is_too_small_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="fewer than the 100"):
        rounds(tmp_path, simulation(at=(100,)))


def test_campaign_without_gazetteer_leaves_its_function_out(tmp_path: Path) -> None:
    messages = [one.message for one in rounds(tmp_path, simulation(strategy="gazetteer_entities", at=(4,)))]
    assert any("Left out" in message and "bert_km" in message for message in messages)


def test_campaign_asks_the_gazetteer_once(tmp_path: Path) -> None:
    asked: list[int] = []

    def suggested(sentences: object) -> list[tuple[Suggestion, ...]]:
        asked.append(len(sentences))  # type: ignore[arg-type]
        said = Suggestion(0, 1, "person", "names", 0.9)
        return [(said,) if at == 3 else () for at in range(asked[-1])]

    found = rounds(tmp_path, simulation(strategy="gazetteer_entities", at=(1,)), suggested=suggested)
    assert found[-1].done and len(asked) == 1
    state = read_json(tmp_path / "state.json")["labelled"]
    assert state["chosen"] == [3] and state["heard"] == [[]]  # chosen by its names; annotated from scratch


@pytest.mark.slow
def test_campaign_that_goes_on_hears_what_it_heard_and_nothing_where_nobody_was_asked(tmp_path: Path) -> None:
    spans = {item.sentence.content_hash: item.spans for item in (*data().train, *data().dev)}

    def at_first(sentences: Sequence[Sentence]) -> list[list[Suggestion] | None]:
        return [
            [suggest(span) for span in spans[one.content_hash]] if at % 2 else None for at, one in enumerate(sentences)
        ]

    def later(sentences: Sequence[Sentence]) -> list[list[Suggestion]]:
        return [[suggest(Span(0, 1, "person"))] for _ in sentences]

    chosen = simulation(self_training=True, gazetteer_teaches=True, suggestions=True, strategy="longest", at=(6, 8))
    whole = rounds(tmp_path / "whole", chosen, suggested=at_first)
    steps: list[int] = []

    def stop() -> bool:
        steps.append(1)
        return len(steps) == 9

    stopped = rounds(tmp_path / "parts", chosen, suggested=at_first, should_stop=stop)
    assert not stopped[-1].done
    for suggested in (later, None):
        again = rounds(tmp_path / "parts", chosen, suggested=suggested)
        assert [one.point for one in again if one.point] == [one.point for one in whole if one.point]
    notes = read_json(tmp_path / "whole" / "model-1" / "result.json")["notes"]
    bare = len(spans) - 4 - 8
    assert any(
        f"{bare} of {bare} unlabelled sentences too, in " in note and "of which gazetteer" in note for note in notes
    )


def test_annotators_see_gazetteer_and_model_and_gold_says_what_they_are_worth(tmp_path: Path) -> None:
    gold = {item.sentence.content_hash: item.spans for item in (*data().train, *data().dev)}

    def suggested(sentences: Sequence[Sentence]) -> list[tuple[Suggestion, ...]]:
        right = [
            [Suggestion(s.start, s.end, s.type, "names", 0.6) for s in gold[one.content_hash]] for one in sentences
        ]
        return [
            (*some, Suggestion(len(one.tokens) - 1, len(one.tokens), "band", "noise", 0.5))
            for some, one in zip(right, sentences, strict=True)
        ]

    chosen = simulation(at=(6, 12), suggestions=True, suggestions_from=0.55)
    rounds(tmp_path / "a", chosen, suggested=suggested)
    state = read_json(tmp_path / "a" / "state.json")["labelled"]
    assert {one["source"].split(":")[0] for one in state["heard"][0]} == {"names", "noise"}
    assert state["added"] == state["changed"] == 0 and state["kept"] == sum(map(len, state["spans"]))
    assert state["deleted"] == 0  # what is less sure is a hint
    from_scratch = rounds(tmp_path / "b", simulation(at=(6, 12)), suggested=suggested)[-1].point
    assert from_scratch is not None and state["seconds"] == from_scratch.seconds / 2  # 3.5 s instead of 7
    assert chosen.key("d", "e", "names") != chosen.key("d", "e") and chosen.asks_gazetteer
    assert (bare := simulation(strategy="random")).key("d", "e", "names") == bare.key("d", "e")


def test_simulation_options_are_checked() -> None:
    with pytest.raises(InvalidConfig, match="each larger"):
        SimulationOptions(at=(5, 5))
    with pytest.raises(InvalidConfig, match="Unknown acquisition function"):
        SimulationOptions(strategy="wisdom")
    made = simulation()
    assert Simulation.from_dict(made.to_dict()) == made
    with pytest.raises(InvalidConfig, match="Unknown option"):
        Simulation.from_dict({**made.to_dict(), "options": {"speed": 1}})


def test_simulation_key_changes_with_what_decides_the_numbers() -> None:
    one = simulation()
    assert one.key("d", "e") == simulation().key("d", "e")
    assert one.key("d", "e") != simulation(seed=8).key("d", "e")
    assert one.key("d", "e") != replace(one, annotator=AnnotatorOptions(missed=0.1)).key("d", "e")
    assert one.key("d", "e") == simulation(random_share=0).key("d", "e") != simulation(random_share=0.2).key("d", "e")


def test_simulation_keeps_the_keys_of_results_from_before_later_options() -> None:
    out = ROOT / "docs" / "studies"
    told = Records(out, SIMULATIONS, dict, dict).get("0154022927a37620711a2fc1")
    assert told is not None
    assert "random_share" not in told["options"]
    one = Simulation.from_dict(told)
    assert one.options.random_share == 0 and one.key("d", "e") == "8362bbafbaf675c9320fb5c8"  # what it was before


def test_annotators_take_sentences_in_turn_and_the_same_ones_whatever_the_strategy(tmp_path: Path) -> None:
    slow, blind = AnnotatorOptions(seconds_added=100.0), AnnotatorOptions(missed=1.0)
    whose: dict[str, dict[int, bool]] = {}
    for name in ("random", "longest"):
        both = replace(simulation(strategy=name, at=(8, 12)), annotator=slow, others=(blind,))
        rounds(tmp_path / name, both)
        state = read_json(tmp_path / name / "state.json")["labelled"]
        whose[name] = {at: bool(spans) for at, spans in zip(state["chosen"], state["spans"], strict=True)}
        assert state["seconds"] == 100.0 * sum(map(len, state["spans"])) > 0
        assert 0 < sum(whose[name].values()) < 12  # some are the first one's, some the other's
    shared = set(whose["random"]) & set(whose["longest"])
    assert shared and all(whose["random"][at] == whose["longest"][at] for at in shared)
    rounds(tmp_path / "again", replace(simulation(strategy="longest", at=(8,)), annotator=slow, others=(blind,)))
    again = read_json(tmp_path / "again" / "state.json")["labelled"]
    assert [bool(spans) for spans in again["spans"]] == list(whose["longest"].values())[:8]


def test_annotators_that_take_turns_have_a_key_of_their_own_and_one_alone_has_the_old_one() -> None:
    one, blind = simulation(), AnnotatorOptions(missed=1.0)
    both = replace(one, others=(blind,))
    assert both.key("d", "e") != one.key("d", "e") != replace(one, annotator=blind).key("d", "e")
    assert both.key("d", "e") != replace(both, others=(blind, blind)).key("d", "e")
    assert Simulation.from_dict(both.to_dict()) == both and both.annotators == (AnnotatorOptions(), blind)
    before = one.to_dict()
    del before["others"]  # as it was kept before there were several
    assert Simulation.from_dict(before) == one and Simulation.from_dict(before).key("d", "e") == one.key("d", "e")


def test_strategies_study_takes_one_annotator_or_several_by_name() -> None:
    def made(annotator: dict[str, object]) -> Simulation:
        found = study("strategies").config(corpora=("own",), seeds=(1,), strategies=("longest",), annotator=annotator)
        return simulations(found)[0]

    assert made({}).annotators == (AnnotatorOptions(),)
    assert made({"missed": 0.1}).annotators == (AnnotatorOptions(missed=0.1),)
    several = made({"quick": {"missed": 0.2, "seconds_added": 4}, "careful": {}})
    assert several.annotators == (AnnotatorOptions(missed=0.2, seconds_added=4.0), AnnotatorOptions())
    for wrong, says in (
        ({"quick": {"missed": 0.2}, "led": 0.5}, "several annotators by name"),
        ({"quick": {"missed": "much"}}, "give numbers by name"),
        ({"missed": "much"}, "give numbers by name"),
        ({"quick": {"speed": 1}}, "no option speed"),
        ({"quick": {"missed": 2}}, r"missed is 2\.0; it must lie in"),
    ):
        with pytest.raises(InvalidConfig, match=says):
            made(wrong)


def test_annotator_is_told_in_words() -> None:
    said = AnnotatorOptions(missed=0.05, led=0.5, seconds_token=0.25).words
    assert said == (
        "An entity takes 7.0 s, a suggested one that is kept 3.5 s, changed 5.0 s, deleted 2.0 s, a token 0.25 s to "
        "read; 5% of the entities are missed, 50% of wrong suggestions are taken."
    )
    assert AnnotatorOptions().words.endswith("no errors.")


def test_simulation_kept_with_the_weight_of_a_set_is_read_without_it() -> None:
    kept = simulation(strategy="token_entropy + bert_km").to_dict()
    kept["options"]["strategy"] = "token_entropy + 100*bert_km"
    assert Simulation.from_dict(kept) == simulation(strategy="token_entropy + bert_km")
    with pytest.raises(InvalidConfig, match="weight of bert_km is 100"):
        simulation(strategy="token_entropy + 100*bert_km")


def test_label_says_the_share_of_chance() -> None:
    one = simulation(random_share=0.07, self_training=True, suggestions=True).options
    assert one.label == "token_entropy, 7% by chance, self-training, suggestions"
    assert simulation().options.label == "token_entropy"
    with pytest.raises(InvalidConfig, match=r"random_share is 1\.5"):
        simulation(random_share=1.5)


def write_corpus(root: Path) -> Path:
    """Write the own sentences as a corpus of three files."""
    for name, items in (("train", own_sentences(12)), ("dev", own_sentences(8, offset=12)), ("test", own_sentences(6))):
        lines = []
        for item in items:
            tags = tags_from_spans(item.spans, len(item.sentence.tokens))
            lines += [f"{word}\t{tag}" for word, tag in zip(item.sentence.words, tags, strict=True)] + [""]
        (root / "own").mkdir(parents=True, exist_ok=True)
        (root / "own" / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    return root


def words_for(tmp_path: Path) -> list[str]:
    """Return the words of a small study of strategies."""
    words = ["strategies", "--data", str(write_corpus(tmp_path / "data")), "--out", str(tmp_path / "out")]
    words += ["--corpora", "own", "--encoder", str(save_encoder(tmp_path / "encoder")), "--seeds", "1", "2"]
    words += ["--at", "4", "6", "--baseline-at", "4", "8", "--goals", "8", "--dev-sentences", "4"]
    return [*words, "--recipe", '{"max_epochs": 2, "batch_size": 4, "self_training_epochs": 2}']


@pytest.mark.slow
def test_strategies_study_plays_once_and_writes_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*words_for(tmp_path), "--strategies", "token_entropy", "longest with self-training"]
    words += ["--report", str(tmp_path / "page.md"), "--annotator", '{"quick": {"missed": 0.2}, "careful": {}}']
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "[6/6]" in said and "| own | random |" in said and "| own | longest, self-training |" in said
    folder = tmp_path / "out" / "simulations"
    assert len(list(folder.glob("*.json"))) == 6 and not [one for one in folder.iterdir() if one.is_dir()]
    page = (tmp_path / "page.md").read_text()
    assert "seeds 1, 2" in page.lower() and "2 annotators share the sentences" in page
    assert "quick: An entity takes 7.0 s" in page and "20% of the entities are missed" in page
    written = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert main([*words, "--workers", "2"]) == 0
    assert main([*words, "--tables"]) == 0 and "| own | random |" in capsys.readouterr().out
    assert main([*words, "--tables", "--workers", "2", "--seeds", "1", "2", "3"]) == 1  # nothing is played
    assert written == {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}


@pytest.mark.parametrize(
    ("known_of_pool", "known_of_test", "gold", "noted"),
    [(58, 21, 100, True), (30, 0, 100, True), (58, 40, 100, False), (0, 0, 100, False), (58, 21, 99, False)],
)
def test_note_says_where_a_gazetteer_was_made_of_the_corpora(
    known_of_pool: int, known_of_test: int, gold: int, noted: bool
) -> None:
    known = Known("music", Coverage(1000, correct=10 * known_of_pool), Coverage(gold, correct=known_of_test))
    assert known.is_of_the_corpus == noted
    notes = notes_on([known, Known("ai", Coverage(), Coverage())])
    assert notes[0].startswith("Of the entities of music the gazetteer proposes") and "of ai" in notes[1]
    assert [note for note in notes if "a bound, not a forecast" in note] == list(notes[2:]) and len(notes) == 2 + noted


def test_strategies_study_without_the_gazetteer_that_teachers_hear_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*words_for(tmp_path), "--strategies", "longest with self-training and gazetteer", "--seeds", "1"]
    assert main(words) == 1
    said = capsys.readouterr()
    assert "none is named; name one (--gazetteer)" in said.out + said.err
    assert len(list((tmp_path / "out" / "simulations").glob("*.json"))) == 1  # random sentences need none


@needs_ray
@pytest.mark.slow
def test_strategies_as_ray_tasks_give_the_same_tables(tmp_path: Path) -> None:
    words = [*words_for(tmp_path), "--strategies", "token_entropy"]
    assert main(words) == 0
    run_study_on_ray([*words, "--out", str(tmp_path / "ray")])
    here, there = (read_study(tmp_path / name / "studies" / "strategies").tables for name in ("out", "ray"))
    assert here == there


def test_strategies_study_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, says in (
        (["--strategies", "wisdom"], "choose one of random"),
        (["--annotator", '{"speed": 3}'], "no option speed"),
        (["--at", "100"], "fewer than the 100"),
    ):
        assert main([*words_for(tmp_path), *more]) in (1, 2)
        said = capsys.readouterr()
        assert says in said.out + said.err


def test_strategies_table_counts_sentences_to_the_f1_of_random_ones() -> None:
    def line(strategy: str, seed: int, *pairs: tuple[int, float]) -> list[RoundPoint]:
        return [
            RoundPoint(strategy, seed, n, size, f1, 20 * size, 3 * size, 7.0 * size)
            for n, (size, f1) in enumerate(pairs)
        ]

    runs = {
        "random": line("random", 1, (50, 0.4), (100, 0.5)) + line("random", 2, (50, 0.4), (100, 0.5)),
        "longest": line("longest", 1, (50, 0.45), (70, 0.55)) + line("longest", 2, (50, 0.45), (70, 0.55)),
        "worse": line("worse", 1, (50, 0.1), (70, 0.2)),
    }
    table = strategies_table({"own": runs}, goals=(100,))
    rows = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert rows["random"]["sentences to F1 of 100 random"] == 100
    assert rows["longest"]["sentences to F1 of 100 random"] == 60
    assert rows["longest"]["seconds to F1 of 100 random"] == 420
    assert rows["worse"]["sentences to F1 of 100 random"] is None
    slow = [replace(point, seconds=11.0 * point.sentences) for point in runs["random"] if point.seed == 2]
    uneven = strategies_table({"own": {"random": [*line("random", 1, (50, 0.4), (100, 0.5)), *slow]}}, goals=(100,))
    assert uneven.rows[0][-2:] == (100, 900)  # seeds that took unequally long have no curve over seconds to its end
    figure = go.Figure(strategies_figure({"own": runs, "other": {"random": runs["random"]}}))
    panels = {(trace.xaxis, trace.name): trace for trace in figure.data if trace.name}
    assert list(panels["x", "longest"].x) == [50, 70] and list(panels["x7", "longest"].x) == [350, 490]
    assert list(panels["x3", "longest"].x) == [1000, 1400] and list(panels["x5", "longest"].x) == [150, 210]
    titles = [figure.layout[f"xaxis{at or ''}"].title.text for at in ("", 3, 5, 7)]
    assert titles == ["sentences", "tokens", "entities", "seconds"]
    assert list(panels["x2", "random"].x) == [50, 100] and not list(panels["x2", "longest"].x or ())
    assert panels["x", "longest"].line.color == panels["x7", "longest"].line.color
    assert [one.text for one in figure.layout.annotations] == ["own", "other"]
    assert [panels[at, "random"].showlegend for at in ("x", "x2", "x3", "x8")] == [True, False, False, False]
    untimed = [replace(point, seconds=None) for point in runs["random"]]
    figure = go.Figure(strategies_figure({"own": {**runs, "random": untimed}}))
    assert {trace.xaxis for trace in figure.data} == {"x", "x2", "x3"}  # nobody counted the seconds of some


def test_strategies_table_has_areas_over_the_range_that_all_strategies_cover() -> None:
    def line(strategy: str, seed: int, *pairs: tuple[int, float]) -> list[RoundPoint]:
        return [RoundPoint(strategy, seed, n, size, f1) for n, (size, f1) in enumerate(pairs)]

    runs = {
        "random": line("random", 1, (0, 0.0), (100, 0.5), (200, 0.5)) + line("random", 2, (0, 0.2), (200, 0.2)),
        "longest": line("longest", 1, (20, 0.4), (100, 0.8)),
        "once": line("once", 1, (60, 0.9)) + line("once", 2, (60, 0.9), (70, 0.9)),
    }
    table = strategies_table({"own": runs, "alone": {"once": runs["once"]}}, goals=())
    rows = {row[:2]: row[-2:] for row in table.rows}
    assert table.columns[-2:] == ("area", "over sentences")
    found, over = rows["own", "random"]
    assert isinstance(found, Measured) and over == "20 to 100"  # mean F1 of 0.1 to 0.5 is 0.3, beside 0.2
    assert (found.mean, found.sd, found.n) == (pytest.approx(25), pytest.approx(7.0711, abs=1e-3), 2)
    found, over = rows["own", "longest"]
    assert isinstance(found, Measured) and (found.mean, found.sd, over) == (pytest.approx(60), None, "20 to 100")
    assert rows["own", "once"] == rows["alone", "once"] == (None, None)


def test_strategies_study_counts_its_campaigns() -> None:
    chosen = study("strategies")
    assert chosen.plays is not None and not chosen.cells(chosen.config(corpora=("own",)))
    assert chosen.plays(chosen.config(corpora=("own", "music"), seeds=(1, 2), strategies=("longest",))) == 8
    with pytest.raises(InvalidConfig, match="Unknown acquisition function"):
        chosen.config(corpora=("own",), strategies=("wisdom",))


def test_strategies_are_played_on_the_one_encoder_that_is_named_and_by_one_recipe(tmp_path: Path) -> None:
    chosen = study("strategies")
    config = chosen.config(corpora=("own", "music"), seeds=(1,), encoders=("dapt=/made/{corpus}",))
    assert isinstance(config, StrategiesConfig)
    assert {(one.corpus, one.recipe.encoder) for one in simulations(config)} == {
        ("own", "/made/own"), ("music", "/made/music"),
    }  # fmt: skip
    with pytest.raises(InvalidConfig, match="compared on one encoder"):
        chosen.config(corpora=("own",), encoders=("one=a", "two=b"))
    with pytest.raises(InvalidConfig, match="rows names longest, but all strategies share one recipe"):
        chosen.config(corpora=("own",), rows={"longest": {"max_epochs": 1}})
    other = save_encoder(tmp_path / "other")
    words = [*words_for(tmp_path), "--strategies", "longest", "--seeds", "1", "--encoders", f"named={other}"]
    assert main(words) == 0
    result = read_study(tmp_path / "out" / "studies" / "strategies")
    assert "Encoder other." in result.notes


def test_strategies_study_leaves_a_share_to_chance_but_for_random_sentences() -> None:
    config = study("strategies").config(corpora=("own",), seeds=(1,), strategies=("longest",), random_share=0.25)
    assert [one.options.label for one in simulations(config)] == ["random", "longest, 25% by chance"]
    usual = study("strategies").config(corpora=("own",), seeds=(1,), strategies=("longest",))
    assert [one.options.random_share for one in simulations(usual)] == [0, 0]

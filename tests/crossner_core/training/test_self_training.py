"""Self-training: a student learns from its teacher's soft targets on unlabelled sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossner_core.errors import InvalidConfig
from crossner_core.models.base import TokenTagger
from crossner_core.schema import LabelledSentence, Span
from crossner_core.training.data import TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.loop import TAGGER, WarmStart, train
from crossner_core.training.recipe import source_options
from crossner_core.training.settings.registry import needs_source, needs_unlabelled, setting
from crossner_core.training.settings.self_training.objective import SelfTrainingObjective
from crossner_core.training.settings.self_training.plan import with_students
from crossner_core.training.settings.self_training.proposals import ProposalModel
from tests.support.training_builders import own_sentences, tiny_data, tiny_encoder, tiny_recipe


def data(bare: int = 12, *, source: bool = False) -> TrainingData:
    return replace(tiny_data(8, source=source), unlabelled=tuple(i.sentence for i in own_sentences(bare, offset=60)))


def result(
    folder: Path,
    what: TrainingData,
    *,
    stop_after: int | None = None,
    warm: WarmStart | None = None,
    **changes: object,
) -> RunResult:
    chosen: dict[str, object] = {"setting": "self_training", "max_epochs": 12, "self_training_epochs": 12}
    recipe = tiny_recipe(**{**chosen, "self_training_batch": 4, **changes})
    for part in (stop_after, None) if stop_after else (None,):
        calls = iter(range(10**9))
        stop = (lambda: next(calls) >= part) if part else (lambda: False)  # noqa: B023 - used up at once
        *_, last = train(recipe, what, checkpoint_dir=folder, encoder=tiny_encoder(), should_stop=stop, warm_start=warm)
        if part:
            assert last.result is not None and last.result.outcome == "stopped"
    assert last.result is not None
    return last.result


def test_self_training_needs_bare_text_and_no_source_unless_it_transfers() -> None:
    assert needs_unlabelled("self_training") and not needs_source("self_training")
    assert needs_unlabelled("transfer_self_training") and needs_source("transfer_self_training")


def test_self_training_plans_students_after_the_teacher() -> None:
    recipe = tiny_recipe(setting="self_training", self_training_rounds=2)
    stages = setting("self_training").plan(recipe, data())
    assert [stage.phase for stage in stages] == ["target", "student 1", "student 2"]
    assert [stage.fresh for stage in stages] == [False, True, True]
    recipe = tiny_recipe(setting="transfer_self_training")
    stages = setting("transfer_self_training").plan(recipe, data(source=True))
    assert [stage.phase for stage in stages] == ["source", "target", "student 1"]
    assert not stages[-1].fresh and stages[-1].measure_first


def test_self_training_learns_and_says_from_how_many_sentences(tmp_path: Path) -> None:
    made = result(tmp_path, data(), self_training_sentences=5)
    assert made.dev is not None and made.dev.f1 > 0.5
    assert any("5 of 12 unlabelled sentences" in note for note in made.notes)
    assert {record.phase for record in made.history} == {"target", "student 1"}


@pytest.mark.parametrize("hears", [False, True])
def test_self_training_resumed_in_the_student_equals_uninterrupted(tmp_path: Path, hears: bool) -> None:
    what, more = told() if hears else data(), {"self_training_gazetteer": hears}
    whole = result(tmp_path / "whole", what, **more)
    resumed = result(tmp_path / "parts", what, stop_after=40, **more)
    assert [(r.phase, r.epoch, r.loss, r.dev_f1) for r in resumed.history] == [
        (r.phase, r.epoch, r.loss, r.dev_f1) for r in whole.history
    ]


@pytest.mark.parametrize("changes", [{"self_training_weight": 0.0}, {"self_training_threshold": 1.0}])
def test_self_training_without_the_teachers_word_is_the_labels_alone(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    made, plain = result(tmp_path / "a", data(), **changes), result(tmp_path / "b", data())
    losses = [[record.loss for record in one.history if record.phase == "student 1"] for one in (made, plain)]
    assert losses[0][-1] < losses[1][-1]


def test_teacher_reads_what_the_steps_of_its_student_draw_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, drawn = list[int](), set[int]()
    compute, draw = SelfTrainingObjective._compute_targets, SelfTrainingObjective._drawn

    def count(self: SelfTrainingObjective, teacher: TokenTagger, windows: Sequence[int]) -> None:
        read.extend(windows)
        drawn.clear()
        compute(self, teacher, windows)

    def note(self: SelfTrainingObjective, step: int) -> list[int]:
        chosen = draw(self, step)
        drawn.update(chosen)
        return chosen

    monkeypatch.setattr(SelfTrainingObjective, "_compute_targets", count)
    monkeypatch.setattr(SelfTrainingObjective, "_drawn", note)
    result(tmp_path, data(40), self_training_epochs=2, patience=9)
    assert set(read) == drawn and len(read) == len(drawn) < 40


def test_student_of_an_earlier_run_learns_on_from_it_and_needs_no_teacher_of_its_own(tmp_path: Path) -> None:
    taught = replace(data(), proposed={item.content_hash: () for item in data().unlabelled})
    earlier = result(tmp_path / "first", data())
    warm = WarmStart(tmp_path / "first" / TAGGER, 2)
    made = result(tmp_path / "on", taught, warm=warm, self_training_gazetteer=True)
    assert {record.phase for record in made.history} == {"student 1"} and made.epochs == 2
    first, started = made.history[0].dev_f1, earlier.history[0].dev_f1
    assert first is not None and started is not None and first > 0.5 > started
    assert made.dev is not None and earlier.dev is not None and made.dev.f1 >= earlier.dev.f1
    notes = "Students learn from 12 of 12 unlabelled sentences too. Continued from an earlier tagger for 2 epochs."
    assert notes in " ".join(made.notes)
    assert made.recipe_hash != earlier.recipe_hash
    again = result(tmp_path / "stopped", taught, warm=warm, stop_after=2, self_training_gazetteer=True)
    assert [record.loss for record in again.history] == [record.loss for record in made.history]


def test_only_students_learn_on_from_an_earlier_run_as_their_teacher(tmp_path: Path) -> None:
    result(tmp_path / "first", data())
    with pytest.raises(InvalidConfig, match="its own teacher"):
        result(tmp_path / "on", data(source=True), warm=WarmStart(tmp_path / "first" / TAGGER, 2), setting="pdaln")


def test_self_training_without_bare_text_is_the_teacher_alone(tmp_path: Path) -> None:
    made = result(tmp_path, data(0))
    assert {record.phase for record in made.history} == {"target"}
    assert any("no unlabelled target sentences" in note for note in made.notes)


def test_self_training_shares_the_source_checkpoint_of_pretrain_finetune() -> None:
    one = source_options(tiny_recipe(setting="transfer_self_training", self_training_weight=0.3))
    assert one == source_options(tiny_recipe(setting="pretrain_finetune"))


def told(bare: int = 12, *, right: bool = True) -> TrainingData:
    """Bare sentences of which a gazetteer knows everything, and the labelled ones, where it is right or never."""
    known = own_sentences(bare, offset=60)
    proposed = {item.sentence.content_hash: item.spans for item in known}
    train = data(bare).train
    wrong = {item.sentence.content_hash: (Span(0, 1, item.spans[0].type),) for item in train if item.spans}
    seen = {item.sentence.content_hash: item.spans for item in train} if right else wrong
    return replace(data(bare), proposed=proposed | seen)


TAGS = ("O", "B-song", "I-song", "B-band", "I-band")


def likelihood(said: tuple[Span, ...], gold: tuple[Span, ...], times: int = 20) -> ProposalModel:
    items = [replace(own_sentences(1)[0].sentence, id=str(at)) for at in range(times)]
    proposed = {one.content_hash: said for one in items}
    return ProposalModel.fit((LabelledSentence(one, gold) for one in items), proposed, TAGS)


def test_what_names_say_is_a_likelihood_of_each_proposal_and_rises_with_what_gold_bears_out() -> None:
    song = Span(0, 2, "song")
    right, wrong = likelihood((song,), (song,)), likelihood((song,), ())
    nothing = ProposalModel.fit([], {}, TAGS)
    for one in (right, wrong, nothing):
        assert one.likelihood.shape == (5, 5) and (one.likelihood > 0).all()
        np.testing.assert_allclose(one.likelihood.sum(0), 1.0)
    b = TAGS.index("B-song")
    odds = [one.likelihood[b, b] / one.likelihood[b, 0] for one in (right, nothing, wrong)]
    assert odds[0] > 5 * odds[1] > 25 * odds[2]
    # What is often proposed wrongly is believed less than what never was.
    band = TAGS.index("B-band")
    assert wrong.likelihood[b, 0] > 10 * wrong.likelihood[band, 0]


def test_names_are_not_heard_where_no_gold_says_how_far_to_believe_them(tmp_path: Path) -> None:
    sentence = own_sentences(1)[0].sentence
    proposed = {sentence.content_hash: (Span(0, 2, "song"),)}
    assert ProposalModel.fit([], proposed, TAGS).likelihoods(sentence) is None
    gold = own_sentences(1, offset=9)  # nobody asked there
    assert ProposalModel.fit(gold, proposed, TAGS).likelihoods(sentence) is None
    labelled = {item.sentence.content_hash for item in told().train}
    unasked = replace(told(), proposed={name: said for name, said in told().proposed.items() if name not in labelled})
    found = result(tmp_path / "a", unasked, self_training_gazetteer=True)
    assert any("gazetteer and links are not used" in note for note in found.notes)
    assert [r.loss for r in found.history] == [r.loss for r in result(tmp_path / "b", data()).history]


def test_names_of_a_sentence_are_read_tag_by_tag_and_types_the_model_lacks_are_left_out() -> None:
    sentence = own_sentences(1)[0].sentence
    say = replace(
        likelihood((Span(0, 2, "song"),), (Span(0, 2, "song"),)),
        proposed={sentence.content_hash: (Span(0, 2, "song"), Span(2, 3, "planet"))},
    )
    found = say.likelihoods(sentence)
    assert found is not None and found.shape == (len(sentence.tokens), 5)
    for token, tag in enumerate(("B-song", "I-song", "O")):
        np.testing.assert_array_equal(found[token], say.likelihood[TAGS.index(tag)])
    assert say.likelihoods(own_sentences(1, offset=9)[0].sentence) is None


def test_students_learn_from_names_that_gold_bears_out(tmp_path: Path) -> None:
    few = {"self_training_gazetteer": True}
    plain, right, wrong = (
        result(tmp_path / name, what, **more)
        for name, what, more in (("a", data(), {}), ("b", told(), few), ("c", told(right=False), few))
    )
    losses = [one.history[-1].loss for one in (plain, right, wrong)]
    assert len(set(losses)) == 3
    assert right.dev is not None and plain.dev is not None and right.dev.f1 >= plain.dev.f1
    assert any("propose 24 spans" in note or "gazetteer and links propose" in note for note in right.notes)
    ignored = result(tmp_path / "d", told())
    assert [r.loss for r in ignored.history] == [r.loss for r in plain.history]


def test_what_is_proposed_is_part_of_what_a_run_learnt_from() -> None:
    assert told().fingerprint != data().fingerprint and told().fingerprint != told(right=False).fingerprint
    elsewhere = replace(data(), proposed={"of no sentence here": (Span(0, 1, "song"),)})
    assert elsewhere.fingerprint == data().fingerprint
    assert with_students(tiny_recipe(), gazetteer=True).uses_gazetteer
    plain = with_students(tiny_recipe())
    assert not plain.uses_gazetteer and plain.hash == replace(plain, self_training_gazetteer=False).hash
    assert not tiny_recipe(self_training_gazetteer=True).uses_gazetteer  # no students, nobody to use it

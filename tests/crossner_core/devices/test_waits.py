"""How often a training step waits for the GPU: once to read loss and norm, and what a model's loss needs besides."""

from __future__ import annotations

from collections import Counter

import pytest

from crossner_core.models.registry import architecture_ids
from crossner_core.models.tagger import Tagger
from crossner_core.training.data import TrainingData
from crossner_core.training.settings.direct import target_stage
from crossner_core.training.settings.registry import setting, setting_ids
from crossner_core.training.tagging import begin_stage
from tests.crossner_core.devices.claimed_device import claimed_gpu
from tests.crossner_core.devices.runs import recipe_of, small_data
from tests.support.training_builders import BODIES, TYPES, encoder_for, own_sentences

READING = {"engine.py:_read tolist": 1}
_SENT = "windows.py:sent to the GPU"  # what a batch holds, unless batches are pinned
# PyTorch orders the rows of a packed batch, and puts them back, on the CPU.
_ORDERED, _PUT_BACK = "_recurrent.py:run_lstm to the GPU", "_recurrent.py:run_lstm to"
_PACKED = {_ORDERED: 1, _PUT_BACK: 1}
_SPANS = dict.fromkeys(("spans_of index", "spans_of nonzero", "type_scores _local_scalar_dense"), 1)
_LOOKED = "bartner.py:_states _local_scalar_dense"  # transformers looks at the masks of the decoder
OWN = {
    "bartner": {"bartner.py:sequences _local_scalar_dense": 1, _LOOKED: 1},  # how long the longest sequence is
    "bilstm_crf": _PACKED,
    "coach": {_ORDERED: 2, _PUT_BACK: 3}
    | {f"coach.py:{place}": count for place, count in _SPANS.items()},  # how many spans there are
}
# transformers looks whether anything is masked.
PADDING = {"base.py:vectors _local_scalar_dense": 1}
OWN_PADDING = {"bartner": {_LOOKED: 2}}
# Where the words of a batch are, in both directions and back, and how long they are.
_SPELT = {"words.py:forward index": 1, "words.py:forward index_put_": 1, "engine.py:_gradients index": 1}
OF_BODIES: dict[str, dict[str, int]] = {
    "words:own": {},
    "words:own,chars=lstm": _SPELT | {"words.py:forward to": 1, "words.py:forward to the GPU": 1},
    "words:own,chars=cnn": _SPELT,
    "flair:own": {"flair.py:as_text _local_scalar_dense": 1, "flair.py:as_text nonzero": 1},
    "bart": {},
}
STEPS = 3


def waits_of(*, padded: bool = False, **changes: object) -> Counter[str]:
    """Return where the host waits in each step after the first, of sentences of one length or of several."""
    recipe = recipe_of(**changes)
    pattern = own_sentences(40)
    length = len(pattern[0].sentence.tokens)
    items = tuple(item for item in pattern if padded or len(item.sentence.tokens) == length)[:4]
    stage = target_stage(recipe, TrainingData(train=items, types=TYPES))
    encoder = encoder_for(recipe)
    with claimed_gpu() as gpu:
        encoder.model.to("cuda")
        run = begin_stage(recipe, stage, encoder)
        run.learn(0, 0)
        gpu.waits.clear()
        for _ in range(STEPS):
            run.learn(0, 0)
        waits = gpu.waits
    assert all(count % STEPS == 0 for count in waits.values())
    return Counter({place: count // STEPS for place, count in waits.items() if place != _SENT})


def waits_of_stages(name: str, **changes: object) -> list[Counter[str]]:
    """Return, by stage of a setting, the waits of a step after the first besides those that padding makes."""
    recipe, waits = recipe_of(setting=name, **changes), list[Counter[str]]()
    encoder = encoder_for(recipe)
    with claimed_gpu() as gpu:
        encoder.model.to("cuda")
        former = None
        for stage in setting(name).plan(recipe, small_data()):
            if not stage.train:
                continue
            run = begin_stage(recipe, stage, encoder, former)
            run.learn(0, 0)
            gpu.waits.clear()
            run.learn(0, 0)
            waits.append(
                Counter({place: count for place, count in gpu.waits.items() if place not in {_SENT, *PADDING}})
            )
            former = run.model
    return waits


_TAGS = {"mmd.py:tag_mmd to": 2}  # which tags two batches have
OF_SETTINGS: dict[str, dict[str, int]] = {
    "direct": {},
    "pretrain_finetune": {},
    "joint": {},
    "pdaln": _TAGS,
    "pdaln_unsupervised": {},
    "self_training": {},
    "transfer_self_training": {},
    "source_only": {},
    "la_dtl": _TAGS,
    "datnet": {},
}
OF_LANGUAGE_MODELS = {"cross_domain_lm": 5, "cross_domain_lm_unsupervised": 3}  # packed batches


def test_each_setting_is_counted() -> None:
    assert {*OF_SETTINGS, *OF_LANGUAGE_MODELS} == set(setting_ids())


@pytest.mark.parametrize("name", OF_SETTINGS)
def test_step_of_a_setting_waits_where_its_loss_must(name: str) -> None:
    waits = waits_of_stages(name, architecture="crf")
    assert waits == [READING | OF_SETTINGS[name]] * len(waits) != []


@pytest.mark.parametrize("student", ["mean_teacher", "vat"])
def test_step_of_a_round_waits_no_more_with_another_student(student: str) -> None:
    waits = waits_of_stages("pdaln", architecture="crf", pdaln_student=student, pdaln_distil_tokens="entities")
    assert waits == [READING | _TAGS] * 2


@pytest.mark.parametrize("private", [False, True])
def test_step_of_two_crfs_on_a_bilstm_waits_for_its_packed_batches_besides(private: bool) -> None:
    (waits,) = waits_of_stages("datnet", architecture="bilstm_crf", lstm_private=private)
    packed = 8 if private else 4  # two passes of two domains, of one BiLSTM or two
    assert waits == READING | dict.fromkeys(_PACKED, packed)


@pytest.mark.parametrize(("name", "batches"), OF_LANGUAGE_MODELS.items())
def test_step_of_a_language_model_waits_for_its_packed_batches_alone(name: str, batches: int) -> None:
    (waits,) = waits_of_stages(name, architecture="bilstm_crf", encoder="words:own", lstm_layers=1)
    assert waits == READING | dict.fromkeys(_PACKED, batches)


@pytest.mark.parametrize("architecture", architecture_ids())
def test_step_waits_for_the_gpu_once_and_where_its_loss_must(architecture: str) -> None:
    assert waits_of(architecture=architecture) == READING | OWN.get(architecture, {})


@pytest.mark.parametrize("architecture", architecture_ids())
def test_step_of_a_padded_batch_waits_once_more(architecture: str) -> None:
    assert waits_of(architecture=architecture, padded=True) == READING | PADDING | OWN.get(
        architecture, {}
    ) | OWN_PADDING.get(architecture, {})


@pytest.mark.parametrize("body", BODIES)
def test_step_on_another_body_waits_for_what_that_body_must_know(body: str) -> None:
    own = READING | OF_BODIES[body]
    assert waits_of(architecture="crf", encoder=body) == own
    assert waits_of(architecture="crf", encoder=body, padded=True) == own | (PADDING if body == "bart" else {})


def test_wait_in_a_loss_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tagger.loss
    monkeypatch.setattr(Tagger, "loss", lambda self, batch: right(self, batch) * float(batch.mask.all()))
    assert waits_of(architecture="tagger").total() == 2

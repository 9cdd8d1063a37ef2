"""La-DTL and DATNet: each term against a plain computation, and whole runs that learn, resume and leave a tagger."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crossner_core.encoders.windows import Batch
from crossner_core.encoders.words import Words
from crossner_core.errors import InvalidConfig
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.models.crf import Crf
from crossner_core.training.checkpoint import read_folder
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.engine import TaskRun
from crossner_core.training.loop import train
from crossner_core.training.mmd import FIXED, squared_mmd
from crossner_core.training.predictor import load_tagger
from crossner_core.training.settings.registry import setting
from crossner_core.training.settings.two_crfs.datnet import (
    DatnetObjective,
    Discriminator,
    Reversed,
    resource_loss,
    spread,
)
from crossner_core.training.settings.two_crfs.la_dtl import LaDtlObjective
from crossner_core.training.settings.two_crfs.objective import TwoCrfObjective, rows_of
from crossner_core.training.tagging import Part, TaggerTask, begin_stage
from tests.support.training_builders import (
    TYPES,
    encoder_for,
    labelled,
    own_sentences,
    tiny_data,
    tiny_encoder,
    tiny_recipe,
)

LA_DTL: dict[str, Any] = {"setting": "la_dtl", "architecture": "crf"}
DATNET_F: dict[str, Any] = {"setting": "datnet", "architecture": "crf", "datnet_epsilon": 1.0}
BILSTM: dict[str, Any] = {"architecture": "bilstm_crf", "lstm_size": 8, "lstm_layers": 1}
DATNET_P: dict[str, Any] = {**DATNET_F, **BILSTM, "lstm_private": True}
ON_WORDS: dict[str, Any] = {**BILSTM, "encoder": "words:own,chars=lstm"}
WAYS = {
    "La-DTL": LA_DTL,
    "DATNet-F": DATNET_F,
    "DATNet-P": DATNET_P,
    "La-DTL-words": {**LA_DTL, **ON_WORDS},
    "DATNet-P-words": {**DATNET_P, **ON_WORDS},  # and so, but for the second BiLSTM, DATNet-F
    "La-DTL-bart": {**LA_DTL, "encoder": "bart"},
    "DATNet-F-bart": {**DATNET_F, "encoder": "bart"},
}
every_way = pytest.mark.parametrize("way", WAYS)


def apart_data(count: int = 6) -> TrainingData:
    """Return data whose source has a type of its own, and lacks one of the target's."""
    data = tiny_data(count, source=True)
    misc = tuple(labelled([f"thing{n}", "sang"], [(0, 1, "misc")], id=f"misc-{n}") for n in range(4))
    bare = tuple(
        replace(item, spans=tuple(span for span in item.spans if span.type != "band")) for item in data.source_train
    )
    return replace(data, sources=(SourceCorpus(bare + misc),))


def stage_run(data: TrainingData | None = None, **changes: Any) -> TaskRun[TaggerTask]:
    """Return a stage that is ready to go, without dropout, its two CRFs apart from each other."""
    recipe = tiny_recipe(**{"dropout": 0.0, "source_batch_size": 8, **changes})
    (stage,) = setting(recipe.setting).plan(recipe, data or tiny_data(6, source=True))
    run = begin_stage(recipe, stage, encoder_for(recipe, dropout=0.0))
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for part in run.model.objective_parts.parameters():
            part.add_(0.1 * torch.randn(part.shape, generator=generator))
    return run


def objective_of(run: TaskRun[TaggerTask]) -> Any:
    objective = run.task.objective
    assert isinstance(objective, TwoCrfObjective)
    return objective


def both(run: TaskRun[TaggerTask]) -> tuple[list[int], list[int]]:
    """Return windows of the source and of the target, as indices."""
    targets = objective_of(run).targets
    of_target = [index for index, window in enumerate(run.task.windows) if window.sentence < targets]
    return [index for index in range(len(run.task.windows)) if index not in of_target][:4], of_target[:3]


def loss_of(run: TaskRun[TaggerTask], windows: list[int]) -> Tensor:
    with run.random.active():
        return run.task.loss(Part(windows, 1.0, 0))


def batch_of(run: TaskRun[TaggerTask], windows: list[int]) -> Batch:
    task = run.task
    return task.predictor.encoder.collate([task.windows[index] for index in windows], task.tags)


def path_probability(scores: Tensor, chain: Any, gold: list[int], tags: list[int]) -> float:
    """Return p(gold) for one sentence's scores (W, K) by going through every path over `tags`."""
    paths: list[tuple[int, ...]] = [()]
    for _ in gold:
        paths = [(*path, tag) for path in paths for tag in tags]

    start, transitions, end = (part.tolist() for part in chain)
    rows = scores.tolist()

    def weight(path: tuple[int, ...]) -> float:
        total = start[path[0]] + end[path[-1]] + sum(rows[at][tag] for at, tag in enumerate(path))
        return math.exp(total + sum(transitions[one][other] for one, other in itertools.pairwise(path)))

    return weight(tuple(gold)) / sum(weight(path) for path in paths)


def test_la_dtl_is_two_crfs_over_their_own_tags_and_both_terms() -> None:
    short = tuple(labelled(words, spans) for words, spans in ((["Ada", "sang"], [(0, 1, "person")]), (["Oslo"], [])))
    data = replace(apart_data(), train=short, sources=(SourceCorpus((
        labelled(["Ines", "left"], [(0, 1, "person")]), labelled(["thing1", "left"], [(0, 1, "misc")]),
    )),))  # fmt: skip
    run = stage_run(data, **LA_DTL, upsample=1, la_dtl_alpha=0.3, la_dtl_outside=0.5, la_dtl_beta=0.2)
    model, objective = run.model, objective_of(run)
    assert isinstance(model, Crf) and isinstance(objective, LaDtlObjective)
    with torch.no_grad():
        for part in (model.start, model.moves, model.end):
            part.add_(0.3 * torch.randn(part.shape, generator=torch.Generator().manual_seed(4)))
    own = [model.tags.index(tag) for name in TYPES for tag in (f"B-{name}", f"I-{name}")]
    theirs = [model.tags.index(tag) for name in ("person", "misc") for tag in (f"B-{name}", f"I-{name}")]
    run.model.eval()
    windows = list(range(len(run.task.windows)))
    loss = loss_of(run, windows).item()
    batch = batch_of(run, windows)
    vectors, is_target = model.token_vectors(batch), [w.sentence < 2 for w in run.task.windows]
    expected, tokens = 0.0, int(batch.mask.sum())
    for domain, head, chain, tags in (
        (True, model.head, model.tag_pairs(), [0, *own]),
        (False, objective.crf.head, objective.crf.chain, [0, *theirs]),
    ):
        rows = [row for row, one in enumerate(is_target) if one is domain]
        for row in rows:
            size = int(batch.mask[row].sum())
            p = path_probability(head(vectors[row, :size]), chain, batch.tags[row, :size].tolist(), tags)
            expected -= math.log(p) / len(rows)
    ours, sources = (
        {tag: vectors[rows][batch.tags[rows] == tag] for tag in range(len(model.tags))}
        for rows in (torch.tensor(is_target), ~torch.tensor(is_target))
    )
    outside = squared_mmd(sources[0], ours[0], estimator="unbiased", bandwidths="fixed")  # B-person: one token each
    expected += 0.3 * len(FIXED) * 0.5 * outside.item()
    shared = [0, model.tags.index("B-person"), model.tags.index("I-person")]
    distance = (model.head.weight - objective.crf.head.weight)[shared].square().sum()
    for mine, other in zip(model.tag_pairs(), objective.crf.chain, strict=True):
        apart = (mine - other)[shared]
        distance = distance + (apart[:, shared] if apart.dim() == 2 else apart).square().sum()
    distance = distance + (model.head.bias - objective.crf.head.bias)[shared].square().sum()
    expected += 0.2 * distance.item()
    assert abs(outside.item()) > 1e-4 and distance.item() > 0.01
    assert loss == pytest.approx(expected * len(windows) / tokens, rel=1e-4)


def test_la_dtl_mmd_of_each_tag_is_the_unbiased_estimate_by_hand() -> None:
    run = stage_run(**LA_DTL, la_dtl_alpha=1.0, la_dtl_beta=0.0)
    source, target = both(run)
    plain = stage_run(**LA_DTL, la_dtl_alpha=0.0, la_dtl_beta=0.0)
    added = (loss_of(run, source + target) - loss_of(plain, source + target)).item()
    batch = batch_of(run, source + target)
    with torch.no_grad():
        vectors = run.model.token_vectors(batch)
    total, counted = 0.0, 0
    for tag in range(len(run.model.tags)):
        x = vectors[: len(source)][batch.tags[: len(source)] == tag].double()
        y = vectors[len(source) :][batch.tags[len(source) :] == tag].double()
        if min(len(x), len(y)) > 1:
            counted += 1
            total += sum(_kernel(a, b) for i, a in enumerate(x) for j, b in enumerate(x) if i != j) / (
                len(x) * (len(x) - 1)
            )
            total += sum(_kernel(a, b) for i, a in enumerate(y) for j, b in enumerate(y) if i != j) / (
                len(y) * (len(y) - 1)
            )
            total -= 2 * sum(_kernel(a, b) for a in x for b in y) / (len(x) * len(y))
    assert counted > 2 and abs(total) > 0.01
    assert added == pytest.approx(total * len(batch.mask) / int(batch.mask.sum()), rel=1e-3)


def _kernel(first: Tensor, second: Tensor) -> float:
    """Return the sum of La-DTL's 19 Gaussians."""
    squared = float((first - second).square().sum())
    return sum(math.exp(-squared / (2 * width)) for width in FIXED)


def test_la_dtl_a_type_of_one_domain_alone_enters_neither_term() -> None:
    run = stage_run(apart_data(), **LA_DTL)
    objective, tags = objective_of(run), run.model.tags
    assert tags[-1] == "I-misc" and run.task.stage.scored == len(TYPES)
    assert {tags[index] for index in objective.shared} == {"O", "B-person", "I-person", "B-location", "I-location"}
    source, target = both(run)
    loss_of(run, source + target).backward()
    misc, band = tags.index("B-misc"), tags.index("B-band")
    model = run.model
    assert isinstance(model, Crf) and model.head.weight.grad is not None
    assert objective.crf.head.weight.grad is not None
    assert not model.head.weight.grad[misc].any() and model.head.weight.grad[band].any()
    assert not objective.crf.head.weight.grad[band].any()
    loss_of(run, [index for index, w in enumerate(run.task.windows) if w.sentence >= objective.targets]).backward()
    assert objective.crf.head.weight.grad[misc].any()


def test_datnet_gradient_behind_the_discriminator_is_reversed() -> None:
    """Finite differences of the discriminator's loss, times −λ, are the gradient that reaches the vectors."""
    torch.manual_seed(0)
    part, factor = Discriminator(5).double(), 0.7
    vectors = torch.randn(3, 4, 5, dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False], [True] * 3 + [False]])
    is_source = torch.tensor([True, False, True])

    def loss(values: Tensor) -> Tensor:
        return resource_loss(part(values, mask), is_source, 0.25, 2.0)

    given = vectors.clone().requires_grad_()
    reversed_ = resource_loss(part(Reversed.apply(given, factor), mask), is_source, 0.25, 2.0)
    assert reversed_.item() == loss(vectors).item()
    reversed_.backward()
    assert given.grad is not None and given.grad.abs().max() > 1e-3
    for place in ((0, 0, 0), (1, 1, 3), (2, 2, 4), (1, 3, 0)):
        step = torch.zeros_like(vectors)
        step[place] = 1e-5
        slope = (loss(vectors + step) - loss(vectors - step)).item() / 2e-5
        assert given.grad[place].item() == pytest.approx(-factor * slope, abs=1e-8)
    assert not given.grad[1, 2:].any()  # padding
    own = [weights.grad.clone() for weights in part.parameters() if weights.grad is not None]
    part.zero_grad()
    loss(vectors).backward()
    assert all(torch.equal(one, weights.grad) for one, weights in zip(own, part.parameters(), strict=True))  # type: ignore[arg-type]


def test_datnet_resource_loss_is_the_papers_formula() -> None:
    logits, is_source = torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([True, True, False, False])
    r = [1 / (1 + math.exp(-value)) for value in logits.tolist()]
    by_hand = [-0.25 * (1 - one) ** 2 * math.log(one) for one in r[:2]]
    by_hand += [-0.75 * one**2 * math.log(1 - one) for one in r[2:]]
    assert resource_loss(logits, is_source, 0.25, 2.0).item() == pytest.approx(sum(by_hand) / 4, rel=1e-5)
    plain = resource_loss(logits, is_source, 0.5, 0.0)
    assert plain.item() == pytest.approx(
        0.5 * nn.functional.binary_cross_entropy_with_logits(logits, is_source.float()).item(), rel=1e-5
    )
    far = torch.tensor([200.0, -200.0], requires_grad=True)
    resource_loss(far, torch.tensor([False, True]), 0.25, 2.0).backward()
    assert far.grad is not None and bool(far.grad.isfinite().all())


def test_datnet_discriminator_learns_to_tell_and_the_body_to_hide() -> None:
    changes = {**DATNET_F, "datnet_epsilon": 0.0, "datnet_gamma": 0.0, "datnet_alpha": 0.5}
    on, off = stage_run(**changes, datnet_reversal=0.7), stage_run(**changes, datnet_reversal=0.0)
    assert "discriminator" in dict(on.model.objective_parts.named_children())
    assert "discriminator" not in dict(off.model.objective_parts.named_children())
    windows = [index for part in both(on) for index in part]
    found = {}
    for name, run in (("on", on), ("off", off)):
        loss_of(run, windows).backward()
        grads = {name: weights.grad.clone() for name, weights in run.model.encoder.named_parameters()}
        found[name] = torch.cat([grads[key].flatten() for key in sorted(grads)])
    reached = found["on"] - found["off"]  # of the discriminator alone: λ times uphill in its loss
    objective, model = objective_of(on), on.model
    on.model.zero_grad()
    batch = batch_of(on, windows)
    is_source = torch.tensor([on.task.windows[index].sentence >= objective.targets for index in windows])
    told = resource_loss(objective.discriminator(model.token_vectors(batch), batch.mask), is_source, 0.5, 0.0)
    told.backward()
    grads = {name: weights.grad for name, weights in model.encoder.named_parameters()}
    straight = torch.cat([grads[key].flatten() for key in sorted(grads)])
    size = len(windows) / int(batch.mask.sum())
    assert straight.abs().max() > 1e-4
    assert torch.allclose(reached, -0.7 * size * straight, atol=2e-5)


@pytest.mark.parametrize("words", [False, True])
def test_datnet_noise_has_its_length_and_raises_the_loss(words: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_recipe(**{**DATNET_F, "dropout": 0.0, "datnet_epsilon": 0.5, "datnet_reversal": 0.0})
    (stage,) = setting("datnet").plan(recipe, tiny_data(6, source=True))
    run = begin_stage(recipe, stage, Words.new("size=12") if words else tiny_encoder(dropout=0.0))
    windows = [index for part in both(run) for index in part]
    kept: list[Tensor] = []
    from crossner_core.training.settings.two_crfs import datnet

    real: Callable[..., Any] = datnet.input_noise

    def watched(model: Any, noise: Tensor) -> Any:
        kept.append(noise)
        return real(model, noise)

    monkeypatch.setattr(datnet, "input_noise", watched)
    total = loss_of(run, windows).item()
    (noise,) = kept
    plain = TwoCrfObjective.loss(
        objective_of(run), run.model, batch_with_foreign(run, windows), sentences(run, windows), 0
    )
    lengths = noise.flatten(1).norm(dim=1)
    assert (
        torch.allclose(lengths, lengths[:1].expand_as(lengths), rtol=1e-4)
        and not noise[batch_of(run, windows).attention_mask == 0].any()
    )
    # First order: the loss rises by ‖g‖ times the length; it must rise at least.
    assert total - plain.item() > plain.item() * 1.001
    encoder = run.model.encoder
    assert not (encoder if words else encoder.get_input_embeddings())._forward_hooks
    batch = batch_of(run, windows)
    inputs = encoder(batch.input_ids, batch.attention_mask).last_hidden_state if words else None
    table = inputs if inputs is not None else encoder.get_input_embeddings()(batch.input_ids)
    spread = table[batch.attention_mask.bool()].std()
    assert lengths[0].item() == pytest.approx(0.5 * spread.item(), rel=1e-4)


def sentences(run: TaskRun[TaggerTask], windows: list[int]) -> list[int]:
    return [run.task.windows[index].sentence for index in windows]


def batch_with_foreign(run: TaskRun[TaggerTask], windows: list[int]) -> Batch:
    assert run.task.foreign is not None
    return replace(batch_of(run, windows), foreign=run.task.foreign[sentences(run, windows)])


def test_datnet_p_shares_one_bilstm_and_has_the_other_for_each_domain() -> None:
    run = stage_run(**{**DATNET_P, "datnet_epsilon": 0.0})
    objective, model = objective_of(run), run.model
    assert isinstance(objective, DatnetObjective) and isinstance(model, BilstmCrf)
    assert model.head.in_features == 32 and objective.shared_size == 16 and objective.private is not None
    source, target = both(run)
    for windows, mine, theirs in ((source, False, True), (target, True, False)):
        model.zero_grad()
        loss_of(run, windows).backward()
        moved = [
            any(weights.grad is not None and weights.grad.any() for weights in lstm.parameters())
            for lstm in (model.private, objective.private, model.lstm)
            if lstm is not None
        ]
        assert moved == [mine, theirs, True]
    # What the discriminator has of private states: nothing.
    assert objective.discriminator is not None and objective.discriminator.domain.in_features == 16


@every_way
def test_two_crfs_a_batch_of_one_domain_or_one_window_has_a_loss(way: str) -> None:
    run = stage_run(**WAYS[way])
    source, target = both(run)
    for windows in (source, target, source[:1], target[:1]):
        run.model.zero_grad()
        loss = loss_of(run, windows)
        loss.backward()
        grads = [weights.grad for weights in run.model.parameters() if weights.grad is not None]
        assert bool(loss.isfinite()) and loss.item() > 0 and all(bool(grad.isfinite().all()) for grad in grads)


@every_way
def test_two_crfs_take_many_types_that_the_source_has_not(tmp_path: Path, way: str) -> None:
    more = tuple(f"type{number}" for number in range(14))
    rare = tuple(labelled(["Oslo", "left"], [(0, 1, name)], id=name) for name in more[:12])  # two never occur
    data = apart_data()
    data = replace(data, types=(*TYPES, *more), train=(*data.train, *rare))
    run = stage_run(data, **WAYS[way])
    loss_of(run, list(range(len(run.task.windows)))).backward()
    mine, theirs = (
        head.weight.grad.abs().sum(1) for head in (run.model.get_submodule("head"), objective_of(run).crf.head)
    )
    tags = {name: run.model.tags.index(f"B-{name}") for name in ("misc", "person", *more)}
    assert all(mine[tags[name]] > 0 and theirs[tags[name]] == 0 for name in more)
    assert mine[tags["misc"]] == 0 and theirs[tags["misc"]] > 0 and mine[tags["person"]] > 0 < theirs[tags["person"]]
    recipe = tiny_recipe(**WAYS[way])
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=encoder_for(recipe))
    assert last.result is not None and last.result.test is not None
    suggested = load_tagger(tmp_path).predict_spans([item.sentence for item in (*data.train, *data.source_train)])
    assert tuple(last.result.test.per_type) == data.types
    assert {span.type for spans in suggested for span in spans} <= set(data.types)


@every_way
def test_two_crfs_overfit_and_leave_a_plain_tagger(tmp_path: Path, way: str) -> None:
    items = own_sentences(16)
    data = TrainingData(train=items, types=TYPES, dev=items, test=items, sources=(SourceCorpus(items[:8]),))
    rates = {"source_head_learning_rate": 1e-2, "source_epochs": 15, "patience": 20}
    recipe = tiny_recipe(**WAYS[way], **rates, upsample=1)
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=encoder_for(recipe))
    assert last.result is not None and last.result.test is not None and last.result.test.f1 == 1.0
    predictor = load_tagger(tmp_path)
    assert predictor.predict_spans([item.sentence for item in items]) == [item.spans for item in items]
    _, tensors = read_folder(tmp_path / "tagger")
    assert not [name for name in tensors if name.startswith("objective")]
    assert any(name.startswith("private.") for name in tensors) == way.startswith("DATNet-P")


@every_way
def test_two_crfs_resumed_equals_uninterrupted_whatever_the_global_seed(tmp_path: Path, way: str) -> None:
    recipe, data = tiny_recipe(**WAYS[way]), apart_data()
    *_, whole = train(recipe, data, checkpoint_dir=tmp_path / "whole", encoder=encoder_for(recipe))
    torch.manual_seed(99)
    left = iter(range(1, 4))
    *_, cut = train(
        recipe, data, checkpoint_dir=tmp_path / "cut", encoder=encoder_for(recipe),
        should_stop=lambda: next(left, None) is None,
    )  # fmt: skip
    assert cut.result is not None and cut.result.outcome == "stopped"
    *_, again = train(recipe, data, checkpoint_dir=tmp_path / "cut", encoder=encoder_for(recipe))
    assert whole.result is not None and again.result is not None
    assert again.result.history == whole.result.history and again.result.test == whole.result.test
    one, other = (load_tagger(tmp_path / name).model.state_dict() for name in ("whole", "cut"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    *_, seeded = train(replace(recipe, seed=3), data, checkpoint_dir=tmp_path / "seed", encoder=encoder_for(recipe))
    assert seeded.result is not None and seeded.result.history != whole.result.history
    found = load_tagger(tmp_path / "whole").predict_spans([item.sentence for item in data.source_train])
    assert {span.type for spans in found for span in spans} <= set(TYPES)


@pytest.mark.parametrize("id", ["la_dtl", "datnet"])
def test_two_crfs_refuse_what_has_no_crf_no_source_or_half_a_batch(id: str) -> None:
    for architecture in ("tagger", "label_aware", "type_aware"):
        with pytest.raises(InvalidConfig, match=f"'{architecture}', .*'{id}'.* choose crf or bilstm_crf"):
            setting(id).plan(tiny_recipe(setting=id, architecture=architecture), tiny_data(source=True))
    with pytest.raises(InvalidConfig, match="needs sentences of the source corpus"):
        setting(id).plan(tiny_recipe(setting=id, architecture="crf"), tiny_data())
    with pytest.raises(InvalidConfig, match="accumulate"):
        recipe = tiny_recipe(setting=id, architecture="crf", accumulate=2)
        list(train(recipe, tiny_data(source=True), checkpoint_dir=Path("unused"), encoder=tiny_encoder()))


def test_rows_of_a_batch_are_those_windows_collated_but_for_the_padding_of_vectors() -> None:
    encoder = tiny_encoder()
    items = (*own_sentences(2), labelled(["Oslo"], [(0, 1, "location")]), labelled(["It", "was"], []))
    windows = encoder.windows([item.sentence for item in items])
    tags = [[0] * len(item.sentence.tokens) for item in items]
    batch = encoder.collate(windows, tags)
    batch.foreign = torch.eye(4, 7).bool()
    kept = torch.tensor([False, False, True, True])
    part, alone = rows_of(batch, kept), encoder.collate(windows[2:], tags)
    for name in ("positions", "mask", "tags"):
        assert torch.equal(getattr(part, name), getattr(alone, name))
    width = alone.input_ids.shape[1]
    assert torch.equal(part.input_ids[:, :width], alone.input_ids) and not part.attention_mask[:, width:].any()
    assert part.foreign is not None and torch.equal(part.foreign, batch.foreign[2:])
    for name in ("lengths", "known", "subwords"):
        assert torch.equal(getattr(part.sizes, name), getattr(alone.sizes, name))
    assert part.sizes.padded and not rows_of(batch, torch.tensor([True, False, False, False])).sizes.padded


def test_datnets_noise_counts_in_deviations_over_inputs_that_are_no_padding() -> None:
    inputs, mask = torch.randn(3, 5, 4), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]])
    inputs[mask == 0] = 100.0
    torch.testing.assert_close(spread(inputs, mask), inputs[mask.bool()].std())

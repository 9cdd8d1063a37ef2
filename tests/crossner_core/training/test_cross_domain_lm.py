"""Cross-domain language modelling: generated weights, the loss by hand, and runs that learn and leave a tagger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from torch import Tensor, nn

from crossner_core.encoders.windows import Batch
from crossner_core.encoders.words import BUCKETS, Words
from crossner_core.errors import CheckpointError, InvalidConfig
from crossner_core.models._recurrent import run_lstm
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.models.crf import path_loss
from crossner_core.training.checkpoint import read_folder
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.engine import TaskRun, make_optimizer
from crossner_core.training.loop import train
from crossner_core.training.predictor import load_tagger
from crossner_core.training.settings.registry import setting
from crossner_core.training.settings.two_crfs.cross_domain_lm import (
    SOURCE,
    TAGGING,
    TARGET,
    WORDS_AHEAD,
    CrossDomainLmObjective,
    numbers_of_words,
)
from crossner_core.training.settings.two_crfs.generated import Generator
from crossner_core.training.settings.two_crfs.objective import rows_of
from crossner_core.training.tagging import Part, TaggerTask, begin_stage
from tests.support.training_builders import TYPES, labelled, own_sentences, tiny_data, tiny_encoder, tiny_recipe

ID, BARE_ID = "cross_domain_lm", "cross_domain_lm_unsupervised"
CHANGES: dict[str, Any] = {
    "setting": ID,
    "architecture": "bilstm_crf",
    "encoder": "words:size=12",
    "lstm_size": 8,
    "lstm_layers": 1,
    "lm_domain_size": 3,
    "lm_task_size": 2,
}
BARE = tuple(item.sentence for item in own_sentences(5, offset=60))


def words(chars: str = "none") -> Words:
    return Words.new(f"size=12,chars={chars}")


def stage_run(data: TrainingData | None = None, **changes: Any) -> TaskRun[TaggerTask]:
    """Return a stage that is ready to go, without dropout, its two CRFs apart from each other."""
    recipe = tiny_recipe(**{**CHANGES, "dropout": 0.0, "source_batch_size": 8, **changes})
    (stage,) = setting(recipe.setting).plan(recipe, data or tiny_data(6, source=True))
    run = begin_stage(recipe, stage, words())
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for part in (objective_of(run).crf or nn.Module()).parameters():
            part.add_(0.1 * torch.randn(part.shape, generator=generator))
    return run


def objective_of(run: TaskRun[TaggerTask]) -> CrossDomainLmObjective:
    objective = run.task.objective
    assert isinstance(objective, CrossDomainLmObjective)
    return objective


def both(run: TaskRun[TaggerTask]) -> tuple[list[int], list[int]]:
    """Return windows of the source and of the target, as indices."""
    targets = objective_of(run).targets
    return list(range(targets, targets + 4)), [0, 1, 2]


def loss_of(run: TaskRun[TaggerTask], windows: list[int], step: int = 0) -> Tensor:
    with run.random.active():
        return run.task.loss(Part(windows, 1.0, step))


def batch_of(run: TaskRun[TaggerTask], windows: list[int]) -> Batch:
    task = run.task
    batch = task.predictor.encoder.collate([task.windows[index] for index in windows], task.tags)
    assert task.foreign is not None
    batch.foreign = task.foreign[[task.windows[index].sentence for index in windows]]
    return batch


def lstm_of(run: TaskRun[TaggerTask], domain: int, task: int) -> nn.LSTM:
    """Return an LSTM with the weights generated for a domain and a task."""
    model, generator = run.model, objective_of(run).generator
    assert isinstance(model, BilstmCrf)
    made = nn.LSTM(model.lstm.input_size, model.lstm.hidden_size, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for weights, value in zip(made.parameters(), generator.shaped(generator()[domain, task]), strict=True):
            weights.copy_(value)
    return made


def test_generated_weights_are_the_contraction_of_three_tensors() -> None:
    lstm = nn.LSTM(2, 3, bidirectional=True)
    generator = Generator(lstm, 2, 2, 3, 4)
    made = generator()
    assert made.shape == (2, 2, sum(weights.numel() for weights in lstm.parameters()))
    meta = generator.meta.detach().view(-1, 3, 4).tolist()
    domains, tasks = generator.domains.tolist(), generator.tasks.tolist()
    for domain in range(2):
        for task in range(2):
            by_hand = []
            for row in meta:
                total = 0.0
                for d in range(3):
                    for t in range(4):
                        total += row[d][t] * domains[domain][d] * tasks[task][t]
                by_hand.append(total)
            assert made[domain, task].tolist() == pytest.approx(by_hand, abs=1e-6)
    assert [value.shape for value in generator.shaped(made[0, 1])] == [value.shape for value in lstm.parameters()]
    assert torch.equal(torch.cat([value.flatten() for value in generator.shaped(made[0, 1])]), made[0, 1])


def test_generated_weights_begin_as_wide_as_an_lstms_own() -> None:
    torch.manual_seed(3)
    lstm = nn.LSTM(20, 25, bidirectional=True)
    own = torch.cat([weights.flatten() for weights in lstm.parameters()]).std().item()
    spread = torch.stack([Generator(lstm, 2, 2, 8, 8)().square().mean() for _ in range(20)]).mean().sqrt().item()
    assert spread == pytest.approx(own, rel=0.2)


@pytest.mark.parametrize("layers", [1, 2])
def test_generated_weights_run_as_an_lstm_that_has_them(layers: int) -> None:
    torch.manual_seed(0)
    plain, other = (nn.LSTM(5, 4, layers, batch_first=True, bidirectional=True) for _ in range(2))
    vectors, sizes = torch.randn(3, 6, 5), torch.tensor([2, 6, 1])
    weights = [value.detach().clone().requires_grad_() for value in other.parameters()]
    states = run_lstm(plain, vectors, sizes, weights)
    assert torch.allclose(states, run_lstm(other, vectors, sizes), atol=1e-6)
    assert not torch.allclose(states, run_lstm(plain, vectors, sizes), atol=1e-2)
    states.square().sum().backward()
    assert all(value.grad is not None and value.grad.any() for value in weights)
    assert all(value.grad is None for value in plain.parameters())


def test_cross_domain_lm_loss_is_two_crfs_and_two_language_models_by_hand() -> None:
    run = stage_run(lm_weight=0.7, lm_samples=10_000)
    objective, model = objective_of(run), run.model
    assert isinstance(model, BilstmCrf) and objective.output is not None
    source, target = both(run)
    windows = source + target
    loss = loss_of(run, windows).item()
    batch, expected, size = batch_of(run, windows), 0.0, model.lstm.hidden_size
    assert objective.crf is not None
    chains = {SOURCE: (objective.crf.head, objective.crf.chain), TARGET: (model.head, model.tag_pairs())}
    for domain, rows in ((SOURCE, range(4)), (TARGET, range(4, 7))):
        part = rows_of(batch, torch.tensor([row in rows for row in range(7)]))
        head, chain = chains[domain]
        with torch.no_grad():
            vectors = model.token_vectors(part)
            read = run_lstm(lstm_of(run, domain, TAGGING), vectors, part.sizes.lengths)
            tags = path_loss(head(read), part, chain)
        expected += tags.item() * int(part.mask.sum()) / len(rows)
        reader, bits = lstm_of(run, domain, WORDS_AHEAD), 0.0
        for place, row in enumerate(rows):
            sentence = run.task.stage.train[run.task.windows[windows[row]].sentence].sentence
            ids = objective.words.of(part)[place, : len(sentence.words)].tolist()
            assert len(ids) == int(part.mask[place].sum())
            with torch.no_grad():
                states = reader(vectors[place : place + 1, : len(ids)])[0][0]
                for at in range(len(ids)):
                    for state, other in ((states[at, :size], at + 1), (states[at, size:], at - 1)):
                        if 0 <= other < len(ids):
                            scores = objective.output.weight @ state + objective.output.bias
                            bits -= scores.log_softmax(0)[ids[other]].item() / 2
        expected += 0.7 * bits / len(rows)
    assert loss == pytest.approx(expected * 7 / int(batch.mask.sum()), rel=1e-4)


def test_cross_domain_lm_words_are_numbered_by_how_often_they_occur() -> None:
    texts = [labelled(text.split(), []).sentence for text in ("b a a", "c b a", "d")]
    known = numbers_of_words(words(), texts)
    batch = words().collate(words().windows(texts))
    numbers = dict(zip("baacbad", known.of(batch)[batch.mask].tolist(), strict=True))
    assert len(known.ranks) == 4 and (numbers["a"], numbers["b"]) == (0, 1) and {numbers["c"], numbers["d"]} == {2, 3}


def test_cross_domain_lm_words_of_one_hash_are_two_where_the_vectors_know_them() -> None:
    taken: dict[int, str] = {}
    for number in range(10_000):  # until two of them collide
        word = f"w{number}"
        if (other := taken.setdefault(crc32(word.encode()) % BUCKETS, word)) != word:
            break
    encoder = words()
    texts = [labelled([word, other, word], []).sentence]
    assert len(numbers_of_words(encoder, texts).ranks) == 1
    encoder.rows = {word: 1, other: 2}
    assert numbers_of_words(encoder, texts).of(encoder.collate(encoder.windows(texts))).tolist() == [[0, 1, 0]]


def test_cross_domain_lm_a_step_moves_generated_weights_as_far_as_their_own_rate() -> None:
    run = stage_run(lm_domain_size=8, lm_task_size=8, head_learning_rate=1e-3, source_head_learning_rate=1e-3)
    generator, model = objective_of(run).generator, run.model
    optimizer = make_optimizer(model, learning_rate=1e-3, head_learning_rate=1e-3, weight_decay=0.0, layer_decay=1.0)
    with torch.no_grad():
        before = generator()
    source, target = both(run)
    loss_of(run, source + target).backward()
    for name in ("domains", "tasks"):
        getattr(generator, name).grad = None
    optimizer.step()
    with torch.no_grad():
        moved = (generator()[TARGET, TAGGING] - before[TARGET, TAGGING]).abs()
    assert moved[moved > 0].median().item() == pytest.approx(1e-3, rel=0.7)


def test_cross_domain_lm_drops_out_what_its_language_models_read_words_from(monkeypatch: pytest.MonkeyPatch) -> None:
    run = stage_run(lm_weight=1.0, dropout=0.5)
    dropped: list[torch.Size] = []
    real = run.model.dropout.forward
    monkeypatch.setattr(run.model.dropout, "forward", lambda values: dropped.append(values.shape) or real(values))
    source, target = both(run)
    loss_of(run, source + target)
    # Of each domain the words' vectors twice, and the states of tags and of language models.
    assert len(dropped) == 2 * 4 and sum(shape[-1] == 16 for shape in dropped) == 2 * 2


def test_cross_domain_lm_state_of_other_texts_is_refused_with_what_to_do() -> None:
    data = tiny_data(6, source=True)
    longer = replace(data, train=(*data.train, labelled(["quite", "unheard", "words"], [])))
    run, other = stage_run(data), stage_run(longer)
    with pytest.raises(CheckpointError, match=r"(?s)do not fit this model: .*output.*Start afresh"):
        other.restore(run.meta(), run.tensors())


def test_two_domains_are_in_every_batch() -> None:
    run = stage_run(tiny_data(24, source=True), source_batch_size=4)
    targets, task = objective_of(run).targets, run.task
    for epoch in range(3):
        for batch in task.epoch_batches(epoch):
            domains = {task.windows[index].sentence < targets for index in batch}
            assert domains == {True, False}


def test_cross_domain_lm_of_the_source_changes_the_targets_tagger() -> None:
    """A step on the language model of source text alone moves the weights generated for the target's tags."""
    run = stage_run(lm_weight=1.0)
    objective, (source, _) = objective_of(run), both(run)
    plain = stage_run(lm_weight=0.0)
    before = objective.generator()[TARGET, TAGGING].detach().clone()
    of_words = torch.autograd.grad(loss_of(run, source), list(objective.generator.parameters()))
    of_tags = torch.autograd.grad(loss_of(plain, source), list(objective_of(plain).generator.parameters()))
    assert of_words[2][WORDS_AHEAD].any() and not of_tags[2][WORDS_AHEAD].any()  # the task's vector
    with torch.no_grad():
        for weights, whole, part in zip(objective.generator.parameters(), of_words, of_tags, strict=True):
            weights -= 0.1 * (whole - part)
    objective.after_step(run.model)
    assert isinstance(run.model, BilstmCrf)
    after = torch.cat([weights.flatten() for weights in run.model.lstm.parameters()])
    assert torch.equal(after, objective.generator()[TARGET, TAGGING])
    assert (after - before).abs().max() > 1e-4


def test_cross_domain_lm_reads_unlabelled_text_drawn_by_step() -> None:
    run = stage_run(replace(tiny_data(6, source=True), unlabelled=BARE))
    without = stage_run()
    windows = both(run)[0][:2]
    first = loss_of(run, windows).item()
    assert first == loss_of(run, windows).item()
    assert len({loss_of(run, windows, step).item() for step in range(6)}) > 1
    assert len(objective_of(run).bare) == 5 and first > loss_of(without, windows).item()


def test_cross_domain_lm_a_batch_of_one_domain_or_one_token_has_a_loss() -> None:
    short = labelled(["Oslo"], [(0, 1, "location")])
    data = tiny_data(6, source=True)
    run = stage_run(replace(data, train=(short, *data.train)))
    source, target = both(run)
    for windows in (source, target, source[:1], target[:1], [0], [0, source[0]]):
        run.model.zero_grad()
        loss = loss_of(run, windows)
        loss.backward()
        grads = [weights.grad for weights in run.model.parameters() if weights.grad is not None]
        assert bool(loss.isfinite()) and loss.item() > 0 and all(bool(grad.isfinite().all()) for grad in grads)


def unlabelled_data() -> TrainingData:
    """Return data whose source annotates one type that the target has not, and misses one that it has."""
    things = tuple(labelled([f"thing{n}", "sang"], [(0, 1, "misc")], id=f"misc-{n}") for n in range(4))
    people = tuple(labelled(["Ines", "left", place], [(0, 1, "person")]) for place in ("Oslo", "Leeds"))
    return replace(tiny_data(6), sources=(SourceCorpus(things + people),), unlabelled=BARE)


def test_cross_domain_lm_without_target_labels_has_one_crf_and_reads_no_target_label() -> None:
    data = unlabelled_data()
    wrong = tuple(replace(item, spans=()) for item in data.train)
    run, other = (stage_run(one, setting=BARE_ID) for one in (data, replace(data, train=wrong)))
    windows = list(range(len(run.task.windows)))
    objective = objective_of(run)
    assert run.task.stage.train == data.source_train and len(objective.bare) == len(data.train) + len(BARE)
    assert objective.crf is None and "6 target training sentences" in run.task.stage.notes[0]
    assert set(run.task.stage.annotated or ()) == {frozenset(("misc", *TYPES))}  # all that no source has is outside
    assert loss_of(run, windows).item() == loss_of(other, windows).item()
    loss_of(run, windows).backward()
    assert objective.generator.domains.grad is not None
    assert objective.generator.domains.grad[TARGET].any() and run.model.get_parameter("head.weight").grad is not None


def test_cross_domain_lm_without_target_labels_counts_tags_of_the_source_and_words_of_both() -> None:
    data = replace(tiny_data(1, source=True), unlabelled=())
    weighted, tags = (stage_run(data, setting=BARE_ID, lm_samples=10_000, lm_weight=weight) for weight in (2.0, 1.0))
    windows = [0, 1, 2]
    of_tags = 2 * loss_of(tags, windows).item() - loss_of(weighted, windows).item()
    batch, model = batch_of(tags, windows), tags.model
    assert isinstance(model, BilstmCrf)
    with torch.no_grad():
        read = run_lstm(lstm_of(tags, SOURCE, TAGGING), model.token_vectors(batch), batch.sizes.lengths)
        expected = path_loss(model.head(read), batch, model.tag_pairs()).item()
    assert of_tags == pytest.approx(expected, rel=1e-3)


def test_cross_domain_lm_without_target_labels_predicts_no_type_that_no_source_has(tmp_path: Path) -> None:
    data = unlabelled_data()
    recipe = tiny_recipe(**{**CHANGES, "setting": BARE_ID}, source_epochs=10, source_head_learning_rate=1e-2)
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=words())
    assert last.result is not None and last.result.outcome == "early_stop"
    predictor = load_tagger(tmp_path)
    assert predictor.predict_spans([data.source_train[-1].sentence]) == [data.source_train[-1].spans]
    found = {span.type for item in (*data.train, *data.test) for span in predictor.predict_spans([item.sentence])[0]}
    assert found <= {"person"}


def test_cross_domain_lm_learns_a_type_that_its_source_has_not(tmp_path: Path) -> None:
    oslo = labelled(["Oslo", "left"], [(0, 1, "harbour")], id="new")  # of this type there is one, of the next none
    data = tiny_data(6, source=True)
    data = replace(data, types=(*data.types, "harbour", "river"), train=(*data.train, *[oslo] * 4))
    recipe = tiny_recipe(**CHANGES, source_epochs=20, source_head_learning_rate=3e-2, patience=20)
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=words())
    assert last.result is not None and last.result.test is not None
    assert tuple(last.result.test.per_type) == data.types
    found = load_tagger(tmp_path).predict_spans([item.sentence for item in (oslo, *data.train, *data.source_train)])
    assert found[0] == oslo.spans and {span.type for spans in found for span in spans} <= set(data.types)


def test_cross_domain_lm_without_target_labels_refuses_to_learn_nothing_of_the_target() -> None:
    with pytest.raises(InvalidConfig, match=r"lm_weight is 0.*choose source_only"):
        stage_run(setting=BARE_ID, lm_weight=0.0)
    with pytest.raises(InvalidConfig, match=rf"lstm_layers is 2[\s\S]*{BARE_ID}.* Set it to 1\.$"):
        stage_run(setting=BARE_ID, lstm_layers=2)


@pytest.mark.parametrize(("id", "chars"), [(ID, "none"), (ID, "cnn"), (ID, "lstm"), (BARE_ID, "none")])
def test_cross_domain_lm_overfits_and_leaves_a_plain_tagger(tmp_path: Path, id: str, chars: str) -> None:
    items = own_sentences(16)
    source, target = items[:8], items
    changes: dict[str, Any] = {"source_head_learning_rate": 1e-2, "source_epochs": 20, "patience": 20}
    if id == BARE_ID:  # the labels to fit are the source's; the domains' vectors must come near each other
        source, target = items, tuple(replace(item, spans=()) for item in items)
        longer = {"source_head_learning_rate": 3e-2, "source_epochs": 40, "patience": 40}
        changes |= {**longer, "lm_domain_size": 8, "lm_task_size": 8}
    data = TrainingData(train=target, types=TYPES, dev=items, test=items, sources=(SourceCorpus(source),))
    recipe = tiny_recipe(**{**CHANGES, "setting": id, **changes}, upsample=1)
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=words(chars))
    assert last.result is not None and last.result.test is not None and last.result.test.f1 == 1.0
    predictor = load_tagger(tmp_path)
    assert predictor.predict_spans([item.sentence for item in items]) == [item.spans for item in items]
    _, tensors = read_folder(tmp_path / "tagger")
    assert not [name for name in tensors if name.startswith("objective")]


@pytest.mark.parametrize("id", [ID, BARE_ID])
def test_cross_domain_lm_resumed_equals_uninterrupted_whatever_the_global_seed(tmp_path: Path, id: str) -> None:
    data = unlabelled_data()
    recipe = tiny_recipe(**{**CHANGES, "setting": id}, lm_samples=5, source_batch_size=2)
    *_, whole = train(recipe, data, checkpoint_dir=tmp_path / "whole", encoder=words())
    torch.manual_seed(99)
    left = iter(range(1, 4))
    *_, cut = train(
        recipe, data, checkpoint_dir=tmp_path / "cut", encoder=words(), should_stop=lambda: next(left, None) is None
    )
    assert cut.result is not None and cut.result.outcome == "stopped"
    *_, again = train(recipe, data, checkpoint_dir=tmp_path / "cut", encoder=words())
    assert whole.result is not None and again.result is not None
    assert again.result.history == whole.result.history and again.result.test == whole.result.test
    mine, other = (load_tagger(tmp_path / name).model.state_dict() for name in ("whole", "cut"))
    assert mine.keys() == other.keys() and all(torch.equal(mine[name], other[name]) for name in mine)
    *_, seeded = train(replace(recipe, seed=3), data, checkpoint_dir=tmp_path / "seed", encoder=words())
    assert seeded.result is not None and seeded.result.history != whole.result.history
    suggested = load_tagger(tmp_path / "whole").predict_spans([item.sentence for item in data.source_train])
    assert {span.type for spans in suggested for span in spans} <= set(TYPES)


def test_cross_domain_lm_refuses_what_shows_the_words_that_it_predicts() -> None:
    data = tiny_data(source=True)

    def begin(encoder: Any, **changes: Any) -> Any:
        recipe = tiny_recipe(**{**CHANGES, **changes})
        (stage,) = setting(ID).plan(recipe, data)
        return begin_stage(recipe, stage, encoder)

    with pytest.raises(InvalidConfig, match=r"hold the neighbouring words.*lm_weight to 0"):
        begin(tiny_encoder())
    with pytest.raises(InvalidConfig, match=r"lstm_layers is 2.*Set it to 1"):
        begin(words(), lstm_layers=2)
    with pytest.raises(InvalidConfig, match="lstm_private"):
        begin(words(), lstm_private=True)
    assert begin(tiny_encoder(), lm_weight=0.0, lstm_layers=2).task.objective.output is None
    for encoder in ("minilm", "flair:characters"):
        with pytest.raises(InvalidConfig, match=rf"encoder is '{encoder}', .*words:"):
            setting(ID).check(tiny_recipe(**{**CHANGES, "encoder": encoder}))
        setting(ID).check(tiny_recipe(**{**CHANGES, "encoder": encoder, "lm_weight": 0.0}))
    setting(ID).check(tiny_recipe(**{**CHANGES, "encoder": "vectors-of-ours"}))
    with pytest.raises(InvalidConfig, match=r"'crf', .*'cross_domain_lm'.* choose bilstm_crf"):
        setting(ID).plan(tiny_recipe(setting=ID, architecture="crf"), data)
    with pytest.raises(InvalidConfig, match="accumulate"):
        recipe = tiny_recipe(**CHANGES, accumulate=2)
        list(train(recipe, data, checkpoint_dir=Path("unused"), encoder=words()))

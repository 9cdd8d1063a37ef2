from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.label_aware import learn, position_loop, sentence_loop
from crossner_core.encoders.windows import Batch
from crossner_core.models import _label_history
from crossner_core.models._label_history import prefix_states, prefixes
from crossner_core.models._label_predictor import LabelPredictor, Vectors, _Read
from crossner_core.models.heads import head_tags
from crossner_core.models.label_aware import LabelAware
from crossner_core.models.viterbi import iob2_transitions
from crossner_core.tags import tag_problems
from crossner_core.training.batches import tag_indices
from crossner_core.training.predictor import build_model
from crossner_core.training.recipe import Recipe, effective
from tests.support.training_builders import TYPES, own_sentences, tiny_encoder, tiny_recipe

TAGS = len(head_tags(TYPES))
SWITCHES = [(True, True), (True, False), (False, True), (False, False)]
# background, context, BiLSTM
WITH_BILSTM = [(*parts, bilstm) for bilstm in (True, False) for parts in SWITCHES[:3]]


def model_of(types: tuple[str, ...] = TYPES, **changes: object) -> LabelAware:
    recipe = tiny_recipe(architecture="label_aware", **{"label_size": 6, **changes})
    made = build_model(recipe, tiny_encoder(dropout=0.0), types)
    assert isinstance(made, LabelAware)
    return made


def batch_of(model: LabelAware, count: int = 5) -> Batch:
    items, encoder = own_sentences(count), tiny_encoder()
    windows = encoder.windows([item.sentence for item in items])
    return encoder.collate(windows, tag_indices(items, model.tags))


def random_vectors(lengths: list[int], hidden: int = 7, *, seed: int = 0, width: int | None = None) -> Vectors:
    tokens = torch.randn(
        len(lengths), max(lengths), hidden, dtype=torch.double, generator=torch.Generator().manual_seed(seed)
    )
    if width is not None:
        tokens = torch.cat([tokens, torch.full((len(lengths), width - max(lengths), hidden), 9.0).double()], 1)
    tokens.requires_grad_()
    mask = torch.arange(tokens.shape[1]) < torch.tensor(lengths).unsqueeze(1)
    return Vectors(tokens, mask, tokens, mask)


def random_predictor(
    *, background: bool = True, context: bool = True, bilstm: bool = True, hidden: int = 7, size: int = 4
) -> LabelPredictor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        made = LabelPredictor(hidden, TAGS, size, background=background, context=context, bilstm=bilstm).double()
        torch.nn.init.normal_(made.head.weight)
    return made


def random_tags(mask: Tensor, seed: int = 1) -> Tensor:
    return torch.randint(TAGS, mask.shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def golden(shared: Path) -> dict[str, Tensor]:
    path = shared / "golden" / "label_aware.npz"
    if not path.is_file():
        pytest.skip(f"no golden file at {path}")
    with np.load(path) as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored.files}


def golden_predictor(golden: dict[str, Tensor]) -> LabelPredictor:
    """The release's weights; its embedding's last rows are of what it ignores, and no history holds them."""
    tags, size = len(golden["bo"]), golden["U"].shape[1]
    made = LabelPredictor(golden["hidden"].shape[2], tags, size).double()
    state = {"begin": torch.zeros(2 * size).double(), "labels.weight": golden["U"][:tags]}
    for name, (weight, bias) in {"to_sentence": ("W2", "b2"), "to_labels": ("W3", "b3"), "head": ("Wo", "bo")}.items():
        state |= {f"{name}.weight": golden[weight], f"{name}.bias": golden[bias]}
    for name in (name for name in golden if name.startswith("bilstm.")):
        part, bare = ("backwards" if name.endswith("_reverse") else "forwards"), name.removeprefix("bilstm.")
        state[f"{part}.{bare.removesuffix('_reverse')}"] = golden[name]
    made.load_state_dict(state)
    return made


def golden_vectors(golden: dict[str, Tensor]) -> Vectors:
    hidden = golden["hidden"]
    mask = torch.ones(hidden.shape[:2], dtype=torch.bool)
    return Vectors(hidden, mask, hidden, mask)


def test_label_aware_golden_teacher_forced(golden: dict[str, Tensor]) -> None:
    scores = golden_predictor(golden)(golden_vectors(golden), golden["previous_tags"])
    assert (scores[:, 1:] - golden["teacher_forced_logits"]).abs().max() < 1e-5


def test_label_aware_golden_greedy(golden: dict[str, Tensor]) -> None:
    tags = len(golden["bo"])
    free = torch.zeros(tags).double(), torch.zeros(tags, tags).double()
    path, scores = golden_predictor(golden).greedy(golden_vectors(golden), *free, golden["first_greedy_tag"])
    assert (scores[:, 1:] - golden["greedy_logits"]).abs().max() < 1e-5
    assert torch.equal(path[:, 1:], golden["greedy_logits"].argmax(-1))


@pytest.mark.parametrize(("background", "context", "bilstm"), WITH_BILSTM)
@pytest.mark.parametrize("lengths", [[9, 1, 5, 9, 2], [1, 1], [1], [12]])
def test_label_aware_one_pass_equals_position_loop(
    lengths: list[int], background: bool, context: bool, bilstm: bool
) -> None:
    predictor = random_predictor(background=background, context=context, bilstm=bilstm)
    vectors = random_vectors(lengths)
    history = random_tags(vectors.mask)
    one = learn(lambda: predictor(vectors, history), predictor, vectors, history)
    two = learn(lambda: position_loop(predictor, vectors, history), predictor, vectors, history)
    assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(one, two, strict=True))


def test_label_aware_states_equal_pytorchs_packed_lstm() -> None:
    predictor, mask = random_predictor(), random_vectors([6, 1, 4]).mask
    there, history = prefixes(mask), random_tags(mask).flatten()
    labels = predictor.label_vectors()
    ours = prefix_states(predictor.backwards, labels, history[there.tags], there.sizes)
    packed = torch.nn.utils.rnn.PackedSequence(labels[history[there.tags]], torch.tensor(there.sizes))
    assert torch.allclose(ours, predictor.backwards(packed)[0].data, atol=1e-12)
    assert sum(there.sizes) == 15 + 6 and len(there.positions) == 5 + 3


def test_label_aware_gates_computed_again_give_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, vectors = random_predictor(), random_vectors([6, 1, 4])
    history = random_tags(vectors.mask)
    kept = learn(lambda: predictor(vectors, history), predictor, vectors, history)
    monkeypatch.setattr(_label_history, "KEPT_BYTES", 0)
    again = learn(lambda: predictor(vectors, history), predictor, vectors, history)
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in zip(kept, again, strict=True))


def test_label_aware_gradients_are_right() -> None:
    predictor, vectors = random_predictor(hidden=3, size=2), random_vectors([4, 2], hidden=3)
    history = random_tags(vectors.mask)
    names, values = zip(*predictor.named_parameters(), strict=True)

    def scores(*given: Tensor) -> Tensor:
        return torch.func.functional_call(predictor, dict(zip(names, given, strict=True)), (vectors, history))

    assert torch.autograd.gradcheck(scores, values, fast_mode=True)


@pytest.mark.parametrize("bilstm", [True, False])
def test_label_aware_no_token_sees_its_own_or_a_later_tag(bilstm: bool) -> None:
    predictor, vectors = random_predictor(bilstm=bilstm), random_vectors([8])
    history = random_tags(vectors.mask)
    other = history.clone()
    other[:, 4:] = (other[:, 4:] + 1) % TAGS
    before, after = predictor(vectors, history), predictor(vectors, other)
    assert torch.equal(before[:, :5], after[:, :5]) and not torch.isclose(before[:, 5:], after[:, 5:]).all(-1).any()


@pytest.mark.parametrize(("background", "context"), SWITCHES)
def test_label_aware_padding_changes_nothing(background: bool, context: bool) -> None:
    predictor = random_predictor(background=background, context=context)
    narrow, wide = random_vectors([5, 3]), random_vectors([5, 3], width=9)
    history = random_tags(wide.mask)
    here, there = predictor(narrow, history[:, :5]), predictor(wide, history)
    assert torch.allclose(here[narrow.mask], there[wide.mask], atol=1e-12)
    start, moves = (part.double() for part in iob2_transitions(head_tags(TYPES)))
    greedy = [predictor.greedy(vectors, start, moves)[0][vectors.mask] for vectors in (narrow, wide)]
    assert torch.equal(*greedy)


@pytest.mark.parametrize(("background", "context", "bilstm"), WITH_BILSTM)
def test_label_aware_greedy_equals_sentence_by_sentence(background: bool, context: bool, bilstm: bool) -> None:
    predictor = random_predictor(background=background, context=context, bilstm=bilstm)
    vectors = random_vectors([3, 11, 1, 7, 11])
    start, moves = (part.double() for part in iob2_transitions(head_tags(TYPES)))
    with torch.no_grad():
        quick, scores = predictor.greedy(vectors, start, moves)
        assert torch.equal(quick, sentence_loop(predictor, vectors, start, moves))
        assert torch.allclose(scores[vectors.mask], predictor(vectors, quick)[vectors.mask], atol=1e-10)


@pytest.mark.parametrize("forget", [0.0, 8.0], ids=["forgetful", "never forgets"])
def test_label_aware_greedy_of_long_sentences_rereads_no_more_than_it_must(
    forget: float,
) -> None:
    predictor, vectors = random_predictor(), random_vectors([150, 149])
    torch.nn.init.constant_(predictor.backwards.bias_ih_l0[4:8], forget)
    start, moves = (part.double() for part in iob2_transitions(head_tags(TYPES)))
    read: list[int] = []
    predictor.backwards.register_forward_pre_hook(lambda module, given: read.append(given[0].shape[1]))
    with torch.no_grad():
        tags, scores = predictor.greedy(vectors, start, moves)
        steps = sum(read)
        assert torch.equal(tags, sentence_loop(predictor, vectors, start, moves))
        assert torch.allclose(scores[vectors.mask], predictor(vectors, tags)[vectors.mask], atol=1e-10)
    assert (steps < 0.9 * 150 * 149 / 2) == (forget == 0.0)


def test_label_aware_greedy_is_exact_where_states_agree_and_cells_do_not() -> None:
    # A cell that counts: it grows by one at each O, which the state, a tanh of it, soon no longer shows; tag 1 lets
    # little of it through, and there the state depends on how much it was.
    predictor, size = random_predictor(), 4
    lstm = predictor.backwards
    with torch.no_grad():
        predictor.labels.weight.zero_()
        predictor.labels.weight[1, 0] = 1.0
        for parameter in lstm.parameters():
            parameter.zero_()
        lstm.bias_ih_l0.fill_(20.0)
        lstm.weight_ih_l0[size : 2 * size, 0] = -23.5  # how much is kept
        lstm.weight_ih_l0[:size, 0] = -30.0  # how much is added
        tags = torch.zeros(1, 120, dtype=torch.long)
        tags[:, [20, 22]] = 1
        read = _Read(predictor, 1)
        for at in range(1, 120):
            states = read.states(tags[:, :at])[..., size:]  # (1, at, d2)
            whole = lstm(predictor.label_vectors()[tags[:, :at].flip(1)])[0].flip(1)
            assert torch.allclose(states, whole, rtol=0, atol=1e-12), at


def test_label_aware_constrained_decoding_is_valid_iob2() -> None:
    predictor, vectors = random_predictor(), random_vectors([13] * 20)
    tags = head_tags(TYPES)
    free = torch.zeros(TAGS).double(), torch.zeros(TAGS, TAGS).double()
    held = [part.double() for part in iob2_transitions(tags)]
    problems = []
    for start, moves in (free, held):
        rows = predictor.greedy(vectors, start, moves)[0].tolist()
        problems.append(sum(len(list(tag_problems([tags[tag] for tag in row], "IOB2"))) for row in rows))
    assert problems[0] > 0 and problems[1] == 0


def test_label_aware_constrained_field_reaches_decoding() -> None:
    held, free = model_of().eval(), model_of(constrained=False).eval()
    free.load_state_dict(held.state_dict())
    for model in (held, free):  # all tags but I-person are out of reach
        torch.nn.init.constant_(model.predictor.head.bias[model.tags.index("I-person") :][:1], 50.0)
    batch = batch_of(held)
    assert {free.tags[tag] for answer in free.decode(batch) for tag in answer.tags} == {"I-person"}
    rows = [[held.tags[tag] for tag in answer.tags] for answer in held.decode(batch)]
    assert all(list(tag_problems(row, "IOB2")) == [] for row in rows)


def test_label_aware_both_off_is_the_tagger() -> None:
    off = model_of(label_background=False, label_context=False).eval()
    tagger = build_model(tiny_recipe(), tiny_encoder(dropout=0.0), TYPES).eval()
    tagger.head.load_state_dict(off.predictor.head.state_dict())
    batch = batch_of(off)
    assert torch.allclose(off.loss(batch), tagger.loss(batch))
    assert [answer.tags for answer in off.decode(batch)] == [answer.tags for answer in tagger.decode(batch)]
    assert {name.split(".")[0] for name, _ in off.predictor.named_parameters()} == {"head"}


@pytest.mark.parametrize(("background", "context"), SWITCHES)
def test_label_aware_switches_leave_their_parameters_out(background: bool, context: bool) -> None:
    model = model_of(label_background=background, label_context=context)
    names = {name.split(".")[0] for name, _ in model.predictor.named_parameters()}
    assert ("to_sentence" in names, "to_labels" in names) == (background, context)
    model.loss(batch_of(model)).backward()
    unused = {name for name, parameter in model.predictor.named_parameters() if parameter.grad is None}
    assert not unused
    decoded = model.eval().decode(batch_of(model), allowed=3)
    assert all(tag < 3 for answer in decoded for tag in answer.tags)


@pytest.mark.parametrize(("embeddings", "bilstm"), SWITCHES)
def test_label_aware_without_embeddings_or_bilstm(embeddings: bool, bilstm: bool) -> None:
    model = model_of(label_embeddings=embeddings, label_bilstm=bilstm)
    names = {name.split(".")[0] for name, _ in model.predictor.named_parameters()}
    assert ("forwards" in names, "backwards" in names) == (bilstm, bilstm)
    model.loss(batch_of(model)).backward()
    unlearned = {name for name, parameter in model.predictor.named_parameters() if parameter.grad is None}
    assert unlearned == (set() if embeddings else {"labels.weight"})
    other = model_of(label_embeddings=embeddings, label_bilstm=bilstm)
    torch.nn.init.normal_(other.predictor.labels.weight)
    assert model.copy_shared_tags(other) == model.tags
    assert torch.equal(model.predictor.labels.weight, other.predictor.labels.weight)
    other = model_of(label_embeddings=embeddings, label_bilstm=not bilstm)
    assert model.copy_shared_tags(other) == ()


def test_label_aware_keys_of_old_runs_stay_and_switches_without_effect_do_not_count() -> None:
    names = {"label_embeddings", "label_bilstm"}
    scaled = {"label_background_scaled", "label_context_scaled"}
    assert not scaled & effective(Recipe(architecture="label_aware").to_dict()).keys()
    on = Recipe(architecture="label_aware", **dict.fromkeys(scaled, True))
    assert scaled <= effective(on.to_dict()).keys()
    assert not scaled & effective(replace(on, label_background=False, label_context=False).to_dict()).keys()
    assert not names & effective(Recipe(architecture="label_aware").to_dict()).keys()
    both = {"label_embeddings": False, "label_bilstm": False}
    neither = {"label_background": False, "label_context": False}
    whole = Recipe(architecture="label_aware", **both)
    assert names <= effective(whole.to_dict()).keys()
    of_labels = {"label_size": 7, "label_history": "mixed", "label_noise": 0.1, "label_embedding_dropout": 0.3}
    off = effective(Recipe(architecture="label_aware", **both, **of_labels, **neither).to_dict())
    assert {name for name in off if name.startswith("label_")} == {"label_background", "label_context"}


@pytest.mark.parametrize(("part", "size"), [("background", 32), ("context", 12)])
def test_label_aware_scaled_attention_is_that_of_a_smaller_query(part: str, size: int) -> None:
    plain, scaled = model_of().eval(), model_of(**{f"label_{part}_scaled": True}).eval()
    scaled.load_state_dict(plain.state_dict())
    query = {"background": plain.predictor.to_sentence, "context": plain.predictor.to_labels}[part]
    batch = batch_of(plain, 3)
    with torch.no_grad():
        for model in (plain, scaled):
            model.predictor.labels.weight.mul_(4)  # far from even weights
        assert not torch.allclose(scaled.scores(batch), plain.scores(batch), atol=1e-4)
        for parameter in query.parameters():
            parameter.div_(size**0.5)
        assert torch.allclose(scaled.scores(batch), plain.scores(batch), atol=1e-6)
    (tags, scores), (others, same) = scaled.decode_tags(batch), plain.decode_tags(batch)
    assert torch.equal(tags, others) and torch.allclose(scores, same, atol=1e-5)


def test_label_aware_background_over_subwords_sees_more_than_tokens() -> None:
    tokens, subwords = model_of().eval(), model_of(label_background_over="subwords").eval()
    subwords.load_state_dict(tokens.state_dict())
    batch = batch_of(tokens, 3)
    assert not torch.allclose(tokens.scores(batch)[:, 1:], subwords.scores(batch)[:, 1:])
    alone = batch_of(tokens, 1)
    width = alone.mask.shape[1]
    assert torch.allclose(subwords.scores(batch)[0, :width], subwords.scores(alone)[0], atol=1e-5)


def test_label_aware_probability_is_that_of_the_chosen_tag() -> None:
    model = model_of().eval()
    batch = batch_of(model, 2)
    answers = model.decode(batch)
    tags = torch.zeros_like(batch.tags)
    for row, answer in enumerate(answers):
        tags[row, : len(answer.tags)] = torch.tensor(answer.tags)
    expected = model.scores(replace(batch, tags=tags)).softmax(-1).gather(2, tags.unsqueeze(2)).squeeze(2)
    for row, answer in enumerate(answers):
        assert answer.probabilities == pytest.approx(expected[row, : len(answer.tags)].tolist(), abs=1e-5)


def test_label_aware_unknown_tags_in_the_history_are_the_models_own() -> None:
    model = model_of(dropout=0.0)
    batch = batch_of(model, 3)
    unlabelled = replace(batch, tags=torch.full_like(batch.tags, -100))
    own = torch.zeros_like(batch.tags)
    for row, answer in enumerate(model.decode(batch)):
        own[row, : len(answer.tags)] = torch.tensor(answer.tags)
    assert torch.allclose(
        model.scores(unlabelled)[batch.mask], model.scores(replace(batch, tags=own))[batch.mask], atol=1e-5
    )


def history_of(model: LabelAware, batch: Batch, seed: int) -> Tensor:
    torch.manual_seed(seed)
    return model._history(batch, model._vectors(batch))


@pytest.mark.parametrize(
    "changes", [{"label_history": "mixed"}, {"label_noise": 0.5}, {"label_embedding_dropout": 0.5}], ids=str
)
def test_label_aware_training_history_follows_the_seed(changes: dict[str, object]) -> None:
    model = model_of(**changes, dropout=0.0).train()
    batch = batch_of(model)
    gold = batch.tags.clamp(min=0)
    with torch.random.fork_rng(devices=[]):
        one, same, other = (history_of(model, batch, seed) for seed in (1, 1, 2))
        assert torch.equal(one, same) and not torch.equal(one, other)
        changed = (one != gold)[batch.mask].float().mean()
        assert 0.1 < changed < 0.9
        assert torch.equal(history_of(model.eval(), batch, 1), gold)


def test_label_aware_mixed_history_takes_the_models_own() -> None:
    model = model_of(label_history="mixed", label_own_share=1.0, dropout=0.0).train()
    batch = batch_of(model)
    vectors = model._vectors(batch)
    own = model.predictor(vectors, batch.tags.clamp(min=0)).argmax(-1)
    assert torch.equal(model._history(batch, vectors), own)
    assert torch.equal(model_of().train()._history(batch, vectors), batch.tags.clamp(min=0))


def test_label_aware_shared_labels_are_carried_by_name() -> None:
    source = model_of(("location", "misc", "person"))
    target = model_of(("singer", "person", "band"))
    former = {name: value.clone() for name, value in target.predictor.state_dict().items()}
    shared = target.copy_shared_tags(source, {"singer": "person", "band": "group"})
    assert shared == ("O", "B-person", "I-person")
    now, there = target.predictor.state_dict(), source.predictor.state_dict()
    for name in ("labels.weight", "head.weight", "head.bias"):
        for at, tag in enumerate(target.tags):
            expected = former[name][at]
            if tag in shared:
                expected = there[name][source.tags.index(tag)]
            elif tag.endswith("singer"):
                expected = expected + there[name][source.tags.index(tag.replace("singer", "person"))]
            assert torch.equal(now[name][at], expected), (name, tag)
    for name in now.keys() - {"labels.weight", "head.weight", "head.bias"}:
        assert torch.equal(now[name], there[name]), name


def test_label_aware_takes_nothing_from_what_differs() -> None:
    target = model_of()
    former = {name: value.clone() for name, value in target.state_dict().items()}
    others = [model_of(label_size=5), model_of(label_context=False)]
    for other in (*others, build_model(tiny_recipe(), tiny_encoder(), TYPES)):
        assert target.copy_shared_tags(other) == ()
    assert all(torch.equal(value, former[name]) for name, value in target.state_dict().items())


def test_label_aware_options_count_where_they_matter() -> None:
    names = {"label_own_share", "label_history", "label_noise", "label_background_over"}
    assert not names & effective(Recipe().to_dict()).keys()
    assert effective(Recipe(architecture="label_aware").to_dict()).keys() & names == names - {"label_own_share"}
    off = Recipe(architecture="label_aware", label_background=False, label_history="mixed")
    assert effective(off.to_dict()).keys() & names == names - {"label_background_over"}

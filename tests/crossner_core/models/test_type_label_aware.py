"""LANER over descriptions: what it shares with the type-aware tagger, and what the preceding tags add."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from crossner_core.models.base import TypeTexts
from crossner_core.models.type_aware import TypeAware
from crossner_core.models.type_label_aware import TypeLabelAware
from crossner_core.training import zero_shot
from crossner_core.training.data import TrainingData
from crossner_core.training.loop import train
from crossner_core.training.predictor import build_model, load_tagger
from tests.support.training_builders import TYPES, batch_for, own_sentences, tiny_encoder, tiny_recipe

TEXTS = {"person": ("ada sang",), "band": ("marble toured",), "location": ("born in oslo",)}
RECIPE = tiny_recipe(architecture="type_label_aware", label_size=8)
VECTORS = TypeTexts({name: torch.randn(2, 32, generator=torch.Generator().manual_seed(1)) for name in TYPES})


def model(**options: object) -> TypeLabelAware:
    made = build_model(replace(RECIPE, **options), tiny_encoder(), TYPES)  # type: ignore[arg-type]
    assert isinstance(made, TypeLabelAware)
    made.describe(VECTORS)
    return made.eval()  # type: ignore[return-value]


def test_without_its_label_parts_it_is_the_type_aware_tagger() -> None:
    plain = model(label_background=False, label_context=False)
    other = build_model(replace(RECIPE, architecture="type_aware"), tiny_encoder(), TYPES)
    assert isinstance(other, TypeAware)
    other.describe(VECTORS)
    other.eval()
    with torch.no_grad():
        for mine, theirs in ((plain.predictor.head, other.head), (plain.predictor.token_side, other.token_side)):
            mine.weight.copy_(theirs.weight.normal_())
            mine.bias.copy_(theirs.bias.normal_())
    batch = batch_for(plain)
    torch.testing.assert_close(plain.scores(batch), other.scores(batch))
    assert torch.equal(plain.decode_tags(batch)[0], other.decode_tags(batch)[0])


def test_preceding_tags_are_read_by_the_texts_of_their_types() -> None:
    made = model()
    batch = batch_for(made)
    before = made.scores(batch)
    row = made.tags.index("B-band")
    marked = replace(batch, tags=torch.where(batch.mask, row, batch.tags))
    after = made.scores(marked)
    torch.testing.assert_close(before[:, 0], after[:, 0])  # nothing precedes the first token
    assert not torch.allclose(before[:, 1:][batch.mask[:, 1:]], after[:, 1:][batch.mask[:, 1:]], atol=1e-4)
    made.describe(TypeTexts({**VECTORS.vectors, "band": -VECTORS.vectors["band"]}))
    other = [index for index, tag in enumerate(made.tags) if not tag.endswith("band")]
    torch.testing.assert_close(made.scores(batch)[:, 0][:, other], before[:, 0][:, other])
    assert not torch.allclose(made.scores(marked)[:, 1][:, other], after[:, 1][:, other], atol=1e-4)


def test_types_of_other_names_are_found_by_what_they_mean(tmp_path: Path) -> None:
    items = own_sentences(40)
    data = TrainingData(train=items[:24], dev=items[24:32], test=items[32:], types=TYPES, texts=TEXTS)
    recipe = replace(RECIPE, max_epochs=30, patience=30, type_rows_dropout=0.8, label_embedding_dropout=0.3)
    *_, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=tiny_encoder())
    assert last.result is not None and last.result.test is not None and last.result.test.f1 > 0.8
    tagger, again = load_tagger(tmp_path), {"human": "person", "act": "band", "place": "location"}
    renamed = zero_shot.for_types(tagger, tiny_encoder(), {name: TEXTS[own] for name, own in again.items()})
    test = [item.sentence for item in items[32:]]
    spans = [{(span.start, span.end, again[span.type]) for span in own} for own in renamed.predict_spans(test)]
    gold = [{(span.start, span.end, span.type) for span in item.spans} for item in items[32:]]
    right = sum(len(own & wanted) for own, wanted in zip(spans, gold, strict=True))
    assert right >= 0.6 * sum(map(len, gold))
    same = zero_shot.for_types(tagger, tiny_encoder(), TEXTS)
    assert same.predict_spans(test) == tagger.predict_spans(test)

"""Exchanged entities, MMD, contrast, distortion, synonyms: each against a plain computation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.schema import Span, check_spans
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.mmd import FIXED, MEDIANS, squared_mmd
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.pdaln.companions import (
    MOST,
    candidates,
    from_neighbours,
    from_wordnet,
    in_case_of,
    neighbours,
    whole_words,
)
from crossner_core.training.settings.pdaln.material import (
    distorted,
    exchange,
    replaced,
    surfaces,
    with_synonyms,
    without_stretch,
)
from crossner_core.training.settings.pdaln.objective import contrastive_loss
from crossner_core.training.settings.pdaln.wordnet import pick_wordnet, read_wordnet, wordnet
from crossner_core.training.settings.registry import setting
from tests.support.training_builders import labelled, own_sentences, tiny_encoder

SONG = labelled(["Ada", "Brook", "sang", "in", "New", "Haven", "."], [(0, 2, "person"), (4, 6, "location")], "a")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def vectors(count: int, seed: int, shift: float = 0.0) -> Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(seed)) + shift


def surface_of(item: object, span: Span) -> tuple[str, ...]:
    return item.sentence.words[span.start : span.end]  # type: ignore[attr-defined,no-any-return]


def test_anchors_surfaces_are_whole_distinct_and_sorted() -> None:
    again = labelled(["Oslo", "and", "Oslo"], [(0, 1, "location"), (2, 3, "location")])
    assert surfaces([SONG, again]) == {"location": (("New", "Haven"), ("Oslo",)), "person": (("Ada", "Brook"),)}


def test_anchors_replacement_moves_spans_and_text() -> None:
    made = replaced(SONG, {0: ("Ines",), 1: ("Rio", "de", "la", "Plata")}, id="b")
    assert made.sentence.text == "Ines sang in Rio de la Plata ."
    assert made.spans == (Span(0, 1, "person"), Span(3, 7, "location"))
    assert check_spans(made.sentence, made.spans) == made.spans


@pytest.mark.parametrize("replace", ["one", "all"])
def test_anchors_exchange_takes_entities_of_the_same_type_only(replace: str) -> None:
    others = {"person": (("Milo",), ("Otto", "Vale")), "location": (("Leeds",), ("Porto",), ("New", "Haven"))}
    made = exchange([SONG], others, 4, rng(), replace=replace)
    assert made.skipped == 0 and 1 < len(made.items) <= 4
    assert len({item.sentence.words for item in made.items}) == len(made.items)
    for item in made.items:
        changed = [
            surface_of(item, new) != surface_of(SONG, old) for old, new in zip(SONG.spans, item.spans, strict=True)
        ]
        assert sum(changed) == (1 if replace == "one" else 2)
        assert [span.type for span in item.spans] == ["person", "location"]
        for new, old, is_new in zip(item.spans, SONG.spans, changed, strict=True):
            assert (
                surface_of(item, new) in others[new.type] if is_new else surface_of(item, new) == surface_of(SONG, old)
            )


def test_anchors_without_entity_or_partner_give_no_copy() -> None:
    bare = labelled(["It", "rained", "."], [])
    made = exchange([bare, SONG], {"band": (("Marble",),), "location": (("New", "Haven"),)}, 3, rng())
    assert made.items == () and made.skipped == 2


def test_anchors_exchange_follows_its_generator_and_stops_at_what_there_is() -> None:
    others = surfaces(own_sentences(12))
    first = exchange(own_sentences(6, offset=20), others, 3, rng(1))
    assert first == exchange(own_sentences(6, offset=20), others, 3, rng(1))
    assert first != exchange(own_sentences(6, offset=20), others, 3, rng(2))
    assert len(exchange([SONG], {"person": (("Milo",),)}, 4, rng()).items) == 1


def naive_mmd(x: Tensor, y: Tensor, estimator: str, bandwidths: str) -> Tensor:
    """Compute by loops over pairs, in double precision."""
    both = torch.cat([x, y]).double()
    apart = [((a - b) ** 2).sum() for i, a in enumerate(both) for j, b in enumerate(both) if i != j]
    if bandwidths == "fixed":
        widths = [2 * sigma for sigma in FIXED]
    else:
        widths = [float(torch.stack(apart).detach().median()) * factor for factor in MEDIANS]

    def mean(one: Tensor, other: Tensor, same: bool) -> Tensor:
        found = []
        for i, a in enumerate(one.double()):
            for j, b in enumerate(other.double()):
                if same and i == j and estimator == "unbiased":
                    continue
                found.append(sum(torch.exp(-((a - b) ** 2).sum() / width) for width in widths) / len(widths))
        return torch.stack(found).mean()  # type: ignore[arg-type]

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
@pytest.mark.parametrize("bandwidths", ["fixed", "median"])
def test_mmd_equals_loops_over_pairs_with_its_gradient(estimator: str, bandwidths: str) -> None:
    x, y = vectors(5, 1).requires_grad_(), vectors(4, 2, 0.5).requires_grad_()
    fast = squared_mmd(x, y, estimator=estimator, bandwidths=bandwidths)
    slow = naive_mmd(x, y, estimator, bandwidths)
    assert fast.dtype == torch.float32 and fast.item() == pytest.approx(slow.item(), abs=1e-6)
    for one, other in zip(torch.autograd.grad(fast, [x, y]), torch.autograd.grad(slow, [x, y]), strict=True):
        assert torch.allclose(one, other, atol=1e-6) and one.abs().max() > 1e-4


def test_mmd_is_nought_for_equal_sets_and_grows_with_distance() -> None:
    x = vectors(40, 1)
    assert squared_mmd(x, x.clone()).abs() < 1e-6
    near, far = squared_mmd(x, vectors(40, 2)), squared_mmd(x, vectors(40, 2, 2.0))
    assert 0 < near < far / 2
    unbiased = [squared_mmd(vectors(20, s), vectors(20, 100 + s), estimator="unbiased").item() for s in range(20)]
    biased = [squared_mmd(vectors(20, s), vectors(20, 100 + s)).item() for s in range(20)]
    assert abs(np.mean(unbiased)) < np.mean(biased) / 5 and min(unbiased) < 0 < min(biased)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 3), (1, 1), (1, 4)])
@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
@pytest.mark.parametrize("bandwidths", ["fixed", "median"])
def test_mmd_small_sets_give_numbers(n: int, m: int, estimator: str, bandwidths: str) -> None:
    x, y = vectors(n, 1).requires_grad_(), vectors(m, 2).requires_grad_()
    found = squared_mmd(x, y, estimator=estimator, bandwidths=bandwidths)
    assert torch.isfinite(found)
    if estimator == "unbiased" or n == 0:
        assert found == 0 and not found.requires_grad
    else:
        found.backward()
        assert x.grad is not None and torch.isfinite(x.grad).all()


def test_mmd_equal_vectors_have_finite_gradients_and_bf16_is_widened() -> None:
    x = torch.zeros(3, 4, requires_grad=True)
    squared_mmd(x, torch.zeros(2, 4), bandwidths="median").backward()
    assert x.grad is not None and torch.equal(x.grad, torch.zeros(3, 4))
    assert squared_mmd(vectors(3, 1).bfloat16(), vectors(3, 2).bfloat16()).dtype == torch.float32


def test_contrastive_equals_the_formula() -> None:
    first, second, tau = vectors(4, 1), vectors(4, 2), 0.5

    def near(a: Tensor, b: Tensor) -> float:
        return math.exp(float(torch.cosine_similarity(a, b, dim=0)) / tau)

    total = 0.0
    for i in range(4):
        others = [near(first[i], first[j]) for j in range(4) if j != i]
        others += [near(first[i], second[j]) for j in range(4) if j != i]
        own = near(first[i], second[i])
        total -= math.log(own / (own + sum(others))) / 4
    assert contrastive_loss(first, second, tau).item() == pytest.approx(total, rel=1e-5)


def test_contrastive_is_small_for_copies_and_nought_without_others() -> None:
    first = torch.eye(4)
    assert contrastive_loss(first, first, 0.05) < 1e-6 < contrastive_loss(first, first.flip(0), 0.05)
    assert contrastive_loss(first[:1], first[1:2], 0.05) == 0 == contrastive_loss(first[:0], first[:0], 0.05)


def test_distortion_synonyms_keep_spans() -> None:
    made = with_synonyms(SONG, {"sang": ("chanted",)}, rng())
    assert made is not None and made.sentence.text == "Ada Brook chanted in New Haven ." and made.spans == SONG.spans
    assert with_synonyms(SONG, {}, rng()) is None


def test_distortion_deletion_takes_whole_entities_with_their_labels() -> None:
    seen = set()
    for seed in range(30):
        made = without_stretch(SONG, rng(seed))
        assert made is not None and len(made.sentence.tokens) < 7
        check_spans(made.sentence, made.spans)
        for span in made.spans:
            assert surface_of(made, span) in {("Ada", "Brook"), ("New", "Haven")}
        words = set(made.sentence.words)
        assert ("Ada" in words) == ("Brook" in words) and ("New" in words) == ("Haven" in words)
        assert len(made.spans) == ("Ada" in words) + ("New" in words)
        seen.add(made.sentence.text)
    assert len(seen) > 3


def test_distortion_of_what_cannot_be_changed_is_the_sentence_itself() -> None:
    whole = labelled(["New", "Haven"], [(0, 2, "location")])
    assert distorted(whole, {}, rng()) is whole
    assert distorted(labelled(["Oslo"], []), {"Oslo": ("Porto",)}, rng()).sentence.text == "Porto"


def test_synonyms_neighbours_are_the_nearest_whole_words() -> None:
    encoder = tiny_encoder()
    ids, texts = whole_words(encoder.tokenizer)
    assert "sang" in texts and "able" not in texts and "[MASK]" not in texts and "." not in texts
    table = encoder.model.get_input_embeddings().weight.detach()
    found = neighbours(["sang", "Leeds", "unheard"], encoder.tokenizer, table)
    assert found.shape == (3, MOST) and (found[2] == -1).all()
    near = {
        other: float(torch.cosine_similarity(table[ids[texts.index("sang")]], table[ids[texts.index(other)]], dim=0))
        for other in texts
        if other != "sang"
    }
    best = sorted(near, key=lambda text: -near[text])[:MOST]
    made = from_neighbours(["sang", "Leeds", "unheard"], found, encoder.tokenizer)
    assert list(made["sang"]) == best and "unheard" not in made
    assert all(text[0].isupper() for text in made["Leeds"])


def test_synonyms_candidates_and_case() -> None:
    assert candidates(["the", "Oslo", "sang", "UN", "1999", "x-ray"]) == ["Oslo", "UN", "sang"]
    assert [in_case_of(word, "city") for word in ("town", "Town", "TOWN")] == ["city", "City", "CITY"]


def test_synonyms_wordnet_gives_other_single_words() -> None:
    lexicon = {"Sang": {"sing", "chant", "break_down", "sang"}, "Oslo": set[str]()}
    assert from_wordnet(["Sang", "Oslo"], lambda word: lexicon[word]) == {"Sang": ("Chant", "Sing")}


def small_wordnet(folder: Path) -> Path:
    """Write a WordNet of two synsets in its own format, under a licence as long as a line."""
    synsets = {
        "verb": ["33 v 03 sing 0 chant 0 break_down 2 001 @ 00000001 v 0000 01 + 02 00 | to make music"],
        "adj": ["00 s 02 big(p) 0 large 0 000 | of size"],
        "noun": [],
        "adv": [],
    }
    for part, lines in synsets.items():
        licence, index = "  1 All rights reserved\n", ["  1 All rights reserved"]
        data = licence
        for line in lines:
            offset = f"{len(data):08d}"
            words = [word.partition("(")[0] for word in line.split()[3 : 3 + 2 * int(line.split()[2], 16) : 2]]
            index += [f"{word} {part[0]} 1 1 @ 1 0 {offset}" for word in words]
            data += f"{offset} {line}\n"
        (folder / f"data.{part}").write_text(data)
        (folder / f"index.{part}").write_text("".join(f"{line}\n" for line in index))
    (folder / "verb.exc").write_text("sang sing\n")
    return folder


def test_synonyms_wordnet_is_read_from_the_files_of_debians_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lexicon = read_wordnet(small_wordnet(tmp_path))
    assert lexicon is not None
    assert lexicon("Sing") == lexicon("sang") == {"sing", "chant", "break_down"}
    assert lexicon("large") == {"big", "large"} and lexicon("Oslo") == set()
    for word in ("sings", "singing", "chanted", "chants"):
        assert lexicon(word) == lexicon("sing"), "endings of verbs"
    assert lexicon("larger") == lexicon("largest") == lexicon("large") and not lexicon("largely") | lexicon("singings")
    assert read_wordnet(tmp_path / "none") is None
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    monkeypatch.setattr("importlib.import_module", _no_nltk)
    chosen = pick_wordnet("auto")
    assert chosen is not None and from_wordnet(["Sang"], chosen) == {"Sang": ("Chant", "Sing")}


@pytest.mark.parametrize("name", ["pdaln", "pdaln_unsupervised"])
def test_synonyms_of_a_run_are_named_in_its_notes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.import_module", _no_nltk)

    def noted(folder: Path, **changes: Any) -> list[str]:
        monkeypatch.setenv("WNSEARCHDIR", str(folder))
        data = TrainingData(train=(SONG,), types=("person", "location"), dev=(SONG,), sources=(SourceCorpus((SONG,)),))
        recipe = Recipe.from_dict({"setting": name, **changes})
        return [note for note in setting(name).plan(recipe, data)[0].notes if "Synonyms" in note]

    assert noted(tmp_path / "none") == ["Synonyms of distorted sentences: the encoder's embeddings."]
    small_wordnet(tmp_path)
    assert noted(tmp_path) == ["Synonyms of distorted sentences: WordNet."]
    assert noted(tmp_path, pdaln_synonyms="encoder") == ["Synonyms of distorted sentences: the encoder's embeddings."]
    assert noted(tmp_path, pdaln_use_contrastive=False) == []


def _no_nltk(name: str) -> None:
    raise ImportError(name)


def test_synonyms_wordnet_with_files_of_two_versions_is_refused(tmp_path: Path) -> None:
    folder = small_wordnet(tmp_path)
    (folder / "data.verb").write_text("  1 A longer licence than before\n")
    lexicon = read_wordnet(folder)
    assert lexicon is not None
    with pytest.raises(BadInput, match=r"data\.verb has no synset at byte"):
        lexicon("sing")
    (folder / "index.adv").write_text("often r few\n")
    with pytest.raises(BadInput, match=r"index\.adv, line 1"):
        read_wordnet(folder)


def test_synonyms_wordnet_that_must_be_and_is_not_is_said() -> None:
    assert pick_wordnet("encoder") is None
    if wordnet() is None:
        with pytest.raises(InvalidConfig, match="auto or encoder"):
            pick_wordnet("wordnet")

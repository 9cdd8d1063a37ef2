"""Types of sources as the target's: by name, by parent, by a map, kept apart; how often each source counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.training.data import SourceCorpus, weighted
from crossner_core.training.recipe import source_key
from crossner_core.training.sources import SourceLine, prepared, source_lines, source_warnings, temperature_weights
from tests.support.training_builders import TYPES, labelled, own_sentences, tiny_data, tiny_recipe

_NEWS = (
    labelled(["Ada", "met", "Milo"], [(0, 1, "singer"), (2, 3, "person")], id="a"),
    labelled(["Oslo", "won"], [(0, 1, "town")], id="b"),
)
NEWS = SourceCorpus(_NEWS, _NEWS[:1], name="news", parents={"singer": "artist", "artist": "person"})
PRESS = SourceCorpus(own_sentences(4, offset=100), name="press")


def _recipe(**changes: object) -> tuple[SourceCorpus, ...]:
    recipe = tiny_recipe(**{"setting": "joint", "source": "news, press", **changes})
    return prepared(recipe, (NEWS, PRESS), TYPES)


def _marked(source: SourceCorpus) -> list[str]:
    return [span.type for item in source.train for span in item.spans]


def test_types_are_shared_by_name_and_sources_ordered_by_theirs() -> None:
    recipe = tiny_recipe(setting="joint", source="press, news")
    assert prepared(recipe, (PRESS, NEWS), TYPES) == (NEWS, PRESS)


def test_type_becomes_the_nearest_ancestor_that_the_target_has() -> None:
    news, press = _recipe(source_map="parent")
    assert _marked(news) == ["person", "person", "town"] and press == PRESS
    assert [span.type for span in news.dev[0].spans] == ["person", "person"]
    assert news.types == {"person", "town"} and news.called == {"singer": "person", "person": "person", "town": "town"}


def test_parent_of_a_type_that_the_target_has_stays() -> None:
    (source,) = prepared(tiny_recipe(setting="joint", source_map="parent"), (NEWS,), ("singer", "person"))
    assert source == NEWS


def test_single_types_are_renamed_left_out_and_kept_apart() -> None:
    news, press = _recipe(source_types="town@news=location, singer=, person@news")
    assert _marked(news) == ["person@news", "location"] and news.types == {"person@news", "location"}
    assert _marked(press) == _marked(PRESS)
    news, press = _recipe(source_types="person, person@press=person", source_map="parent")
    assert _marked(news) == ["person", "person@news", "town"] and "person" in press.types


def test_type_map_from_a_file_serves_sources(tmp_path: Path) -> None:
    path = tmp_path / "map.toml"
    path.write_text('drop = ["singer"]\nothers = "keep"\n[types]\ntown = "location"\n')
    news, press = _recipe(source_map=str(path), source_types="singer=person")
    assert _marked(news) == ["person", "person", "location"] and press == PRESS
    path.write_text('[types]\ntown = "location"\n')
    with pytest.raises(InvalidConfig, match=r"Source news has the type 'person', .*map does not name.*keep"):
        _recipe(source_map=str(path))
    with pytest.raises(BadInput, match="cannot be read"):
        _recipe(source_map=str(tmp_path / "gone.toml"))
    assert _marked(_recipe(source_map="conll", source_types="singer=, town=, band@press=")[1]).count("person") == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source_map": "sideways"}, "Unknown type map 'sideways'; known are conll"),
        ({"source_types": "=person"}, "source_types has '=person'; write TYPE=OURS"),
        ({"source_types": "person@"}, "source_types has 'person@'"),
        ({"source_types": "a=b, a=c"}, "names 'a' twice"),
        ({"source_types": "person@nws"}, "'nws' is no source; those of this recipe are news, press"),
        ({"source_temperature": 0.5}, r"source_temperature is 0.5; it must lie in \[1, 100\]"),
        ({"source_temperature": 2.0, "source": "news*3, press"}, r"source has the weights news\*3"),
    ],
)
def test_bad_map_or_temperature_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        _recipe(**changes)


def test_numbers_are_no_common_types() -> None:
    numbers = SourceCorpus((labelled(["Oslo", "won"], [(0, 1, "1")]),), name="ids")
    recipe = tiny_recipe(setting="joint", source="ids")
    with pytest.raises(InvalidConfig, match=r"ids and the target share the types 1, which are numbers.*1@ids=OURS"):
        prepared(recipe, (numbers,), ("1", "2"))
    named = replace(recipe, source_types="1=location")
    assert prepared(named, (numbers,), (*TYPES, "1"))[0].types == {"location"}
    first, second = source_warnings(prepared(recipe, (numbers,), TYPES), TYPES, recipe)
    assert "ids has types that are numbers (1)" in first and "no type in common with the target (it has 1)" in second
    reads = replace(recipe, architecture="type_aware")  # its types are read, whatever they are called
    assert len(source_warnings(prepared(reads, (numbers,), TYPES), TYPES, reads)) == 1


def test_entry_for_a_type_that_no_source_has_is_named() -> None:
    recipe = tiny_recipe(setting="joint", source="news, press", source_types="song=band, town=location")
    assert source_warnings(prepared(recipe, (NEWS, PRESS), TYPES), TYPES, recipe) == (
        "source_types has 'song', a type that no source has: it has no effect.",
    )


def test_temperature_draws_sources_more_evenly_and_as_many_sentences() -> None:
    assert temperature_weights([90, 10], 1) == (1.0, 1.0)
    many, few = temperature_weights([90, 10], 2)
    assert (90 * many) / (10 * few) == pytest.approx(3) and 90 * many + 10 * few == pytest.approx(100)
    assert temperature_weights([90, 10, 0], 100)[1] == pytest.approx(5, rel=0.02)
    assert temperature_weights([], 5) == () and temperature_weights([0], 5) == (1.0,)
    small, large = SourceCorpus(own_sentences(4), name="a"), SourceCorpus(own_sentences(36, offset=9), name="b")
    recipe = tiny_recipe(setting="joint", source="a, b", source_temperature=2.0)
    assert [len(weighted(source)) for source in prepared(recipe, (small, large), TYPES)] == [10, 30]


def test_lines_say_what_a_run_has_from_each_source() -> None:
    sources = _recipe(source="news*2, press", source_types="town=location, person@news, singer=")
    news, press = source_lines((replace(sources[0], weight=2.0), sources[1]), TYPES)
    assert (news.name, news.sentences, news.entities, news.weight, news.counts) == ("news", 2, 2, 2.0, 4)
    assert (news.shared, news.apart) == ((), ("person",))
    assert news.mapped == {"singer": "", "town": "location"}
    assert (press.shared, press.mapped, press.apart) == (("band", "location", "person"), {}, ())
    assert len(news.hash) == 12 and news.hash != source_lines((NEWS,), TYPES)[0].hash
    assert SourceLine.from_dict(news.to_dict()) == news


def test_source_checkpoint_is_shared_by_what_agrees_and_by_nothing_else() -> None:
    def key(*sources: SourceCorpus, types: tuple[str, ...] = TYPES, **changes: object) -> str:
        chosen = sources or (NEWS, PRESS)
        recipe = tiny_recipe(setting="pretrain_finetune", source="news, press", **changes)
        data = replace(tiny_data(), sources=prepared(recipe, chosen, types))
        return source_key(recipe, data, "f" * 64)

    plain = key()
    same = [
        key(PRESS, NEWS),
        key(seed=7),
        key(learning_rate=1e-4),
        key(source_map="parent", types=("singer", "town", *TYPES)),
        key(source_types="town=town"),
        key(types=("painter",)),
    ]
    assert set(same) == {plain}
    other = [
        key(NEWS),
        key(replace(NEWS, weight=2.0), PRESS),
        key(source_temperature=3.0),
        key(source_map="parent"),
        key(source_types="town=location"),
        key(source_types="person@news"),
        key(source_unmarked="unknown"),
        key(replace(NEWS, annotates=frozenset({"song"})), PRESS, source_unmarked="unknown"),
        key(source_seed=1),
        key(source_epochs=5),
    ]
    assert len({plain, *other}) == len(other) + 1
    first, second = own_sentences(2, offset=5), own_sentences(2, offset=7)
    cut = [
        key(SourceCorpus(first + second[:at], name="news"), SourceCorpus(second[at:], name="press"),
            source_unmarked="unknown")
        for at in (0, 1)
    ]  # fmt: skip
    assert cut[0] != cut[1]  # the same sentences, but another corpus leaves types unmarked in one of them

"""Source corpora of a recipe: data sets, and other campaigns' gold, frozen when a run is queued."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import InvalidConfig, NotAllowed, NotFound
from crossner_core.training.recipe import Recipe
from db import campaign_rows
from db.engine import Store
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, person, recipe_here
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import snapshots
from workbench.data.datasets import get_dataset, import_dataset
from workbench.runs import adaptation, rounds, source_corpora, training_data
from workbench.runs.adaptation import start_run
from workbench.runs.source_preview import preview_sources


def test_gold_of_another_campaign_is_frozen_and_learnt_from(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    older, target = campaign_with_gold(store, admin), own_dataset(store, admin)
    own_dataset(store, admin, name="news", train=5)
    recipe = recipe_here(tmp_path, setting="joint", source=f"news, gold:{older}*2")
    run_id = start_run(store, admin, dataset_id=target.id, recipe=recipe)
    (frozen,) = snapshots.list_snapshots(store, admin, older)
    with store.read() as session:
        stored, data = training_data.for_run(session, run_id)
    assert stored.source == f"news, snapshot:{frozen.name}*2"
    news, gold = data.sources
    assert (len(news.train), len(gold.train), len(gold.dev), gold.weight) == (5, 20, 8, 2.0)
    assert gold.types == frozenset(frozen.types) and len(data.source_train) == 5 + 40
    with store.read() as session:
        test = snapshots.content_of(session, frozen.id)[1]["test"]
    assert test and not {item.sentence.text for item in test} & {item.sentence.text for item in data.source_train}


def test_sources_are_listed_with_what_they_are(store: Store) -> None:
    admin = person(store, "admin")
    older = campaign_with_gold(store, admin)
    campaigns.create_campaign(store, admin, name="empty", domain=campaigns.get_domain(store, admin, older))
    own_dataset(store, admin, name="news")
    listed = source_corpora.list_sources(store, admin)
    name = campaigns.get_campaign(store, admin, older).name
    assert [(source.name, source.words) for source in listed] == [
        ("news", "news · data set"), (f"gold:{older}", f"{name} · gold, 20 sentences"),
    ]  # fmt: skip
    assert [source.name for source in source_corpora.list_sources(store, admin, without_campaign=older)] == ["news"]
    for role in ("annotator", "expert"):
        with pytest.raises(NotAllowed):
            source_corpora.list_sources(store, person(store, role))


def test_source_that_cannot_be_one_is_refused_and_nothing_is_queued(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    bare = campaigns.create_campaign(
        store, admin, name="bare", domain=campaigns.get_domain(store, admin, campaign_id)
    )  # fmt: skip

    def refused(source: str, error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=words):
            start_run(
                store,
                admin,
                campaign_id=campaign_id,
                snapshot_id=snapshot.id,
                recipe=recipe_here(tmp_path, setting="joint", source=source),
            )

    refused(f"gold:{campaign_id}", InvalidConfig, "the same data as is to be trained on")
    refused(f"snapshot:{snapshot.name}", InvalidConfig, "the same data as is to be trained on")
    refused("gold:music", InvalidConfig, "number of a campaign")
    refused("gold:9999", NotFound, "no campaign 9999")
    refused(f"gold:{bare}", Exception, "no gold|There is no")
    refused("snapshot:0123456789ab", NotFound, "may have been deleted")
    refused("snapshot:", NotFound, "may have been deleted")
    assert adaptation.list_runs(store, admin, campaign_id) == ()


def test_run_whose_source_was_deleted_says_so(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    older, target = campaign_with_gold(store, admin), own_dataset(store, admin)
    recipe = recipe_here(tmp_path, setting="joint", source=f"gold:{older}")
    run_id = start_run(store, admin, dataset_id=target.id, recipe=recipe)
    campaigns.update_settings(store, admin, older, archived=True)
    campaigns.delete_campaign(store, admin, older)
    with store.read() as session, pytest.raises(NotFound, match="its campaign may have been deleted"):
        training_data.for_run(session, run_id)


def test_each_round_learns_from_the_others_gold_as_it_is_then(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    older, newer = campaign_with_gold(store, admin), campaign_with_gold(store, admin, name="newer")
    sentences.add_sentences(store, admin, older, in_music(own_sentences(3, offset=36)))
    recipe = recipe_here(tmp_path, setting="joint", source=f"gold:{older}")
    rounds.change_round_settings(store, admin, newer, strategy="longest", recipe=recipe.to_dict())
    with store.write() as session:
        campaign = campaign_rows.find(session, newer)
        assert campaign is not None
        run_id = adaptation.start_run_on_gold(session, admin, campaign, recipe)
    with store.read() as session:
        stored, _ = training_data.for_run(session, run_id)
    assert stored.source == f"snapshot:{snapshots.list_snapshots(store, admin, older)[0].name}"
    assert replace(stored, source=recipe.source) == recipe


def _other_guideline(store: Store, admin: Actor, campaign_id: int) -> None:
    """Write another guideline for `band` into a campaign's domain."""
    domain = load_domain("music")
    kinds = [replace(kind, guideline="Choirs too.") if kind.name == "band" else kind for kind in domain.types]
    campaigns.update_domain(store, admin, campaign_id, replace(domain, types=tuple(kinds)))


def test_types_of_a_source_are_mapped_and_kept_apart_by_its_frozen_name(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    older, target = campaign_with_gold(store, admin), own_dataset(store, admin)
    own_dataset(store, admin, name="news", train=5)
    path = tmp_path / "map.toml"
    path.write_text('others = "keep"\n[types]\nmusicalartist = "person"\nsong = "band"\nunheard = "person"\n')
    recipe = recipe_here(
        tmp_path,
        setting="joint",
        source=f"gold:{older}, news",
        source_types=f"band@gold:{older}, person@news=",
        source_map=str(path),
    )
    run_id = start_run(store, admin, dataset_id=target.id, recipe=recipe)
    path.unlink()  # what it said is in the recipe
    (frozen,) = snapshots.list_snapshots(store, admin, older)
    with store.read() as session:
        stored, data = training_data.for_run(session, run_id)
    apart = f"band@snapshot:{frozen.name}"
    assert stored.source_map == "name"
    assert stored.source_types == f"musicalartist=person, song=band, {apart}, person@news="
    news, gold = data.sources
    assert {span.type for item in gold.train for span in item.spans} == {"person", apart, "location"}
    assert {span.type for item in news.train for span in item.spans} == {"band", "location"}


def test_preview_says_what_is_shared_mapped_and_apart(store: Store) -> None:
    admin = person(store, "admin")
    older, newer = campaign_with_gold(store, admin), campaign_with_gold(store, admin, name="newer")
    own_dataset(store, admin, name="news", train=5)
    _other_guideline(store, admin, older)
    recipe = Recipe(setting="joint", source=f"news, gold:{older}", source_temperature=2.0, source_types="person=band")
    found = preview_sources(store, admin, recipe, campaign_id=newer)
    gold, news = found.lines
    assert (gold.name, gold.sentences, gold.mapped, gold.apart) == (f"gold:{older}", 20, {"person": "band"}, ())
    assert (news.sentences, news.shared, news.mapped) == (5, ("band", "location"), {"person": "band"})
    assert 20 * gold.weight == pytest.approx(2 * 5 * news.weight, rel=1e-3) and news.counts + gold.counts == 25
    assert found.warnings == () and snapshots.list_snapshots(store, admin, older) == ()
    (one,) = found.contradictions
    assert (one.type, one.source, one.there, one.is_apart) == ("band", f"gold:{older}", "Choirs too.", False)
    assert one.here == load_domain("music").type("band").guideline
    kept = preview_sources(store, admin, replace(recipe, source_types=one.entry), campaign_id=newer)
    assert kept.contradictions[0].is_apart and kept.lines[0].apart == ("band",)
    renamed = preview_sources(store, admin, replace(recipe, source_types="band=song"), campaign_id=newer)
    assert renamed.contradictions == ()
    assert preview_sources(store, admin, Recipe(), campaign_id=newer).lines == ()


def test_preview_refuses_what_a_run_would_and_warns_of_what_it_would_not(store: Store) -> None:
    admin = person(store, "admin")
    older, newer = campaign_with_gold(store, admin), campaign_with_gold(store, admin, name="newer")
    recipe = Recipe(setting="joint", source=f"gold:{older}")
    for role in ("annotator", "expert"):
        with pytest.raises(NotAllowed):
            preview_sources(store, person(store, role), recipe, campaign_id=newer)
    frozen = snapshots.freeze(store, admin, older)
    by_hash = replace(recipe, source=f"snapshot:{frozen.name}")
    assert preview_sources(store, admin, by_hash, campaign_id=newer).lines[0].sentences == 20
    with pytest.raises(InvalidConfig, match="is no source"):
        preview_sources(store, admin, replace(recipe, source_types="band@news"), campaign_id=newer)
    target = own_dataset(store, admin, name="plain")
    apart = replace(recipe, source_types="band, person, location")
    (line,) = preview_sources(store, admin, apart, dataset_id=target.id).warnings
    assert "no type in common with the target" in line
    campaigns.update_settings(store, admin, older, archived=True)
    campaigns.delete_campaign(store, admin, older)
    for gone in (recipe, by_hash):
        with pytest.raises(NotFound, match=r"no campaign|may have been deleted"):
            preview_sources(store, admin, gone, campaign_id=newer)


def test_numbers_as_types_are_refused_before_a_run_is_queued(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    tagged = ("train.conll", b"Oslo\tB-1\nwon\tO\n")
    for name in ("ids", "target"):
        import_dataset(store, admin, name=name, splits={"train": tagged})
    target = get_dataset(store, admin, "target")
    recipe = recipe_here(tmp_path, setting="joint", source="ids")
    with pytest.raises(InvalidConfig, match="share the types 1, which are numbers"):
        start_run(store, admin, dataset_id=target.id, recipe=recipe)
    assert adaptation.list_runs(store, admin, dataset_id=target.id) == ()
    assert start_run(store, admin, dataset_id=target.id, recipe=replace(recipe, source_types="1@ids"))

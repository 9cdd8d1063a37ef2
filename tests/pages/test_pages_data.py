"""The screens that look after sentences, domains and campaigns, as the people who may open them see them."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from streamlit.testing.v1 import AppTest

from crossner_core.domains import builtin_domains, domain_to_toml, load_domain
from crossner_core.errors import BadInput
from crossner_core.schema import LabelledSentence, Span, Suggestion, sentence_from_words
from crossner_core.training.recipe import Recipe
from db import account_rows, run_rows
from db.engine import Store
from db.tables import SentenceRow
from db.types import now
from pages import shell
from pages.components.marked_text import as_text
from tests.support import builders
from tests.support.paths import ROOT
from tests.support.screens import healthy, press, words
from workbench.accounts import sign_in as signing
from workbench.accounts.actors import SYSTEM, Actor
from workbench.campaigns import campaigns, domains, sentences
from workbench.campaigns.domain_drafts import draft_from_toml, draft_to_toml
from workbench.data import archive, browsing, datasets, exchange, staging
from workbench.data.searching import PLACES, Search
from workbench.jobs import queue
from workbench.jobs.worker import Worker
from workbench.runs import adaptation
from workbench.settings import settings_of
from workbench.suggestions import preannotating

CONLL = "Mara\tB-musicalartist\nVell\tI-musicalartist\nhums\tO\n\nNobody\tO\nclaps\tO\n"
BAD = "Mara\tB-pilot\nVell\tI-pilot\n"
Open = Callable[[str, str], AppTest]


@pytest.fixture
def screen(store: Store, people: dict[str, Actor], monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open a page as a person, signed in by a real session in the store."""
    monkeypatch.setattr(shell, "store", lambda: store)

    def opened(page: str, who: str) -> AppTest:
        token = f"token-of-{who}"
        with store.write() as session:
            account_rows.open_session(
                session,
                user_id=people[who].id,
                token_hash=signing.token_hash(token),
                expires_at=now() + dt.timedelta(hours=1),
            )
        monkeypatch.setattr(shell, "session_token", lambda: token)
        test = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=60)
        return healthy(test.run())

    yield opened


def switch(test: AppTest, key: str, value: str) -> AppTest:
    test.segmented_control(key=key).set_value(value)
    return healthy(test.run())


def field(test: AppTest, label: str, at: int = 0) -> object:
    return [one for one in test.text_input if one.label == label][at]


def calm_campaign(store: Store, people: dict[str, Actor]) -> int:
    """A campaign that asks for no suggestions on import."""
    return builders.make_campaign(store, people, name="Calm", suggestions_on=False)


@pytest.mark.parametrize(
    ("page", "who"),
    [("domains", "ann1"), ("campaigns", "eva"), ("new_campaign", "eva")],
)
def test_pages_data_refuse_other_roles(screen: Open, campaign: int, page: str, who: str) -> None:
    test = screen(page, who)
    assert "this is for" in words(test)
    assert not test.button and not test.dataframe


@pytest.mark.parametrize("page", ["data", "domains", "campaigns"])
def test_pages_data_refuse_strangers(screen: Open, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen(page, "adm")
    monkeypatch.setattr(shell, "session_token", lambda: "guessed")
    test = healthy(AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=60).run())
    assert "signed out" in words(test)
    assert not test.button and not test.dataframe


def test_browse_lists_and_filters_sentences(
    screen: Open, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    test = screen("data", "res")
    assert len(test.dataframe[0].value) == 6
    test.text_input(key="q").set_value("PAPER")
    assert list(healthy(test.run()).dataframe[0].value["Id"]) == ["music-2"]
    test.text_input(key="q").set_value("")
    test.selectbox(key="stage").set_value("gold")
    assert "No sentence matches" in words(healthy(test.run()))
    other = campaigns.create_campaign(store, people["adm"], name="another", domain=load_domain("politics"))
    sentences.add_sentences(
        store, people["adm"], other, [LabelledSentence(sentence_from_words(["Alone", "."], id="x"), ())]
    )
    test.session_state["campaign"] = other  # the filter stays with its own campaign
    assert list(healthy(test.run()).dataframe[0].value["Id"]) == ["x"]


def test_browse_shows_the_layers_of_a_sentence(
    screen: Open, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    builders.make_gold(store, people, campaign)
    shown = words(screen("data", "res"))
    for expected in ("Annotator 1 · Ann1", "Annotator 2 · Ann2", "Gold · Eva", ">Mara Vell<small", ">musical artist"):
        assert expected in shown


def test_browse_shows_what_a_submit_left_open(
    screen: Open, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    campaigns.update_settings(store, people["adm"], campaign, control_share=0)
    with store.read() as session:
        first = session.scalars(sa.select(SentenceRow.id).order_by(SentenceRow.position)).first()
    assert first is not None
    given = {first: (Suggestion(0, 2, "musicalartist", "model:run 3", 0.6),)}
    preannotating.add_model_suggestions(store, SYSTEM, campaign, run_id=3, suggestions=given)
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items()[0], [(4, 7, "band")])
    assert "Left open at submit: Mara Vell (musical artist)" in words(screen("data", "res"))


def test_browse_shows_user_text_as_text(screen: Open, store: Store, people: dict[str, Actor], campaign: int) -> None:
    sentence = sentence_from_words(["<img", "src=x", "onerror=alert(1)>", "&amp;"], id="<b>sly</b>")
    labelled = LabelledSentence(sentence, (Span(0, 2, "band"),))
    sentences.add_sentences(store, people["res"], campaign, [labelled])
    test = screen("data", "res")
    test.text_input(key="q").set_value("onerror")
    pieces = "".join(one.proto.body for one in healthy(test.run()).get("html"))
    assert "&lt;img src=x" in pieces and "&amp;amp;" in pieces
    assert "<img" not in pieces


def test_browse_finds_where_each_sentence_stands(store: Store, people: dict[str, Actor], campaign: int) -> None:
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    item = tab.items(1)[0]
    tab.do("submit", item, [(0, 2, "musicalartist")])
    places = {place: browsing.browse(store, people["res"], campaign, Search(place=place)).total for place in PLACES}
    assert places == {"annotate": 5, "check": 1, "adjudicate": 0, "gold": 0, "parked": 0}
    assert browsing.layer_counts(store, people["res"], campaign)["first"] == 1


def test_browse_pages_through_long_lists(store: Store, people: dict[str, Actor], campaign: int) -> None:
    first = browsing.browse(store, people["res"], campaign, limit=4)
    rest = browsing.browse(store, people["res"], campaign, offset=4, limit=4)
    assert (first.total, len(first.lines), len(rest.lines)) == (6, 4, 2)
    assert not {one.id for one in first.lines} & {one.id for one in rest.lines}


def test_import_brings_files_in_with_their_gold(screen: Open, store: Store, people: dict[str, Actor]) -> None:
    calm = calm_campaign(store, people)
    test = switch(screen("data", "res"), "data:view", "Import")
    test.file_uploader[0].set_value([("new.conll", CONLL.encode(), "text/plain")])
    assert healthy(test.run()).dataframe[0].value["Annotated"].tolist() == [2]
    test.selectbox(key=f"data:into:{calm}").set_value("dev")
    test.selectbox(key=f"data:annotation:{calm}").set_value("gold")
    press(test, "Import into")
    view = campaigns.get_campaign(store, people["res"], calm)
    assert (view.splits["dev"], view.gold) == (2, 2)
    assert "2 sentences imported, 2 of them with gold" in words(test)


def test_import_asks_for_the_split_in_each_campaign(
    screen: Open, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    calm = calm_campaign(store, people)
    test = switch(screen("data", "res"), "data:view", "Import")
    test.session_state["campaign"] = calm
    healthy(test.run())
    test.selectbox(key=f"data:into:{calm}").set_value("test")
    test.selectbox(key=f"data:annotation:{calm}").set_value("none")
    test.file_uploader[0].set_value([("new.conll", CONLL.encode(), "text/plain")])
    press(healthy(test.run()), "Import into Calm")
    test.session_state["campaign"] = campaign
    healthy(test.run())
    test.file_uploader[0].set_value([("new.conll", CONLL.encode(), "text/plain")])
    press(healthy(test.run()), "Import into Music")
    first, second = (campaigns.get_campaign(store, people["res"], id_) for id_ in (calm, campaign))
    assert (first.splits["test"], first.gold) == (2, 0)
    assert (second.splits["test"], second.splits["pool"], second.gold) == (0, 8, 0)


def test_import_takes_a_type_map(screen: Open, store: Store, people: dict[str, Actor]) -> None:
    calm = calm_campaign(store, people)
    test = switch(screen("data", "res"), "data:view", "Import")
    test.file_uploader[0].set_value([("news.conll", b"Mara\tB-PER\nsang\tO\n", "text/plain")])
    assert "'PER' is not one of" in words(healthy(test.run()))
    test.selectbox(key="data:type-map").set_value("conll")
    assert healthy(test.run()).dataframe[0].value["Types"].tolist() == ["person"]
    press(test, "Import into")
    assert campaigns.get_campaign(store, people["res"], calm).sentences == 7


def test_import_refuses_all_files_for_one_fault(screen: Open, store: Store, people: dict[str, Actor]) -> None:
    calm = calm_campaign(store, people)
    test = switch(screen("data", "res"), "data:view", "Import")
    files = [("good.conll", CONLL.encode(), "text/plain"), ("bad.conll", BAD.encode(), "text/plain")]
    test.file_uploader[0].set_value(files)
    shown = words(healthy(test.run()))
    assert "bad.conll:1:" in shown and "pilot" in shown and "musicalartist" in shown
    assert next(part for part in test.button if part.label.startswith("Import into")).disabled
    with pytest.raises(BadInput, match=r"bad\.conll:1") as refused:
        exchange.import_files(store, people["res"], calm, [(name, data) for name, data, _ in files])
    assert refused.value.problems
    assert campaigns.get_campaign(store, people["res"], calm).sentences == 6


def test_import_skips_bad_sentences_on_request(screen: Open, store: Store, people: dict[str, Actor]) -> None:
    calm = calm_campaign(store, people)
    test = switch(screen("data", "res"), "data:view", "Import")
    test.file_uploader[0].set_value([("half.conll", f"{BAD}\n{CONLL}".encode(), "text/plain")])
    test.toggle(key=f"data:skip:{calm}").set_value(True)
    press(healthy(test.run()), "Import into")
    assert campaigns.get_campaign(store, people["res"], calm).sentences == 8
    assert "half.conll:1:" in words(test)


def test_import_leaves_files_that_take_long_to_the_worker(
    screen: Open, store: Store, people: dict[str, Actor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    monkeypatch.setattr(staging, "LONG", 0.0)
    calm = calm_campaign(store, people)
    test = switch(screen("data", "res"), "data:view", "Import")
    test.file_uploader[0].set_value([("new.conll", CONLL.encode(), "text/plain")])
    test.selectbox(key=f"data:annotation:{calm}").set_value("gold")
    assert "all or none" in words(healthy(test.run()))
    press(test, "Import into")
    assert "Waiting for the worker" in words(test) and not test.file_uploader
    assert campaigns.get_campaign(store, people["res"], calm).gold == 0
    Worker(store, settings_of(store)).run(once=True)
    text = words(healthy(test.run()))
    assert "The last large import: done" in str(test.expander) and "2 sentences imported; 2 with gold" in text
    assert campaigns.get_campaign(store, people["res"], calm).gold == 2

    test.file_uploader[0].set_value([("bad.conll", BAD.encode(), "text/plain")])
    press(healthy(test.run()), "Import into")
    queue.cancel_in_campaign(store, people["res"], calm, staging.KIND)
    assert "The last large import: cancelled" in str(healthy(test.run()).expander)
    test.file_uploader[0].set_value([("bad.conll", BAD.encode(), "text/plain")])
    press(healthy(test.run()), "Import into")
    Worker(store, settings_of(store)).run(once=True)
    healthy(test.run())
    assert any("bad.conll:1" in each.value for each in (*test.error, *test.code))


def test_import_without_gold_sends_sentences_to_people(screen: Open, store: Store, people: dict[str, Actor]) -> None:
    calm = calm_campaign(store, people)
    test = switch(screen("data", "res"), "data:view", "Import")
    test.file_uploader[0].set_value([("new.conll", BAD.encode(), "text/plain")])
    test.selectbox(key=f"data:annotation:{calm}").set_value("none")
    press(healthy(test.run()), "Import into")
    view = campaigns.get_campaign(store, people["res"], calm)
    assert (view.sentences, view.gold, view.stages[0].open) == (7, 0, 7)


def test_import_pre_annotates_at_once(screen: Open, store: Store, people: dict[str, Actor], campaign: int) -> None:
    test = switch(screen("data", "res"), "data:view", "Import")
    test.file_uploader[0].set_value([("new.txt", b"Mara Vell moved to Oslo.\nShe sang in Norway.", "text/plain")])
    press(healthy(test.run()), "Import into")
    assert "2 sentences imported" in words(test)
    found = browsing.browse(store, people["res"], campaign, Search(text="Oslo."))
    layers = browsing.sentence_layers(store, people["res"], campaign, found.lines[0].id)
    assert layers.preannotated and not layers.work


def test_export_says_why_a_download_failed(screen: Open, campaign: int) -> None:
    test = switch(screen("data", "res"), "data:view", "Export")
    test.session_state["lazy-download:reasons"] = ["x.conll: *two* files"]
    assert r"x\.conll\: \*two\* files" in words(healthy(test.run()))


def test_drafts_of_domains_come_back_from_toml() -> None:
    for name in builtin_domains():
        text = domain_to_toml(load_domain(name))
        assert draft_to_toml(draft_from_toml(text)) == text


def test_export_offers_what_there_is(screen: Open, store: Store, people: dict[str, Actor], campaign: int) -> None:
    test = switch(screen("data", "res"), "data:view", "Export")
    assert "(0)" in test.radio(key="data:layer").options[0]
    assert "no sentences yet" in words(test)
    builders.make_gold(store, people, campaign)
    assert "(6)" in healthy(test.run()).radio(key="data:layer").options[0]
    assert "no sentences yet" not in words(test)
    assert [one.proto.label for one in test.get("download_button")][1] == "Download the whole campaign (zip)"


def test_export_asks_for_layers_beside_and_for_names(
    screen: Open, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    builders.make_gold(store, people, campaign)
    test = switch(screen("data", "res"), "data:view", "Export")
    assert not [box for box in test.checkbox if box.key == "data:names"]
    test.multiselect(key="data:besides:gold").set_value(["first", "suggestions"])
    test.selectbox(key="data:out").set_value("conll")
    assert "has no place for other layers" in words(healthy(test.run()))
    press(test, "What would be left out?")
    assert "6 people and times of sentences" not in words(test) and "6 sentences of the layer first" in words(test)
    test.selectbox(key="data:out").set_value("label-studio")
    healthy(test.run()).checkbox(key="data:names").check()
    assert "which is personal data" in words(healthy(test.run()))
    assert "has no place" not in words(test)


def test_data_sets_are_made_from_uploads(screen: Open, store: Store, people: dict[str, Actor], campaign: int) -> None:
    test = switch(screen("data", "res"), "data:view", "Data sets")
    field(test, "Name").set_value("tiny")  # type: ignore[attr-defined]
    test.file_uploader[0].set_value(("train.conll", CONLL.encode(), "text/plain"))
    press(test, "Import the data set")
    assert datasets.get_dataset(store, people["res"], "tiny").count("train") == 2
    assert list(test.dataframe[0].value["Data set"]) == ["tiny"]
    press(test, "Delete this data set")
    assert datasets.list_datasets(store, people["res"]) == ()


def test_domains_show_types_with_their_guidelines(screen: Open) -> None:
    test = screen("domains", "res")
    test.selectbox(key="domains:which").set_value("music")
    shown = words(healthy(test.run()))
    for one in load_domain("music").types:
        assert f"<kbd>{one.key}</kbd>{one.name}" in shown
    assert "a kind of organisation" in shown


def test_domains_define_one_from_a_copy(screen: Open, store: Store, people: dict[str, Actor]) -> None:
    test = switch(screen("domains", "res"), "domains:view", "Define")
    test.selectbox(key="domains:start").set_value("music")
    press(test, "Start")
    assert field(test, "Name").value == "mymusic"  # type: ignore[attr-defined]
    press(test, "Save")
    saved = domains.get_domain(store, "mymusic")
    assert saved.types == load_domain("music").types
    assert "mymusic is saved" in words(test)


def test_domains_say_what_is_wrong_in_a_definition(screen: Open, store: Store, people: dict[str, Actor]) -> None:
    test = switch(screen("domains", "res"), "domains:view", "Define")
    assert "Give the domain a name" in words(test)
    control = next(one for one in test.segmented_control if one.label == "Edit as")
    control.set_value("TOML")
    healthy(test.run())
    test.text_area[0].set_value('name = "trains"\n[[types]]\nname = "engine"\nparent = "vehicle"\n')
    assert "unknown parent" in words(healthy(test.run()))
    assert next(part for part in test.button if part.label == "Save").disabled
    test.text_area[0].set_value('name = "trains"\n[[types]]\nname = "engine"\n')
    press(healthy(test.run()), "Save")
    assert domains.get_domain(store, "trains").type_names == ("engine",)


def test_domains_keep_a_draft_across_views(screen: Open) -> None:
    test = switch(screen("domains", "res"), "domains:view", "Define")
    field(test, "Name").set_value("trains")  # type: ignore[attr-defined]
    healthy(test.run())
    next(one for one in test.segmented_control if one.label == "Edit as").set_value("TOML")
    assert 'name = "trains"' in healthy(test.run()).text_area[0].value
    switch(test, "domains:view", "Read")
    assert 'name = "trains"' in switch(test, "domains:view", "Define").text_area[0].value
    test.text_area[0].set_value("name = ")
    next(one for one in test.segmented_control if one.label == "Edit as").set_value("Table")
    assert "cannot show" in words(healthy(test.run()))
    assert test.text_area[0].value == "name = "


def test_campaigns_researchers_change_members_and_nothing_that_is_an_admins(
    screen: Open, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    test = screen("campaigns", "res")
    parts = next(one for one in test.segmented_control if one.key == "campaigns:part")
    assert parts.options == ["Members", "Pre-annotation", "Guidelines", "Outside models", "Webhooks"]
    assert "campaigns:view" not in {one.key for one in test.segmented_control}  # no import of a zip to choose
    test.multiselect(key=f"campaigns:people:{campaign}").set_value([people["ann2"].id])
    press(test, "Save the members")
    assert [one.name for one in campaigns.get_campaign(store, people["res"], campaign).members] == ["ann2"]


def test_campaigns_show_the_addresses_for_other_tools(screen: Open, campaign: int) -> None:
    test = screen("campaigns", "res")
    assert "Use from INCEpTION, Label Studio" in [one.label for one in test.expander]
    shown = [one.value.partition("/api/")[2] for one in test.code]
    assert shown == [f"inception/{campaign}/TOKEN", f"label-studio/{campaign}/TOKEN", ""]


def test_campaigns_try_guidelines_with_a_model_that_reads_them(
    screen: Open, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    test = switch(screen("campaigns", "res"), "campaigns:part", "Guidelines")
    assert "No type-aware model is here yet" in words(test) and not test.text_area
    splits = {"train": ("train.conll", CONLL.encode())}
    data = datasets.import_dataset(store, people["res"], name="songs", splits=splits)
    run_id = adaptation.start_run(
        store, people["res"], dataset_id=data.id, recipe=Recipe(architecture="type_aware", max_epochs=1)
    )
    with store.write() as session:
        run_rows.update(session, run_id, state="done", checkpoint="checkpoints/run-1/tagger")
    healthy(test.run())
    band = next(part for part in test.text_area if part.label == "band")
    assert band.value == load_domain("music").type("band").guideline and "Changed and not kept" not in words(test)
    assert "Suggest with this model" in {part.label for part in test.button}
    band.set_value("Mark <b>bands</b>.")
    healthy(test.run())
    assert as_text("Changed and not kept yet: band.") in words(test)
    assert "Try on ten sentences" in {part.label for part in test.button}
    press(test, "Keep these guidelines")
    kept = campaigns.get_domain(store, people["res"], campaign)
    assert kept.type("band").guideline == "Mark <b>bands</b>." and "Changed and not kept" not in words(test)


def test_campaigns_change_rules_members_and_archive(
    screen: Open, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    test = screen("campaigns", "adm")
    test.text_input(key=f"campaigns:endpoint:{campaign}").set_value("ftp://nowhere")
    press(test, "Save the rules")
    assert as_text("http://") in words(test)
    test.text_input(key=f"campaigns:endpoint:{campaign}").set_value("http://localhost:3030/sparql")
    press(test, "Save the rules")
    switch(test, "campaigns:part", "Members")
    test.multiselect(key=f"campaigns:people:{campaign}").set_value([people["ann1"].id])
    press(test, "Save the members")
    switch(test, "campaigns:part", "Pre-annotation")
    press(test, "Queue pre-annotation again")
    press(test, "Cancel pre-annotation")
    assert "Cancel pre-annotation" not in [button.label for button in test.button]
    switch(test, "campaigns:part", "Domain and archive")
    press(test, "Archive")
    view = campaigns.get_campaign(store, people["adm"], campaign)
    assert view.endpoint == "http://localhost:3030/sparql" and view.archived
    assert [one.name for one in view.members] == ["ann1"]
    assert [job.kind for job in queue.list_jobs(store, people["adm"], campaign)] == ["preannotate"]
    assert queue.list_jobs(store, people["adm"], campaign)[0].state == "cancelled"


def test_campaigns_delete_only_by_name(screen: Open, store: Store, people: dict[str, Actor], campaign: int) -> None:
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    test = switch(screen("campaigns", "adm"), "campaigns:part", "Domain and archive")
    assert zipfile.is_zipfile(io.BytesIO(archive.export_campaign(store, people["adm"], campaign)))
    assert "Download the whole campaign (zip)" in str(test.main)
    (button,) = [button for button in test.button if button.label == "Delete the campaign"]
    assert button.disabled
    test.text_input(key=f"campaigns:delete:{campaign}").set_value("Music")
    press(healthy(test.run()), "Delete the campaign")
    assert campaigns.list_campaigns(store, people["adm"], archived=True) == ()


def test_campaigns_import_an_exported_one(screen: Open, store: Store, people: dict[str, Actor], campaign: int) -> None:
    builders.make_gold(store, people, campaign)
    data = archive.export_campaign(store, people["adm"], campaign)
    test = switch(screen("campaigns", "adm"), "campaigns:view", "Import a zip")
    test.file_uploader[0].set_value(("music.zip", data, "application/zip"))
    field(test, "Name").set_value("Again")  # type: ignore[attr-defined]
    press(test, "Import the campaign")
    made = campaigns.list_campaigns(store, people["adm"])[0]
    assert (made.name, made.sentences, made.gold) == ("Again", 6, 6)


def test_campaigns_take_over_a_changed_domain(screen: Open, store: Store, people: dict[str, Actor]) -> None:
    text = 'name = "trains"\n[[types]]\nname = "engine"\n'
    made = campaigns.create_campaign(
        store, people["adm"], name="Trains", domain=domains.save_domain(store, people["adm"], text)
    )
    domains.save_domain(store, people["adm"], f'{text}[[types]]\nname = "station"\n')
    test = switch(screen("campaigns", "adm"), "campaigns:part", "Domain and archive")
    press(test, "Use the changed domain")
    view = campaigns.get_campaign(store, people["adm"], made)
    assert view.domain.type_names == ("engine", "station")

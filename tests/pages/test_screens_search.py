"""Sentences as a search: what each role may find, see and open, and types proposed in all hits."""

from __future__ import annotations

import pytest

from db.engine import Store
from tests.support import builders
from tests.support.screens import healthy, html, open_screen, press, words
from workbench.accounts.actors import Actor
from workbench.data import browsing
from workbench.data.searching import Search
from workbench.labelling import handout
from workbench.suggestions import from_search

People = dict[str, Actor]


@pytest.fixture
def half_done(store: Store, people: People, campaign: int) -> int:
    """ann1 has called Mara Vell a song and sent it; nobody else has begun anything."""
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0], [(0, 2, "song")])
    return campaign


def test_search_screen_marks_the_match_and_lines_it_up(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    test = healthy(open_screen(monkeypatch, store, "data", people["res"], campaign=campaign, query={"q": "oslo"}))
    row = test.dataframe[0].value.iloc[0]
    assert (row["Before"][-8:], row["Match"], row["After"]) == ("Gulls in", "Oslo", ".")
    assert ">Oslo</mark>" in html(test)


def test_search_screen_takes_the_search_from_the_address(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    query = {"q": "^the", "regex": "true", "stage": "to annotate"}
    test = healthy(open_screen(monkeypatch, store, "data", people["res"], campaign=campaign, query=query))
    assert list(test.dataframe[0].value["Id"]) == ["music-2", "music-6"]
    assert "Stage: to annotate" in words(test).replace("\\", "")
    test.text_input(key="q").set_value("^(the album")
    assert "is no regular expression: missing )" in words(healthy(test.run())).replace("\\", "")
    press(test, "Clear filters")
    assert test.selectbox(key="stage").value == ""


def test_search_screen_clears_the_search_of_another_campaign(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    other = builders.make_campaign(store, people, name="Other")
    test = open_screen(monkeypatch, store, "data", people["res"], campaign=campaign, query={"q": "oslo"})
    assert len(test.dataframe[0].value) == 1
    test.session_state["campaign"] = other
    assert len(healthy(test.run()).dataframe[0].value) == 6 and test.text_input(key="q").value == ""


def test_search_screen_opens_ones_own_work(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, half_done: int
) -> None:
    test = healthy(open_screen(monkeypatch, store, "data", people["ann1"], campaign=half_done, query={"q": "mara"}))
    assert "My annotation" in words(test) and ">Mara Vell<small" in html(test)
    assert "Open in Annotate" in [button.label for button in test.button]


def test_search_screen_shows_others_the_sentence_only(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, half_done: int
) -> None:
    for name in ("ann2", "eva"):
        test = healthy(open_screen(monkeypatch, store, "data", people[name], campaign=half_done, query={"q": "mara"}))
        assert "Read only" in words(test) and "song" not in html(test)
        assert not [button for button in test.button if button.label.startswith("Open")]
    test = open_screen(monkeypatch, store, "data", people["res"], campaign=half_done, query={"q": "mara"})
    assert "annotators their own work" in words(test) and "song" in html(test)


def test_search_screen_tells_an_expert_what_opening_gold_means(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    builders.make_gold(store, people, campaign)
    test = healthy(open_screen(monkeypatch, store, "data", people["eva"], campaign=campaign, query={"q": "mara"}))
    assert "Open in Adjudicate" in [button.label for button in test.button]
    assert "It stops being gold until you send it again." in words(test)
    assert "Annotator 1 · Ann1" in words(test)


@pytest.mark.parametrize(("who", "views"), [("ann1", 0), ("eva", 2), ("res", 5)])
def test_search_screen_has_the_views_of_the_role(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int, who: str, views: int
) -> None:
    test = healthy(open_screen(monkeypatch, store, "data", people[who], campaign=campaign))
    assert [len(control.options) for control in test.segmented_control] == ([views] if views else [])
    assert ("differ" in {box.key for box in test.selectbox}) == (who != "ann1")
    if who != "res":
        test.session_state["data:view"] = "Import"
        assert not healthy(test.run()).get("file_uploader")


def test_bulk_screen_previews_writes_and_withdraws(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    test = healthy(open_screen(monkeypatch, store, "data", people["eva"], campaign=campaign, query={"q": "paper"}))
    test.selectbox(key=f"bulk:type:{campaign}").set_value("album")
    assert "1 place in 1 sentence" in words(healthy(test.run()))
    assert from_search.proposed(store, people["eva"], campaign) == ()
    press(test, "Propose in 1 place")
    assert "1 suggestion written" in words(test)
    assert [made.types for made in from_search.proposed(store, people["eva"], campaign)] == [("album",)]
    test.segmented_control(key="data:view").set_value("Proposals")
    assert list(healthy(test.run()).dataframe[0].value["Suggestions"]) == [1]
    press(test, "Withdraw 1 suggestion")
    assert from_search.proposed(store, people["eva"], campaign) == ()


def test_bulk_screen_shows_a_search_from_an_address_as_text(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    query = {"q": "![x](https://evil.example/x)|mara", "regex": "true"}  # an expression, and an image in Markdown
    test = healthy(open_screen(monkeypatch, store, "data", people["eva"], campaign=campaign, query=query))
    (label,) = (box.label for box in test.selectbox if box.key == f"bulk:type:{campaign}")
    assert "evil" in label and "](" not in label


def test_bulk_screen_is_not_for_annotators(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    test = healthy(open_screen(monkeypatch, store, "data", people["ann1"], campaign=campaign, query={"q": "paper"}))
    assert not [box for box in test.selectbox if str(box.key).startswith("bulk")]


@pytest.mark.parametrize(
    ("back", "label"), [("data?q=mara&campaign=1", "Back to the search"), ("errors?campaign=1", ""),
                        ("https://evil.example/data", ""), ("annotate", "")],
)  # fmt: skip
def test_editor_links_back_to_lists_of_ours_that_one_may_see(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int, back: str, label: str
) -> None:
    handout.items(store, people["ann1"], campaign, "annotate")
    assert browsing.browse(store, people["ann1"], campaign, Search(text="mara")).total == 1
    from pages.parts.work import opening

    linked: list[tuple[str, object]] = []
    monkeypatch.setattr(
        opening.st, "page_link", lambda page, *, label, query_params, **_: linked.append((label, query_params))
    )
    healthy(open_screen(monkeypatch, store, "annotate", people["ann1"], campaign=campaign, query={"back": back}))
    assert [made[0] for made in linked] == ([label] if label else [])
    assert not label or dict(linked[0][1]) == {"q": "mara", "campaign": "1"}  # type: ignore[call-overload]

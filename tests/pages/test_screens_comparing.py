"""The screens Compare and Errors with real runs behind them, and the report that pages can be saved as."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from db.engine import Store
from pages.components.html_report import HtmlReport
from pages.parts.model import comparison, error_browser
from tests.support.builders import make_campaign, make_people, make_person
from tests.support.campaigns import campaign_with_gold, suggested
from tests.support.screens import html, open_screen
from tests.support.training_store import person, recipe_here, work
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import snapshots
from workbench.reports import comparing, errors_browsing
from workbench.reports.errors_browsing import SUGGESTED, Speaker
from workbench.runs import adaptation

HOSTILE = '<img src=q onerror="pwned=1"></script><script>pwned=1</script>'
Trained = tuple[Actor, int, list[int]]


def _said(test: Any) -> str:
    kinds = ("markdown", "caption", "info", "warning", "error", "success", "text")
    return "\n".join(element.value for kind in kinds for element in getattr(test, kind)).replace("\\", "")


@pytest.fixture
def trained(store: Store, tmp_path: Path) -> Trained:
    """A campaign with gold and two runs of which the second has learnt longer."""
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    runs = [
        adaptation.start_run(
            store, admin, campaign_id=campaign_id, snapshot_id=snapshot.id,
            recipe=recipe_here(tmp_path, max_epochs=epochs),
        )
        for epochs in (1, 8)
    ]  # fmt: skip
    work(store, tmp_path)
    return admin, campaign_id, runs


def test_compare_screen_gives_a_verdict_with_its_reasons(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: Trained
) -> None:
    admin, campaign_id, (weak, good) = trained
    test = open_screen(monkeypatch, store, "compare", admin, campaign=campaign_id)
    assert not test.exception, test.exception
    found = comparing.compare(store, admin, weak, good)
    said = _said(test)
    assert comparison.verdict(found) in said and f"Run {good} is" in said
    assert "Entity F1 on 8 test sentences" in said and "95 % interval" in said and "gold entities both found" in said
    assert len(test.get("plotly_chart")) == 1
    assert "maximal epochs" in str(test.dataframe[1].value) or "epochs" in str(test.dataframe[1].value)
    assert html(test).count("<details>") == found.differing
    test.selectbox(key="compare:split").set_value("dev").run()
    assert "on 8 dev sentences" in _said(test)
    test.selectbox(key="compare:second").set_value(weak).run()
    assert "Choose two different runs" in _said(test) and not test.exception


def test_compare_screen_without_two_runs_says_what_to_do(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    for name in ("eva", "res"):
        test = open_screen(monkeypatch, store, "compare", people[name], campaign=campaign_id)
        assert not test.exception and "needs two finished runs" in _said(test)


@pytest.mark.parametrize(("value", "words"), [(0.0004, "< 0.001"), (0.042, "= 0.042"), (1.0, "= 1.000")])
def test_p_values_are_given_with_one_sign(value: float, words: str) -> None:
    assert comparison.p_value(value) == words


def test_verdict_says_when_it_may_be_chance(store: Store, trained: Trained) -> None:
    admin, _, (weak, good) = trained
    found = comparing.compare(store, admin, weak, good)
    for values, words in (
        ({"difference": 0.0}, "have the same F1"),
        ({"difference": 0.1, "permutation_p": 0.3, "bootstrap_p": 0.2}, f"Run {good} is ahead of run {weak}, but"),
        ({"difference": -0.1, "permutation_p": 0.01, "bootstrap_p": 0.01}, f"Run {weak} is better than run {good}, by"),
        ({"difference": 0.1, "permutation_p": 0.04, "bootstrap_p": 0.06}, "do not agree"),
    ):
        assert words in comparison.verdict(replace(found, test=replace(found.test, **values)))


def test_errors_screen_lists_filters_and_leads_to_the_sentence(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: Trained
) -> None:
    admin, campaign_id, (weak, _) = trained
    speaker = Speaker(run_id=weak)
    test = open_screen(monkeypatch, store, "errors", admin, campaign=campaign_id)
    test.selectbox(key=f"errors:whose:{campaign_id}").set_value(speaker).run()
    assert not test.exception, test.exception
    found = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="dev")
    assert f"{found.sentences} dev sentences" in _said(test)
    assert list(test.dataframe[0].value["error"]) == [line.kind for line in found.lines]
    kind = found.lines[-1].kind
    test.button_group(key=f"errors:kinds:{campaign_id}").set_value([kind]).run()
    assert set(test.dataframe[0].value["error"]) == {kind}
    test.text_input(key=f"errors:text:{campaign_id}").set_value("nowhere to be found").run()
    assert "No error matches" in _said(test) and not test.exception


def test_errors_screen_shows_an_expert_how_the_gold_came_about(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people, campaign_id = suggested(store)
    test = open_screen(monkeypatch, store, "errors", people["eva"], campaign=campaign_id)
    assert not test.exception, test.exception
    (how,) = [one for one in test.expander if one.label == "How this gold came about"]
    assert any("pool" in one.value for one in how.text) and not test.get("link_button")
    researcher = open_screen(monkeypatch, store, "errors", people["res"], campaign=campaign_id)
    assert [one.proto.label for one in researcher.get("link_button")] == ["Open in Sentences"]
    assert not [one for one in researcher.expander if one.label == "How this gold came about"]


def test_errors_screen_opens_gold_for_an_expert_and_leads_back(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people, campaign_id = suggested(store)
    test = open_screen(monkeypatch, store, "errors", people["eva"], campaign=campaign_id)
    assert "Open in Adjudicate" in [button.label for button in test.button]
    assert "stops being gold until you send it again" in _said(test)
    last = errors_browsing.errors_of(store, people["eva"], campaign_id, Speaker(source=SUGGESTED), split="pool").lines[
        -1
    ]
    test = open_screen(
        monkeypatch, store, "errors", people["eva"], campaign=campaign_id, query={"hit": str(last.sentence_id)}
    )
    assert not test.exception and any(last.item.sentence.id in text.value for text in test.text)


def test_compare_screen_opens_a_sentence_of_the_campaign_for_an_expert(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: Trained
) -> None:
    admin, campaign_id, (weak, good) = trained
    eva = make_person(store, "eva", "expert")
    campaigns.add_members(store, admin, campaign_id, [eva.id])
    key = f"compare:open:{weak}:{good}:test"
    test = open_screen(monkeypatch, store, "compare", eva, campaign=campaign_id)
    test.selectbox(key=key).set_value(test.selectbox(key=key).options[0]).run()
    assert not test.exception, test.exception
    assert "Open in Adjudicate" in [button.label for button in test.button]
    assert "Models are measured on it: it is in test." in _said(test)
    test = open_screen(monkeypatch, store, "compare", admin, campaign=campaign_id)
    assert not [box for box in test.selectbox if box.key == key]


def test_errors_screen_without_anything_said(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    test = open_screen(monkeypatch, store, "errors", people["eva"], campaign=campaign_id)
    assert not test.exception and "There are no predictions yet" in _said(test)


def test_sentences_screen_opens_the_sentence_that_the_address_names(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: Trained
) -> None:
    admin, campaign_id, (weak, _) = trained
    speaker = Speaker(run_id=weak)
    line = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="dev").lines[0]
    query = {"sentence": str(line.sentence_id)}
    test = open_screen(monkeypatch, store, "data", admin, campaign=campaign_id, query=query)
    assert not test.exception and f"{line.item.sentence.id} · dev" in _said(test) and not test.dataframe
    next(button for button in test.button if button.label == "All sentences").click().run()
    assert len(test.dataframe) == 1
    gone = open_screen(monkeypatch, store, "data", admin, campaign=campaign_id, query={"sentence": "99999"})
    assert "no sentence 99999" in _said(gone)


def test_reports_of_the_screens_hold_what_they_show(store: Store, trained: Trained) -> None:
    from workbench.campaigns.campaigns import list_campaigns

    admin, campaign_id, (weak, good) = trained
    campaign = next(one for one in list_campaigns(store, admin) if one.id == campaign_id)
    speaker = Speaker(run_id=weak)
    who = error_browser.speaker_line(speaker, {})
    made = error_browser._report(store, admin, campaign, speaker, who, split="dev").data().decode()
    found = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="dev")
    assert f"{found.total} errors that match the filter" in made and who in made
    assert made.count("gold, then the prediction") == len({line.item.sentence.id for line in found.lines})
    assert made.count("· missed</small>") == found.counts["missed"]
    report = HtmlReport("Compare")
    comparison._by_type(comparing.compare(store, admin, weak, good), campaign.domain, report)
    text = report.data().decode()
    assert text.count("Plotly.newPlot(") >= 1 and "95 % intervals" in text


def test_report_escapes_every_word_and_fetches_nothing() -> None:
    report = HtmlReport(HOSTILE, [HOSTILE])
    report.heading(HOSTILE)
    report.text(HOSTILE)
    report.table(pd.DataFrame({HOSTILE: [HOSTILE, None], "n": [1.5, 2.0]}))
    figure = go.Figure(go.Bar(x=[HOSTILE], y=[1]))
    report.figure(figure)
    report.figure(figure)
    made = report.data().decode()
    assert "<img" not in re.sub(r"<script.*?</script>", "", made, flags=re.DOTALL)
    assert made.count("pwned=1</script><script>") == 0
    assert len(re.findall(r"<script[^>]+src=", made)) == 0 and "default-src 'none'" in made
    assert made.count("plotly.js v") == 1 and "–" in made and "<td>1.5</td>" in made


def test_report_writes_times_to_the_minute_and_counts_in_full() -> None:
    when = dt.datetime(2026, 11, 3, 9, 4, 51, tzinfo=dt.UTC)
    report = HtmlReport("Counts")
    report.table(pd.DataFrame({"when": [when, None], "read": [12_345_678, None], "F1": [81.25, 7.0]}))
    cells = re.findall("<td>(.*?)</td>", report.data().decode())
    assert cells == ["03 November 2026, 09:04 UTC", "12345678", "81.25", "–", "–", "7"]


@pytest.mark.browser
def test_report_is_drawn_in_a_browser_without_asking_for_anything(tmp_path: Path) -> None:
    from tests.support.serving import browser_page

    report = HtmlReport(HOSTILE)
    report.text(HOSTILE)
    report.table(pd.DataFrame({"word": [HOSTILE]}))
    report.figure(go.Figure(go.Bar(x=[HOSTILE, "plain"], y=[1, 2], name=HOSTILE)))
    report.figure(go.Figure(go.Heatmap(z=[[1, 2], [3, 4]])))
    path = tmp_path / "report.html"
    path.write_bytes(report.data())
    asked: list[str] = []
    wrong: list[str] = []
    with browser_page("about:blank") as page:
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector(".barlayer .point path", state="attached")
        page.wait_for_selector(".heatmaplayer image", state="attached")
        assert page.evaluate("window.pwned") is None
        assert HOSTILE in page.inner_text("h1") and HOSTILE in page.inner_text("td")
    assert (asked, wrong) == ([path.as_uri()], [])

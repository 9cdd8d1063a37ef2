"""A campaign with its domain, people, rules and sentences, made at once or not at all."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossner_core.errors import BadInput, Conflict, InvalidConfig, InvalidDomain, NotAllowed, NotFound
from crossner_core.formats import source
from db.engine import Store
from tests.support.app_corpora import make_corpus
from tests.support.authorisation import dump
from tests.support.builders import SENTENCES, Tab, make_person
from workbench import out_of_process
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, domains, sentences
from workbench.campaigns.domain_drafts import draft_from_lines, draft_to_toml
from workbench.data import browsing, staging
from workbench.data.new_campaign import first_look, make_campaign, start_campaign
from workbench.jobs import queue
from workbench.jobs.worker import Worker
from workbench.reports import audit_trail
from workbench.reports.audit_trail import Asked
from workbench.settings import settings_of

People = dict[str, Actor]
PLAIN = "\n".join(text for text, _ in SENTENCES).encode()
CONLL = b"Oslo\tB-location\nis\tO\ncold\tO\n\nBergen\tO\ntoo\tO\n\n"
SHIPS = "ship: a named vessel\n- Música\n3. musical artists: who sings\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    return tmp_path


def ships() -> str:
    return draft_to_toml(draft_from_lines(SHIPS, "Ships at sea"))


def test_make_campaign_writes_domain_people_rules_and_sentences(store: Store, people: People) -> None:
    made = make_campaign(
        store, people["res"], name="Ships", draft=ships(), member_ids=[people["ann1"].id, people["eva"].id],
        settings={"blind_share": 0.25}, files=[("a.txt", PLAIN)],
    )  # fmt: skip
    view = campaigns.get_campaign(store, people["res"], made.id)
    assert (view.name, view.domain_name, view.blind_share, view.sentences) == ("Ships", "shipsatsea", 0.25, 6)
    assert {member.name for member in view.members} == {"ann1", "eva"}
    assert made.outcome is not None and (made.outcome.added, made.outcome.format) == (6, "plain")
    assert domains.get_domain(store, "shipsatsea").type_names == ("ship", "musica", "musicalartists")
    assert Tab(store, people["ann1"], made.id, "annotate").items(1)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "Taken"}, Conflict),
        ({"name": " "}, InvalidConfig),
        ({"settings": {"blind_share": 2}}, InvalidConfig),
        ({"member_ids": [999]}, BadInput),
        ({"files": [("a.conll", CONLL)]}, BadInput),
        ({"files": [("a.txt", PLAIN)], "reading": {"split": "nowhere"}}, BadInput),
        ({"draft": ships().replace("shipsatsea", "music", 1)}, Conflict),
        ({"domain": "music"}, BadInput),
    ],
)
def test_make_campaign_writes_nothing_where_one_part_is_wrong(
    store: Store, people: People, changes: dict[str, object], error: type[Exception]
) -> None:
    campaigns.create_campaign(store, people["adm"], name="Taken", domain=domains.get_domain(store, "music"))
    before = dump(store)
    with pytest.raises(error):
        make_campaign(store, people["res"], **{"name": "Ships", "draft": ships(), **changes})  # type: ignore[arg-type]
    assert dump(store) == before


def test_make_campaign_replaces_no_domain_that_is_there(store: Store, people: People) -> None:
    make_campaign(store, people["res"], name="Ships", draft=ships())
    with pytest.raises(Conflict, match="already a domain 'shipsatsea'"):
        make_campaign(store, people["res"], name="More ships", draft=ships())
    assert make_campaign(store, people["res"], name="More ships", domain="shipsatsea").outcome is None


def test_only_an_admin_names_an_address_that_the_server_asks(store: Store, people: People) -> None:
    address = {"endpoint": "http://localhost:3030/sparql"}
    with pytest.raises(NotAllowed, match="for admin"):
        make_campaign(store, people["res"], name="Music", domain="music", settings=address)
    made = make_campaign(store, people["adm"], name="Music", domain="music", settings=address)
    assert campaigns.get_campaign(store, people["res"], made.id).endpoint == address["endpoint"]


def test_possible_members_are_the_open_accounts(store: Store, people: People) -> None:
    closed = make_person(store, "gone", "annotator")
    accounts.set_active(store, people["adm"], closed.id, False)
    assert {member.name for member in campaigns.possible_members(store, people["res"])} == set(people)


def test_what_is_seen_first_is_what_comes_in(store: Store, people: People) -> None:
    seen = first_look(store, people["res"], domain="music", files=[("a.txt", PLAIN)])
    made = make_campaign(
        store, people["res"], name="M", domain="music", files=[("a.txt", PLAIN)], settings={"control_share": 0.0}
    )
    kept = {
        layers.sentence.text: {(item.start, item.end, item.type, item.source) for item in layers.suggestions}
        for line in browsing.browse(store, people["res"], made.id).lines
        for layers in [browsing.sentence_layers(store, people["res"], made.id, line.id)]
    }
    assert seen.sentences == 6 and 0 < seen.suggested < 6
    assert kept == {
        item.sentence.text: {(one.start, one.end, one.type, one.source) for one in item.suggestions}
        for item in seen.looked
    }


def test_first_look_shows_annotation_that_becomes_suggestions_and_leaves_out_what_is_finished(
    store: Store, people: People
) -> None:
    shown = {
        becomes: first_look(
            store, people["res"], domain="music", files=[("a.conll", CONLL)], reading={"annotation": becomes}
        )
        for becomes in ("suggestions", "none", "gold")
    }
    assert shown["suggestions"].looked[0].suggestions[0].source == "import"
    assert all(item.source != "import" for item in shown["none"].looked[0].suggestions)
    assert shown["gold"].looked == () and shown["gold"].sentences == 2


def test_first_look_knows_nothing_of_types_without_a_class(store: Store, people: People) -> None:
    seen = first_look(store, people["res"], draft=ships().replace('"Ship"', ""), files=[("a.txt", PLAIN)])
    assert len(seen.looked) == 6 and seen.suggested <= 2


def test_first_look_takes_ten_from_all_over(store: Store, people: People) -> None:
    many = "\n".join(f"Sentence number {number} ." for number in range(95)).encode()
    seen = first_look(store, people["res"], domain="music", files=[("a.txt", many)])
    assert [item.sentence.text.split()[2] for item in seen.looked] == [str(int(9.5 * n)) for n in range(10)]


def test_large_files_are_looked_at_and_made_in_a_process_of_their_own(store: Store, people: People) -> None:
    many = "\n".join(f"Sentence number {n} is about Oslo and it goes on for some words more ." for n in range(3500))
    files = [("a.txt", many.encode())]
    assert len(many) > out_of_process.LARGE
    seen = out_of_process.call(first_look, store, people["res"], domain="music", files=files)
    assert seen.sentences == 3500 and seen.suggested == 10
    made = out_of_process.call(
        make_campaign, store, people["res"], name="M", draft=ships(), files=files, member_ids=[people["ann1"].id],
        settings={"control_share": 0.0}, reading={"split": "dev"},
    )  # fmt: skip
    assert made.outcome is not None and "the worker does it" in made.outcome.note
    assert campaigns.get_campaign(store, people["res"], made.id).splits["dev"] == 3500


def test_make_campaign_draws_from_a_corpus_with_its_own_suggestions(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    source = {"corpus": "tiny", "plan": {"count": 5, "min_tokens": 1}}
    seen = first_look(store, people["res"], domain="music", **source)  # type: ignore[arg-type]
    made = make_campaign(store, people["res"], name="M", domain="music", **source)  # type: ignore[arg-type]
    listed = browsing.browse(store, people["res"], made.id).lines
    assert made.outcome is not None and made.outcome.added == len(listed) == seen.sentences == 5
    assert sum(line.suggestions > 0 for line in listed) == seen.suggested > 0
    with pytest.raises(NotFound, match="no corpus 'none'"):
        make_campaign(store, people["res"], name="N", domain="music", corpus="none")


def test_draft_from_lines_makes_names_titles_classes_and_guidelines() -> None:
    draft = draft_from_lines(SHIPS, "Ships at sea")
    assert (draft.name, draft.title) == ("shipsatsea", "Ships at sea")
    assert [(row["name"], row["title"], row["dbpedia"], row["guideline"]) for row in draft.rows] == [
        ("ship", "ship", "Ship", "a named vessel"),
        ("musica", "Música", "", ""),
        ("musicalartists", "musical artists", "MusicalArtist", "who sings"),
    ]
    domain = domains.check_domain(draft_to_toml(draft))
    assert len({kind.color for kind in domain.types}) == len({kind.key for kind in domain.types}) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ship\nShip", "lines 1 and 2 both name the type 'ship'"),
        ("船", "line 1: '船' has no letter"),
        ("\n".join(f"type{number}" for number in range(36)), "36 types; a domain has at most 35"),
    ],
)
def test_draft_from_lines_names_the_line_that_is_wrong(text: str, words: str) -> None:
    with pytest.raises(InvalidDomain, match=words):
        draft_from_lines(text, "Ships")


def start(store: Store, people: People, **changes: Any) -> int:
    given = {"name": "Ships", "draft": ships(), "member_ids": [people["ann1"].id], "files": [("a.txt", PLAIN)]}
    return start_campaign(store, people["res"], **(given | changes))


def work(store: Store) -> None:
    Worker(store, settings_of(store)).run(once=True)


def test_a_campaign_of_large_files_is_made_by_the_worker_as_at_once(store: Store, people: People) -> None:
    job_id = start(store, people, settings={"blind_share": 0.25}, reading={"split": "dev"})
    assert campaigns.list_campaigns(store, people["res"]) == ()
    assert "shipsatsea" not in {view.name for view in domains.list_domains(store, people["res"])}
    work(store)
    job = queue.get_job(store, people["res"], job_id)
    assert (job.state, job.error, job.message) == ("done", None, "6 sentences imported.")
    assert job.campaign_id is not None and list(settings_of(store).uploads.iterdir()) == []
    at_once = make_campaign(
        store, people["res"], name="Again", domain="shipsatsea", member_ids=[people["ann1"].id],
        settings={"blind_share": 0.25}, files=[("a.txt", PLAIN)], reading={"split": "dev"},
    )  # fmt: skip
    here, there = (campaigns.get_campaign(store, people["res"], each) for each in (job.campaign_id, at_once.id))
    differ = {"id": there.id, "name": there.name, "created_at": there.created_at}
    assert replace(here, **differ) == there and here.name == "Ships" and here.splits["dev"] == 6
    entries = audit_trail.search(store, people["adm"], Asked(campaign_id=job.campaign_id)).entries
    made = [(entry.action, entry.actor) for entry in entries if entry.action in ("create_campaign", "add_sentences")]
    assert sorted(made) == [("add_sentences", "res"), ("create_campaign", "res")]


def test_a_campaign_whose_files_are_faulty_is_not_made_and_all_faults_are_named(store: Store, people: People) -> None:
    before = {view.name for view in domains.list_domains(store, people["res"])}
    files = [("a.jsonl", b"{oops\n" * 40), ("b.jsonl", b"{\n")]
    job_id = start(store, people, files=files)
    work(store)
    job = queue.get_job(store, people["res"], job_id)
    assert (job.state, job.campaign_id) == ("failed", None) and "a.jsonl:1: not JSON" in (job.error or "")
    logged = [line.text for line in queue.job_log(store, people["res"], job_id)]
    assert [line.split(": ")[0] for line in logged[:41]] == [*(f"a.jsonl:{n}" for n in range(1, 41)), "b.jsonl:1"]
    assert campaigns.list_campaigns(store, people["res"]) == ()
    assert {view.name for view in domains.list_domains(store, people["res"])} == before
    staging.sweep(store)
    assert list(settings_of(store).uploads.iterdir()) == []


def test_a_name_that_is_taken_meanwhile_leaves_nothing(store: Store, people: People) -> None:
    job_id = start(store, people)
    campaigns.create_campaign(store, people["adm"], name="Ships", domain=domains.get_domain(store, "music"))
    work(store)
    job = queue.get_job(store, people["res"], job_id)
    assert job.state == "failed" and "already a campaign 'Ships'" in (job.error or "")
    (only,) = campaigns.list_campaigns(store, people["res"])
    assert (only.domain_name, only.sentences) == ("music", 0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "Taken"}, Conflict),
        ({"settings": {"blind_share": 2}}, InvalidConfig),
        ({"settings": {"endpoint": "http://localhost:3030/sparql"}}, NotAllowed),
        ({"draft": "", "domain": "none"}, NotFound),
        ({"domain": "music"}, BadInput),
    ],
)
def test_what_is_wrong_with_a_campaign_is_refused_before_its_files_are_kept(
    store: Store, people: People, changes: dict[str, object], error: type[Exception]
) -> None:
    campaigns.create_campaign(store, people["adm"], name="Taken", domain=domains.get_domain(store, "music"))
    with pytest.raises(error):
        start(store, people, **changes)
    with pytest.raises(NotAllowed):
        start_campaign(store, people["eva"], name="Mine", domain="music", files=[("a.txt", PLAIN)])
    assert not settings_of(store).uploads.exists() and queue.list_jobs(store, people["res"]) == ()


def test_a_cancelled_campaign_leaves_nothing(store: Store, people: People) -> None:
    assert queue.cancel_job(store, people["res"], start(store, people)) == "cancelled"
    work(store)
    assert campaigns.list_campaigns(store, people["res"]) == () and list(settings_of(store).uploads.iterdir()) == []


def test_making_a_campaign_takes_memory_for_a_portion_not_for_the_files(
    store: Store, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PORTION", 50_000)
    monkeypatch.setattr(sentences, "PORTION", 200)

    def most(count: int) -> int:
        file = tmp_path / f"{count}.txt"
        file.write_text("".join(f"Sentence number {n} is about Oslo .\n" for n in range(count)), "utf-8")
        tracemalloc.start()
        try:
            made = make_campaign(
                store, people["res"], name=str(count), domain="music", files=[(file.name, file)],
                settings={"suggestions_on": False},
            )  # fmt: skip
            assert made.outcome is not None and made.outcome.added == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(400)  # loads what is loaded once
    small, large = most(1_500), most(6_000)
    assert (large - small) / 4_500 < 400, (small, large)  # a sentence in memory takes some 3,000

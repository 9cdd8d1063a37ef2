"""The audit trail: every way leaves its entry, nothing else does, and search and export give them back."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.testclient import TestClient

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound, SignInRefused
from db import copying
from db.audit import rows
from db.audit.tables import AuditEntry
from db.engine import Store
from db.migrate import migrate
from tests.support.api import secret_of, settings_for
from tests.support.authorisation import OWN_DOMAIN, PASSWORD, scene_in
from tests.support.builders import Tab, make_campaign, make_gold, make_people
from tests.support.postgres import either_store
from tests.support.screens import open_screen
from workbench import cli, out_of_process
from workbench.accounts import accounts, audit, passwords, sign_in, tokens, ways
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, domains
from workbench.data import archive, exchange, snapshots
from workbench.http.api.serving import Api
from workbench.http.gate import Gate
from workbench.jobs import queue
from workbench.jobs.worker import Worker
from workbench.reports import audit_trail
from workbench.reports.audit_trail import Entry

__all__ = ["either_store"]

People = dict[str, Actor]


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


@pytest.fixture
def people(store: Store) -> People:
    return make_people(store)


def entries(store: Store, people: People, **asked: object) -> list[Entry]:
    wanted = replace(audit_trail.EVERYTHING, **asked)  # type: ignore[arg-type]
    return list(audit_trail.search(store, people["adm"], wanted, limit=500).entries)


def newest(store: Store, people: People, action: str) -> Entry:
    return entries(store, people, action=action)[0]


def test_a_change_on_a_page_is_recorded_with_old_and_new_value(store: Store, people: People) -> None:
    accounts.set_role(store, people["adm"], people["ann1"].id, "expert")
    entry = newest(store, people, "set_role")
    assert (entry.actor, entry.via, entry.token_id, entry.campaign_id) == ("adm", "page", None, None)
    assert (entry.subject_kind, entry.subject, entry.details) == ("account", "ann1", {"role": ["annotator", "expert"]})


def test_settings_say_what_changed_and_archiving_is_its_own_action(store: Store, people: People) -> None:
    campaign = make_campaign(store, people)
    campaigns.update_settings(store, people["adm"], campaign, blind_share=0.5, name="Music")
    assert list(newest(store, people, "update_settings").details) == ["blind_share"]
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    assert newest(store, people, "archive_campaign").details == {"archived": [False, True]}
    campaigns.update_settings(store, people["adm"], campaign, archived=False)
    assert newest(store, people, "reopen_campaign").campaign == "Music"


def test_a_call_of_the_api_names_its_token(store: Store, people: People, tmp_path: Path) -> None:
    campaign = make_campaign(store, people)
    make_gold(store, people, campaign)
    secret = secret_of(store, people["res"])
    settings = settings_for(store, tmp_path)
    with TestClient(Gate(Starlette(routes=Api(settings).routes()), settings=settings)) as client:
        headers = {"authorization": f"Bearer {secret}"}
        assert client.post(f"/api/v1/campaigns/{campaign}/snapshots", headers=headers).status_code == 201
        (token,) = tokens.list_tokens(store, people["res"])
        entry = newest(store, people, "freeze")
        assert (entry.actor, entry.via, entry.token_id) == ("res", "api", token.id)
        uses = entries(store, people, action="use_token")
        assert [(use.via, use.token_id, use.actor) for use in uses] == [("api", token.id, "res")]
        layer = client.get(f"/api/v1/campaigns/{campaign}/layers/gold", headers=headers, params={"limit": 2})
        assert len(layer.json()["items"]) == 2
        taken = newest(store, people, "read_layer")
        assert (taken.via, taken.subject, taken.details["sentences"]) == ("api", "gold", 2)
        answer = client.get("/api/v1/audit", headers=headers, params={"action": "freeze", "limit": 1}).json()
        assert [item["id"] for item in answer["items"]] == [entry.id] and answer["next"] is None
        assert client.get("/api/v1/audit", headers=headers, params={"action": "bake"}).status_code == 400
        follow = {"limit": 2, "campaign": campaign}
        first = client.get("/api/v1/audit", headers=headers, params=follow).json()
        rest = client.get("/api/v1/audit", headers=headers, params={**follow, "cursor": first["next"]}).json()
        both = [item["id"] for item in first["items"] + rest["items"]]
        assert (
            both == [each.id for each in entries(store, people, campaign_id=campaign)][: len(both)] and len(both) == 4
        )


def test_a_command_is_recorded_as_one(
    store: Store, people: People, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROSSNER_DATABASE_URL", store.url.render_as_string(hide_password=False))
    assert cli.main(["--as", "adm", "user", "role", "ann1", "expert"]) == 0
    assert newest(store, people, "set_role").via == "command"
    capsys.readouterr()
    assert cli.main(["--as", "adm", "audit", "--action", "set_role"]) == 0
    assert "set_role" in capsys.readouterr().out
    assert cli.main(["--as", "adm", "audit", "ann1", "--forget-before", "2020-01-01"]) == 2
    assert cli.main(["--as", "adm", "audit", "--forget-before", "2020-01-01"]) == 0
    assert newest(store, people, "forget_audit").via == "command"
    assert ways.way().via == "page"


def test_the_worker_is_recorded_as_one(store: Store, people: People, tmp_path: Path) -> None:
    campaign = make_campaign(store, people)
    job = queue.start_job(store, people["res"], "preannotate", campaign)
    Worker(store, settings_for(store, tmp_path), job_ids=[job]).run(once=True)
    assert newest(store, people, "start_job").actor == "res"
    entry = newest(store, people, "preannotate")
    assert entry.via == "worker" and entry.actor == "system" and entry.details["sentences"] > 0


def test_another_process_acts_the_same_way(store: Store, people: People) -> None:
    campaign = make_campaign(store, people)
    with ways.acting("command"):
        out_of_process.apart(
            exchange.import_files, store, people["res"], campaign, [("a.txt", b"Zoe sang .\n")], preannotate=False
        )
    assert newest(store, people, "add_sentences").via == "command"


def test_what_is_rolled_back_leaves_none(store: Store, people: People) -> None:
    before = len(entries(store, people))
    with pytest.raises(Conflict):
        accounts.set_role(store, people["adm"], people["adm"].id, "expert")
    with pytest.raises(NotAllowed):
        accounts.set_role(store, people["res"], people["ann1"].id, "expert")
    campaign = make_campaign(store, people)
    made = len(entries(store, people))
    assert made > before
    with pytest.raises(Conflict):
        campaigns.delete_campaign(store, people["adm"], campaign)
    with pytest.raises(RuntimeError), store.write() as session:
        rows.add(session, actor_name="x", via="page", action="x", subject_kind="", subject="", details="{}")
        session.flush()
        raise RuntimeError
    assert len(entries(store, people)) == made


def test_sign_in_and_its_failures_keep_the_address_and_no_password(store: Store, people: People) -> None:
    accounts.set_password(store, people["adm"], people["ann1"].id, PASSWORD)
    accounts.set_active(store, people["adm"], people["ann3"].id, False)
    for name, password in (("ann1", "wrong horse battery"), ("my secret phrase", "x"), ("ann3", PASSWORD)):
        with pytest.raises(SignInRefused):
            sign_in.sign_in(store, name=name, password=password, address="192.0.2.7")
    signed = sign_in.sign_in(store, name="ann1", password=PASSWORD, address="192.0.2.8")
    sign_in.sign_out(store, signed.token)
    failed = entries(store, people, action="fail_sign_in")
    assert [entry.subject for entry in failed] == ["ann3", "", "ann1"]
    assert {entry.actor for entry in failed} == {""} and failed[0].details == {"address": "192.0.2.7"}
    assert newest(store, people, "sign_in").details == {"address": "192.0.2.8"}
    assert newest(store, people, "sign_out").actor == "ann1"
    assert "secret phrase" not in repr(entries(store, people))


def test_no_secret_is_in_any_entry(tmp_path: Path) -> None:
    with scene_in(tmp_path) as scene:
        store = Store(f"sqlite:///{scene.file}")
        admin = scene.people["admin"]
        secret = tokens.create_token(store, admin, name="mine", days=1).secret
        assert tokens.bearer_of(store, secret) is not None
        random = passwords.random_password()
        accounts.set_password(store, admin, scene.people["annotator"].id, random)
        signed = sign_in.sign_in(store, name="adm", password=PASSWORD, address="a")
        accounts.change_password(store, admin, present=PASSWORD, new="another password 1", token=signed.token)
        campaigns.update_settings(
            store, admin, scene.ids["campaign"], endpoint="https://me:hunter2hunter2@endpoint.example/sparql"
        )
        found = audit_trail.search(store, admin, limit=500)
        whole = repr(found.entries)
        assert len(found.entries) > 20 and "endpoint.example" in whole
        for text in (secret, random, PASSWORD, "another password 1", signed.token, "hunter2hunter2", "$argon2"):
            assert text not in whole
        store.close()


def test_submits_are_read_from_the_versions_and_cost_no_statement(store: Store, people: People) -> None:
    campaign = make_campaign(store, people)
    tab = Tab(store, people["ann1"], campaign, "annotate")
    first, second = tab.items(2)
    tab.do("draft", first, [(0, 2, "band")])
    assert not entries(store, people, action="submit")
    tab.do("submit", first, [(0, 2, "band")], base=1)
    tab.do("skip", second, reason="hard")
    (submitted,) = entries(store, people, action="submit")
    assert (submitted.actor, submitted.via, submitted.campaign_id) == ("ann1", "page", campaign)
    assert submitted.subject_kind == "sentence" and submitted.details["stage"] == "annotate"
    assert newest(store, people, "skip").actor == "ann1"
    copy = archive.import_campaign(
        store, people["adm"], archive.export_campaign(store, people["adm"], campaign), name="Copy"
    )
    assert not entries(store, people, action="submit", campaign_id=copy), "an archive claims nothing about this store"
    assert newest(store, people, "import_campaign").campaign == "Copy"


def test_search_narrows_by_every_condition(either_store: Store) -> None:
    store, people = either_store, make_people(either_store)
    campaign = make_campaign(store, people)
    campaigns.set_guidelines(store, people["res"], campaign, {"band": "They play."})
    accounts.set_display_name(store, people["ann1"], people["ann1"].id, "Ümläut 100% a_b")
    assert [entry.action for entry in entries(store, people, text="100% A_B")] == ["set_display_name"]
    assert [entry.action for entry in entries(store, people, text="Ümläut")] == ["set_display_name"]
    domains.save_domain(store, people["adm"], OWN_DOMAIN)
    everything = entries(store, people)
    assert {entry.actor for entry in entries(store, people, actor="res")} == {"res"}
    assert {entry.action for entry in entries(store, people, action="save_domain")} == {"save_domain"}
    assert {entry.campaign_id for entry in entries(store, people, campaign_id=campaign)} == {campaign}
    middle = everything[len(everything) // 2]
    later, earlier = entries(store, people, since=middle.done_at), entries(store, people, until=middle.done_at)
    assert later and earlier and later + earlier == everything
    assert [entry.subject for entry in entries(store, people, text="FOLK")] == ["folk"]
    assert not entries(store, people, text="f%k") and not entries(store, people, text="f_lk")
    assert entries(store, people, text="guideline")[0].action == "set_guidelines"
    with pytest.raises(BadInput, match="no entry of the action 'bake'; there are add_sentences"):
        entries(store, people, action="bake")
    with pytest.raises(BadInput, match="201 characters"):
        entries(store, people, text="x" * 201)
    with pytest.raises(NotFound):
        entries(store, people, campaign_id=campaign + 99)


def test_pages_of_any_size_give_all_entries_once(either_store: Store) -> None:
    store, people = either_store, make_people(either_store)
    campaign = make_campaign(store, people)
    make_gold(store, people, campaign)
    whole = entries(store, people)
    assert any(entry.action == "submit" for entry in whole)
    moment = whole[0].done_at
    with store.write() as session:  # entries and submits of one moment
        for entry in session.query(AuditEntry):
            entry.done_at = moment
    whole = entries(store, people)
    for limit in (1, 3, 7):
        got: list[Entry] = []
        cursor = None
        while True:
            part = audit_trail.search(store, people["adm"], cursor=cursor, limit=limit)
            got += part.entries
            cursor = part.next
            if cursor is None:
                break
        assert got == whole
    with pytest.raises(BadInput, match="no cursor"):
        audit_trail.search(store, people["adm"], cursor="after:1")
    with pytest.raises(BadInput, match="no cursor"):
        audit_trail.search(store, people["adm"], cursor="999999999999999999e1")


def test_researchers_see_what_belongs_to_campaigns_and_nobody_else_sees_any(store: Store, people: People) -> None:
    campaign = make_campaign(store, people)
    accounts.set_role(store, people["adm"], people["ann3"].id, "expert")
    seen = audit_trail.search(store, people["res"], limit=500).entries
    assert seen and {entry.campaign_id for entry in seen} == {campaign}
    for name in ("ann1", "eva"):
        with pytest.raises(NotAllowed):
            audit_trail.search(store, people[name])
        with pytest.raises(NotAllowed):
            audit_trail.export(store, people[name])
    with pytest.raises(NotAllowed):
        audit_trail.forget(store, people["res"], dt.datetime(2020, 1, 1, tzinfo=dt.UTC))


def test_entries_outlive_their_campaign_and_are_not_those_of_its_number(store: Store, people: People) -> None:
    campaign = make_campaign(store, people)
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    campaigns.delete_campaign(store, people["adm"], campaign)
    gone = newest(store, people, "delete_campaign")
    assert (gone.subject, gone.campaign_id, gone.campaign) == ("Music", campaign, "")
    assert not audit_trail.search(store, people["res"], limit=500).entries
    again = make_campaign(store, people, name="Another")
    assert again == campaign, "SQLite gives the number again"
    of_new = entries(store, people, campaign_id=again)
    assert of_new and {entry.campaign for entry in of_new} == {"Another"}
    assert "delete_campaign" not in {entry.action for entry in of_new}


def test_exports_say_who_took_what_and_are_safe_in_a_spreadsheet(store: Store, people: People) -> None:
    campaign = make_campaign(store, people, name='=HYPERLINK("http://x")')
    make_gold(store, people, campaign)
    exchange.export_layer(store, people["res"], campaign, "gold")
    taken = newest(store, people, "export_layer")
    assert (taken.actor, taken.subject, taken.details["format"]) == ("res", "gold", "jsonl")
    table = list(csv.DictReader(io.StringIO(audit_trail.export(store, people["adm"], format="csv").decode())))
    assert len(table) > 10 and {row["campaign"] for row in table} >= {'\'=HYPERLINK("http://x")'}
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in table for cell in row.values())
    lines = [json.loads(line) for line in audit_trail.export(store, people["adm"], format="jsonl").splitlines()]
    assert len(lines) == len(table) + 1 and lines[0]["action"] == "export_audit"
    with pytest.raises(BadInput, match="csv or jsonl"):
        audit_trail.export(store, people["adm"], format="xlsx")


def test_forgetting_is_recorded_and_keeps_what_is_newer(store: Store, people: People) -> None:
    make_campaign(store, people)
    accounts.set_role(store, people["adm"], people["ann1"].id, "expert")
    border = newest(store, people, "set_role").done_at
    older = len(entries(store, people, until=border))
    assert audit_trail.forget(store, people["adm"], border) == older > 0
    left = entries(store, people)
    assert [entry.action for entry in left] == ["forget_audit", "set_role"]
    assert left[0].details == {"before": border.isoformat(), "entries": older}
    with pytest.raises(BadInput, match="yet to come"):
        audit_trail.forget(store, people["adm"], dt.datetime(2999, 1, 1, tzinfo=dt.UTC))


def test_details_stay_small_and_storable(store: Store, people: People) -> None:
    campaign = make_campaign(store, people)
    campaigns.set_guidelines(store, people["res"], campaign, {"band": "x" * 5_000})
    accounts.set_display_name(store, people["ann1"], people["ann1"].id, "Ann <b>")
    with store.write() as session:
        audit.record(session, people["adm"], "try", ("file", "a\x00\udc80" + "b" * 500), many=list(range(50)), n=None)
    entry = newest(store, people, "try")
    assert len(entry.subject) == 200 and "\x00" not in entry.subject
    assert (
        len(entry.details["many"]) == 21 and entry.details["many"][-1] == "… and 30 more" and entry.details["n"] is None
    )


def test_a_copy_of_the_store_carries_the_entries(store: Store, people: People, tmp_path: Path) -> None:
    make_campaign(store, people)
    target = Store(f"sqlite:///{tmp_path / 'copy.sqlite3'}")
    migrate(target)
    with store.read() as before, target.write() as after:
        sums = copying.copy(before, after)
    assert sums["audit_entry"].rows > 0
    assert entries(target, people) == entries(store, people)
    target.close()


def test_the_page_lists_filters_and_shows_hostile_text_as_text(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People
) -> None:
    campaign = make_campaign(store, people, name="<script>alert(1)</script>")
    make_gold(store, people, campaign)
    snapshots.freeze(store, people["res"], campaign)
    screen_of = open_screen(monkeypatch, store, "audit", people["adm"], query={"action": "freeze"})
    assert not screen_of.exception
    (table,) = screen_of.dataframe
    assert list(table.value["Action"]) == ["freeze"] and list(table.value["Who"]) == ["res"]
    assert list(table.value["Campaign"]) == ["<script>alert(1)</script>"]
    whole = open_screen(monkeypatch, store, "audit", people["adm"])
    assert "<script>" not in "".join(str(element.value) for element in whole.markdown)
    assert len(whole.dataframe[0].value) > 10
    mine = open_screen(monkeypatch, store, "audit", people["res"])
    assert "create_user" not in " ".join(mine.dataframe[0].value["Action"])
    refused = open_screen(monkeypatch, store, "audit", people["ann1"])
    assert not refused.dataframe

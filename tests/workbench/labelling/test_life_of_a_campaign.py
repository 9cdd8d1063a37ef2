"""A campaign's life in any order: annotate, check, adjudicate, skip, reopen, lose a lease, archive, restore."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from db.engine import Store
from db.tables import Annotation, Decision, SentenceRow, SpanRow, Task
from db.types import now
from tests.support.archives import contents
from tests.support.builders import Tab, Triple, first_choices, make_campaign, make_people
from workbench.campaigns import campaigns
from workbench.data import archive

STAGES = ("annotate", "check", "adjudicate")
# Experts work at every stage.
NAMES = ("ann1", "ann2", "eva")
TYPES = ("musicalartist", "band", "song")
who, where, pick = st.sampled_from(NAMES), st.sampled_from(STAGES), st.integers(0, 3)
kinds = st.sampled_from(("draft", "submit", "submit", "skip"))
marks = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(TYPES)), max_size=3, unique_by=lambda mark: mark[0])


def _spans(chosen: list[tuple[int, str]]) -> list[Triple]:
    return sorted((start, start + 1, kind) for start, kind in chosen)


class LifeOfACampaign(RuleBasedStateMachine):
    """The campaign in a store of its own, and what was acknowledged: (task, person) → spans."""

    template: ClassVar[Path]
    happened: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=self.template.parent))
        self.store = self._fresh("store")
        self.people = make_people(self.store)
        self.campaign = make_campaign(self.store, self.people)
        self.tabs: dict[tuple[str, str], Tab] = {}
        self.acknowledged: dict[tuple[int, str], list[Triple]] = {}
        self.keystrokes: dict[tuple[int, str], int] = {}
        self.restored = self.since_restored = 0

    def _fresh(self, name: str) -> Store:
        path = self.folder / f"{name}.sqlite3"
        shutil.copyfile(self.template, path)
        return Store(f"sqlite:///{path}")

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def _tab(self, name: str, stage: str) -> Tab | None:
        if stage == "adjudicate" and name != "eva":
            return None
        return self.tabs.setdefault((name, stage), Tab(self.store, self.people[name], self.campaign, stage))

    def _send(self, tab: Tab, kind: str, item: dict[str, Any], spans: list[Triple], **changes: Any) -> bool:
        event = tab.event(kind, item, spans, **changes)
        for _ in range(2):  # as a browser that has not seen the acknowledgement
            answer = tab.send(event)
        if answer.rejections:
            return False
        assert answer.acks[tab.client] >= event["seq"]
        self.happened[f"{kind} at {tab.stage}"] += 1
        key = (item["task"], tab.actor.name)
        self.acknowledged[key] = [(span["start"], span["end"], span["type"]) for span in event["work"]["spans"]]
        self.keystrokes[key] = self.keystrokes.get(key, 0) + event["keystrokes"]
        return True

    @initialize(counts=st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 6)))
    def begin_with_some_work_done(self, counts: tuple[int, int, int]) -> None:
        for name, stage, count in zip(NAMES, STAGES, counts, strict=False):
            for _ in range(count):
                self._work(name, stage, 0, [(0, "band")], "submit")

    @rule(events=st.lists(st.tuples(who, where, pick, marks, kinds), min_size=1, max_size=8))
    def work(self, events: list[tuple[str, str, int, list[tuple[int, str]], str]]) -> None:
        for event in events:
            self._work(*event)

    def _work(self, name: str, stage: str, number: int, chosen: list[tuple[int, str]], kind: str) -> None:
        tab = self._tab(name, stage)
        items = tab.items() if tab else ()
        if tab and items:
            item, spans, parts = items[number % len(items)], _spans(chosen), {}
            if stage == "adjudicate":
                spans, parts["decisions"] = first_choices(item)
            changes = {"reason": "hard"} if kind == "skip" else {}
            assert self._send(tab, kind, item, spans, parts=parts, **changes)
            self.since_restored += 1

    @rule(name=who, stage=where, number=pick)
    def reopen(self, name: str, stage: str, number: int) -> None:
        tab = self._tab(name, stage)
        with self.store.read() as session:
            query = sa.select(Annotation.task_id, Annotation.revision).join(Task).where(
                Annotation.user_id == self.people[name].id, Annotation.state == "submitted", Task.stage == stage
            )  # fmt: skip
            mine = session.execute(query.order_by(Annotation.task_id)).all()
        if tab and mine:
            task, revision = mine[number % len(mine)]
            text, tokens = self._sentence(task)
            item = {"task": task, "revision": revision, "text": text, "tokens": tokens}
            decisions = self._decisions(task) if stage == "adjudicate" else []
            self._send(tab, "reopen", item, self.acknowledged[task, name], parts={"decisions": decisions})

    @rule()
    def leases_run_out(self) -> None:
        with self.store.write() as session:
            session.execute(
                sa.update(Task)
                .where(Task.lease_expires.is_not(None))
                .values(lease_expires=now() - dt.timedelta(hours=1))
            )  # fmt: skip

    @rule(name=who, stage=where, number=pick, chosen=marks)
    def nothing_changes_in_an_archived_campaign(
        self, name: str, stage: str, number: int, chosen: list[tuple[int, str]]
    ) -> None:
        tab = self._tab(name, stage)
        items = tab.items() if tab else ()
        campaigns.update_settings(self.store, self.people["adm"], self.campaign, archived=True)
        assert not tab or tab.items() == ()
        campaigns.update_settings(self.store, self.people["adm"], self.campaign, archived=False)
        assert not tab or tab.items() == items

    @precondition(lambda self: self.since_restored > 5)
    @rule()
    def restore_into_an_empty_store(self) -> None:
        """Export, import into another store, export again: the same files but for times of export."""
        self.restored, self.since_restored = self.restored + 1, 0
        self.happened["restored"] += 1
        data = archive.export_campaign(self.store, self.people["adm"], self.campaign)
        other = self._fresh(f"other{self.restored}")
        try:
            people = make_people(other)
            campaign = archive.import_campaign(other, people["adm"], data)
            again = archive.export_campaign(other, people["adm"], campaign)
        finally:
            other.close()
        assert _plain(again) == _plain(data)

    def _sentence(self, task: int) -> tuple[str, list[list[int]]]:
        with self.store.read() as session:
            row = session.scalars(sa.select(SentenceRow).join(Task).where(Task.id == task)).one()
            return row.text, row.tokens

    def _decisions(self, task: int) -> list[dict[str, Any]]:
        with self.store.read() as session:
            query = sa.select(Decision).join(Annotation).where(Annotation.task_id == task).order_by(Decision.unit)
            return [{"unit": row.unit, "choice": row.choice} for row in session.scalars(query)]

    @invariant()
    def acknowledged_work_is_there_once(self) -> None:
        names = {actor.id: name for name, actor in self.people.items()}
        with self.store.read() as session:
            kept = {
                (work.task_id, names[work.user_id]): ([(s.start, s.end, s.type) for s in work.spans], work.keystrokes)
                for work in session.scalars(sa.select(Annotation))
            }
        assert {key: sorted(spans) for key, (spans, _) in kept.items()} == self.acknowledged
        assert {key: count for key, (_, count) in kept.items()} == self.keystrokes

    @invariant()
    def nobody_works_on_a_sentence_at_two_stages(self) -> None:
        with self.store.read() as session:
            query = sa.select(Task.sentence_id, Annotation.user_id, Task.stage).join(Annotation)
            places = session.execute(query.where(Annotation.state.in_(("draft", "submitted")))).all()
        assert len({(sentence, user) for sentence, user, _ in places}) == len(places)

    @invariant()
    def gold_is_what_was_adjudicated_with_every_unit_decided(self) -> None:
        with self.store.read() as session:
            finals = session.scalars(
                sa.select(Annotation).join(Task).where(Task.stage == "adjudicate", Task.state == "done")
            ).all()
            decided = {
                work.id: session.scalar(
                    sa.select(sa.func.count()).select_from(Decision).where(Decision.annotation_id == work.id)
                )
                for work in finals
                if work.state == "submitted"
            }
            spans = {
                work_id: session.scalar(
                    sa.select(sa.func.count()).select_from(SpanRow).where(SpanRow.annotation_id == work_id)
                )
                for work_id in decided
            }
            done = session.scalar(
                sa.select(sa.func.count()).select_from(Task).where(Task.stage == "adjudicate", Task.state == "done")
            )
        assert len(decided) == done
        assert all(spans[work_id] <= decided[work_id] for work_id in decided)

    @invariant()
    def a_stage_is_open_only_behind_a_finished_one(self) -> None:
        with self.store.read() as session:
            tasks = session.execute(sa.select(Task.sentence_id, Task.stage, Task.state)).all()
        states = {(sentence, stage): state for sentence, stage, state in tasks}
        assert len(states) == len(tasks)
        for sentence, stage in states:
            before = STAGES[: STAGES.index(stage)]
            assert all(states.get((sentence, earlier)) == "done" for earlier in before)


def _plain(data: bytes) -> dict[str, Any]:
    """Return an archive's files as values, without the times when it was exported and its campaign made."""
    files: dict[str, Any] = {name: content.decode() for name, content in contents(data).items()}
    for name, time in (("manifest.json", "exported_at"), ("campaign.json", "created_at")):
        files[name] = json.loads(files[name])
        del files[name][time]
    return files


@pytest.mark.slow
def test_a_campaigns_life_in_any_order(store_template: Path) -> None:
    LifeOfACampaign.template = store_template
    run_state_machine_as_test(
        LifeOfACampaign,
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    happened = set(LifeOfACampaign.happened)
    assert {"restored", *(f"submit at {stage}" for stage in STAGES)} <= happened, happened
    assert {kind.split(" at ")[0] for kind in happened} >= {"draft", "skip", "reopen"}, happened

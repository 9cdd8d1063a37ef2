"""The drills, each for some seconds; and that what they count would show."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.drills.annotators import KEYSTROKES, Persistent, judge
from benchmarks.drills.drill import Options, drills
from benchmarks.streamlit_client import Saved
from db.engine import Store
from db.tables import Annotation, AppliedEvent
from tests.support.builders import GOLD, Tab, make_campaign, make_people
from tests.support.clock import JumpingClock
from tests.support.paths import ROOT
from tests.support.postgres import URL
from workbench.settings import Settings

SHORT = {
    "annotators-50": {"annotators": 6, "seconds": 10.0},
    "clock-jumps": {"times": 3, "annotators": 2},
    "full-disk": {"times": 2, "annotators": 2},
    "postgres-stops": {"times": 1, "annotators": 2},
    "power-cuts": {"times": 10},
    "two-servers": {"times": 1, "annotators": 2},
    "web-kills": {"times": 2, "annotators": 2},
    "worker-kills": {"times": 2},
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.alone] * (name == "annotators-50")) for name in drills()]
)
def test_what_must_survive_survives(tmp_path: Path, name: str) -> None:
    if name == "postgres-stops" and not URL:
        pytest.skip("set CROSSNER_POSTGRES, as .ci/run does, where PostgreSQL's programs are")
    outcome = drills()[name].run(Options(tmp_path, **SHORT[name]))
    assert not outcome.broken, outcome
    assert outcome.figures


@pytest.fixture
def home(tmp_path: Path, store_template: Path) -> Path:
    """A home whose store holds one annotator's draft and submit."""
    (tmp_path / "workbench.sqlite3").write_bytes(store_template.read_bytes())
    store = Store(f"sqlite:///{tmp_path / 'workbench.sqlite3'}")
    people = make_people(store)
    tab = Tab(store, people["ann1"], make_campaign(store, people), "annotate")
    item = tab.items(1)[0]
    tab.do("draft", item, GOLD[0], keystrokes=KEYSTROKES)
    tab.do("submit", item, GOLD[0], base=item["revision"] + 1, keystrokes=KEYSTROKES)
    store.close()
    return tmp_path


def _person(home: Path) -> Persistent:
    """Return somebody who was acknowledged what the store holds."""
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    with store.read() as session:
        keys = list(session.scalars(sa.select(AppliedEvent.key).order_by(AppliedEvent.seq)))
        work = session.scalars(sa.select(Annotation)).one()
        task, user = work.task_id, work.user_id
    store.close()
    person = Persistent({"id": user}, 1, [], random.Random(1))
    person.sent = set(keys)
    person.saved = [
        Saved(user, task, key, kind, GOLD[0], 0.0, 1.0) for key, kind in zip(keys, ("draft", "submit"), strict=True)
    ]
    return person


def test_a_store_that_kept_everything_is_judged_sound(home: Path) -> None:
    outcome = judge([_person(home)], home)
    assert not outcome.broken and outcome.figures["acknowledged"] == outcome.figures["applied"] == 2


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("delete from applied_event where seq = 1", "acknowledged, but not there"),
        ("delete from annotation_span", "acknowledged, but not there"),
        (f"update annotation set keystrokes = keystrokes + {KEYSTROKES}", "keystrokes of 2 events"),
    ],
)
def test_what_was_lost_or_doubled_shows(home: Path, harm: str, words: str) -> None:
    person = _person(home)
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    with store.write() as session:
        session.execute(sa.text(harm))
    store.close()
    assert any(words in line for line in judge([person], home).broken)


def test_the_clock_of_a_process_jumps_but_its_durations_do_not(tmp_path: Path) -> None:
    clock = JumpingClock(tmp_path)
    code = (
        "import time, sys, datetime; a, m = time.time(), time.monotonic(); print(flush=True); sys.stdin.readline();"
        "print(round((time.time() - a) / 3600), round((time.monotonic() - m) / 3600), datetime.datetime.now().year)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clock.environment
    )
    assert process.stdout is not None
    process.stdout.readline()
    clock.set(3600 * 24 * 365 * 20)
    hours, durations, year = process.communicate("\n", timeout=30)[0].split()
    assert int(hours) == 24 * 365 * 20 and int(durations) == 0 and int(year) > 2040


def test_the_seconds_between_saves_are_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSNER_SAVE_SECONDS", "0.5")
    assert Settings().save_seconds == 0.5
    code = (
        "from workbench.jobs.worker import _prepare; from workbench.settings import get_settings;"
        "from crossner_core.training import loop; from crossner_core.adaptation import pretraining_job;"
        "before = loop.SECONDS_BETWEEN_SAVES; _prepare(get_settings());"
        "print(before, loop.SECONDS_BETWEEN_SAVES, pretraining_job.SECONDS_BETWEEN_SAVES)"
    )
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert output.stdout.split() == ["30.0", "0.5", "0.5"]


def test_an_unknown_drill_is_refused_and_without_a_name_they_are_listed() -> None:
    command = [sys.executable, "-m", "benchmarks.drills"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(drills())
    unknown = subprocess.run([*command, "nowhere"], cwd=ROOT, capture_output=True, text=True)
    assert unknown.returncode == 2 and "no drill is called nowhere; there are annotators-50" in unknown.stderr

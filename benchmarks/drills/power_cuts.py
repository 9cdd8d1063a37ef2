"""The power is cut at every acknowledgement of a session: what had been synced by then is all that is left."""

from __future__ import annotations

import shutil

import sqlalchemy as sa

from benchmarks.drills.drill import Drill, Options, Outcome
from db.engine import Store
from db.tables import Annotation, AppliedEvent
from tests.support.power_cut import STORE, states_when_acknowledged


def run(options: Options) -> Outcome:
    """Save `times` events; open what was on the disk at each acknowledgement, and look for all until then."""
    times = options.times or 60
    missing = damaged = stale = 0
    states = states_when_acknowledged(options.folder, times)
    for number, state in enumerate(states):
        store = Store(f"sqlite:///{state / STORE}")
        try:
            with store.read() as session:
                damaged += session.scalar(sa.text("pragma integrity_check")) != "ok"
                applied = session.scalar(sa.select(sa.func.count()).select_from(AppliedEvent)) or 0
                revision = session.scalar(sa.select(sa.func.max(Annotation.revision)))
        finally:
            store.close()
        missing += number + 1 - applied
        stale += revision != number + 1
        shutil.rmtree(state)
    outcome = Outcome({"power cuts": len(states), "acknowledged, not there": missing, "damaged stores": damaged})
    outcome.check(len(states) == times, f"{times} events, {len(states)} states of the disk")
    outcome.check(missing == 0, f"{missing} acknowledged events are gone")
    outcome.check(damaged == 0 and stale == 0, f"{damaged} stores are damaged, in {stale} the work is an older one")
    return outcome


DRILL = Drill("the power is cut at each acknowledgement", run)

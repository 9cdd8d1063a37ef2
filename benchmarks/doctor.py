"""Make a large store of worked-out sentences, and measure time and memory of each of the doctor's checks on it.

    python -m benchmarks.doctor --sentences 200000
    .ci/with-postgres sh -c 'python -m benchmarks.doctor --sentences 200000 --url "$CROSSNER_POSTGRES"'

Each sentence has suggestions, links, all three stages with their versions, and gold; one snapshot holds them all. The
memory of a check is what the process holds at most during it, above what it held before.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import sqlalchemy as sa

from crossner_core.schema import Sentence, Token
from db.engine import Session, Store
from db.migrate import migrate
from db.tables import Base, SentenceRow
from tests.support.builders import make_campaign, make_gold, make_people
from tests.support.fuzz.child import begin_measuring, peak
from workbench.accounts.actors import Actor
from workbench.data import snapshots
from workbench.doctor.base import checks
from workbench.doctor.examining import examine
from workbench.settings import Settings, open_store
from workbench.suggestions.preannotating import preannotate

# All tables whose rows belong to a sentence and are copied with it; owners before what they own.
_OWN = (
    "task", "annotation", "annotation_span", "annotation_flag", "rejected_suggestion", "decision",
    "annotation_version", "suggestion", "link",
)  # fmt: skip
_AT_ONCE = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=200_000)
    parser.add_argument("--url", default="", help="an empty PostgreSQL database; default: a SQLite file")
    parser.add_argument("--check", action="append", default=[], help="only this check")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            home=Path(folder), database_url=options.url or f"sqlite:///{Path(folder) / 'workbench.sqlite3'}"
        )
        began = time.perf_counter()
        # In a process of its own: what it needed would hide what the checks need.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
            admin = apart.submit(fill, settings, options.sentences).result()
        print(f"{options.sentences:,} sentences made in {time.perf_counter() - began:.0f} s", flush=True)
        store = open_store(settings)
        status = measure(store, admin, options.check)
        store.close()
    return status


def fill(settings: Settings, sentences: int) -> Actor:
    """Work out six sentences through the use cases, copy them with all rows of theirs, and freeze the gold."""
    store = open_store(settings)
    migrate(store)
    people = make_people(store)
    campaign = make_campaign(store, people)
    preannotate(store, people["adm"], campaign)
    make_gold(store, people, campaign)
    with store.write() as session:
        rows = [dict(row) for row in session.execute(sa.select(SentenceRow.__table__)).mappings()]
        copies = max(0, sentences // len(rows) - 1)
        for first in range(1, copies + 1, _AT_ONCE // len(rows)):
            numbers = range(first, min(copies, first + _AT_ONCE // len(rows) - 1) + 1)
            session.execute(sa.insert(SentenceRow.__table__), list(_copies(rows, numbers)))
        _copy_rows(session, copies, len(rows))
    snapshots.freeze(store, people["adm"], campaign)
    store.close()
    return people["adm"]


def _copies(rows: list[dict[str, object]], numbers: range) -> Iterator[dict[str, object]]:
    """Yield each sentence with a number as its last token: its hash is its own, its spans are those of the first."""
    for number in numbers:
        for row in rows:
            text, tokens = str(row["text"]), list(row["tokens"])  # type: ignore[call-overload]
            tokens.append([len(text) + 1, len(text) + 1 + len(str(number))])
            text = f"{text} {number}"
            sentence = Sentence("", text, tuple(Token(*token) for token in tokens))
            place = {
                "id": int(str(row["id"])) + number * len(rows),
                "position": float(str(row["position"])) + number * len(rows),
            }
            yield {**row, **place, "external_id": f"{row['external_id']}-{number}", "text": text, "tokens": tokens,
                   "content_hash": sentence.content_hash}  # fmt: skip


def _copy_rows(session: Session, copies: int, sentences: int) -> None:
    """Copy all rows that belong to the sentences, `copies` times, each with ids of its own."""
    steps = {"sentence": sentences}
    for name in _OWN:
        table = Base.metadata.tables[name]
        own = table.primary_key.columns.values()
        if [column.name for column in own] == ["id"]:
            steps[name] = session.scalar(sa.select(sa.func.max(table.c.id))) or 0
        columns = []
        for column in table.columns:
            target = next(
                (key.column.table.name for key in column.foreign_keys if key.column.table.name in steps), None
            )
            step = steps.get(name) if column.name == "id" else steps.get(target) if target else None
            step = sentences if column.name == "position" else step
            columns.append(f'o."{column.name}" + n.k * {step}' if step is not None else f'o."{column.name}"')
        names = ", ".join(f'"{column.name}"' for column in table.columns)
        numbers = f"with recursive n(k) as (select 1 union all select k + 1 from n where k < {copies})"
        where = f"where o.id <= {steps[name]}" if name in steps else ""
        query = (
            f'insert into "{name}" ({names}) {numbers} select {", ".join(columns)} from "{name}" o cross join n {where}'
        )
        session.execute(sa.text(query))


def measure(store: Store, admin: Actor, only: list[str]) -> int:
    """Print seconds and megabytes of each check; return 1 where one found something or could not look."""
    status = 0
    print(f"{'check':14} {'seconds':>8} {'MB':>6}")
    for check in checks(only):
        gc.collect()
        before = begin_measuring()
        began = time.perf_counter()
        (result,) = examine(store, admin, [check.id]).results
        seconds, memory = time.perf_counter() - began, max(0, peak() - before)
        words = "" if result.state == "ok" else f"  {result.state}: {result.obstacle or result.findings[0]}"
        status |= result.state != "ok" and check.id not in ("packages", "disk")
        print(f"{check.id:14} {seconds:8.1f} {memory / 1e6:6.0f}{words}", flush=True)
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())

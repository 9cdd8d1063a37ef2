"""Large files come in through a file of sentences: the same as at once, all or none, in bounded memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, NotAllowed, NotFound
from crossner_core.schema import LabelledSentence
from db import job_rows
from db.engine import Store
from tests.support.training_store import person
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import exchange, staging
from workbench.jobs import queue
from workbench.jobs.worker import Worker
from workbench.settings import Settings, open_store, settings_of

ROW = '{"text": "Mara Vell sang %d times .", "gold": [{"start": 0, "end": 9, "type": "musicalartist"}]}\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Store]:
    """A store whose home is a folder of the test's."""
    from db.migrate import migrate

    store = open_store(Settings(home=tmp_path / "home"))
    migrate(store)
    yield store
    store.close()


def music(store: Store, actor: Actor, name: str = "Music") -> int:
    return campaigns.create_campaign(store, actor, name=name, domain=load_domain("music"), suggestions_on=False)


def lines(count: int, *, first: int = 0) -> str:
    return "".join(ROW % number for number in range(first, first + count))


def file_of(folder: Path, text: str, name: str = "a.jsonl") -> list[tuple[str, Path]]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return [(name, folder / name)]


def work(store: Store, **options: Any) -> None:
    Worker(store, settings_of(store), **options).run(once=True)


def start(store: Store, actor: Actor, campaign_id: int, text: str, **reading: Any) -> int:
    given = {"annotation": "gold", "format": "jsonl", **reading}
    return staging.start_import(store, actor, campaign_id, [("a.jsonl", text.encode())], **given)


@pytest.mark.parametrize("annotation", ["gold", "first", "suggestions", "none"])
def test_staged_import_leaves_the_store_as_an_import_at_once_does(
    place: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, annotation: str
) -> None:
    admin = person(place, "admin", "adm")
    text = lines(25) + ROW % 3 + '{"text": "Plain text ."}\n' + "{broken\n" + lines(4, first=25)
    one, two = music(place, admin), music(place, admin, "Again")
    reading: dict[str, Any] = {"annotation": annotation, "skip_bad": True}
    at_once = exchange.import_files(place, admin, one, [("a.jsonl", text.encode())], **reading)
    monkeypatch.setattr(sentences, "PORTION", 4)
    shares: list[float] = []
    files = file_of(tmp_path / "in", text)
    staged = staging.import_apart(
        place, admin, two, files, on_progress=lambda share, _: shares.append(share), **reading
    )
    assert staged == at_once and staged.added == 30 and staged.duplicates == 1 and len(staged.problems) == 1
    assert "comes twice, first as a-4" in staged.again[0]
    assert shares == sorted(shares) and shares[-1] == 1.0
    written = [exchange.export_files(place, admin, each, "sentences").files[0][1] for each in (one, two)]
    assert written[0] == written[1]


def test_staged_files_go_out_character_for_character(place: Store, tmp_path: Path) -> None:
    admin = person(place, "admin", "adm")
    conll = "# made\r\nThe\tO\r\nFoxes\tB-band\r\n\r\n\r\nMilo\tB-musicalartist\r\nsang\tO\r\n\r\n# end\r\n"
    campaign = music(place, admin)
    staging.import_apart(place, admin, campaign, file_of(tmp_path / "in", conll, "a.conll"), annotation="gold")
    assert exchange.export_layer(place, admin, campaign, "gold", format="conll").decode() == conll


def test_an_import_that_is_refused_leaves_nothing(place: Store, tmp_path: Path) -> None:
    admin, annotator = person(place, "admin", "adm"), person(place, "annotator", "ann")
    campaign = music(place, admin)
    with pytest.raises(BadInput, match=r"a.jsonl:9: not JSON"):
        staging.import_apart(place, admin, campaign, file_of(tmp_path / "in", lines(8) + "{\n" + lines(8, first=9)))
    with pytest.raises(BadInput, match="cannot become 'x'"):
        staging.import_apart(place, admin, campaign, file_of(tmp_path / "in", lines(2)), annotation="x")
    with pytest.raises(NotAllowed):
        staging.import_apart(place, annotator, campaign, file_of(tmp_path / "in", lines(2)))
    with pytest.raises(NotAllowed):
        start(place, annotator, campaign, lines(2))
    assert exchange.MAX_BYTES == 100_000_000
    assert campaigns.get_campaign(place, admin, campaign).sentences == 0


def test_uploads_are_imported_by_the_worker_which_says_what_came_and_what_did_not(place: Store) -> None:
    admin = person(place, "admin", "adm")
    campaign = music(place, admin)
    job_id = start(place, admin, campaign, lines(20) + ROW % 1 + "{\n", skip_bad=True)
    folder = settings_of(place).uploads
    assert len(list(folder.iterdir())) == 1 and folder.stat().st_mode & 0o777 in (0o700, 0o755)
    work(place)
    job = queue.get_job(place, admin, job_id)
    assert (job.state, job.error, job.progress) == ("done", None, 1.0)
    assert job.message == "20 sentences imported; 20 with gold; 1 were already there and were left out; 1 were skipped."
    logged = [line.text for line in queue.job_log(place, admin, job_id)]
    assert any("skipped: a.jsonl:22: not JSON" in line for line in logged)
    assert any("left out: a-21 comes twice, first as a-2" in line for line in logged)
    assert list(folder.iterdir()) == []


def test_a_failed_job_names_the_faults_and_its_uploads_are_deleted(place: Store) -> None:
    admin = person(place, "admin", "adm")
    campaign = music(place, admin)
    job_id = start(place, admin, campaign, lines(3) + "{\n")
    work(place)
    job = queue.get_job(place, admin, job_id)
    assert job.state == "failed" and "a.jsonl:4: not JSON" in (job.error or "")
    assert staging.sweep(place) == 0 and list(settings_of(place).uploads.iterdir()) == []
    assert campaigns.get_campaign(place, admin, campaign).sentences == 0


def test_a_cancelled_import_leaves_nothing(place: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = person(place, "admin", "adm")
    campaign = music(place, admin)
    waiting = start(place, admin, campaign, lines(3))
    assert queue.cancel_job(place, admin, waiting) == "cancelled" and list(settings_of(place).uploads.iterdir()) == []
    running = start(place, admin, campaign, lines(3))
    stage = staging.stage

    def cancelled(*args: Any, on_progress: staging.Progress, **kwargs: Any) -> staging.Staged:
        queue.cancel_job(place, admin, running)

        def wait_then_go_on(share: float, message: str) -> None:
            while queue.get_job(place, admin, running).state == "running":
                on_progress(share, message)

        return stage(*args, on_progress=wait_then_go_on, **kwargs)

    monkeypatch.setattr(staging, "stage", cancelled)
    work(place)
    assert queue.get_job(place, admin, running).state == "cancelled"
    assert list(settings_of(place).uploads.iterdir()) == []
    assert campaigns.get_campaign(place, admin, campaign).sentences == 0


def test_uploads_that_no_job_names_are_kept_for_an_hour(place: Store) -> None:
    new, old = (settings_of(place).uploads / name for name in ("new", "old"))
    new.mkdir(parents=True)
    old.mkdir()
    os.utime(old, (0, 0))
    assert staging.sweep(place) == 1 and new.is_dir() and not old.exists()
    with pytest.raises(NotFound, match="upload them again"):
        staging.kept_files(settings_of(place), "old", ["a"])


KILLED = """
import os, signal, sys
from pathlib import Path
from workbench.campaigns import sentences
from workbench.jobs.worker import Worker
from workbench.settings import Settings, open_store
append, portions = sentences._append, []
def dying(*args):
    if len(portions) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    portions.append(args)
    return append(*args)
sentences.PORTION, sentences._append = 5, dying
settings = Settings(home=Path(sys.argv[1]))
Worker(open_store(settings), settings).run(once=True)
"""


def test_an_import_killed_while_it_writes_leaves_nothing_and_starts_again(place: Store) -> None:
    admin = person(place, "admin", "adm")
    campaign = music(place, admin)
    job_id = start(place, admin, campaign, lines(30))
    home = settings_of(place).home
    done = subprocess.run([sys.executable, "-c", KILLED, str(home)], check=False, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert campaigns.get_campaign(place, admin, campaign).sentences == 0
    assert queue.get_job(place, admin, job_id).state == "running"
    with place.write() as session:  # as after the time in which a dead worker's job is stale
        job = job_rows.get(session, job_id)
        assert job is not None
        job.heartbeat_at = job.created_at.replace(year=2020)
    work(place)
    assert queue.get_job(place, admin, job_id).state == "done"
    assert campaigns.get_campaign(place, admin, campaign).sentences == 30


def test_staging_takes_memory_for_a_portion_not_for_the_file(
    place: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crossner_core.formats import source

    monkeypatch.setattr(source, "PORTION", 50_000)
    monkeypatch.setattr(sentences, "PORTION", 200)
    admin = person(place, "admin", "adm")

    def most(count: int) -> int:
        files = file_of(tmp_path / str(count), lines(count))
        campaign = music(place, admin, str(count))
        tracemalloc.start()
        try:
            assert staging.import_apart(place, admin, campaign, files, annotation="gold").added == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(400)  # loads what is loaded once
    small, large = most(1_500), most(6_000)
    per_sentence = (large - small) / 4_500
    assert per_sentence < 400, (small, large)  # the hashes of ids; a sentence in memory takes some 3,000


def test_seconds_are_estimated_by_format_and_size() -> None:
    assert staging.seconds_for([("a.jsonl", 1_000)], None) < 0.1
    assert staging.seconds_for([("a.jsonl", 100_000_000)], None) > staging.LONG
    assert staging.seconds_for([("a", 10_000_000)], "docbin") > staging.seconds_for([("a", 10_000_000)], "plain")


def test_staged_rows_are_json_lines(tmp_path: Path) -> None:
    staged = staging.stage(file_of(tmp_path / "in", ROW % 1), ["musicalartist"], tmp_path)
    assert staged.sentences == 1 and len(list(staged.rows())) == 1
    assert json.loads((tmp_path / "sentences.jsonl").read_text())[2] == "Mara Vell sang 1 times ."


def test_staged_spans_keep_their_resources(tmp_path: Path) -> None:
    resource = "http://www.wikidata.org/entity/Q42"
    span = {"start": 0, "end": 9, "type": "musicalartist", "entity": resource}
    text = json.dumps({"text": "Mara Vell sang .", "gold": [span, {"start": 10, "end": 14, "type": "musicalartist"}]})
    staged = staging.stage(file_of(tmp_path / "in", text), ["musicalartist"], tmp_path, annotation="gold")
    (row,) = staged.rows()
    assert isinstance(row, LabelledSentence) and [each.entity for each in row.spans] == [resource, None]

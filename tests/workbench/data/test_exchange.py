"""Files into a campaign and out again, and whole campaigns as zip files."""

from __future__ import annotations

import io
import json
import re
import time
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, Conflict, NotAllowed, WorkbenchError
from crossner_core.formats import read_files
from db.engine import Store
from db.tables import SuggestionRow
from db.training_tables import Job
from tests.support.archives import change, contents, zipped
from tests.support.builders import Tab
from tests.support.training_store import person
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import archive, archive_reading, exchange, layers, packing

CONLL = (
    "# made for this test\r\nThe\tO\r\nTin\tB-band\r\nFoxes\tI-band\r\nplayed\tO\r\nin\tO\r\n"
    "Oslo\tB-location\r\n.\tO\r\n"
    "\r\n\r\nMilo\tB-musicalartist\r\nFenn\tI-musicalartist\r\nsang\tO\r\n.\tO\r\n"
)
JSONL = (
    '{"text": "Ада sang “Moon 👩‍🚀”.", "gold": [{"start": 0, "end": 3, "type": "person", "surface": "Ада"}], '
    '"year": 1999}\n'
    '{"id": "b", "text": "The Lanterns e\u0301coute in Porto", '
    '"links": [{"start": 0, "end": 12, "target": "Lanterns (band)"}], "gold": [], "nested": {"a": [1, null]}}\n'
)
PLAIN = "First line here.\n\n  Second, indented: naïve café 🎸  \nThird"


@pytest.fixture
def admin(store: Store) -> Actor:
    return person(store, "admin", "adm")


def music(store: Store, admin: Actor, name: str = "Music") -> int:
    return campaigns.create_campaign(store, admin, name=name, domain=load_domain("music"), suggestions_on=False)


def bring(
    store: Store, actor: Actor, campaign_id: int, text: str, name: str, **options: object
) -> exchange.ImportOutcome:
    given = {"annotation": "gold", **options}
    return exchange.import_files(store, actor, campaign_id, [(name, text.encode())], **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "name", "format"), [(CONLL, "a.conll", "conll"), (JSONL, "b.jsonl", "jsonl")])
def test_exchange_round_trip_gives_back_every_character(
    store: Store, admin: Actor, text: str, name: str, format: str
) -> None:
    campaign_id = music(store, admin)
    done = bring(store, admin, campaign_id, text, name)
    assert (done.added, done.gold, done.problems) == (2, 2, ())
    assert exchange.export_layer(store, admin, campaign_id, "gold", format=format) == text.encode()
    assert exchange.export_layer(store, admin, campaign_id, "sentences", format=format) == text.encode()


def test_exchange_round_trip_of_plain_text(store: Store, admin: Actor) -> None:
    campaign_id = music(store, admin)
    done = bring(store, admin, campaign_id, PLAIN, "c.txt")
    assert (done.added, done.gold, done.format) == (3, 0, "plain")
    assert exchange.export_layer(store, admin, campaign_id, "sentences", format="plain") == PLAIN.encode()


def test_exchange_two_files_go_out_in_the_plain_layout(store: Store, admin: Actor) -> None:
    campaign_id = music(store, admin)
    bring(store, admin, campaign_id, CONLL, "a.conll")
    bring(store, admin, campaign_id, "Oslo\tB-city\n".replace("city", "location"), "b.conll", split="test")
    out = exchange.export_layer(store, admin, campaign_id, "gold", format="conll").decode()
    assert out.endswith("Oslo\tB-location\n") and "\r" not in out
    only = exchange.export_layer(store, admin, campaign_id, "gold", format="conll", split="test").decode()
    assert only == "Oslo\tB-location\n"


def test_exchange_bad_file_leaves_nothing_behind(store: Store, admin: Actor) -> None:
    campaign_id = music(store, admin)
    bad = CONLL.replace("B-location", "B-city")
    with pytest.raises(BadInput, match=r"a\.conll:7: .*city") as caught:
        bring(store, admin, campaign_id, bad, "a.conll")
    assert "musicalartist" in str(caught.value)
    assert campaigns.get_campaign(store, admin, campaign_id).sentences == 0
    done = bring(store, admin, campaign_id, bad, "a.conll", skip_bad=True)
    assert done.added == 1 and done.problems[0].startswith("a.conll:7:")


def test_exchange_without_gold_puts_sentences_into_the_queue(store: Store, admin: Actor) -> None:
    campaign_id = music(store, admin)
    done = bring(store, admin, campaign_id, CONLL, "a.conll", annotation="none")
    assert (done.added, done.gold) == (2, 0)
    assert campaigns.get_campaign(store, admin, campaign_id).stages[0].open == 2
    again = bring(store, admin, campaign_id, CONLL, "again.conll")
    assert (again.added, again.duplicates) == (0, 2)


def test_exchange_preview_keeps_nothing(store: Store) -> None:
    seen = exchange.preview([("a.conll", CONLL.encode())])
    assert (seen.sentences, seen.annotated, seen.problems) == (2, 2, ())
    assert seen.types == ("band", "location", "musicalartist")


def test_exchange_is_for_researchers_and_admins(store: Store, admin: Actor) -> None:
    campaign_id = music(store, admin)
    for role in ("annotator", "expert"):
        actor = person(store, role)
        with pytest.raises(NotAllowed):
            bring(store, actor, campaign_id, CONLL, "a.conll")
        with pytest.raises(NotAllowed):
            exchange.export_layer(store, actor, campaign_id, "gold")
        with pytest.raises(NotAllowed):
            archive.export_campaign(store, actor, campaign_id)


def test_exchange_empty_layer_says_so(store: Store, admin: Actor) -> None:
    with pytest.raises(BadInput, match="nothing to export"):
        exchange.export_layer(store, admin, music(store, admin), "second")


def filled(store: Store, admin: Actor) -> int:
    from workbench.data.snapshots import freeze

    campaign_id = music(store, admin)
    bring(store, admin, campaign_id, CONLL, "a.conll")
    bring(store, admin, campaign_id, JSONL, "b.jsonl", split="test")
    bring(store, admin, campaign_id, PLAIN, "c.txt")
    freeze(store, admin, campaign_id)
    return campaign_id


def test_exchange_campaign_round_trip_keeps_everything(store: Store, admin: Actor) -> None:
    first = filled(store, admin)
    data = archive.export_campaign(store, admin, first)
    second = archive.import_campaign(store, admin, data, name="Copy")
    one, two = contents(data), contents(archive.export_campaign(store, admin, second))
    for name in sorted(set(one) - {"manifest.json", "campaign.json", "snapshots.json"}):
        assert one[name] == two[name], name
    settings = [json.loads(files["campaign.json"]) for files in (one, two)]
    assert {**settings[0], "name": "", "created_at": ""} == {**settings[1], "name": "", "created_at": ""}
    for which in layers.LAYERS:
        assert layers.layer(store, admin, first, which) == layers.layer(store, admin, second, which)
    for format in ("conll", "jsonl"):
        outs = [exchange.export_layer(store, admin, one, "gold", format=format) for one in (first, second)]
        assert outs[0] == outs[1]


def test_exchange_campaign_of_strangers_brings_closed_accounts(store: Store, admin: Actor, tmp_path: Path) -> None:
    data = archive.export_campaign(store, admin, filled(store, admin))
    files = contents(data)
    renamed = {name: content.replace(b'"adm"', b'"mallory"') for name, content in files.items()}
    archive.import_campaign(store, admin, zipped(renamed), name="Theirs")
    from workbench.accounts.accounts import list_people

    stranger = next(one for one in list_people(store, admin) if one.name == "mallory")
    assert not stranger.active and stranger.role == "annotator"


def test_exchange_campaign_name_must_be_free(store: Store, admin: Actor) -> None:
    data = archive.export_campaign(store, admin, filled(store, admin))
    with pytest.raises(Conflict, match="another name"):
        archive.import_campaign(store, admin, data)


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("strategy", "wisdom", "Unknown acquisition function 'wisdom'; choose one of random"),
        ("strategy", 7, "strategy is 7"),
        ("random_share", 1.5, r"1\.5; it must lie in \[0, 1\]"),
        ("random_share", "half", "'half'; it must lie in"),
        ("retrain_every", -1, "retrain_every is -1; it must be a whole number"),
        ("turn_recipe", {"learning_rat": 1.0}, "learning_rat"),
        ("turn_recipe", [1], "must be an object of recipe fields"),
    ],
)
def test_exchange_campaign_with_rounds_that_cannot_be_is_refused(
    store: Store, admin: Actor, setting: str, value: object, says: str
) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    kept = json.loads(files["campaign.json"])
    assert setting in kept
    files["campaign.json"] = json.dumps({**kept, setting: value}).encode()
    before = len(campaigns.list_campaigns(store, admin))
    with pytest.raises(BadInput, match=rf"campaign\.json: .*{says}"):
        archive.import_campaign(store, admin, zipped(files), name="Bad rounds")
    assert len(campaigns.list_campaigns(store, admin)) == before


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("sentences.jsonl", b'"position": ', b'"position": "x", "was": ', "position must be a number, not 'x'"),
        ("sentences.jsonl", b'"position": ', b'"position": NaN, "was": ', "position must be a number|position is nan"),
        ("sentences.jsonl", b'"revision": 1', b'"revision": 1180591620717411303424', "revision is 118.*at most"),
        ("sentences.jsonl", b'"revision": 1', b'"revision": true', "revision must be a whole number, not True"),
        (
            "sentences.jsonl",
            b'"meta": {',
            b'"meta": {"who": "\\ud800", ',
            "the line is not JSON: unexpected end of hex escape",
        ),
        ("sentences.jsonl", b'"meta": {', b'"meta": {"who": [{"it": "a\\u0000"}], ', "meta holds a character"),
        ("sentences.jsonl", b'"meta": {', b'"meta": {"x": ' + b"[" * 5000 + b"]" * 5000 + b", ", "recursion limit"),
        ("sentences.jsonl", b'"comment": "', b'"commend": "', "comment is missing|commend is no key"),
        ("sentences.jsonl", b'"text": "', b'"text": 5, "t": "', "text must be a text, not 5"),
        ("campaign.json", b'"members": [', b'"members": 5, "were": [', "members must be a list, not 5"),
        ("campaign.json", b'"members": [', b'"members": [1, "adm"], "were": [', r"\[0\] must be a text, not 1"),
        ("people.json", b"[", b"[[],", r"\[0\] must be an object"),
        ("people.json", b'"role": "', b'"rolle": "', r"\[0\]\.role is missing"),
        ("people.json", b'"name": "a', b'"name": "\\u001b[2J', "cannot be an account name"),
        ("people.json", b'"name": "a', b'"name": "A', "the account name 'A.*' is spelled 'a"),
        ("people.json", b'"display_name": "', b'"display_name": "\\u202e', "has 1 to 80 printable characters"),
        ("snapshots.json", b"[", b"5 [", "is not JSON"),
    ],
)
def test_exchange_campaign_with_a_value_that_does_not_fit_is_refused_by_name(
    store: Store, admin: Actor, file: str, old: bytes, new: bytes, says: str
) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    assert old in files[file]
    before = len(campaigns.list_campaigns(store, admin))
    with pytest.raises(BadInput, match=rf"{re.escape(file)}.*({says})"):
        archive.import_campaign(store, admin, change(files, file, old, new), name="Copy")
    assert len(campaigns.list_campaigns(store, admin)) == before


def test_exchange_campaign_whose_sentences_come_from_nowhere_is_refused(store: Store, admin: Actor) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    line = json.loads(files["sentences.jsonl"].splitlines()[0])
    for layout in (5, {"file": 5}, {"file": {"colour": "red"}}, {"document": {}}):
        line["meta"]["_layout"] = layout
        files["sentences.jsonl"] = json.dumps(line).encode()
        with pytest.raises(BadInput, match=r"sentences\.jsonl:1: meta has an origin of the sentence that cannot be"):
            archive.import_campaign(store, admin, zipped(files), name="Copy")


def test_files_make_the_same_zip_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"music.txt": b"A song.", "annotation.conf": b"[entities]\n"}
    made = packing.zipped(files)
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    assert packing.zipped(files) == made and contents(made) == files
    assert [entry.external_attr >> 16 for entry in zipfile.ZipFile(io.BytesIO(made)).infolist()] == [0o644, 0o644]


def test_exchange_campaign_that_is_a_bomb_is_refused_before_it_is_unpacked(store: Store, admin: Actor) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    line = json.loads(files["sentences.jsonl"].splitlines()[0])
    line["meta"]["filler"] = "a" * 100_000
    files["sentences.jsonl"] = (json.dumps(line) + "\n").encode() * 2_000
    bomb = packing.zipped(files)
    assert len(bomb) < 2_000_000
    tracemalloc.start()
    with pytest.raises(BadInput, match=r"sentences\.jsonl unpacks to more than 100 times its size"):
        archive.import_campaign(store, admin, bomb, name="Bomb")
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_exchange_campaign_with_a_broken_stream_is_refused(store: Store, admin: Actor, method: int) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", method) as made:
        for name, content in files.items():
            made.writestr(name, content)
    with zipfile.ZipFile(whole) as made:
        info = made.getinfo("sentences.jsonl")
    data = bytearray(whole.getvalue())
    start = info.header_offset + 60 + len(info.filename)
    for place in range(start, start + info.compress_size // 2, 7):
        data[place] ^= 0x5A
    with pytest.raises(BadInput, match="not a readable zip"):
        archive.import_campaign(store, admin, bytes(data), name="Broken")


def test_exchange_campaign_with_a_snapshot_twice_is_refused(store: Store, admin: Actor) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    (snapshot,) = json.loads(files["snapshots.json"])
    files["snapshots.json"] = json.dumps([snapshot, snapshot]).encode()
    with pytest.raises(BadInput, match=r"snapshots\.json lists a snapshot twice"):
        archive.import_campaign(store, admin, zipped(files), name="Copy")


def test_exchange_campaign_damaged_or_hostile_zip_is_refused(
    store: Store, admin: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    cases = [
        b"no zip at all",
        zipped({**files, "../evil.txt": b"x"}),
        zipped({**files, "/etc/passwd": b"x"}),
        zipped({name: content for name, content in files.items() if name != "people.json"}),
        zipped(files)[:-200],
        change(files, "manifest.json", b'"version": 1', b'"version": 99'),
        change(files, "sentences.jsonl", b'"surface": "Oslo"', b'"surface": "Bonn"'),
        change(files, "sentences.jsonl", b'"type": "band"', b'"type": "gang"'),
        change(files, "sentences.jsonl", b'"stage": "adjudicate"', b'"stage": "dinner"'),
        change(files, "sentences.jsonl", b'"revision": 1', b'"revision": -1'),
        change(files, "sentences.jsonl", b'"position": ', b'"position": "x", "was": '),
        change(files, "sentences.jsonl", b'"done_at": "', b'"done_at": "yesterday'),
        change(files, "sentences.jsonl", b"{", b"["),
        change(files, "sentences.jsonl", b'"user": "adm"', b'"user": "nobody"'),
        change(files, "campaign.json", b'"blind_share": 0.1', b'"blind_share": 7'),
        change(files, "domain.toml", b"[[types]]", b"[[tpyes]]"),
        change(files, next(name for name in files if name.startswith("snapshots/")), b"Oslo", b"Bonn"),
    ]
    before = len(campaigns.list_campaigns(store, admin))
    for number, data in enumerate(cases):
        with pytest.raises(WorkbenchError):
            archive.import_campaign(store, admin, data, name=f"Bad {number}")
    monkeypatch.setattr(archive_reading, "MAX_FILE_BYTES", 100)
    with pytest.raises(BadInput, match="unpacks to too much"):
        archive.import_campaign(store, admin, zipped(files), name="Bomb")
    assert len(campaigns.list_campaigns(store, admin)) == before


def test_pre_annotation_of_many_sentences_is_left_to_the_worker(
    store: Store, admin: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MOST_AT_ONCE", 2)
    campaign = campaigns.create_campaign(store, admin, name="Music", domain=load_domain("music"))
    few = bring(store, admin, campaign, "One .\nTwo .\n", "a.txt", options={"split": "lines"})
    many = bring(store, admin, campaign, "Three .\nFour .\nFive .\n", "b.txt", options={"split": "lines"})
    assert "queued" not in few.note
    assert many.note == "Pre-annotation is queued: the worker does it."
    with store.read() as session:
        assert [job.kind for job in session.query(Job)] == ["preannotate"]


def test_imported_annotation_is_suggested_unless_the_person_says_more(store: Store, admin: Actor) -> None:
    campaign = music(store, admin)
    files = [("a.conll", CONLL.encode())]
    outcome = exchange.import_files(store, admin, campaign, files)
    assert (outcome.added, outcome.suggestions, outcome.first, outcome.gold) == (2, 2, 0, 0)
    view = campaigns.get_campaign(store, admin, campaign)
    assert (view.gold, view.stages[0].open) == (0, 2)
    with store.read() as session:
        rows = session.query(SuggestionRow).order_by(SuggestionRow.id)
        assert [(row.start, row.end, row.type, row.source, row.score) for row in rows] == [
            (1, 3, "band", "import", 1.0), (5, 6, "location", "import", 1.0), (0, 2, "musicalartist", "import", 1.0)
        ]  # fmt: skip


def test_imported_suggestions_reach_sentences_that_are_there_and_not_begun(store: Store, admin: Actor) -> None:
    campaign = music(store, admin)
    bring(store, admin, campaign, CONLL, "a.conll", annotation="none")
    other = CONLL.replace("band", "album")
    again = bring(store, admin, campaign, other, "b.conll", annotation="suggestions")
    assert (again.added, again.duplicates, again.suggestions) == (0, 2, 2)
    assert again.again[0] == "b-1 is in the campaign as a-1: The Tin Foxes played in Oslo ."
    assert "album" in exchange.export_layer(store, admin, campaign, "suggestions", format="conll").decode()
    bring(store, admin, campaign, CONLL, "c.conll", annotation="suggestions")
    assert "album" not in exchange.export_layer(store, admin, campaign, "suggestions", format="conll").decode()
    gold = music(store, admin, "Gold")
    bring(store, admin, gold, CONLL, "a.conll")
    assert bring(store, admin, gold, other, "b.conll", annotation="suggestions").suggestions == 0


def test_imported_annotation_as_the_first_waits_for_the_check(store: Store, admin: Actor) -> None:
    campaign = music(store, admin)
    outcome = bring(store, admin, campaign, CONLL, "a.conll", annotation="first")
    assert (outcome.added, outcome.first, outcome.gold) == (2, 2, 0)
    view = campaigns.get_campaign(store, admin, campaign)
    assert [(stage.open, stage.done) for stage in view.stages] == [(0, 2), (2, 0), (0, 0)]
    assert exchange.export_layer(store, admin, campaign, "first", format="conll") == CONLL.encode()
    checker = person(store, "annotator", "ann")
    campaigns.set_members(store, admin, campaign, [checker.id])
    items = Tab(store, checker, campaign, "check").items(2)
    assert [len(item["first"]) for item in items] == [2, 1]


def test_a_sentence_that_comes_twice_is_listed(store: Store, admin: Actor) -> None:
    twice = bring(store, admin, music(store, admin), "Ada sang .\nAda sang .\n", "a.txt", options={"split": "lines"})
    assert twice.again == ("a-2 comes twice, first as a-1: Ada sang .",)


def test_annotation_becomes_one_of_four_things(store: Store, admin: Actor) -> None:
    with pytest.raises(BadInput, match="cannot become 'truth'; choose one of suggestions, first, gold, none"):
        bring(store, admin, music(store, admin), CONLL, "a.conll", annotation="truth")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_exchange_gold_in_another_order_keeps_sentences_apart(store: Store, people: dict[str, Actor], end: str) -> None:
    """What a file begins with, here an article's mark, need not come first again."""
    text = "-DOCSTART- -X- O O\n\nAda NNP B-NP O\n\nBo NNP B-NP O\n".replace("\n", end)
    campaign_id = campaigns.create_campaign(
        store, people["adm"], name="Order", domain=load_domain("music"),
        member_ids=[person.id for person in people.values()], suggestions_on=False,
    )  # fmt: skip
    bring(store, people["adm"], campaign_id, text, "a.conll", annotation="none")
    for name, stage in (("ann1", "annotate"), ("ann2", "check"), ("eva", "adjudicate")):
        tab = Tab(store, people[name], campaign_id, stage)
        for item in reversed(tab.items(2)):
            tab.do("submit", item)
    written = exchange.export_layer(store, people["adm"], campaign_id, "gold", format="conll")
    (again,) = read_files([("a.conll", written)], "conll")
    assert [record.sentence.text for record in again.sentences] == ["Bo", "Ada"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("text",), "Bo"), (("n",), float("nan")), (("n",), json.loads("[" * 101 + "]" * 101)),
        (("_layout", "conll"), ""), (("_layout", "conll"), {"before": 5}),
        (("_layout", "conll"), {"columns": {"1": [5]}}),
        (("_layout", "conll"), {"colour": "red"}), (("_layout", "document"), {"name": 5, "offset": 0}),
        (("_layout", "document"), {"name": "a", "offset": "0"}), (("_layout", "file", "name"), ["a"]),
        (("_layout", "file", "layout", "format"), 5), (("_layout", "file", "layout", "newline"), ""),
        (("_layout", "file", "layout", "separator"), ""), (("_layout", "file", "layout", "width"), "2"),
        (("_layout", "file", "layout", "token_column"), 2), (("_layout", "file", "layout", "scheme"), "X"),
        (("_layout", "file", "layout", "type_map"), {"a": 5}), (("_layout", "file", "layout", "colour"), "red"),
    ],
)  # fmt: skip
def test_exchange_campaign_with_metadata_that_no_export_could_write_is_refused(
    store: Store, admin: Actor, path: tuple[str, ...], value: object
) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    line = json.loads(files["sentences.jsonl"].splitlines()[0])
    inside = line["meta"]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    files["sentences.jsonl"] = json.dumps(line).encode()
    with pytest.raises(BadInput, match=r"sentences\.jsonl:1: .*(metadata|meta has an origin)"):
        archive.import_campaign(store, admin, zipped(files), name="Copy")


@pytest.mark.parametrize(("key", "value"), [("external_id", ""), ("text", "   "), ("tokens", [[3, 4]])])
def test_exchange_campaign_with_a_sentence_that_no_reader_takes_is_refused(
    store: Store, admin: Actor, key: str, value: object
) -> None:
    files = contents(archive.export_campaign(store, admin, filled(store, admin)))
    bare = {"external_id": "a", "text": "Ada sang", "tokens": [[0, 3]], "links": [], "suggestions": [], "tasks": []}
    line = {**json.loads(files["sentences.jsonl"].splitlines()[0]), **bare, "second_look": [], "meta": {}, key: value}
    files["sentences.jsonl"] = json.dumps(line).encode()
    with pytest.raises(BadInput, match=r"sentences\.jsonl:1: .*(empty id|white space)"):
        archive.import_campaign(store, admin, zipped(files), name="Copy")

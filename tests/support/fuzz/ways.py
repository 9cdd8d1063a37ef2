"""Every way into the workbench: valid inputs to begin with, and how one is fed in. A function a way."""

from __future__ import annotations

import bz2
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crossner_core.command_line import read_values
from crossner_core.domains import domain_to_toml, load_domain, parse_domain
from crossner_core.errors import BadInput
from crossner_core.formats import open_file
from crossner_core.records import parse
from crossner_core.type_maps import load_type_map
from db.engine import Store
from db.migrate import migrate
from db.tables import Base
from tests.support.archives import contents, zipped
from tests.support.builders import GOLD, Tab, make_campaign, make_gold, make_people
from tests.support.fuzz.coming_out import check_campaign, check_dataset
from workbench.campaigns import campaigns
from workbench.data import archive, datasets, exchange, snapshots

Files = Mapping[str, bytes]


class Scene:
    """A folder with a store of one campaign, made with the scene."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        assert self.campaign

    @cached_property
    def store(self) -> Store:
        store = Store(f"sqlite:///{self.folder / 'store.sqlite3'}")
        migrate(store)
        return store

    @cached_property
    def people(self) -> dict[str, Any]:
        return make_people(self.store)

    @cached_property
    def campaign(self) -> int:
        return make_campaign(self.store, self.people)

    def empty_campaign(self) -> int:
        """Make a further campaign without sentences; return its id."""
        name, domain = f"C{self.rows()['campaign']}", load_domain("music")
        return campaigns.create_campaign(self.store, self.people["adm"], name=name, domain=domain)

    def rows(self) -> dict[str, int]:
        """Count every row of the store."""
        with self.store.read() as session:
            tables = [table.name for table in Base.metadata.sorted_tables]
            counts = ", ".join(f'(select count(*) from "{name}")' for name in tables)
            return dict(zip(tables, session.execute(sa.text(f"select {counts}")).one(), strict=True))

    def written(self, files: Files) -> Path:
        """Write files into an empty folder; return it."""
        folder = self.folder / "input"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return folder

    def absent(self, name: str) -> Path:
        """Return a path where nothing is."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        return path


@dataclass(frozen=True, slots=True)
class Way:
    """A way in; `weight` is its share of the cases, `rows` whether it writes into the store."""

    name: str
    seeds: Callable[[Scene], Sequence[Files]]
    feed: Callable[[Scene, Files], None]
    weight: int = 10
    rows: bool = False


WAYS: dict[str, Way] = {}


def way(
    name: str, seeds: Callable[[Scene], Sequence[Files]], **more: Any
) -> Callable[[Callable[[Scene, Files], None]], Callable[[Scene, Files], None]]:
    """Register a function as a way in."""

    def register(feed: Callable[[Scene, Files], None]) -> Callable[[Scene, Files], None]:
        WAYS[name] = Way(name, seeds, feed, **more)
        return feed

    return register


CONLL = (
    b"-DOCSTART- -X- O O\n\nAda NNP B-NP B-person\nsang VBD O O\nLow NNP B-NP B-album\nTide NNP I-NP I-album\n. . O O\n"
    b"\nBo NNP B-NP B-band\n"
)
PLAIN = b'Ada sang "Low Tide" in Oslo. It rained.\n\nBo, who was 12, came at 5 p.m.; see https://a.example/x.\n'
JSONL = "".join(
    json.dumps(line, ensure_ascii=False) + "\n"
    for line in (
        {
            "id": "a",
            "text": "Ada sang Low Tide",
            "gold": [{"start": 9, "end": 17, "type": "album", "surface": "Low Tide"}],
        },
        {"text": "Bo sang .", "tokens": ["Bo", "sang", "."], "entities": [[0, 2, "person"]], "meta": {"year": 1987}},
        {"tokens": ["Ada", "sang"], "ner_tags": ["B-person", "O"], "split": "dev"},
        {"text": "In Oslo it rained .", "links": [{"start": 3, "end": 7, "target": "Oslo"}]},
    )
).encode()
FILES = [{"a.conll": CONLL}, {"a.txt": PLAIN}, {"a.jsonl": JSONL}]
ODD = [
    {"a.conll": CONLL.replace(b"\n", b"\r\n"), "b.jsonl": JSONL},
    {"a.txt": PLAIN, "b/a.txt": PLAIN.replace(b"\n", b"\r")},
]


@way("files", lambda _: FILES, weight=30, rows=True)
def _import_files(scene: Scene, files: Files) -> None:
    campaign = scene.campaign
    ((name, data),) = files.items()
    exchange.import_files(
        scene.store, scene.people["res"], campaign, [(name, data)], annotation="gold", preannotate=False
    )
    exchange.export_layer(scene.store, scene.people["res"], campaign, "sentences", format="jsonl")


@way("files, bad lines left out", lambda _: FILES, weight=10)
def _open_files(scene: Scene, files: Files) -> None:
    ((name, _),) = files.items()
    options = {"split": "paragraphs"} if name.endswith("txt") else {}
    open_file(scene.written(files) / name, skip_bad=True, **options)


@way("data sets", lambda _: [{"train.conll": CONLL, "test.jsonl": JSONL.split(b"\n")[0]}], weight=8, rows=True)
def _import_dataset(scene: Scene, files: Files) -> None:
    splits = {name.partition(".")[0]: (name, data) for name, data in files.items()}
    number = scene.rows()["dataset"]
    datasets.import_dataset(scene.store, scene.people["res"], name=f"set-{number}", splits=splits, domain="music")


def _archive(scene: Scene) -> bytes:
    campaign = make_campaign(scene.store, scene.people, name="Archived")
    make_gold(scene.store, scene.people, campaign)
    snapshots.freeze(scene.store, scene.people["res"], campaign)
    Tab(scene.store, scene.people["ann1"], scene.campaign, "annotate")
    return archive.export_campaign(scene.store, scene.people["adm"], campaign)


def _archives(scene: Scene) -> list[Files]:
    data = _archive(scene)
    return [*[contents(data)] * 4, {"campaign.zip": data}]


@way("campaign archives", _archives, weight=20, rows=True)
def _import_campaign(scene: Scene, files: Files) -> None:
    data = files["campaign.zip"] if set(files) == {"campaign.zip"} else zipped(dict(files))
    name = f"again {scene.rows()['campaign']}"
    campaign = archive.import_campaign(scene.store, scene.people["adm"], data, name=name)
    archive.export_campaign(scene.store, scene.people["adm"], campaign)


@way("files, and out again", lambda _: [*FILES, *ODD], weight=4)
def _files_and_out(scene: Scene, files: Files) -> None:
    admin, campaign = scene.people["adm"], scene.empty_campaign()
    exchange.import_files(
        scene.store, admin, campaign, list(files.items()), annotation="gold", preannotate=False, skip_bad=True
    )
    check_campaign(scene.store, admin, campaign, max_tokens=10**9)


@way("data sets, and out again", lambda _: [{"train.conll": CONLL}, {"train.jsonl": JSONL.split(b"\n")[0]}], weight=3)
def _dataset_and_out(scene: Scene, files: Files) -> None:
    ((file, data),) = files.items()
    name = f"out-{scene.rows()['dataset']}"
    datasets.import_dataset(scene.store, scene.people["res"], name=name, splits={"train": (file, data)}, skip_bad=True)
    check_dataset(scene.store, scene.people["adm"], name)


@way(
    "domains", lambda _: [{"d.toml": domain_to_toml(load_domain(name)).encode()} for name in ("music", "ai")], weight=12
)
def _domain(scene: Scene, files: Files) -> None:
    domain = parse_domain(_text(files), origin="d.toml")
    parse_domain(domain_to_toml(domain), origin="d.toml")


MAP = b'title = "Mine"\nothers = "keep"\ndrop = ["MISC"]\n[types]\nPER = "person"\nLOC = "location"\n'


@way("type maps", lambda _: [{"m.toml": MAP}], weight=10)
def _type_map(scene: Scene, files: Files) -> None:
    load_type_map(str(scene.written(files) / "m.toml"))


RECIPE = {
    "architecture": "crf",
    "setting": "direct",
    "learning_rate": 5e-5,
    "max_epochs": 3,
    "seed": 7,
    "batch_size": 16,
}
RECIPE_TOML = "".join(f"{name} = {json.dumps(value)}\n" for name, value in RECIPE.items()).encode()


@way("recipes", lambda _: [{"r.json": json.dumps(RECIPE).encode()}, {"r.toml": RECIPE_TOML}], weight=12)
def _recipe(scene: Scene, files: Files) -> None:
    from crossner_core.training.recipe import Recipe

    (name,) = files
    recipe = Recipe.from_dict(read_values(str(scene.written(files) / name)))
    Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))).hash  # noqa: B018


def _triples(_: Scene) -> list[Files]:
    from tests.support.gazetteers.builders import label, redirect, typed

    lines = typed("Mara_Vell", "Singer") + typed("Low_Tide_(song)", "Song") + label("Mara_Vell", "Mara Vell \\u00e9")
    lines += redirect("Mara", "Mara_Vell") + '<http://a/b%C3%A9> <http://a/p> "x"^^<http://a/t> .\n# end\n'
    return [{"types.nt": lines.encode()}] * 4 + [{"types.nt.bz2": bz2.compress(lines.encode())}]


@way("DBpedia dumps", _triples, weight=10)
def _gazetteer(scene: Scene, files: Files) -> None:
    from crossner_core.gazetteer.building import build_from_dumps

    folder, out = scene.written(files), scene.absent("gazetteer")
    try:
        build_from_dumps([folder / name for name in files], out, name="tiny")
    except BadInput:
        assert not out.exists(), "a refused build left a gazetteer"
        raise


def _dumps(_: Scene) -> list[Files]:
    from tests.support.dump_builders import END, HEAD, article, page

    odd = "'''A''' {{Infobox|x=1}} is [[B|b]].<ref>c</ref>\n\n{| class=x\n| y\n|}\n== H ==\n"
    odd += "* ''d'' &amp; <nowiki>[[e]]</nowiki>"
    text = (HEAD + article(1) + page(2, "Odd", odd) + page(3, "R", "#REDIRECT [[Odd]]", redirect="Odd") + END).encode()
    return [{"d.xml": text}] * 4 + [{"d.xml.bz2": bz2.compress(text)}]


@way("Wikipedia dumps", _dumps, weight=6)
def _corpus(scene: Scene, files: Files) -> None:
    from crossner_core.wikipedia.build import build_corpus

    (name,) = files
    build_corpus(scene.written(files) / name, scene.absent("corpus"))


SQL = (
    b"CREATE TABLE `categorylinks` (\n  `cl_from` int(8) NOT NULL,\n  `cl_to` varbinary(255) NOT NULL,\n"
    b"  `cl_type` enum('page','subcat','file') NOT NULL,\n  PRIMARY KEY (`cl_from`,`cl_to`)\n) ENGINE=InnoDB;\n"
    b"INSERT INTO `categorylinks` VALUES (1,'Harbours','page'),(2,'It\\'s_odd','subcat');\n"
)


@way("category tables", lambda _: [{"categorylinks.sql": SQL}], weight=6)
def _categories(scene: Scene, files: Files) -> None:
    from crossner_core.wikipedia.category_tables import table_rows, tables_of

    path = scene.written(files) / "categorylinks.sql"
    for table in tables_of(path):
        list(table_rows(path, table, ("cl_from", "cl_to", "cl_type")))


def _taggers(scene: Scene) -> list[Files]:
    from tests.support.fuzz.checkpoints import tagger_files

    return [tagger_files(scene.folder / "tagger")]


@way("checkpoints", _taggers, weight=6)
def _checkpoint(scene: Scene, files: Files) -> None:
    from crossner_core.training.predictor import load_tagger
    from tests.support.builders import make_sentences

    load_tagger(scene.written(files), device="cpu").predict(make_sentences()[:2])


def _messages(scene: Scene) -> list[Files]:
    tab = Tab(scene.store, scene.people["ann1"], scene.campaign, "annotate")
    first, second = tab.items(2)
    parts = {"comment": "x"}
    events = [
        tab.event("draft", first, GOLD[0], parts=parts),
        tab.event("submit", first, GOLD[0], base=first["revision"] + 1),
        tab.event("skip", second, reason="unclear"),
    ]
    return [{"m.json": json.dumps({"client": tab.client, "events": events[:count]}).encode()} for count in (1, 2, 3)]


@way("outbox messages", _messages, weight=16)
def _outbox(scene: Scene, files: Files) -> None:
    from workbench.labelling import outbox

    message = parse(_text(files), "JSON")
    answer = outbox.apply(scene.store, scene.people["ann1"], scene.campaign, "annotate", message)
    json.dumps(answer.rejections)
    if answer.rejections:
        raise BadInput(answer.rejections[0]["message"])


def _text(files: Files) -> str:
    (data,) = files.values()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput("not UTF-8") from error

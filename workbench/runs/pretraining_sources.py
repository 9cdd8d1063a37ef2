"""What an encoder can be pre-trained on: named when queued, verified by its hash when the worker begins."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.adaptation.texts import describe_files, text_files
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotFound
from crossner_core.options.character_models import CharacterModelOptions
from crossner_core.options.dapt import DaptOptions
from crossner_core.records import Record
from crossner_core.schema import LabelledSentence
from db import dataset_rows, label_review_rows, layer_rows
from db.engine import Session, Store
from db.training_tables import Dataset
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import find_domain
from workbench.data import corpora
from workbench.data.datasets import dataset_hash, dataset_parts
from workbench.settings import Settings, settings_of

if TYPE_CHECKING:
    from crossner_core.adaptation.texts import PretrainText

LEAST_SENTENCES = 20
"""Fewer are not enough to train and measure on."""
TEXT_FILE = "text.txt"


@dataclass(frozen=True, slots=True)
class Source(Record):
    """Text or tagged sentences; `level` and `domain` are of a corpus, `percent` of text, `path` of a file or folder.

    `hash` names the content that was there when the pre-training was queued; `version` is a tagged corpus's.
    """

    kind: str
    name: str
    level: str = "domain"
    percent: float = 100.0
    domain: str | None = None
    path: str = ""
    hash: str = ""
    version: str = ""
    sentences: int = 0

    @property
    def has_tokens(self) -> bool:
        """Whether its words are tokens, as taggers read them; those of running text are not."""
        return self.kind == "dataset"

    @property
    def words(self) -> str:
        """Describe the source."""
        if self.kind == "corpus":
            level = f"{self.level} level" + (f" for {self.domain}" if self.level != "domain" else "")
            return f"{self.percent:g} % of the corpus {self.name}, {level}"
        if self.kind == "tagged":
            return f"the entity-tagging corpus {self.name}, version {self.version}"
        named = {"dataset": f"the data set {self.name}", "campaign": f"the campaign {self.name}"}
        share = "" if self.percent == 100 else f"{self.percent:g} % of "
        return share + named.get(self.kind, f"the text {self.name}")


def corpus_source(
    store: Store, actor: Actor, name: str, *, level: str = "domain", percent: float = 100.0, domain: str | None = None
) -> Source:
    """Name a share of a level of a corpus; raise NotFound, or BadInput for one without what the level needs."""
    from crossner_core.subsets import check_percent
    from crossner_core.wikipedia.levels import DOMAIN, check_level

    check_level(level)
    check_percent(percent)
    corpus = corpora.open_corpus(store, actor, name)
    if level != DOMAIN:
        if corpus.manifest.gazetteer is None:
            raise BadInput(
                f"The corpus {name!r} is not pre-annotated, so it has no {level} level: build it with --gazetteer, or "
                "choose the domain level."
            )
        if not (domain := domain or corpus.manifest.domain):
            raise InvalidConfig(f"The {level} level needs a domain: its entity types select the sentences.")
    if domain is not None:
        with store.read() as session:
            find_domain(session, domain)
    _require_enough(round(len(corpus) * percent / 100), f"{percent:g} % of the corpus {name!r}")
    own = domain if level != DOMAIN else None  # the domain level is the same for all
    return Source("corpus", name, level, percent, own, hash=corpus.manifest.hash, sentences=len(corpus))


def dataset_source(session: Session, name: str) -> Source:
    """Name the training sentences of a data set; raise NotFound naming those that exist."""
    row = _dataset(session, name)
    count = row.train_sentences
    _require_enough(count, f"The train split of the data set {name!r}")
    return Source("dataset", name, hash=dataset_hash(row), sentences=count)


def campaign_source(session: Session, actor: Actor, campaign_id: int, folder: Path) -> Source:
    """Write the sentences a campaign has now to a folder.

    Dev and test sentences are excluded, and so are those that an expert left out.
    """
    _, campaign = enter(session, actor, campaign_id, *KEEPERS)
    rows = layer_rows.sentences(session, campaign_id)
    left_out = label_review_rows.left_out(session, campaign_id)
    lines = [" ".join(row.text.split()) for row in rows if row.split == "pool" and row.id not in left_out]
    _require_enough(len(lines), f"The campaign {campaign.name!r} (without its dev and test sentences)")
    data = "".join(f"{line}\n" for line in lines).encode()
    return text_source(_written(folder, data), kind="campaign", name=campaign.name)


def upload_source(name: str, data: bytes, folder: Path) -> Source:
    """Keep an uploaded text in a folder; raise BadInput if it is not UTF-8 or ends within a line."""
    return text_source(_written(folder, data), name=name)


def text_source(path: Path, *, kind: str = "text", name: str = "") -> Source:
    """Name a text file with a sentence or document per line; it is read in place and must not change."""
    path = path.expanduser().resolve()
    count = sum(1 for _ in text_files([path])())
    _require_enough(count, f"The text {name or path.name!r}", unit="lines with text")
    return Source(kind, name or path.name, path=str(path), hash=describe_files([path])[0]["sha256"], sentences=count)


def share_of_source(source: Source, percent: float) -> Source:
    """Name a share of a text's sentences; raise InvalidConfig for no percentage, BadInput if too few are left."""
    from crossner_core.subsets import check_percent

    check_percent(percent)
    share = replace(source, percent=percent)
    _require_enough(round(source.sentences * percent / 100), f"The source, {share.words},")
    return share


def tagged_source(settings: Settings, name: str) -> Source:
    """Name an entity-tagging corpus, by its name in the home folder or by its folder; raise NotFound."""
    from crossner_core.wikipedia.tagged_corpus import TaggingManifest

    named = settings.tagged / name if name in tagged_names(settings) else Path(name).expanduser().resolve()
    if not named.is_dir():
        known = ", ".join(tagged_names(settings)) or "none yet"
        raise NotFound(
            f"There is no entity-tagging corpus {name!r}; in {settings.tagged} there are: {known}. Make one with "
            f"workbench corpus entity-tagging CORPUS --output {settings.tagged / 'NAME'}"
        )
    manifest = TaggingManifest.read(named)
    count = sum(rows for _, rows, _ in manifest.shards)
    _require_enough(count, f"The entity-tagging corpus {named.name!r}")
    digest, version = _tagged_hash(manifest.to_json()), str(manifest.config.get("version", ""))
    return Source("tagged", named.name, path=str(named), hash=digest, version=version, sentences=count)


def tagged_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the entity-tagging corpora in the home folder."""
    folders = settings.tagged.iterdir() if settings.tagged.is_dir() else ()
    return tuple(sorted(path.name for path in folders if (path / "manifest.json").is_file()))


def open_texts(
    store: Store, source: Source, options: DaptOptions | CharacterModelOptions
) -> PretrainText[Sequence[str]]:
    """Return the words to pre-train on; raise NotFound or Conflict if they are gone or changed since."""
    from crossner_core.adaptation.texts import as_words, from_files, from_level, share_of

    if source.kind == "corpus":
        settings = settings_of(store)
        corpus = corpora.corpus_at(settings, source.name)
        _require_same(source, corpus.manifest.hash)
        # The domain level has all sentences, whatever the domain.
        with store.read() as session:
            domain = find_domain(session, source.domain or "conll2003")
        return from_level(corpus.folder, domain, source.level, percent=source.percent, gazetteers=settings.gazetteers)
    if source.kind == "dataset":
        return share_of(as_words(_open_dataset(store, source)), source.percent, options)
    path = Path(source.path)
    if not path.is_file():
        raise NotFound(f"{path} is gone: put the text back, or start the pre-training again with another.")
    text = from_files([path])
    _require_same(source, text.provenance["corpus"][0]["sha256"])
    return share_of(text, source.percent, options)


def open_tagged(store: Store, source: Source) -> PretrainText[LabelledSentence]:
    """Return the tagged sentences to pre-train on; raise NotFound or Conflict if they are gone or changed."""
    if source.kind == "dataset":
        return _open_dataset(store, source)
    from crossner_core.adaptation.texts import PretrainText
    from crossner_core.wikipedia.tagged_corpus import TaggingManifest, read_tagged

    folder = Path(source.path)
    manifest = TaggingManifest.read(folder)
    _require_same(source, _tagged_hash(manifest.to_json()))
    types = tuple(sorted(category.category for category in manifest.categories))
    return PretrainText(lambda: read_tagged(folder), types=types)


def _open_dataset(store: Store, source: Source) -> PretrainText[LabelledSentence]:
    from crossner_core.adaptation.texts import from_sentences

    with store.read() as session:
        row = _dataset(session, source.name)
        _require_same(source, dataset_hash(row))
        parts = dataset_parts(session, row)
        return from_sentences(parts["train"], parts["dev"], row.types)


def _dataset(session: Session, name: str) -> Dataset:
    row = dataset_rows.find(session, name)
    if row is None:
        known = ", ".join(row.name for row in dataset_rows.listed(session)) or "none yet"
        raise NotFound(f"There is no data set {name!r}; there are: {known}.")
    return row


def _written(folder: Path, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TEXT_FILE
    path.write_bytes(data)
    return path


def _tagged_hash(manifest: str) -> str:
    return hashlib.sha256(manifest.encode()).hexdigest()


def _require_same(source: Source, digest: str) -> None:
    if digest != source.hash:
        raise Conflict(
            f"The source to pre-train on, {source.words}, has changed since this was queued: start the pre-training "
            "again under another name."
        )


def _require_enough(count: int, what: str, *, unit: str = "sentences") -> None:
    if count < LEAST_SENTENCES:
        raise BadInput(f"{what} has {count} {unit}; at least {LEAST_SENTENCES} are needed to train and measure on.")

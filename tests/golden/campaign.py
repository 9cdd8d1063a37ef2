"""A made-up store with something of everything: people at every stage, doubts and decisions, and each kind of job."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crossner_core.domains import load_domain
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Span, sentence_from_words
from db import suggestion_rows, worker_rows
from db.engine import Store
from db.migrate import migrate
from tests.support import builders
from tests.support.study_builders import data_folder, small_config
from tests.support.training_builders import own_sentences, save_encoder, tiny_recipe
from tests.support.training_store import own_dataset, work
from workbench.accounts import accounts, passwords, sign_in
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, domains, sentences
from workbench.data import snapshots
from workbench.jobs import queue
from workbench.labelling import adjudication, label_review
from workbench.runs import adaptation, encoders, rounds, simulations, studies
from workbench.settings import Settings, open_store

People = dict[str, Actor]
SMALL, PLAYED = "Small", "Played"
MUSIC = {"person": "musicalartist", "band": "band", "location": "location"}
# Each is doubted by one of the checks below.
WITH_GOLD = (
    ("pool", "Mara Vell was praised in Norway .", ((0, 2, "band"), (5, 6, "country"))),
    ("pool", "Fans of Mara Vell came to Oslo in the rain .", ((2, 4, "musicalartist"),)),
    ("pool", "Norway is cold , and Jonas Reik is not .", ((0, 1, "location"), (5, 7, "musicalartist"))),
    ("dev", "Mara Vell sang in Oslo with forty people last May .", ((0, 2, "musicalartist"), (4, 5, "location"))),
    ("test", "Once Mara Vell sang in Oslo with forty people last May .", ((1, 3, "musicalartist"), (5, 6, "location"))),
)  # fmt: skip
CHECKS = ("inconsistent_surfaces", "near_duplicates", "unlabelled_repeats")
QUICK = {
    "learning_rate": 5e-3,
    "epochs": 1,
    "head_first_steps": 1,
    "batch_size": 8,
    "device": "cpu",
    "precision": "fp32",
}


def make_store(home: Path) -> Store:
    """Make a store in a folder, with people and two campaigns part-way through."""
    save_encoder(home / "encoders" / "mine")
    store = open_store(Settings(home=home, data=data_folder(home / "data"), worker_threads=1))
    migrate(store)
    people = builders.make_people(store)
    password = passwords.random_password()
    accounts.create_user(store, people["adm"], name="pat", display_name="Pat", password=password, role="annotator")
    sign_in.sign_in(store, name="pat", password=password, address="127.0.0.1", hours=1e6)
    domains.save_domain(store, people["adm"], _domain_of_ours(store, people))
    own_dataset(store, people["res"], name="conll2003", train=24)
    with store.write() as session:
        suggestion_rows.keep(session, "https://endpoint.example/sparql", {"mara vell": {"rows": [["Q1", ["Singer"]]]}})
        worker_rows.beat(session, name="elsewhere-1", host="elsewhere", pid=1, device="CPU")
    _make_small(store, people)
    _make_played(store, people)
    return store


def people_of(store: Store) -> People:
    """Return the people of a store that was made here."""
    listed = accounts.list_people(store, accounts.operator(store))
    return {one.name: Actor(one.id, one.name, one.display_name, one.role) for one in listed}


def id_of(store: Store, name: str) -> int:
    """Return the id of a campaign."""
    return next(one.id for one in campaigns.list_campaigns(store, people_of(store)["adm"]) if one.name == name)


def queue_jobs(store: Store, home: Path) -> None:
    """Ask for a job of each kind."""
    res, eva, small, played = (
        people_of(store)["res"],
        people_of(store)["eva"],
        id_of(store, SMALL),
        id_of(store, PLAYED),
    )
    snapshot = snapshots.freeze(store, res, small)
    adaptation.start_run(
        store,
        res,
        snapshot_id=snapshot.id,
        recipe=tiny_recipe(encoder="mine", max_epochs=16, patience=16, dev_every=8),
    )
    transfer = tiny_recipe(
        encoder="mine", max_epochs=1, source_epochs=1, head_first_epochs=0, setting="pretrain_finetune"
    )
    adaptation.start_run(store, res, snapshot_id=snapshot.id, recipe=transfer, size=4)
    queue.start_job(store, res, "preannotate", small)
    queue.start_job(store, res, "score_pool", small)
    label_review.look_again(store, eva, small, LabelReviewOptions(encoder="mine", folds=2, repeats=1), CHECKS)
    rounds.order_now(store, res, played)
    simulations.start_simulations(store, res, played, ["longest"], seeds=(1,), annotators=({}, {"missed": 0.1}))
    studies.start_study(store, res, "transfer", small_config("mine", settings=["direct"]), section="tiny", workers=1)
    text = home / "own.txt"
    text.write_text("".join(" ".join(item.sentence.words) + "\n" for item in own_sentences(40)))
    dapt = {**QUICK, "encoder": "mine", "block_size": 32, "held_out_share": 0.2}
    encoders.start_on_text(store, res, kind="dapt", name="adapted", options=dapt, text=text)
    encoders.start_entity_tagging(
        store, res, name="tagged", options={**QUICK, "encoder": "mine"}, dataset="conll2003"
    )  # fmt: skip


def do_jobs(store: Store, home: Path) -> None:
    """Let a worker do all of them, then decide about what the second look found."""
    work(store, home)
    eva, small = people_of(store)["eva"], id_of(store, SMALL)
    decisions = {"inconsistent_surfaces": ("change", "keep"), "near_duplicates": ("leave_out",)}
    for check, wanted in decisions.items():
        for decision in wanted:
            label_review.decide(store, eva, label_review.findings(store, eva, small, check)[0].id, decision)
    snapshots.freeze(store, people_of(store)["res"], small)


def _domain_of_ours(store: Store, people: People) -> str:
    toml = domains.get_toml(store, people["adm"], "music")
    return toml.replace('"music"', '"folk"', 1)


def _make_small(store: Store, people: People) -> None:
    """Six sentences at all stages, with a flag, a rejected suggestion and a question, and others with gold."""
    small = builders.make_campaign(store, people, name=SMALL)
    late = sentence_from_words(["Not", "begun", "yet", ",", "says", "Ada", "Quill", "."], id="late")
    bare = [one.sentence for one in _in_music(own_sentences(2, offset=400))]
    sentences.add_sentences(store, people["res"], small, [late, *bare])
    for split, count, offset in (("pool", 8, 20), ("dev", 2, 30)):
        sentences.add_sentences(
            store, people["res"], small, _in_music(own_sentences(count, offset=offset)), split=split
        )
    for split, text, spans in WITH_GOLD:
        item = LabelledSentence(
            sentence_from_words(text.split(), id=f"in-{text[:9]}"), tuple(Span(*one) for one in spans)
        )
        sentences.add_sentences(store, people["res"], small, [item], split=split)
    rejected = [{"start": 6, "end": 8, "type": "album", "source": "link"}]
    first = builders.Tab(store, people["ann1"], small, "annotate")
    _submit(first, rejected=rejected, comment="Is Low Tide an album?", count=6)
    first.do("skip", first.items(1)[0], reason="Not a sentence of music.")
    flags = [{"start": 0, "end": 2, "type": "musicalartist", "note": "sure?"}]
    second = builders.Tab(store, people["ann2"], small, "check")
    _submit(second, flags=flags, count=5)
    second.do("draft", second.items(1)[0], [(1, 3, "award")], parts={"comment": "half done"})
    expert = builders.Tab(store, people["eva"], small, "adjudicate")
    asked, *rest = expert.items(5)
    question = adjudication.ask(store, people["eva"], asked["task"], "A person, or the band?")
    adjudication.answer(store, people["ann1"], question, "The person.")
    for item in rest[:3]:
        spans, decisions = builders.first_choices(item)
        expert.do("submit", item, spans, parts={"decisions": decisions})


def _submit(tab: builders.Tab, *, count: int, **parts: Any) -> None:
    """Submit the gold of the six sentences; the parts go with the first one that has room for them."""
    known = {text: spans for (text, _), spans in zip(builders.SENTENCES, builders.GOLD, strict=True)}
    for _ in range(count):
        (item,) = tab.items(1)
        fits = item["text"].startswith("Jonas")
        answer = tab.do("submit", item, known[item["text"]], parts=parts if fits else {})
        assert not answer.rejections, answer.rejections


def _make_played(store: Store, people: People) -> None:
    """A campaign of imported gold, whose queue is ordered by turns and whose strategies are played through."""
    played = campaigns.create_campaign(
        store, people["adm"], name=PLAYED, domain=load_domain("music"), suggestions_on=False,
        member_ids=[actor.id for actor in people.values()],
    )  # fmt: skip
    for split, count, offset in (("pool", 26, 0), ("dev", 4, 100), ("test", 4, 200)):
        sentences.add_sentences(
            store, people["res"], played, _in_music(own_sentences(count, offset=offset)), split=split
        )
    sentences.add_sentences(
        store, people["res"], played, [one.sentence for one in _in_music(own_sentences(4, offset=300))]
    )
    recipe = tiny_recipe(encoder="mine", max_epochs=1).to_dict()
    usual = adaptation.Recipe().to_dict()
    changes = {name: value for name, value in recipe.items() if value != usual[name]}
    rounds.change_round_settings(store, people["res"], played, strategy="longest", random_share=0.25, recipe=changes)


def _in_music(items: Iterable[LabelledSentence]) -> list[LabelledSentence]:
    """Return own sentences with the music domain's types, each with its number at the end, so that no two are equal."""
    made = []
    for item in items:
        sentence = sentence_from_words([*item.sentence.words, item.sentence.id.split("-")[1]], id=item.sentence.id)
        made.append(LabelledSentence(sentence, tuple(Span(one.start, one.end, MUSIC[one.type]) for one in item.spans)))
    return made

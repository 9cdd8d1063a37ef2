"""Starting a pre-training: its name, what it reads, and the options of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import streamlit as st

from crossner_core.errors import BadInput
from pages import shell
from pages.components.marked_text import as_text
from pages.components.under_way import worker_line
from pages.parts.model.recipe_form import option_inputs
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, domains
from workbench.data import corpora, datasets
from workbench.runs import encoders
from workbench.runs.encoder_library import CHARACTERS, DAPT, KINDS, TAGGING
from workbench.runs.recipe_names import other_than_default
from workbench.settings import settings_of

STARTED = "encoder:started"
"""Session key: a pre-training was just queued."""
_KINDS = {
    DAPT: "DAPT: on text",
    TAGGING: "Entity tagging: on labelled sentences",
    CHARACTERS: "Character models (FLAIR): on text",
}
_EXAMPLES = {DAPT: "dapt-music", TAGGING: "tagging-wiki", CHARACTERS: "characters-music"}
_FIRST = {
    DAPT: ("encoder", "masking", "epochs", "max_steps", "batch_size", "learning_rate"),
    TAGGING: ("encoder", "epochs", "max_steps", "batch_size", "learning_rate"),
    CHARACTERS: ("encoder", "hidden_size", "characters", "epochs", "max_steps", "batch_size", "learning_rate"),
}
_GROUP_TITLES = {"model": "Encoder", "target": "Training", "machine": "Seed and machine"}
_LEVELS = {
    "domain": "domain: every sentence",
    "entity": "entity: two known names or more",
    "task": "task: a name of a special type",
    "integrated": "integrated: entity, and task twice",
}


def start_view(actor: Actor) -> None:
    """Draw what can be chosen, and the button."""
    worker_line()
    with st.container(border=True):
        left, right = st.columns(2)
        kind = left.selectbox("Kind", list(_KINDS), format_func=_KINDS.__getitem__, **_kept("kind"))
        name = right.text_input(
            "Name",
            **_kept(f"name-{kind}"),
            max_chars=60,
            placeholder=_EXAMPLES[kind],
            help="Recipes name the encoder by it: letters, digits, - _ and .",
        ).strip()
        on_labels = KINDS[kind].on_labels
        source = _tagged_source(actor) if on_labels else _text_source(actor, kind)
        values = _options(actor, kind)
        pressed = st.button("Pre-train", type="primary", disabled=source is None)
    if pressed and source is not None:
        start: Callable[..., int]
        start = encoders.start_entity_tagging if on_labels else partial(encoders.start_on_text, kind=kind)
        job_id = start(shell.store(), actor, name=name, options=values, **source)
        shell.note(as_text(f"The pre-training of {name} is queued (job {job_id})."))
        st.session_state[STARTED] = True
        st.rerun()


def _kept(name: str) -> dict[str, Any]:
    """Name an input, and keep its value while another view is shown."""
    return {"key": f"pretrain:{name}", "persist_state": "session"}


def _options(actor: Actor, kind: str) -> dict[str, Any]:
    way, key = KINDS[kind], f"pretrain-{kind}"
    anew = () if way.anew is None else (way.anew,)
    offered = {"encoder": (*anew, *encoders.encoder_names(shell.store(), actor, body=way.body))}
    config = way.options
    values = option_inputs(config, key, only=_FIRST[kind], choices=offered)
    for group, title in _GROUP_TITLES.items():
        names = [
            spec.name
            for spec in fields(config)
            if spec.metadata["group"] == group and spec.name not in (*_FIRST[kind], *way.leave)
        ]
        if names:
            with st.expander(title, key=f"{key}-section-{group}"):
                values |= option_inputs(config, key, only=names, given=values)
    if changed := other_than_default(config, values, leave=("encoder",)):
        st.caption(as_text(f"Other than the defaults: {changed}."))
    return values


def _text_source(actor: Actor, kind: str) -> dict[str, Any] | None:
    """Ask what to read; None while there is nothing."""
    kinds: dict[str, Callable[[Actor], dict[str, Any] | None]] = {
        "A corpus from Wikipedia": _corpus,
        "A data set": _dataset,
        "The sentences of a campaign": _campaign,
        "A text file": partial(_upload, kind),
    }
    first, second = st.columns([3, 1])
    chosen = first.selectbox("Text", list(kinds), **_kept("text"))
    percent = second.number_input(
        "Part of the text, %",
        0.1,
        100.0,
        100.0,
        step=5.0,
        format="%.4g",
        **_kept("percent"),
        help="Percentage of the text to train on, for a curve over its size. Larger parts contain the smaller ones.",
    )
    source = kinds[chosen](actor)
    return source and {**source, "percent": percent}


def _tagged_source(actor: Actor) -> dict[str, Any] | None:
    kinds: dict[str, Callable[[Actor], dict[str, Any] | None]] = {
        "An entity-tagging corpus": _tagged,
        "A data set": _dataset,
    }
    return kinds[st.selectbox("Labelled sentences", list(kinds), **_kept("tagged"))](actor)


def _corpus(actor: Actor) -> dict[str, Any] | None:
    views = {view.name: view for view in corpora.list_corpora(shell.store(), actor) if not view.problem}
    if not views:
        st.info("There is no corpus yet. Make one on the machine that runs the workbench:")
        st.code(
            "workbench corpus build DUMP --name NAME --gazetteer GAZETTEER --domain DOMAIN",
            language=None,
            wrap_lines=True,
        )
        return None
    first, second, third = st.columns(3)
    name = first.selectbox(
        "Corpus", list(views), **_kept("corpus"), format_func=lambda name: f"{name} · {views[name].tokens:,} tokens"
    )
    can = list(_LEVELS) if views[name].gazetteer else ["domain"]
    level = second.selectbox(
        "Level",
        can,
        **_kept("level"),
        format_func=_LEVELS.__getitem__,
        help="Which sentences: those with names from the gazetteer teach more about names. A corpus that was not "
        "pre-annotated has only the domain level.",
    )
    if level == "domain":
        return {"corpus": name, "level": level}
    known = [view.name for view in domains.list_domains(shell.store(), actor)]
    own = views[name].domain
    domain = third.selectbox(
        "Domain",
        known,
        index=known.index(own) if own in known else 0,
        **_kept("domain"),
        help="The domain whose entity types define the level.",
    )
    return {"corpus": name, "level": level, "domain": domain}


def _dataset(actor: Actor) -> dict[str, Any] | None:
    sets = [dataset for dataset in datasets.list_datasets(shell.store(), actor) if dataset.count("train")]
    return _chosen(
        "Data set",
        {
            dataset.name: f"{dataset.name} · {dataset.count('train'):,} sentences, {len(dataset.types)} types"
            for dataset in sets
        },
        "dataset",
        "There is no data set with a train split yet. Import one under Sentences.",
        "Its train split is read; its dev split, if it has one, is held out.",
    )


def _campaign(actor: Actor) -> dict[str, Any] | None:
    mine = [campaign for campaign in campaigns.list_campaigns(shell.store(), actor) if not campaign.archived]
    return _chosen(
        "Campaign",
        {campaign.id: f"{campaign.name} · {campaign.splits.get('pool', 0):,} sentences" for campaign in mine},
        "campaign_id",
        "There is no campaign yet.",
        "Its sentences as they are now, without those of dev and test.",
    )


def _tagged(actor: Actor) -> dict[str, Any] | None:
    corpus = _chosen(
        "Entity-tagging corpus",
        {name: name for name in encoders.tagged_corpora(shell.store(), actor)},
        "tagged",
        "There is no entity-tagging corpus yet. Make one on the machine that runs the workbench:",
        "Links of a Wikipedia corpus with the classes of their pages.",
    )
    if corpus is None:
        folder = settings_of(shell.store()).tagged
        st.code(f"workbench corpus entity-tagging CORPUS --output {folder / 'NAME'}", language=None, wrap_lines=True)
    return corpus


def _upload(kind: str, _actor: Actor) -> dict[str, Any] | None:
    file = st.file_uploader("Text in UTF-8, one sentence or document per line", type="txt", key="pretrain:file")
    st.caption(f"For a text too large to upload, run `workbench encoder {kind.replace('_', '-')} NAME --text FILE`.")
    if file is None:
        return None
    data = file.getvalue()
    if not data:
        raise BadInput(f"{file.name} is empty; choose a file with text.")
    return {"text": (file.name, data)}


def _chosen(label: str, known: Mapping[Any, str], argument: str, none: str, help: str) -> dict[str, Any] | None:
    """Ask for one of several; show `none` if there are none."""
    if not known:
        st.info(none)
        return None
    chosen = st.selectbox(label, list(known), format_func=known.__getitem__, help=help, **_kept(argument))
    return {argument: chosen}

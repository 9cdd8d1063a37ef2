"""Domains: the entity types of each, and definitions of your own."""

from __future__ import annotations

import streamlit as st

from crossner_core.domains.loader import KEYS
from pages import shell
from pages.parts.campaign import domain_define, domain_read
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import domains

_HELP = f"""
A **domain** is a list of entity types: what each is called, which type it is a kind of (its *parent*), the key that
picks it, the DBpedia classes that pre-annotation reads as this type, and a guideline for people.

The built-in domains stay as they are. To change one, start your own definition from it, under another name.

A campaign keeps the definition it started with. An admin can switch it to a changed one under Campaigns; types that
annotations use must stay.

Names are lower-case letters a–z and digits. Keys are one of `{KEYS[0]}`–`{KEYS[25]}` or `1`–`9`; a key or colour left
empty is chosen for you. The table and the TOML text show the same definition; only the text keeps comments.
"""

actor = shell.signed_in(*KEEPERS)
shell.header("Domains", "Which entity types there are to mark, and how to tell them apart.", help=_HELP)
view = st.segmented_control(
    "View", ["Read", "Define"], default="Read", required=True, key="domains:view", label_visibility="collapsed"
)
with shell.shown_errors():
    known = domains.list_domains(shell.store(), actor)
    (domain_read.read_view if view == "Read" else domain_define.define_view)(actor, known)

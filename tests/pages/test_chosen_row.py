"""A table of which one row is chosen: the choice stays with what the row holds when rows come, go or move."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.screens import part


def _page() -> None:
    import pandas as pd
    import streamlit as st

    from pages.components.chosen_row import chosen_row

    ids = st.session_state["ids"]
    if ids:
        st.session_state["chosen"] = chosen_row(pd.DataFrame({"id": ids}), ids, key="list")


def _look(test: AppTest, ids: list[Any]) -> Any:
    test.session_state["ids"] = ids
    test.run()
    assert not test.exception, test.exception
    return test.session_state["chosen"] if ids else None


def _choose(test: AppTest, *rows: int) -> Any:
    test.session_state[test.dataframe[0].key] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    test.run()
    assert not test.exception, test.exception
    return test.session_state["chosen"]


@pytest.mark.parametrize("ids", [[4, 3, 2], ["d", "c", "b"]])
def test_chosen_row_stays_with_what_it_holds(ids: list[Any]) -> None:
    test = part(_page)
    newer = ids[0] * 2
    assert _look(test, ids) is None
    assert _choose(test, 1) == ids[1]
    assert _look(test, [newer, *ids]) == ids[1]
    assert '"rows": [2]' in test.dataframe[0].proto.selection_default
    assert _look(test, [ids[1], newer]) == ids[1]
    assert _look(test, [newer, ids[0]]) is None  # what was chosen is gone
    assert _look(test, ids) is None
    assert _choose(test, 0) == ids[0] and _choose(test) is None
    assert _look(test, [newer, *ids]) is None


def test_chosen_row_is_forgotten_when_the_table_was_not_drawn() -> None:
    test = part(_page)
    _look(test, [2, 1])
    assert _choose(test, 1) == 1
    _look(test, [])
    assert _look(test, [3, 2, 1]) is None

"""A table in which one row is chosen: the choice follows the row's content, not its position."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

T = TypeVar("T", bound=Hashable)


def chosen_row(table: pd.DataFrame, ids: Sequence[T], *, key: str, first: T | None = None, **options: Any) -> T | None:
    """Draw a table; return the id of the chosen row, None if there is none or it is gone.

    `ids` name the rows in order, `key` names the list, including its campaign. Streamlit keeps a selection by row
    number even when the rows change: here changed rows make a new table, in which the same id is selected again.
    `first` is chosen until somebody chooses another. `options` go to `st.dataframe`.
    """
    drawn = f"{key}:{hash(tuple(ids)):x}"
    last, before = st.session_state.get(f"{key}:chosen", (None, None))
    # Streamlit forgets a table that was not drawn; so does this.
    if last is None or last not in st.session_state:
        before = first
    again = before in ids
    picked = st.dataframe(
        table,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        selection_default={"selection": {"rows": [ids.index(before)]}} if again else None,
        key=drawn,
        **options,
    )
    rows = picked["selection"]["rows"]
    chosen = ids[rows[0]] if rows and rows[0] < len(ids) else None
    st.session_state[f"{key}:chosen"] = (drawn, chosen)
    return chosen

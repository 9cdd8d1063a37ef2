"""Draw a figure with its downloads: PNG or SVG from the camera button, CSV from a button below."""

from __future__ import annotations

import csv
import io

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def saved_figure(figure: go.Figure, table: pd.DataFrame | None, *, name: str, index: bool = False) -> None:
    """Draw the figure full width; `name` becomes the file name, `table` the CSV (None: no CSV here)."""
    kind = st.session_state.get(f"save-{name}", "PNG")
    st.plotly_chart(
        figure,
        key=f"figure-{name}",
        config={
            "displaylogo": False,
            "displayModeBar": True,  # else the camera shows only on hover
            "modeBarButtonsToRemove": ["lasso2d", "select2d", "autoScale2d"],
            "toImageButtonOptions": {"format": kind.lower(), "filename": name, "scale": 2},
        },
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Figure format", width="content")
        st.segmented_control(
            "Figure format",
            ["PNG", "SVG"],
            default="PNG",
            key=f"save-{name}",
            required=True,
            label_visibility="collapsed",
            help="The format in which the camera button above the figure saves it.",
        )
        if table is not None:
            st.download_button(
                "CSV",
                as_csv(table, index=index),
                file_name=f"{name}.csv",
                mime="text/csv",
                key=f"csv-{name}",
                type="tertiary",
            )


def as_csv(table: pd.DataFrame, *, index: bool) -> bytes:
    """Return the table as CSV in which a spreadsheet takes no text for a formula; numbers stay numbers."""
    safe = table.map(_no_formula).rename(columns=_no_formula, index=_no_formula)
    return safe.to_csv(index=index).encode()


def safe_csv(data: bytes) -> bytes:
    """Return CSV in which a spreadsheet takes no text for a formula; numbers stay as they are written."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in csv.reader(io.StringIO(data.decode())):
        writer.writerow([cell if _is_number(cell) else _no_formula(cell) for cell in row])
    return out.getvalue().encode()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _no_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value

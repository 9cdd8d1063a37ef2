"""A download whose content is made when it is clicked; if that fails, the page shows why."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from crossner_core.errors import WorkbenchError
from pages.components.marked_text import as_text

_REASONS = "lazy-download:reasons"
_POLL_SECONDS = 2.0


def lazy_download(label: str, make: Callable[[], bytes], *, file_name: str, key: str, **options: object) -> None:
    """Draw the button; `make` runs in another thread, so all it needs must be bound to it already."""
    reasons: list[str] = st.session_state.setdefault(_REASONS, [])

    def made() -> bytes:
        reasons.clear()
        try:
            return make()
        except WorkbenchError as error:
            # Streamlit itself shows only that it failed; `download_problem` draws the reason.
            reasons.append(f"{file_name}: {error}")
            raise

    st.download_button(label, made, file_name=file_name, key=key, on_click="ignore", **options)  # type: ignore[arg-type]


@st.fragment(run_every=_POLL_SECONDS)
def download_problem() -> None:
    """Show why the last download of this session failed; polls, as a failed click triggers no rerun."""
    for reason in st.session_state.get(_REASONS, []):
        st.error(as_text(reason))


def forget_problem() -> None:
    """Clear the reason, for example because another file was chosen."""
    st.session_state.pop(_REASONS, None)

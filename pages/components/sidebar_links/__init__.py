"""What the sidebar's links lack by themselves: a landmark around them, the current page, and closing on a phone."""

from __future__ import annotations

import streamlit as st

KEY = "links"
"""The key of the container that holds the links."""

# Streamlit folds its own list of pages away on a narrow screen once a page is chosen, but not a sidebar of links.
_JS = """export default function ({ data }) {
  const box = document.querySelector(".st-key-links")
  if (!box) return
  box.setAttribute("role", "navigation")
  box.setAttribute("aria-label", "Pages")
  for (const link of box.querySelectorAll("a")) {
    if (!link.getAttribute("href")) link.setAttribute("href", "/") // Streamlit leaves that of Start empty: this page
    if (new URL(link.href).pathname === data.current) link.setAttribute("aria-current", "page")
    else link.removeAttribute("aria-current")
  }
  const fold = (event) => {
    if (event.target.closest("a") && window.matchMedia("(max-width: 768px)").matches)
      document.querySelector('[data-testid="stSidebarCollapseButton"] button')?.click()
  }
  box.addEventListener("click", fold)
  return () => box.removeEventListener("click", fold)
}"""

_mount = st.components.v2.component("crossner_sidebar_links", js=_JS)


def as_navigation(current: str) -> None:
    """Make the links drawn before in the container `KEY` a navigation; `current` is the address of the page shown."""
    _mount(key="sidebar_links", data={"current": f"/{current}"})

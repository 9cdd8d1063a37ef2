"""The colours of lines, bars and points in figures."""

from __future__ import annotations

# Ten strong hues, then ten muted ones between them; neighbours in the list are far apart on the colour wheel. Chosen in
# OKLCH with equal lightness, so that none dominates; each has a contrast of at least 3:1 on light and dark backgrounds.
MARKS = (
    "#0d83de",
    "#d24e3e",
    "#0d9a47",
    "#9f5dcb",
    "#a67709",
    "#009298",
    "#cc4a7c",
    "#6c8e03",
    "#6f6fe2",
    "#c06408",
    "#526aa0",
    "#975a3e",
    "#2e7c5f",
    "#865988",
    "#7c6b26",
    "#10798c",
    "#99555b",
    "#4f7945",
    "#70619a",
    "#8d622b",
)

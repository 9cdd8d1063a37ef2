"""NER-BERT's figure 1 as a page of its own: mentions by category before and after balancing."""

from __future__ import annotations

from crossner_core.wikipedia.tagged_corpus import TaggingFigure

_BEFORE, _AFTER = "#8a94a3", "#1f6fb4"  # hold on white


def tagging_page(figure: TaggingFigure, *, title: str) -> str:
    """Return one self-contained HTML page: two bars a category on a log scale, the most frequent first."""
    import plotly.graph_objects as go

    drawn = go.Figure()
    for name, counts, colour in (("before", figure.before, _BEFORE), ("after", figure.after, _AFTER)):
        drawn.add_bar(x=list(figure.categories), y=list(counts), name=name, marker={"color": colour})
    drawn.update_layout(
        title={"text": title},
        barmode="group",
        template="plotly_white",
        yaxis={"type": "log", "title": {"text": "mentions"}},
        xaxis={"title": {"text": "category"}, "tickangle": -60},
    )
    return str(drawn.to_html(include_plotlyjs=True, full_html=True))

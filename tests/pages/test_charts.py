"""Figures of the model screens."""

from __future__ import annotations

from crossner_core.evaluation.learning_curves import MeanPoint
from pages.components.comparison_charts import learning_figure


def _points() -> list[MeanPoint]:
    return [MeanPoint(10, 0.2, 0.1, 2), MeanPoint(20, 0.4, 0.1, 2)]


def test_learning_figure_breaks_long_names_so_that_a_narrow_legend_shows_them_whole() -> None:
    long = "Pretrain, then fine-tune · BERT tagger · minilm · snapshot 32158597 · max epochs 12 · patience 4"
    short = learning_figure({"Direct": _points()}, "sentences")
    figure = learning_figure({long: _points()}, "sentences")
    (band, line) = figure.data
    assert line.name.replace("<br>", " ") == long
    assert max(len(part) for part in line.name.split("<br>")) <= 46
    assert line.legendgroup == band.legendgroup == long
    assert [trace.name for trace in short.data if trace.showlegend is not False] == ["Direct"]
    assert figure.layout.height > short.layout.height

"""The figure of the readings, checked by what is drawn in it."""

import numpy as np

from crosslearning.figures.paper.curves import VERDICTS, readings_figure, search_figure


def test_the_figure_shows_every_verdict():
    words = list(VERDICTS)
    keys = [f"claim-{i}" for i in range(7)]
    readings = [
        {
            "name": f"reading {r}",
            "claims": [{"key": key, "verdict": words[(i + r) % 3]} for i, key in enumerate(keys)],
        }
        for r in range(4)
    ]
    figure = readings_figure({"readings": readings})
    (axes,) = figure.axes
    shown = axes.get_images()[0].get_array()
    for column, reading in enumerate(readings):
        assert [words[int(shown[i, column])] for i in range(len(keys))] == [
            claim["verdict"] for claim in reading["claims"]
        ]
    assert [label.get_text() for label in axes.get_yticklabels()] == keys
    assert [label.get_text() for label in axes.get_xticklabels()] == [r["name"] for r in readings]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == words


def test_the_figure_of_a_search_shows_every_effect_and_the_interactions():
    generator = np.random.default_rng(0)
    levels, keys = ["goal=redrawn", "projection=free", "acts=own"], ["one", "two", "three", "four"]
    values = generator.uniform(-2.0, 2.0, (3, 4))
    effects = [
        {"level": level, "score": row.sum(), "claims": dict(zip(keys, row, strict=True))}
        for level, row in zip(levels, values, strict=True)
    ]
    pairs = [{"factors": ["goal", "acts"], "size": 1.5}, {"factors": ["goal", "knots"], "size": 1}]
    scores, table, strongest, _ = search_figure({"effects": effects, "interactions": pairs}).axes
    np.testing.assert_allclose([bar.get_height() for bar in scores.patches], values.sum(axis=1))
    np.testing.assert_allclose(table.get_images()[0].get_array(), values.T)
    assert [label.get_text() for label in table.get_xticklabels()] == levels
    assert [label.get_text() for label in table.get_yticklabels()] == keys
    assert [bar.get_width() for bar in strongest.patches] == [1.5, 1]
    assert [t.get_text() for t in strongest.get_yticklabels()] == ["goal × acts", "goal × knots"]

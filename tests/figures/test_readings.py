"""The figure of the readings, checked by what is drawn in it."""

from crosslearning.figures.paper.curves import VERDICTS, readings_figure


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

"""Films and stills: what is in the files."""

import sys

import numpy as np
import pytest
from PIL import Image

from crosslearning.analysis.recording import Recording
from crosslearning.errors import InputError, MissingExtraError
from crosslearning.figures.animation import check_format, save_recording, stills_figure


def film_of(*lengths, rate=10.0):
    episodes = tuple(
        tuple(np.full((20, 30, 3), 8 * e + 20 * n, np.uint8) for n in range(length))
        for e, length in enumerate(lengths)
    )
    return Recording("a task", "central", episodes, np.zeros(len(lengths)), rate)


def test_a_gif_has_every_picture_for_its_time_and_rests_at_ends(tmp_path):
    path = save_recording(film_of(3, 2), tmp_path / "deep" / "film.gif")
    with Image.open(path) as picture:
        assert picture.n_frames == 5
        stands = []
        for n in range(5):
            picture.seek(n)
            stands.append(picture.info["duration"])
        assert picture.info["loop"] == 0
    assert stands == [100, 100, 1000, 100, 1000]


def test_fast_films_leave_pictures_out_but_not_the_last(tmp_path):
    path = save_recording(film_of(8, rate=50.0), tmp_path / "film.gif")
    with Image.open(path) as picture:
        shown = []
        for n in range(picture.n_frames):
            picture.seek(n)
            shown.append(picture.convert("RGB").getpixel((0, 0))[0] // 20)
        assert shown == [0, 2, 4, 6, 7]


@pytest.mark.parametrize("lengths", [(1,), (9, 3), (4,) * 9])
def test_stills_show_starts_and_ends(lengths, tmp_path):
    figure = stills_figure(film_of(*lengths))
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles.count("start") == min(6, len(lengths))
    if lengths[0] > 1:
        assert f"step {lengths[0] - 1}" in titles
    assert save_recording(film_of(*lengths), tmp_path / "still.png").stat().st_size > 0


# imageio-ffmpeg leaves the pipes of a film that is not read to its end to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_mp4_is_a_film(tmp_path):
    written = pytest.importorskip("imageio_ffmpeg", reason="the extra 'film' is not installed")
    path = save_recording(film_of(4, 2), tmp_path / "film.mp4")
    frames, seconds = written.count_frames_and_secs(str(path))
    assert frames == 4 + 2 + 2 * 9
    assert seconds == pytest.approx(2.4, abs=0.11)
    assert next(written.read_frames(str(path)))["size"] == (30, 20)


def test_what_cannot_be_written_is_told_before_anything_is_filmed(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"x.avi does not end with .png, .gif or .mp4"):
        check_format(tmp_path / "x.avi")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtraError, match=r"crosslearning\[film\].*end with .gif"):
        check_format(tmp_path / "x.mp4")

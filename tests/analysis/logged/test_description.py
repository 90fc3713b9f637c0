"""Restarts, gaps, missing values and rates of logs are found, and episodes split there."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning import learn_from
from crosslearning.analysis.logged import describe_log
from crosslearning.analysis.logged.description import read_files
from crosslearning.errors import InputError

KINDS = ("missing values", "repeated times", "gaps in time")
COLUMNS = {"observations": ["x"], "actions": ["u"], "reward": "r"}


def write(path, columns):
    names, rows = list(columns), zip(*columns.values(), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([",".join(names), *lines]))
    return path


def table(n, dt=0.1, **changed):
    t = (dt * np.arange(n)).round(9)
    return {"time": t, "x": 2.0 * t, "u": np.arange(n) % 3.0, "r": -t, **changed}


def test_jumps_of_time_split_episodes(tmp_path):
    columns = table(30)
    columns["time"][10:] += 5.0  # a gap
    columns["time"][20:] -= 6.9  # a restart
    found = describe_log(write(tmp_path / "a.csv", columns), COLUMNS)
    (one,) = found.machines
    assert (one.restarts, one.gaps, one.steps, one.rate) == (1, 1, (9, 9, 9), 10.0)
    assert one.longest_gap == pytest.approx(5.1)


def test_resets_repeated_times_and_missing_values_are_told(tmp_path):
    columns = table(30, reset=[k in (12, 13) for k in range(30)])
    columns["time"][5] = columns["time"][4]
    columns["x"] = columns["x"].astype(object)
    columns["x"][20] = ""
    found = describe_log(write(tmp_path / "a.csv", columns), COLUMNS)
    (one,) = found.machines
    # Row 5 repeats a time, so that a gap of two steps is left; row 20 lacks the observation.
    assert (one.repeated, one.restarts, one.gaps, one.missing) == (1, 1, 1, 2)
    assert one.steps == (4, 5, 7, 8)
    (x,) = [signal for signal in found.signals if signal.name == "x"]
    assert x.missing == pytest.approx(1 / 30)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        read_files(tmp_path / "a.csv", COLUMNS, None, False)
    texts = [str(one.message).split(" in the logs of machines ")[0] for one in told]
    assert texts == [f"there are {what}" for what in KINDS]


@settings(max_examples=25)
@given(
    steps=st.lists(st.floats(0.05, 0.14), min_size=20, max_size=40),
    slope=st.floats(-5.0, 5.0),
    rate=st.floats(5.0, 20.0),
)
def test_resampled_lines_are_lines_and_actions_are_held(tmp_path_factory, steps, slope, rate):
    path = tmp_path_factory.getbasetemp() / "a.csv"
    t = np.cumsum(steps)
    n = len(t)
    write(path, {"time": t.tolist(), "x": (slope * t).tolist(), "u": range(n), "r": [1.0] * n})
    found = describe_log(path, COLUMNS, rate=rate)
    (episode,) = found.log["a"]
    grid = t[0] + np.arange(len(episode.observations)) / rate
    np.testing.assert_allclose(episode.observations[:, 0], slope * grid, atol=1e-8)
    assert grid[-1] <= t[-1] + 1e-6 < grid[-1] + 1.0 / rate + 1e-5
    before = [int(np.flatnonzero(t <= moment + 1e-6 / rate)[-1]) for moment in grid[:-1]]
    np.testing.assert_array_equal(episode.actions[:, 0], before)
    np.testing.assert_array_equal(episode.rewards, 1.0)


def test_a_resampled_reward_is_the_mean_of_its_step(tmp_path):
    columns = table(40, r=np.arange(40.0))
    found = describe_log(write(tmp_path / "a.csv", columns), COLUMNS, rate=2.5)
    (episode,) = found.log["a"]
    np.testing.assert_allclose(episode.rewards, [1.5, 5.5, 9.5, 13.5, 17.5, 21.5, 25.5, 29.5, 33.5])


def test_gaps_are_not_filled_by_resampling(tmp_path):
    columns = table(30)
    columns["time"][15:] += 2.0
    found = describe_log(write(tmp_path / "a.csv", columns), COLUMNS, rate=10.0)
    assert found.machines[0].steps == (14, 14)
    assert found.machines[0].gaps == 1


def test_setpoints_make_rewards(tmp_path):
    path = write(tmp_path / "a.csv", table(20, aim=[1.0] * 20))
    x = 0.2 * np.arange(20)
    expected = -(((x[1:] - 1.0) / x.std()) ** 2)
    for aim in (1.0, "aim"):
        columns = {"observations": ["x"], "actions": ["u"], "setpoints": {"x": aim}}
        (episode,) = describe_log(path, columns).log["a"]
        np.testing.assert_allclose(episode.rewards, expected)
    columns["setpoints"] = {"u": 1.0}
    assert "'u', which is no observation" in describe_log(path, columns).problem
    columns["setpoints"] = {"x": "r"}
    assert "'r' of 'x' changes, but it is no observation" in describe_log(path, columns).problem


def test_several_files_are_several_machines(tmp_path):
    paths = [write(tmp_path / f"{name}.csv", table(20)) for name in ("old", "new")]
    found = describe_log(paths, COLUMNS)
    assert list(found.log) == ["old", "new"]
    write(tmp_path / "new.csv", table(20, dt=0.2))
    assert "resample them to one rate" in describe_log(paths, COLUMNS).problem
    assert describe_log(paths, COLUMNS, rate=5.0).problem == ""
    other = table(20)
    other["x [cm]"] = other.pop("x")
    write(tmp_path / "new.csv", other)
    assert "has the unit '' in" in describe_log(paths, COLUMNS).problem


def test_times_may_be_dates(tmp_path):
    stamps = [f"2024-05-01T12:00:{k:02d}" for k in range(20)]
    found = describe_log(write(tmp_path / "a.csv", table(20, time=stamps)), COLUMNS)
    assert found.machines[0].rate == 1.0


def test_what_is_not_understood_is_told_with_the_signals(tmp_path):
    path = write(tmp_path / "a.csv", table(20))
    found = describe_log(path)
    assert "no column for the observations, 'obs'" in found.problem
    assert [one.name for one in found.signals] == ["time", "x", "u", "r"]
    with pytest.raises(InputError, match="no column for the observations"):
        learn_from(path)
    for rate in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="rate is"):
            describe_log(path, COLUMNS, rate=rate)
    del (columns := table(20))["time"]
    write(path, columns)
    assert "has no column of time" in describe_log(path, COLUMNS, rate=2.0).problem


def test_uneven_steps_are_told(tmp_path):
    columns = table(30)
    columns["time"] = columns["time"] + 0.02 * (np.arange(30) % 2)
    found = describe_log(write(tmp_path / "a.csv", columns), COLUMNS)
    assert any("uneven by more than a tenth" in note for note in found.notes)


def test_policies_from_logs_are_charged_for_leaving_the_data(tmp_path):
    path = write(tmp_path / "a.csv", table(40))
    learner = learn_from(
        path, columns=COLUMNS, iterations=1, rollouts=2, look_ahead=3, progress=False
    )
    penalties = learner.method.world.penalties
    np.testing.assert_array_equal(penalties.end, [[0.0, 7.8]])
    np.testing.assert_allclose(penalties.weight, np.std(-0.1 * np.arange(39)))
    assert learner.settings.range_penalty == 1.0

"""Tables of steps: read as they are written, and refused where they say nothing."""

import numpy as np
import pytest

from crosslearning import learn_from
from crosslearning.analysis.logged.description import read_files
from crosslearning.errors import InputError
from tests.analysis.logged.examples import pendulum_log

TABLE = """machine,episode,obs_x,obs_v,act,reward,terminated
a,1,0.0,1.0,0.5,-1.0,0
b,1,9.0,8.0,0.1,-5.0,0
a,1,0.1,1.1,0.6,-2.0,0
b,1,9.1,8.1,0.2,-6.0,1
a,1,0.2,1.2,,,0
a,2,5.0,5.0,0.7,-3.0,0
a,2,5.1,5.1,,,1
"""


def write(path, text):
    (path / "log.csv").write_text(text)
    return path / "log.csv"


def read_log(path, columns=None):
    return read_files(path, columns, None, False).log


def test_rows_become_episodes(tmp_path):
    log = read_log(write(tmp_path, TABLE))
    assert list(log) == ["a", "b"]
    first, second = log["a"]
    np.testing.assert_array_equal(first.observations, [[0.0, 1.0], [0.1, 1.1], [0.2, 1.2]])
    np.testing.assert_array_equal(first.actions, [[0.5], [0.6]])
    np.testing.assert_array_equal(first.rewards, [-1.0, -2.0])
    assert first.terminated.tolist() == [False, False]
    assert second.terminated.tolist() == [True]
    # The last row tells where the episode ended, and that it did; what was done there is not used.
    (other,) = log["b"]
    assert (other.rewards.tolist(), other.terminated.tolist()) == ([-5.0], [True])


def test_with_next_observations_every_row_is_used(tmp_path):
    text = "robot,x,u,r,done,x2\nA,0,1,-1,0,1\nA,1,2,-2,0,3\nA,7,1,-4,1,8\n"
    columns = {
        "machine": "robot",
        "observations": ["x"],
        "actions": ["u"],
        "reward": "r",
        "terminated": "done",
        "next_observations": ["x2"],
    }
    log = read_log(write(tmp_path, text), columns)
    # The third row does not go on where the second ended: another episode.
    assert [one.observations[:, 0].tolist() for one in log["A"]] == [[0, 1, 3], [7, 8]]
    assert [one.terminated.tolist() for one in log["A"]] == [[False, False], [True]]


def test_without_a_column_of_machines_there_is_one(tmp_path):
    log = read_log(write(tmp_path, "obs,act,reward\n1,2,3\n4,5,6\n7,8,9\n"))
    assert list(log) == ["log"]
    assert log["log"][0].rewards.tolist() == [3.0, 6.0]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (
            TABLE,
            {"reward": "pay"},
            "no column for the reward, 'pay'; its columns are machine, episode",
        ),
        (TABLE, {"observations": "angle"}, "no column for the observations, 'angle'"),
        (TABLE, {"actions": ["acr"]}, "no such column of .*; did you mean 'act'"),
        (TABLE, {"rewards": "reward"}, "no such kind of column 'rewards'; did you mean 'reward'"),
        (TABLE, {"actions": None}, "no column for the actions, None"),
        ("obs,act\n1,2\n", {}, "no column for the reward, 'reward'"),
        ("obs,act,reward\n", {}, "has no rows"),
        ("obs,act,obs\n1,2,3\n", {}, "two columns of the same name"),
        ("obs,act,reward\n1,2\n", {}, "line 2 has 2 cells, but there are 3 columns"),
        ("obs,act,reward\n1,2,3\nx,2,3\n", {}, "line 3: obs is 'x'; give a finite number"),
        ("obs,act,reward,terminated\n1,2,3,no?\n", {}, "terminated is 'no\\?'; give 0 or 1"),
        ("obs,act,reward\n1,2,3\n", {}, "machine 'log' has no data"),
        ("obs,act,reward,next_obs_1,next_obs_2\n1,2,3,4,5\n", {}, "but 2 of next ones"),
    ],
)
def test_a_table_that_is_wrong_is_refused(tmp_path, text, columns, message):
    with pytest.raises(InputError, match=message):
        read_log(write(tmp_path, text), columns)


def test_a_file_that_is_not_there_is_told_of(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*nothing\.csv: No such file"):
        learn_from(tmp_path / "nothing.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="is not a table"):
        learn_from(str(tmp_path / "binary.csv"))
    with pytest.raises(InputError, match="columns are those of a table"):
        learn_from({}, columns={})


def test_a_table_is_learned_from_as_arrays_are(tmp_path):
    log, _ = pendulum_log(2, 20)
    lines = ["machine,obs_0,obs_1,obs_2,act_0,reward"]
    for name, (one,) in log.items():
        for t, seen in enumerate(one["observations"]):
            last = t == len(one["rewards"])
            done = ["", ""] if last else [repr(float(one["actions"][t, 0])), one["rewards"][t]]
            lines.append(",".join(str(v) for v in (name, *map(float, seen), *done)))
    settings = {"iterations": 2, "rollouts": 4, "look_ahead": 5, "progress": False}
    path = write(tmp_path, "\n".join(lines))
    table, arrays = learn_from(path, **settings), learn_from(log, **settings)
    np.testing.assert_array_equal(table.family.weights, arrays.family.weights)

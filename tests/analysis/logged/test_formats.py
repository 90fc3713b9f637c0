"""Each format is read into the same signals, and files that are broken get a sentence."""

import gc
import sys

import numpy as np
import pytest

from crosslearning.analysis.logged import describe_log, read_recording
from crosslearning.errors import InputError, MissingExtraError

TIME = 0.1 * np.arange(40)
LEVEL, VALVE = np.sin(TIME), np.cos(3.0 * TIME)
COLUMNS = {"observations": ["level"], "actions": ["valve"]}


def write_csv(path):
    rows = [
        ",".join(map(repr, map(float, row)))
        for row in zip(TIME, LEVEL, VALVE, -(LEVEL**2), strict=True)
    ]
    path.write_text("\n".join(["time [s],level [m],valve [%],reward", *rows]))
    return path


def write_parquet(path):
    arrow = pytest.importorskip("pyarrow", reason="pip install 'crosslearning[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    stamps = arrow.array((1.7e15 + 1e6 * TIME).round().astype("int64"), arrow.timestamp("us"))
    fields = [
        arrow.field("time", arrow.timestamp("us"), metadata={"unit": "s"}),
        arrow.field("level", arrow.float64(), metadata={"unit": "m"}),
        arrow.field("valve [%]", arrow.float32()),
        arrow.field("reward", arrow.float64()),
        arrow.field("codes", arrow.list_(arrow.int8())),
    ]
    columns = [stamps, LEVEL, arrow.array(VALVE, arrow.float32()), -(LEVEL**2), [[1]] * len(TIME)]
    parquet.write_table(arrow.table(columns, schema=arrow.schema(fields)), path)
    return path


def write_mdf(path):
    asammdf = pytest.importorskip("asammdf", reason="pip install 'crosslearning[mdf]'")
    with asammdf.MDF(version="4.10") as file:
        level = asammdf.Signal(LEVEL, TIME, name="level", unit="m")
        file.append([level, asammdf.Signal(-(LEVEL**2), TIME, name="reward")])
        file.append([asammdf.Signal(VALVE, TIME, name="valve", unit="%")])
        file.save(path)
    return path


WRITERS = {"log.csv": write_csv, "log.parquet": write_parquet, "log.mf4": write_mdf}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_log_in_every_format(tmp_path, name):
    found = describe_log(WRITERS[name](tmp_path / name), COLUMNS, rate=10.0)
    assert found.problem == ""
    (machine,) = found.machines
    assert (machine.name, machine.rate, machine.steps) == ("log", 10.0, (39,))
    (episode,) = found.log["log"]
    np.testing.assert_allclose(episode.observations[:, 0], LEVEL, atol=1e-9)
    np.testing.assert_allclose(episode.actions[:, 0], VALVE[:-1], atol=1e-6)
    np.testing.assert_allclose(episode.rewards, -(LEVEL[:-1] ** 2), atol=1e-9)
    assert found.names("observations") == ("level [m]",)
    assert found.names("actions") == ("valve [%]",)


@pytest.mark.parametrize("ros", [1, 2])
def test_a_bag_is_read_by_topics_and_fields(tmp_path, ros):
    typesys = pytest.importorskip("rosbags.typesys", reason="pip install 'crosslearning[rosbag]'")
    store = typesys.get_typestore(getattr(typesys.Stores, ["ROS1_NOETIC", "ROS2_HUMBLE"][ros - 1]))
    kind = "std_msgs/msg/Float64"
    if ros == 1:
        from rosbags.rosbag1 import Writer

        writer, path, encode = Writer(tmp_path / "log.bag"), "log.bag", store.serialize_ros1
    else:
        from rosbags.rosbag2 import Writer

        writer, path, encode = Writer(tmp_path / "log", version=9), "log", store.serialize_cdr
    with writer:
        for topic, values in (("/level", LEVEL), ("/valve", VALVE), ("/pay", -(LEVEL**2))):
            link = writer.add_connection(topic, kind, typestore=store)
            for time, value in zip(TIME, values, strict=True):
                stamp = int(1e9 * (100.0 + time))
                writer.write(link, stamp, encode(store.types[kind](float(value)), kind))
    columns = {"observations": "/level", "actions": "/valve", "reward": "/pay.data"}
    before = set(sys.modules)
    found = describe_log(tmp_path / path, columns)
    # rosbags compiles the definitions of a bag into this module.
    assert "rosbags.usertypes" not in set(sys.modules) - before
    (episode,) = found.log["log"]
    np.testing.assert_allclose(episode.observations[:, 0], LEVEL[: len(episode.observations)])
    assert found.names("actions") == ("/valve.data",)


#: asammdf's objects that could not be opened complain when they are deleted.
QUIET = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@QUIET
@pytest.mark.parametrize("name", ["a.parquet", "a.mf4", "a.bag"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"MDF     4.10    ", b"#ROSBAG V2.0\n\0\1\2"])
def test_broken_files_get_a_sentence(tmp_path, name, content):
    pytest.importorskip({"a.parquet": "pyarrow", "a.mf4": "asammdf", "a.bag": "rosbags"}[name])
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        read_recording(tmp_path / name)
    gc.collect()


def test_text_of_any_suffix_is_read_as_a_table(tmp_path):
    (tmp_path / "a.txt").write_text("level\n1\n2\n")
    assert read_recording(tmp_path / "a.txt").signals["level"].values.tolist() == [1.0, 2.0]
    (tmp_path / "b.txt").write_bytes(b"level\n\xff\xfe\n")
    with pytest.raises(InputError, match=r"b\.txt"):
        read_recording(tmp_path / "b.txt")


@QUIET
def test_cut_off_files_get_a_sentence(tmp_path):
    for name in ("log.parquet", "log.mf4"):
        if name == "log.mf4":
            pytest.importorskip("asammdf")
        whole = WRITERS[name](tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 3])
        with pytest.raises(InputError, match=name):
            read_recording(tmp_path / name)
    gc.collect()


@pytest.mark.parametrize("name", ["a.parquet", "a.mf4", "a.bag"])
def test_a_missing_package_names_its_extra(tmp_path, name, monkeypatch):
    extra = {"a.parquet": "parquet", "a.mf4": "mdf", "a.bag": "rosbag"}[name]
    for package in ("pyarrow", "pyarrow.parquet", "asammdf", "rosbags", "rosbags.rosbag1"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(MissingExtraError, match=rf"crosslearning\[{extra}\]"):
        read_recording(tmp_path / name)


def test_files_that_are_none_and_huge_ones_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="No such file"):
        read_recording(tmp_path / "nothing.parquet")
    with pytest.raises(InputError, match="no bag of ROS 2"):
        read_recording(tmp_path)
    monkeypatch.setattr("crosslearning.analysis.logged.recording.MOST_NUMBERS", 10)
    with pytest.raises(InputError, match="41 rows of 4 signals, more than"):
        read_recording(write_csv(tmp_path / "log.csv"))
    (tmp_path / "twice.csv").write_text("level [m],level [cm]\n1,2\n")
    with pytest.raises(InputError, match="two columns of the same name: level"):
        read_recording(tmp_path / "twice.csv")

"""Log files by their format. The packages behind all but CSV are extras."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.analysis.logged.messages import Definitions, read_numbers
from crosslearning.analysis.logged.recording import (
    MOST_NUMBERS,
    Recording,
    Signal,
    check_size,
    extra,
    named,
    read_csv,
)
from crosslearning.errors import CrossLearningError, InputError, visible

#: So many names are listed in a note.
_LISTED = 5
#: The releases whose definitions serve bags of ROS 2 that hold none.
_STORE = "ROS2_HUMBLE"


def read_recording(path: str | Path) -> Recording:
    r"""Return the signals of a CSV, Parquet or MDF file, or of a ROS bag.

    Examples
    --------
    >>> from pathlib import Path
    >>> from crosslearning.analysis.logged import read_recording
    >>> _ = Path("log.csv").write_text("time [s],speed [m/s]\n0.0,1.5\n0.1,1.6\n")
    >>> {name: signal.unit for name, signal in read_recording("log.csv").signals.items()}
    {'time': 's', 'speed': 'm/s'}
    """
    path = Path(path)
    kind, read = _format(path)
    try:
        recording = read(path)
    except CrossLearningError:
        raise
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except MemoryError as problem:
        raise InputError(f"{path} does not fit into memory; split it, or leave out signals") from (
            problem
        )
    # A damaged or hostile file may make a foreign parser raise anything.
    except Exception as problem:
        detail = visible(f"{type(problem).__name__}: {problem}", 200)
        raise InputError(
            f"{path} cannot be read as {kind}: it is damaged, cut off or of another format "
            f"({detail})"
        ) from problem
    if not any(len(signal.values) for signal in recording.signals.values()):
        raise InputError(f"{path} has no rows: no signal has a sample")
    return recording


def _format(path: Path) -> _Format:
    """Return the format of a file by its suffix; a folder is a bag of ROS 2."""
    if not path.exists():
        raise InputError(f"cannot read {path}: No such file or directory")
    if (known := _FORMATS.get(path.suffix.lower())) is not None:
        return known
    if not path.is_dir():
        return _CSV
    if (path / "metadata.yaml").is_file():
        return _BAG
    raise InputError(f"{path} is a folder without metadata.yaml, so no bag of ROS 2; give a file")


def read_parquet(path: Path) -> Recording:
    """Return the columns of a Parquet file that hold numbers, truth values, times or text.

    The unit of a column is its field's metadata ``unit``, or stands in brackets after its name.
    """
    parquet = extra("parquet", "pyarrow", "pyarrow.parquet")
    types = extra("parquet", "pyarrow", "pyarrow.types")
    file = parquet.ParquetFile(path)
    try:
        schema = file.schema_arrow
        check_size(path, file.metadata.num_rows, len(schema))
        kept: list[Any] = []
        left: list[Any] = []
        for field in schema:
            kinds = ("integer", "floating", "boolean", "timestamp", "duration", "string", "decimal")
            plain = any(getattr(types, f"is_{kind}")(field.type) for kind in kinds)
            (kept if plain or _is_words(types, field.type) else left).append(field)
        if len({field.name for field in schema}) < len(schema):
            raise InputError(f"{path} has two columns of the same name: {', '.join(schema.names)}")
        table = file.read(columns=[field.name for field in kept])
    finally:
        file.close()
    signals = []
    for field in kept:
        unit = (field.metadata or {}).get(b"unit", b"").decode("utf-8", "replace")
        values = _column(types, table.column(field.name), field.type)
        signals.append((field.name, Signal(values, unit=unit)))
    notes = _left_out(path, [f"{field.name} ({field.type})" for field in left])
    return Recording(path, named(path, signals), notes=notes)


def _is_words(types: Any, kind: Any) -> bool:
    """Return whether a column holds names in another coding: large strings, or a dictionary."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _column(types: Any, column: Any, kind: Any) -> NDArray[Any]:
    """Return a column as numbers, NaN where missing, or as text; times in seconds."""
    if _is_words(types, kind):
        return np.array([text or "" for text in column.to_pylist()], dtype=np.str_)
    if types.is_timestamp(kind) or types.is_duration(kind):
        missing = np.asarray(column.is_null())
        ticks = np.asarray(column.cast("int64").fill_null(0), dtype=np.int64)
        ticks = ticks - (ticks[~missing][0] if not missing.all() else 0)  # before digits are lost
        seconds = ticks / {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        return np.where(missing, np.nan, seconds)
    return np.asarray(column.cast("float64").fill_null(np.nan), dtype=np.float64)


def read_mdf(path: Path) -> Recording:
    """Return the channels of an MDF file that hold numbers, each with its clock and unit."""
    asammdf = extra("mdf", "asammdf", "asammdf")
    signals: list[tuple[str, Signal]] = []
    left, seen, total = [], set[str](), 0
    with asammdf.MDF(path) as file:
        for group in range(len(file.groups)):
            clock = file.masters_db.get(group)
            for index, channel in enumerate(file.groups[group].channels):
                if index == clock:
                    continue
                one = file.get(group=group, index=index)
                values = np.asarray(one.samples)
                total += values.size
                if total > MOST_NUMBERS:
                    check_size(path, total, 1)
                if values.ndim != 1 or values.dtype.kind not in "biufSU":
                    left.append(channel.name)
                    continue
                name = channel.name
                if name in seen:  # in another group
                    name = f"{name} ({group})"
                seen.add(name)
                time = np.asarray(one.timestamps, dtype=np.float64)
                signals.append((name, Signal(_plain(values), time, str(one.unit or ""))))
    return Recording(path, named(path, signals), False, notes=_left_out(path, left))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    return values if values.dtype.kind == "U" else values.astype(np.float64)


def read_bag(path: Path) -> Recording:
    """Return the numbers of the messages in a bag of ROS 1 or 2, by topic and field.

    Time is when a message was recorded. Only the container is read by the package rosbags: to
    decode messages it would compile Python from the definitions in the bag. Here definitions are
    parsed as data, see :mod:`crosslearning.analysis.logged.messages`.
    """
    kind = "rosbag1" if path.suffix.lower() == ".bag" else "rosbag2"
    reader = extra("rosbag", "rosbags", f"rosbags.{kind}").Reader
    typesys = extra("rosbag", "rosbags", "rosbags.typesys")
    folder = path.parent if path.suffix.lower() == ".db3" else path
    rows: dict[tuple[str, str], tuple[list[float], list[dict[str, float]]]] = {}
    left: dict[str, str] = {}
    total = 0
    with reader(folder) as bag:
        known = {one.id: _definitions(typesys, one, left) for one in bag.connections}
        for connection, stamp, raw in bag.messages():
            definitions = known[connection.id]
            if definitions is None or connection.topic in left:
                continue
            try:
                numbers = read_numbers(definitions, connection.msgtype, raw, kind == "rosbag2")
            except InputError as problem:
                left[connection.topic] = str(problem)
                continue
            times, messages = rows.setdefault((connection.topic, connection.msgtype), ([], []))
            times.append(stamp * 1e-9)
            messages.append(numbers)
            total += len(numbers)
            check_size(path, total, 1)
    signals = [one for (topic, _), kept in rows.items() for one in _fields(topic, *kept)]
    notes = _left_out(path, [f"{topic} ({why})" for topic, why in left.items()], "topics")
    return Recording(path, named(path, signals), False, notes=notes)


def _definitions(typesys: Any, connection: Any, left: dict[str, str]) -> Definitions | None:
    """Return the types of a connection's messages as data; None if they are not known."""
    if connection.msgdef.format.name == "NONE":
        store = typesys.get_typestore(typesys.Stores[_STORE])  # of the package, not of the bag
        if connection.msgtype in store.fielddefs:
            return dict(store.fielddefs)
    elif connection.msgdef.format.name == "MSG":
        return dict(typesys.get_types_from_msg(connection.msgdef.data, connection.msgtype))
    left[connection.topic] = f"{connection.msgtype} has no definition in the bag"
    return None


def _fields(
    topic: str, times: list[float], messages: list[dict[str, float]]
) -> Iterator[tuple[str, Signal]]:
    """Return every field of a topic as a signal; a field that a message lacks is missing there."""
    time = np.array(times)
    for name in dict.fromkeys(name for message in messages for name in message):
        values = np.array([message.get(name, np.nan) for message in messages])
        yield f"{topic}.{name}" if name else topic, Signal(values, time)


def _left_out(path: Path, names: list[str], what: str = "columns") -> tuple[str, ...]:
    if not names:
        return ()
    listed = visible(", ".join(names[:_LISTED]), 300)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (f"{path.name}: left out {what} that cannot be used: {listed}{more}",)


class _Format(NamedTuple):
    """A format of log files, and its reader."""

    kind: str  #: in words, for messages
    read: Callable[[Path], Recording]


_CSV = _Format("a table of comma-separated text", read_csv)
_PARQUET = _Format("a Parquet file", read_parquet)
_MDF = _Format("an MDF file", read_mdf)
_BAG = _Format("a ROS bag", read_bag)
_FORMATS = {".parquet": _PARQUET, ".pq": _PARQUET, ".mf4": _MDF, ".mdf": _MDF, ".dat": _MDF}
_FORMATS |= {".bag": _BAG, ".mcap": _BAG, ".db3": _BAG}

"""Messages of ROS are decoded from data that describe them, and hostile ones are refused."""

import struct

import pytest

from crosslearning.analysis.logged.messages import read_numbers
from crosslearning.errors import InputError

BASE, NAME, ARRAY, SEQUENCE = 1, 2, 3, 4
NUMBER = (BASE, ("float64", 0))
TYPES = {
    "a/msg/Outer": (
        [],
        [
            ("header", (NAME, "std_msgs/msg/Header")),
            ("flag", (BASE, ("bool", 0))),
            ("name", (BASE, ("string", 0))),
            ("inner", (NAME, "a/msg/Inner")),
            ("last", (BASE, ("int16", 0))),
        ],
    ),
    "a/msg/Inner": ([], [("xy", (ARRAY, (NUMBER, 2))), ("more", (SEQUENCE, (NUMBER, 0)))]),
    "std_msgs/msg/Header": ([], [("stamp", (NAME, "builtin_interfaces/msg/Time"))]),
    "a/msg/Loop": ([], [("again", (NAME, "a/msg/Loop"))]),
    "a/msg/Picture": (
        [],
        [("pixels", (SEQUENCE, ((BASE, ("uint8", 0)), 0))), ("x", NUMBER)],
    ),
}
EXPECTED = {
    "flag": 1.0,
    "inner.xy[0]": 1.5,
    "inner.xy[1]": -2.5,
    "inner.more[0]": 7.0,
    "last": -3.0,
}


def test_fields_of_ros_1_follow_one_another():
    raw = struct.pack(
        "<iI?I3s2dId h".replace(" ", ""), 5, 6, True, 3, b"abc", 1.5, -2.5, 1, 7.0, -3
    )
    assert read_numbers(TYPES, "a/msg/Outer", raw, aligned=False) == EXPECTED


@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_of_ros_2_are_aligned_in_either_byte_order(order):
    body = struct.pack(order + "iI?3xI4s", 5, 6, True, 4, b"abc\0")  # 20 bytes
    body += bytes(4) + struct.pack(order + "ddI4xdh", 1.5, -2.5, 1, 7.0, -3)
    raw = bytes([0, order == "<", 0, 0]) + body
    assert read_numbers(TYPES, "a/msg/Outer", raw, aligned=True) == EXPECTED


def test_pictures_are_passed_over():
    raw = struct.pack("<I", 1000) + bytes(1000) + struct.pack("<d", 4.0)
    assert read_numbers(TYPES, "a/msg/Picture", raw, aligned=False) == {"x": 4.0}


@pytest.mark.parametrize(
    ("typename", "raw", "message"),
    [
        ("a/msg/Outer", b"\1\2", "shorter than its definition"),
        ("a/msg/Loop", b"", "nested more than 16 levels"),
        ("b/msg/None", b"", "does not define the type b/msg/None"),
        ("a/msg/Picture", struct.pack("<I", 2**32 - 1), "shorter than its definition"),
    ],
)
def test_hostile_messages_are_refused(typename, raw, message):
    with pytest.raises(InputError, match=message):
        read_numbers(TYPES, typename, raw, aligned=False)

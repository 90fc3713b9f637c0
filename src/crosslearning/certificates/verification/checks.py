"""The result of one check, the list of all checks, and the readers of files to be checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import CrossLearningError, FileFormatError, visible

Status = Literal["pass", "fail", "not possible"]
Topic = Literal["files", "constraint"]

#: The longest text of a check, which may quote a file of any content.
_LONGEST = 2000
#: Exceptions that malformed content may raise.
_MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    SafetensorError,
)


@dataclass(frozen=True)
class Check:
    """One check of a run's files; "not possible" counts neither for the run nor against it."""

    name: str  #: what was checked, such as ``"model: checksum"``
    status: Status
    found: str  #: for people, as is ``expected``
    expected: str
    topic: Topic = "files"  #: the files as such, or whether the policies keep to ε


class Checks(list[Check]):
    """The checks that were made; a check that a malformed file makes impossible has failed."""

    def expect(
        self, name: str, status: bool | Status, found: str, expected: str, topic: Topic = "files"
    ) -> bool:
        """Add a check, and return whether it passed."""
        if not isinstance(status, str):
            status = "pass" if status else "fail"
        name, found, expected = (visible(text, _LONGEST) for text in (name, found, expected))
        self.append(Check(name, status, found, expected, topic))
        return status == "pass"

    @contextmanager
    def guarding(self, name: str, expected: str) -> Iterator[None]:
        """Turn an exception that malformed content raises into a failed check."""
        try:
            yield
        except CrossLearningError as problem:
            self.expect(name, False, str(problem), expected)
        except (*_MALFORMED, OSError, MemoryError) as problem:
            found = f"its content cannot be read ({type(problem).__name__}: {problem})"
            self.expect(name, False, found, expected)


@dataclass(frozen=True)
class PlainFile:
    """The content of a tensor file, with the checksum that it claims and the computed one."""

    arrays: dict[str, NDArray[Any]]
    description: dict[str, Any]
    claimed: str
    computed: str


def read_plain_json(content: bytes | str) -> Any:
    """Return JSON data; NaN and infinities, which JSON lacks, are refused."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    text = content.decode() if isinstance(content, bytes) else content
    return json.loads(text, parse_constant=refuse)


def read_plain_file(path: Path) -> PlainFile:
    """Read a tensor file; raise FileFormatError if it is malformed. The checksum is not judged."""
    content = read_bytes(path)
    try:
        arrays = load(content)
        # The file begins with the length of its header, whose metadata the library leaves out.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        description = read_plain_json(header["__metadata__"]["crosslearning"])
        claimed = str(description.pop("sha256"))
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    except _MALFORMED as problem:
        raise FileFormatError(
            f"is no whole tensor file of crosslearning's ({type(problem).__name__}: {problem})"
        ) from problem
    for name, array in sorted(arrays.items()):
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode() + array.tobytes())
    return PlainFile(arrays, description, claimed, digest.hexdigest())

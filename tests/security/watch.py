"""A watch on one process: what is run, written, sent and connected to while a command works."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import crosslearning
from crosslearning import cli

#: No command on so small a run computes for as long, or waits for as long; one at a pipe does.
SECONDS = 60
#: A command that computes for less than this share of the time is waiting. One among twenty busy
#: processes of higher priority still gets some per cent.
_WAITING = 0.002
_STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen")
_CONNECTS = (
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "socket.getaddrinfo",
    "urllib.Request",
)
_CHANGES = {
    "os.remove": 1,
    "os.rename": 2,
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.link": 2,
    "os.symlink": 2,
    "os.chmod": 1,
    "os.truncate": 1,
    "os.utime": 1,
    "shutil.rmtree": 1,
}
_AT = ("os.remove", "os.rename", "os.mkdir", "os.rmdir")
_OPEN = os.open
_CALLS = ("eval", "exec", "system", "Popen", "__import__", "getattr")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass
class Watch:
    """What a process may write to, and what it did that it may not."""

    allowed: tuple[Path, ...] = ()
    hostile: Path = Path("/nowhere")
    seen: list[str] = field(default_factory=list)
    opening: int = -1
    on: bool = False

    def hook(self, event: str, given: tuple[Any, ...]) -> None:
        """Take one audit event of the interpreter's."""
        if not self.on:
            return
        self.on = False  # what is done here is not watched
        try:
            if self._bad(event, given):
                self.seen.append(f"{event} {given!r:.300}")
        finally:
            self.on = True

    def _bad(self, event: str, given: tuple[Any, ...]) -> bool:
        if event in _STARTS or event in _CONNECTS:
            return True
        if event == "import":
            return str(given[0]).partition(".")[0] == "trap"
        if event == "exec":
            return self._is_hostile(getattr(given[0], "co_filename", ""))
        if event == "ctypes.dlopen":
            return self._is_hostile(given[0])
        if event == "pickle.find_class":  # compiled code is kept in pickles of the compiler's own
            return given[1] in _CALLS
        if event == "open":
            flags = given[2] or 0
            return bool(flags & _WRITES) and not self._may_write(given[0], self.opening, flags)
        if event in _CHANGES:
            count = _CHANGES[event]
            # Those that take the descriptors of folders say so last.
            if event not in _AT:
                return not all(map(self._may_write, given[:count]))
            both = zip(given[:count], given[-count:], strict=True)
            return not all(self._may_write(*one, os.O_NOFOLLOW) for one in both)
        return False

    def _is_hostile(self, path: object) -> bool:
        return isinstance(path, str | bytes) and self.hostile in Path(os.fsdecode(path)).parents

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Stand in for ``os.open``, whose event does not tell of the folder's descriptor."""
        self.opening = -1 if dir_fd is None else dir_fd
        try:
            return _OPEN(path, flags, mode, dir_fd=dir_fd)
        finally:
            self.opening = -1

    def _may_write(self, path: object, folder: object = -1, flags: int = 0) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # a file that is open already
        given = Path(os.fsdecode(os.fspath(path)))
        if isinstance(folder, int) and folder >= 0:
            given = Path(f"/proc/self/fd/{folder}").readlink() / given
        # Who follows no link reaches what stands at the name itself.
        parent = Path(os.path.realpath(given.parent)) / given.name
        target = parent if flags & os.O_NOFOLLOW else Path(os.path.realpath(given))
        return any(place == target or place in target.parents for place in self.allowed)


WATCH = Watch()
sys.addaudithook(WATCH.hook)
_CACHES = (Path(crosslearning.__file__).parent, Path("/dev/null"))


@dataclass(frozen=True)
class Answer:
    """How a command ended, what it said, and what it did that it may not."""

    command: tuple[str, ...]
    code: int
    text: str
    seen: tuple[str, ...]

    def problem(self) -> str:
        """Say what is wrong with the answer; nothing if it is fine."""
        if self.seen:
            return f"it did {self.seen[:5]}"
        if self.code not in (0, 1, 2):
            return f"it ended with {self.code}"
        for words in ("Traceback", "fault of crosslearning itself", "Error: \n"):
            if words in self.text:
                return f"it said {words!r}"
        if self.code and len(self.text.strip()) < 20:
            return "it said nothing"
        hidden = [c for c in self.text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]
        if hidden or "\u202e" in self.text:
            return f"it printed what a terminal obeys: {hidden[:5]!r}"
        return ""


def run(
    command: Sequence[str], place: Path, writable: Sequence[Path], seconds: int = SECONDS
) -> Answer:
    """Run a command in this process, in a working folder, and watch it."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    WATCH.allowed = (*writable, *(Path(os.path.realpath(path)) for path in writable), *_CACHES)
    WATCH.hostile = Path(os.path.realpath(place))
    WATCH.seen.clear()
    before = Path.cwd()
    os.chdir(place)
    try:
        with (
            mock.patch.object(sys, "argv", ["crosslearning", *command]),
            mock.patch.object(os, "open", WATCH.open),
            mock.patch.object(os, "fsync", return_value=None),
            redirect_stdout(out),
            redirect_stderr(err),
            _limit(seconds),
        ):
            WATCH.on = True
            try:
                cli.main()
                code: Any = 0
            except SystemExit as ended:
                code = ended.code
            finally:
                WATCH.on = False
    finally:
        os.chdir(before)
    for stream in (out, err):
        stream.flush()
    text = b"".join(stream.buffer.getvalue() for stream in (out, err)).decode("utf-8", "replace")
    return Answer(tuple(command), code if isinstance(code, int) else 0, text, tuple(WATCH.seen))


class TooLongError(BaseException):
    """A command did not end; not an ``Exception``, so that nobody takes it for an ordinary one."""


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """End a command that computes for so long, or that waits for so long and computes nothing.

    What is counted is the processor's time: that the machine is busy is no fault of the command.
    """
    start = last = time.process_time()

    def check(*_: object) -> None:
        nonlocal last
        now = time.process_time()
        if now - start >= seconds or now - last < _WAITING * seconds:
            raise TooLongError(f"no answer after {now - start:.1f} s of processor time")
        last = now

    before = signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def snapshot(folder: Path) -> dict[str, str]:
    """Return what a folder holds: digests of files, where links point, kinds of what else is."""
    result = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                held = f"link to {path.readlink()!r}"
            elif stat.S_ISREG(status.st_mode):
                held = f"{status.st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            else:
                held = f"{status.st_mode:o}"
            result[str(path)] = held
    return result

"""What tests of a stranger's folders share: hostile code that leaves a mark when it is run."""

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

MODULE = """
    import os
    from pathlib import Path
    import gymnasium
    from crosslearning.tasks import Task

    Path(os.environ["CANARY"]).write_text("imported")

    def carts(count=2, note=""):
        def make(gravity):
            return lambda render_mode=None: gymnasium.make("Pendulum-v1", g=gravity)
        return [Task(f"g={8 + i}", make(8.0 + i)) for i in range(count)]
"""
TINY = {
    "max_knots": 5,
    "discount": 0.5,
    "batch_size": 1,
    "estimator": "geometric",
    "log_every": 1,
    "checkpoint_every": 1,
}


def write_module(folder, name="my_tasks"):
    """Write a module of tasks that leaves a mark when it is imported."""
    (folder / f"{name}.py").write_text(textwrap.dedent(MODULE))


def contents(folder):
    """Return every file below a folder with its bytes, links not followed."""
    return {
        path: path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def command(*arguments, folder, home, **variables):
    """Run the command line in a process of its own, as a user does."""
    program = Path(sys.executable).parent / "crosslearning"
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")},
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "NO_COLOR": "1",
        **variables,
    }
    return subprocess.run(
        [str(program), *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class Listener:
    """A socket of this machine that tells whether anybody has connected to it."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def connected(self):
        """Tell whether somebody is there."""
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def strangers_run(path, **fields):
    """Write a run folder by hand, as somebody could send it."""
    path.mkdir(parents=True)
    values = {"method": "policy-gradient", "tasks": "paper", "iterations": 3, **fields}
    lines = [f"{k} = {json.dumps(v)}" for k, v in values.items() if not isinstance(v, dict)]
    for name, table in ((k, v) for k, v in values.items() if isinstance(v, dict)):
        lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in table.items())]
    (path / "config.toml").write_text("\n".join(lines) + "\n")
    (path / "run.json").write_text('{"version": 1}\n')

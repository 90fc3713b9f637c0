"""Build the distributions and use the wheel alone, as somebody without the checkout would.

Checks what PyPI would show, installs the wheel into a new environment, and there runs the first
commands and the README's examples, with an empty home, in an empty folder. Each optional feature
must name the extra that it needs. Needs ``build`` and ``twine``; takes two to three minutes.

    python scripts/check_wheel.py [--dist dist] [--python python3.13]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

COMMANDS = [
    "crosslearning --version",
    "crosslearning quickstart --iterations 20",
    "crosslearning demo fleet",
    "crosslearning play --no-open",
]
WITHOUT_EXTRA = {
    "log": "crosslearning train --out runs/log --iterations 2 --tensorboard",
    "onnx": "crosslearning export runs/quickstart --to onnx --out policy.onnx",
    "film": "crosslearning render runs/quickstart --out film.mp4",
    "ray": "crosslearning train --out runs/ray --iterations 2 --on ray",
    "mujoco": "crosslearning train --out runs/mujoco --tasks reachers:2 --steps 400",
    "box2d": "crosslearning train --out runs/box2d --tasks lunar-landers:2 --steps 400",
}
LEFT_BEHIND = [
    "runs/quickstart/model.safetensors",
    "fleet/fleet.gif",
    "playground.html",
    "paper.safetensors",
]


def main() -> None:
    """Build, check, install, use; end with an error at the first thing that does not work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, help="folder for the distributions; default: none")
    parser.add_argument("--python", default=sys.executable, help="of the new environment")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crosslearning-wheel-") as scratch:
        place = Path(scratch)
        wheel = build((arguments.dist or place / "dist").resolve())
        environment = place / "environment"
        run([arguments.python, "-m", "venv", str(environment)], place)
        run([str(environment / "bin/python"), "-m", "pip", "install", "-q", str(wheel)], place)
        use(environment / "bin", place)
    print("The wheel works without the checkout.")


def build(folder: Path) -> Path:
    """Return the wheel, built from the sdist as ``pip`` would and checked for PyPI."""
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], ROOT)
    distributions = sorted(folder.glob("crosslearning-*"))
    if [file.suffix for file in distributions] != [".whl", ".gz"]:
        sys.exit(f"expected one wheel and one sdist in {folder}, found {distributions}")
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, distributions)], ROOT)
    return distributions[0]


def use(programs: Path, place: Path) -> None:
    """Run the commands and examples in an empty folder, without anything of this environment."""
    folder, home = place / "folder", place / "home"
    folder.mkdir()
    home.mkdir()
    clean = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"}
    for command in COMMANDS:
        run(command.split(), folder, clean)
    for number, example in enumerate(EXAMPLE.findall((ROOT / "README.md").read_text("utf-8"))):
        script = place / f"example_{number}.py"
        script.write_text(example, encoding="utf-8")
        run(["python", str(script)], folder, clean)
    for name in LEFT_BEHIND:
        if not (folder / name).is_file():
            sys.exit(f"{name} was not written")
    for extra, command in WITHOUT_EXTRA.items():
        output = run(command.split(), folder, clean, fails=True)
        if f"crosslearning[{extra}]" not in output or "Traceback" in output:
            sys.exit(f"{command} does not say that it needs crosslearning[{extra}]")


def run(
    command: list[str], folder: Path, env: dict[str, str] | None = None, fails: bool = False
) -> str:
    """Run a command, show it with what it printed, and end unless it ends as it should."""
    print("$", *command, flush=True)
    if env is not None:  # PATH of the new environment is not that by which programs are looked for
        command = ["/usr/bin/env", "-i", *(f"{k}={v}" for k, v in env.items()), *command]
    ended = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(ended.stdout[-2000:], flush=True)
    if (ended.returncode != 0) != fails:
        sys.exit(f"{' '.join(command)} ended with code {ended.returncode}")
    return " ".join(ended.stdout.split())


if __name__ == "__main__":
    main()

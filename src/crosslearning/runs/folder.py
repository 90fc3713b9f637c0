"""The folder of a run: configuration, metrics, checkpoints, the finished model and its record."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import shlex
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict, cast

import msgspec

from crosslearning._base import files
from crosslearning._base.plain_data import decode
from crosslearning._base.plain_kernels import same_kernel
from crosslearning.errors import CrossLearningError, FileFormatError, InputError
from crosslearning.learner.user_input import PAPER_METHOD, Length, settings_to_plain
from crosslearning.runs import config as configuration
from crosslearning.runs.config import EXECUTION_FIELDS, RunConfig
from crosslearning.runs.metrics import EvaluationLine, MetricsLine, read_lines
from crosslearning.runs.signature import NAME, sign, signed_paths

# Learners and tasks load a compiler: they are imported where needed, so that listing runs is fast.
if TYPE_CHECKING:
    from crosslearning.learner import CrossLearner
    from crosslearning.tasks.sources import TaskSource

#: The layout of a run folder; raised when an older crosslearning could not read it.
FOLDER_VERSION = 1
#: A longer list was not written by this library.
_Systems = Annotated[list[dict[str, str]], msgspec.Meta(max_length=100)]
#: The folders in a run's folder.
_FOLDERS = ["checkpoints", "snapshots", "certificate", "figures", "report", "tensorboard", "theory"]
_NUMBERED = re.compile(r"iteration-(\d+)\.safetensors")


class _Source(TypedDict):  # see TaskSource.to_plain
    given: str
    content: str
    code: dict[str, str]
    around: NotRequired[str]
    around_content: NotRequired[str]


class _About(msgspec.Struct, omit_defaults=True):
    """The content of ``run.json``."""

    version: int
    has_start: bool = False
    tasks: _Source | None = None


class UnfitError(InputError):
    """A learner does not match the configuration of its folder."""


class _Return(msgspec.Struct):
    value: float


class _TaskVerdict(msgspec.Struct):
    policy: _Return


class _Verdict(msgspec.Struct):
    """What is read of a verdict."""

    tasks: list[_TaskVerdict]


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics = self.path / "metrics.jsonl"
        self.evaluations = self.path / "evaluations.jsonl"
        self.best = self.path / "best.safetensors"  #: the learner at the best evaluation
        self.model = self.path / "model.safetensors"  #: the finished learner
        self.record = self.path / "record.json"  #: see :func:`make_record`
        self.certificate = self.path / "certificate"  #: the folder that ``certify`` writes
        self.verdict = self.path / "verdict.json"  #: what the end of the run was like
        self.figures = self.path / "figures"
        self.lags = self.path / "lags.json"  #: the lags that were chosen, and the evidence
        self._version = self.path / "run.json"
        self._config = self.path / "config.toml"
        self._systems = self.path / "systems.json"
        self._checkpoints = self.path / "checkpoints"
        self._snapshots = self.path / "snapshots"
        self._named: TaskSource | None = None  #: by the user, see :meth:`open`

    @classmethod
    def create(
        cls, path: str | Path, config: RunConfig, learner: CrossLearner, has_start: bool = False
    ) -> RunFolder:
        """Return a new run folder with its configuration, or refuse one that is in use.

        A learner that does not start from zero is saved as a checkpoint.
        """
        folder = cls(path)
        folder.require_free()
        folder.tidy()
        content = configuration.config_text(config).encode()
        sign(folder.path, content, learner.source)
        folder._write_about(_About(FOLDER_VERSION, has_start), learner.source)
        if has_start:
            folder.save_checkpoint(learner)
        # Last: a folder with a configuration is a run, and can be resumed.
        files.write_atomically(folder._config, content)
        return folder

    @classmethod
    def open(
        cls, path: str | Path, tasks: str | None = None, around: str | None = None
    ) -> RunFolder:
        """Return an existing run folder; raise InputError if it is none.

        ``tasks`` and ``around`` name the run's tasks and the controller that it is learned around.
        To name them is to trust them: a run of someone else needs them, and one that was moved or
        edited, or whose code was.
        """
        folder = cls(path)
        if not folder.path.is_dir():
            found = "is a file" if folder.path.exists() else "is not there"
            raise InputError(f"there is no folder {path}: it {found}; give the folder of a run")
        files.guard(folder.path, _FOLDERS)
        if not folder._config.is_file():
            raise InputError(f"{path} holds no run: there is no config.toml in it")
        if (version := folder._about().version) > FOLDER_VERSION:
            newer = f"a newer crosslearning (folder version {version} > {FOLDER_VERSION})"
            raise FileFormatError(f"{path} was written by {newer}; install the newer one")
        if tasks is not None or around is not None:
            folder._named = folder._read_named(tasks, around)
        return folder

    def _read_named(self, tasks: str | None, around: str | None) -> TaskSource:
        """Return the source that the user names; nothing is imported."""
        from crosslearning.tasks.sources import TaskSource, is_named, read_source

        kept = self._kept_source()
        if around is not None and not kept.around:
            raise InputError(f"{self.path} is around no controller; leave out --around {around}")
        if tasks is None and not is_named(TaskSource(kept.given)):
            raise InputError(
                f"--around {around} names the controller, and the tasks of {self.path} are "
                f"defined by {kept.given}; name them too: --tasks {kept.given}"
            )
        if around is None and kept.around and not kept.around_content:
            raise InputError(
                f"{self.path} is around the controller {kept.around}; name it too: --around "
                f"{kept.around}"
            )
        source = read_source(tasks or kept.given, around)
        if around is None and kept.around:  # plain data, which the folder holds
            source = dataclasses.replace(
                source, around=kept.around, around_content=kept.around_content
            )
        return source

    def exists(self) -> bool:
        """Return whether the folder holds a run."""
        return self._config.exists()

    def require_free(self) -> None:
        """Raise InputError for a folder in which no run can begin."""
        if self.exists():
            remedy = f"choose another folder, or '{self.resume_command}'"
            raise InputError(f"{self.path} already holds a run; {remedy}")
        if self.path.resolve() == Path(self.path.resolve().anchor):
            raise InputError(f"{self.path} is the root of all folders; choose one for the run")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; choose a folder")
        files.guard(self.path, _FOLDERS)

    @property
    def has_start(self) -> bool:
        """Whether the run started from given policies, so that a checkpoint is needed to resume."""
        return self._about().has_start

    @property
    def resume_command(self) -> str:
        """The command that resumes the run."""
        return f"crosslearning resume {shlex.quote(str(self.path))}"

    def _about(self) -> _About:
        try:
            return decode(files.read_file(self._version), _About, self._version)
        except (OSError, FileFormatError) as problem:
            raise FileFormatError(f"{self._version} is missing or damaged") from problem

    def _write_about(self, about: _About, source: TaskSource | None) -> None:
        about.tasks = None if source is None else cast("_Source", source.to_plain())
        text = json.dumps(msgspec.to_builtins(about))
        files.write_atomically(self._version, f"{text}\n".encode())

    def config(self) -> RunConfig:
        """Return the run's configuration, without how rollouts are run: the user decides that."""
        # Old runs name no method: there was only one.
        values = {"method": PAPER_METHOD, **configuration.read_config(self._config)}
        values = {name: value for name, value in values.items() if name not in EXECUTION_FIELDS}
        return configuration.make_config(values, source=str(self._config))

    def checkpoints(self) -> list[tuple[int, Path]]:
        """Return the checkpoints as (iteration, path), oldest first."""
        return _numbered(self._checkpoints)

    def snapshots(self) -> list[tuple[int, Path]]:
        """Return the snapshots as (iteration, path of a family), oldest first."""
        return _numbered(self._snapshots)

    def tidy(self) -> None:
        """Remove the partial files of killed writers; only for the owner of the lock."""
        for folder in (self.path, self._checkpoints, self._snapshots):
            files.remove_parts(folder)

    def essentials(self) -> dict[Path, bytes]:
        """Return the content of the files that make a folder a run of the user."""
        paths = (self._version, self.path / NAME, self._config)
        return {path: files.read_file(path) for path in paths if path.exists()}

    def save_checkpoint(self, learner: CrossLearner) -> None:
        """Write a checkpoint; keep the last two."""
        learner.save(self._checkpoints / _numbered_name(learner))
        for _, old in self.checkpoints()[:-2]:
            files.remove_file(old)

    def save_snapshot(self, learner: CrossLearner) -> None:
        """Write the policies of this iteration."""
        learner.last.family.save(self._snapshots / _numbered_name(learner))

    def save_model(self, learner: CrossLearner) -> None:
        """Write the finished learner; its record first, so that no model is without one."""
        whole = self.path / f".model.safetensors{files.PART}"
        learner.save(whole)
        parts = {"model": whole, "config": self._config, "metrics": self.metrics}
        files.write_atomically(self.record, f"{json.dumps(make_record(learner, parts))}\n".encode())
        files.rename_file(whole, self.model.name)

    def systems(self) -> list[dict[str, str]]:
        """Return the systems that the run was computed on, see :func:`system_info`."""
        try:
            return msgspec.json.decode(files.read_file(self._systems), type=_Systems)
        except (OSError, msgspec.MsgspecError):
            return []

    def note_system(self) -> None:
        """Add this process's system to those of the run."""
        from crosslearning.runs.system_info import system_info

        systems, now = self.systems(), system_info()
        if now not in systems:
            text = json.dumps([*systems, now], indent=1)
            files.write_atomically(self._systems, f"{text}\n".encode())

    def extend(self, length: Length, learner: CrossLearner | None) -> RunConfig:
        """Set another length; a finished run becomes an unfinished one with a checkpoint."""
        done = 0 if learner is None else length.made(learner)
        if length.amount <= done:
            already = f"{self.path} has made {done} {length.unit} already"
            raise InputError(f"{already}; ask for more than that")
        if learner is not None and self.model.exists():
            path = self._checkpoints / _numbered_name(learner)
            files.write_atomically(path, files.read_file(self.model))
        changed = self.config().replace(**{length.unit: length.amount})
        content = configuration.config_text(changed).encode()
        with suppress(InputError):  # only runs of the user are signed
            sign(self.path, content, self._own_source())
        files.write_atomically(self._config, content)
        for path in (self.model, self.record, self.verdict):
            files.remove_file(path)
        return changed

    def _kept_source(self) -> TaskSource:
        from crosslearning.tasks.sources import TaskSource

        kept = self._about().tasks
        return TaskSource(self.config().tasks) if kept is None else TaskSource.from_plain(kept)

    def source(self) -> TaskSource:
        """Return the source of the run's tasks if it is trusted; raise InputError if not.

        Trusted are sources that the user named, see :meth:`open`, sets that ship, and sources that
        the user signed, see :mod:`crosslearning.runs.signature`.
        """
        return self._named or self._own_source()

    def _own_source(self) -> TaskSource:
        from crosslearning.tasks.sources import is_named, not_yours

        source = self._kept_source()
        if is_named(source):
            return source
        paths = signed_paths(self.path, files.read_file(self._config), source)
        if paths is None:
            raise not_yours(source)
        return dataclasses.replace(source, paths=paths, options=self.config().task_options)

    def is_own(self) -> bool:
        """Return whether the run's tasks are trusted without being named."""
        with suppress(InputError):
            return bool(self._own_source())
        return False

    def adopt(self) -> None:
        """Sign the sources that the user named, if they are those of the configuration."""
        source, config = self._named, self.config()
        asked = config.tasks, config.around or ""
        if source is not None and (source.given, source.around) == asked:
            self._write_about(self._about(), source)
            sign(self.path, files.read_file(self._config), source)

    def load(
        self,
        workers: int | None = 1,
        best: bool = False,
        tasks: str | TaskSource | None = None,
        **how: Any,
    ) -> CrossLearner:
        """Return the run's learner: finished, at its newest checkpoint, or with the best policies.

        ``tasks`` replace those that the run names. Without ``tasks`` and without trusted tasks
        (see :meth:`source`) the policies can be used, but not trained or evaluated.
        """
        if best and not self.best.exists():
            remedy = "crosslearning train --evaluate-every 100"
            raise InputError(
                f"{self.path} keeps no best evaluation; runs with evaluations do: {remedy}"
            )
        if best:
            return self.load_file(self.best, tasks, workers=workers, **how)
        learner = self.load_newest(tasks, workers=workers, **how)
        if learner is None:
            raise InputError(f"{self.path} has no checkpoint yet; run '{self.resume_command}'")
        return learner

    def load_file(
        self, path: Path, tasks: str | TaskSource | None = None, **how: Any
    ) -> CrossLearner:
        """Return the learner of a file, with tasks that the user names or has signed."""
        from crosslearning.learner import CrossLearner

        tasks = tasks or self._named
        if tasks is None:
            with suppress(InputError):
                tasks = self._own_source()
        return CrossLearner.load(path, tasks, **how)

    def load_newest(
        self, tasks: str | TaskSource | None = None, fitting: bool = False, **how: Any
    ) -> CrossLearner | None:
        """Return the finished learner, or that of the newest intact checkpoint; None without one.

        If ``fitting``, it must be what ``config.toml`` asks for. Checkpoints that are damaged or
        do not fit are skipped with a warning.
        """
        problems: list[CrossLearningError] = []
        finished = self.model.exists()
        saved = [(None, self.model)] if finished else reversed(self.checkpoints())
        for iteration, path in saved:
            try:
                learner = self.load_file(path, tasks, **how)
                if iteration not in (None, learner.iteration):
                    raise FileFormatError(f"{path} is of iteration {learner.iteration}")
                if fitting:
                    self._require_fit(learner, path)
            except (InputError, FileFormatError) as problem:
                if not path.exists():  # the running process has removed it
                    return self.load_newest(tasks, fitting, **how)
                if finished or not isinstance(problem, UnfitError | FileFormatError):
                    raise
                problems.append(problem)
                continue
            for passed in problems:
                text = f"{passed}. The checkpoint of iteration {iteration} is taken instead"
                warnings.warn(text, stacklevel=3)
            return learner
        if problems:
            remedy = "Or move its folder 'checkpoints' away to begin the run anew"
            text = f"no checkpoint of {self.path} is whole. {problems[-1]}. {remedy}"
            unfit = (problem for problem in problems if isinstance(problem, UnfitError))
            raise next(unfit, FileFormatError(text))
        return None

    def _require_fit(self, learner: CrossLearner, path: Path) -> None:
        """Refuse a learner, read from ``path``, that does not match ``config.toml``."""
        config, kept = self.config(), self._about().tasks
        asked, saved = settings_to_plain(config.settings), settings_to_plain(learner.settings)
        # The learner fills in settings that are left open; the kernel may be too.
        around = any(task.controller is not None for task in learner.tasks)
        filled = settings_to_plain(config.settings.resolved(False, 1, around))
        names = ["method"] if asked["method"] != saved["method"] else [*asked]
        left_open = {name for name in asked if asked[name] is None and filled[name] is not None}
        pairs = {k: (asked[k], saved[k]) for k in names if k != "kernel" and k not in left_open}
        kernel, wanted = learner.kernel.to_dict(), config.settings.kernel
        if wanted is not None and not same_kernel(kernel, wanted):
            pairs["kernel"] = (wanted, kernel)
        if kept is not None:
            pairs["tasks"] = (config.tasks, kept["given"])
            pairs["around"] = (config.around or "", kept.get("around", ""))
        if learner.source is not None:
            pairs["task_options"] = (config.task_options, learner.task_options)
        other = [f"{k} is {now!r} and was {was!r}" for k, (now, was) in pairs.items() if now != was]
        if other:
            begin = f"crosslearning train --config {shlex.quote(str(self._config))} --out NEW"
            raise UnfitError(
                f"{self._config} does not ask for what {path} holds: {'; '.join(other)}. Put it "
                f"back to go on with this run, or begin another: {begin}"
            )

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the metrics, one dict a line."""
        return read_lines(self.metrics, MetricsLine)

    def final_return(self) -> float | None:
        """Return the mean total return of the verdict at the end; None if there is none."""
        try:
            found = decode(files.read_file(self.verdict), _Verdict, self.verdict)
        except FileNotFoundError:
            return None
        returns = [one.policy.value for one in found.tasks]
        return fmean(returns) if returns else None

    def read_evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations during training, one dict a line."""
        return read_lines(self.evaluations, EvaluationLine)


def make_record(learner: CrossLearner, parts: Mapping[str, Path]) -> dict[str, Any]:
    """Return the numbers of a learner and the digests of files; verification recomputes them."""
    from crosslearning.runs.system_info import system_info

    family, epsilon = learner.last.family, learner.settings.epsilon
    return {
        "version": 1,  # raised when an older crosslearning could not read it
        "iteration": learner.iteration,
        "steps": learner.steps,
        "tasks": [task.name for task in learner.tasks],
        "epsilon": epsilon if math.isfinite(epsilon) else "inf",
        "kernel": learner.kernel.to_dict(),
        "knots": len(family.knots),
        "norms": family.norms().tolist(),
        "distances": family.distances().tolist(),
        "sha256": {k: hashlib.sha256(files.read_file(p)).hexdigest() for k, p in parts.items()},
        "made_with": system_info(),
    }


def _numbered_name(learner: CrossLearner) -> str:
    return f"iteration-{learner.iteration:08d}.safetensors"


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a folder that are named by an iteration, oldest first."""
    try:
        paths = [folder / name for name in files.list_folder(folder)]
    except FileNotFoundError:
        return []
    except OSError as problem:  # an unreadable folder is not an empty one
        raise files.cannot_read(folder, problem) from problem
    named = ((_NUMBERED.fullmatch(path.name), path) for path in paths)
    return sorted((int(match[1]), path) for match, path in named if match)

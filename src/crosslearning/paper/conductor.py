"""Runs a whole experiment on all cores, with progress, and can be stopped and gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from crosslearning.paper.experiment import Experiment
from crosslearning.paper.measure import measure
from crosslearning.runs import RunConfig, RunFolder, resume, train
from crosslearning.runs.parallel import in_processes, iteration_of


def train_or_resume(path: Path, config: RunConfig) -> bool:
    """Take one run to its end; return whether it got there."""
    if RunFolder(path).exists():
        return resume(path).finished
    return train(path, config).finished


def run_experiments(experiments: Sequence[Experiment], workers: int, console: Console) -> bool:
    """Train and measure every policy of some experiments.

    Returns
    -------
    bool
        False if it was interrupted; the same call goes on from there.
    """
    jobs = [(experiment, *job) for experiment in experiments for job in experiment.jobs()]
    # Seed by seed: what is stopped early has some seeds whole.
    jobs.sort(key=lambda job: job[1])
    runs = [
        (experiment.folder(seed, policy).path, config) for experiment, seed, policy, config in jobs
    ]
    trained = in_processes(
        train_or_resume,
        runs,
        workers,
        console,
        "learning",
        sum(config.iterations for _, config in runs),
        lambda: sum(iteration_of(path) for path, _ in runs),
    )
    return trained and in_processes(
        measure, [job[:3] for job in jobs], workers, console, "measuring"
    )

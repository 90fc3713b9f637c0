"""Runs a whole experiment on all cores, with progress, and can be stopped and gone on with."""

from __future__ import annotations

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


def run_experiment(experiment: Experiment, workers: int, console: Console) -> bool:
    """Train and measure every policy of an experiment.

    Returns
    -------
    bool
        False if it was interrupted; the same call goes on from there.
    """
    jobs = list(experiment.jobs())
    paths = [experiment.folder(seed, policy).path for seed, policy, _ in jobs]
    total = sum(config.iterations for _, _, config in jobs)
    trained = in_processes(
        train_or_resume,
        [(path, config) for path, (_, _, config) in zip(paths, jobs, strict=True)],
        workers,
        console,
        "learning",
        total,
        lambda: sum(iteration_of(path) for path in paths),
    )
    return trained and in_processes(
        measure,
        [(experiment, seed, policy) for seed, policy, _ in jobs],
        workers,
        console,
        "measuring",
    )

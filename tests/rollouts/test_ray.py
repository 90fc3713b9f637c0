"""A Ray cluster of two nodes, started and stopped here: the same bits, even if some are lost.

One test, because a cluster takes seconds to start.
"""

import dataclasses
import shutil
import signal
import tempfile
import threading
import time
import warnings

import numpy as np
import pytest
from rich.console import Console

from crosslearning.errors import InputError, TaskError
from crosslearning.learner.internals import worker_events
from crosslearning.rollouts import executor_for, plan_episodes, ray_cluster
from crosslearning.runs import make_config
from crosslearning.runs.study import Run, on_ray, run_study
from tests.contracts.test_executors import random_policies
from tests.rollouts.slow_tasks import odd_seed, slow_tasks
from tests.rollouts.test_workers import METHODS, SMALL, learned

pytest.importorskip("ray")


@pytest.fixture
def cluster(monkeypatch):
    """Yield a cluster whose two nodes have one processor each."""
    ray_cluster.require_ray()
    # Ray leaves files and sockets open that are not ours to close.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made, folder = _started(monkeypatch)
        yield made
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _started(monkeypatch, tries=3):
    """Return a cluster and its folder; where others have the processors, Ray gives up too soon."""
    from ray.cluster_utils import Cluster

    # A short path, because sockets are in it. All that Ray writes is below it, also the address of
    # the cluster, which it would write into the default folder in spite of `temp_dir`.
    folder = tempfile.mkdtemp(prefix="ray-", dir=min(tempfile.gettempdir(), "/tmp", key=len))
    monkeypatch.setenv("RAY_TMPDIR", folder)
    made = Cluster()
    try:
        made.add_node(num_cpus=1, include_dashboard=False)
        made.other = made.add_node(num_cpus=1)
    except Exception:
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
        if tries > 1:
            return _started(monkeypatch, tries - 1)
        raise
    return made, folder


def test_a_cluster_of_two_nodes_gives_the_same_bits(cluster, tmp_path, monkeypatch):
    there = f"ray://{cluster.address}"
    settings = {"method": "trust-region", **METHODS["trust-region"], "nap": 0.001}
    expected = learned(tmp_path / "serial", **settings)
    _a_study(there, tmp_path, monkeypatch)
    _a_limit(there)

    # Last, because a node is lost half-way.
    heard = []

    def lose_a_node(learner):
        def after(report):
            if report.iteration == 1:
                assert not heard
                threading.Timer(0.02, cluster.remove_node, (cluster.other,)).start()
            heard.extend(worker_events(learner))
            time.sleep(0.1)

        return after

    # As many workers as there are processors: two. The first iteration has lost none.
    handler = signal.getsignal(signal.SIGTERM)
    slowly = {
        **settings,
        "nap": 0.05,
        "callback": lose_a_node,
    }  # so that work is lost with the node
    assert learned(tmp_path / "ray", on=there, **slowly) == expected
    assert signal.getsignal(signal.SIGTERM) is handler
    assert heard
    assert all("of the cluster was lost" in sentence for sentence in heard)
    with pytest.raises(InputError, match=r"there is no Ray cluster to join at 127\.0\.0\.1:1"):
        ray_cluster.join("127.0.0.1:1")


def _a_study(there, path, monkeypatch):
    """Run a study elsewhere, from a folder that relative paths begin at."""
    monkeypatch.chdir(path)
    fields = {**SMALL, "tasks": "linear-quadratic", "iterations": 20}
    chains = [[Run(path / f"{seed}", make_config({**fields, "seed": seed}))] for seed in (1, 2)]
    quiet = Console(quiet=True)
    relative = [[dataclasses.replace(run, path=run.path.relative_to(path))] for (run,) in chains]
    assert run_study([relative], None, quiet, there)
    for (run,) in chains:
        elsewhere = (run.path / "model.safetensors").read_bytes()
        shutil.rmtree(run.path)
        run.go()
        assert (run.path / "model.safetensors").read_bytes() == elsewhere
    with pytest.raises(InputError, match="it has wheels"):
        on_ray(_refuse, [[()]], 1, lambda: None, there.removeprefix("ray://"))
    with pytest.raises(InputError, match="a study runs on processes, ray"):
        run_study([chains], None, quiet, "threads")


def _refuse():
    raise InputError("it has wheels")


def _a_limit(there):
    tasks = slow_tasks(fault="hangs")[:1]
    plan = plan_episodes(np.random.default_rng(1), tasks, 30, 4)
    executor = executor_for(tasks, 1, on=there, step_seconds=1.5)
    with pytest.raises(TaskError, match=r"'pull=0.1' took longer .* at step 3 of .* seed (\d+)\."):
        executor.episodes(random_policies(tasks, 0).expansion, plan)
    assert odd_seed(plan.seeds)
    executor.close()

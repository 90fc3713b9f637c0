"""Workers in other processes: the same bits, even if some are lost."""

import collections
import os
import re
import signal
import threading

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.errors import InputError, MissingExtraError, TaskError
from crosslearning.learner.internals import worker_events
from crosslearning.rollouts import (
    ActionScale,
    GymnasiumExecutor,
    Samples,
    executor_for,
    plan_episodes,
    plan_samples,
    process_executor,
)
from crosslearning.rollouts.backends import Backend, read_backend
from crosslearning.rollouts.process_executor import AutoExecutor
from crosslearning.rollouts.sharded_executor import (
    MOST_LOST,
    SHARDS_PER_WORKER,
    cut,
    part_of,
    put,
    single,
)
from crosslearning.rollouts.worker import Job, WorkerState, pack_setup
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.tasks import Task
from tests.contracts.test_executors import Here, in_shards, random_policies
from tests.learner.examples import drift
from tests.rollouts.slow_tasks import Slow, odd_seed, slow_tasks

SMALL = {"epsilon": 1.0, "max_knots": 20, "seed": 4}
METHODS = {
    "policy-gradient": {"batch_size": 3},
    "trust-region": {"episodes": 3, "episode_steps": 20, "least_steps": 1},
    "models": {"round_steps": 20, "updates_per_round": 4},
}


def learned(path, iterations=3, callback=lambda learner: None, nap=0.0, **how):
    """Return the file of a learner that learned slow tasks."""
    learner = CrossLearner(slow_tasks(nap=nap), **SMALL, **how)
    learner.learn(iterations, callback(learner), progress=False).save(path)
    learner.close()
    return path.read_bytes()


# Bits ------------------------------------------------------------------------------------------


def test_a_plan_is_cut_into_parts_that_make_it_whole():
    tasks = [drift(name) for name in "abcdefgh"]
    policies = random_policies(tasks, 0).expansion
    plan = plan_samples(np.random.default_rng(0), tasks, 5, 0.9)
    for workers in (1, 2, 3, 7):
        places = cut(plan, workers)
        assert len(places) >= min(SHARDS_PER_WORKER * workers, 40)
        again = plan._replace(noise=np.zeros_like(plan.noise))._make(map(np.zeros_like, plan))
        for place in places:
            part = part_of(plan, place)
            lengths = part.before + part.after + 1
            assert part.noise.shape[2] == lengths.max()
            short = again._replace(noise=again.noise[:, :, : part.noise.shape[2]])
            put(part, place, short)
            jobs = [Job(0, one, part_of(plan, one), True, policies) for one in single(place)]
            assert sum(job.steps for job in jobs) == 2 * lengths.sum()
            assert [int(job.plan.seeds[0, 0]) for job in jobs] == part.seeds.ravel().tolist()
        for one, other in zip(again[:4], plan[:4], strict=True):
            np.testing.assert_array_equal(one, other)
        used = np.arange(plan.noise.shape[2]) <= (plan.before + plan.after)[:, :, None]
        np.testing.assert_array_equal(again.noise[used], plan.noise[used])
    assert len(cut(plan, 7, whole_tasks=True)) == 8
    assert cut(plan_samples(np.random.default_rng(0), tasks[:1], 1, 0.9), 4) == [
        (slice(0, 1), slice(0, 1))
    ]


def test_processes_learn_the_same_bits_and_a_killed_one_changes_nothing(tmp_path):
    settings = {"method": "trust-region", **METHODS["trust-region"], "nap": 0.001}
    expected = learned(tmp_path / "serial", **settings)
    for workers in (1, 2, 4):
        heard = []

        def kill_half_way(learner, heard=heard, workers=workers):
            def after(report):
                if report.iteration == 1 and workers == 2:
                    pid, _ = learner._executor.pids
                    threading.Timer(0.03, os.kill, (pid, signal.SIGKILL)).start()
                heard.extend(worker_events(learner))

            return after

        how = {"on": "processes", "workers": workers, "callback": kill_half_way}
        assert learned(tmp_path / "others", **how, **settings) == expected
        killed = workers == 2
        assert len(heard) == killed
        assert not killed or heard[0].startswith(
            "A worker was ended by SIGKILL; its work is done again"
        )


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_the_same_bits_through_shards(tmp_path, method):
    settings = {"method": method, **METHODS[method], "iterations": 2}
    expected = learned(tmp_path / "serial", **settings)
    # Policies are scaled to the box in all of these but the paper's.
    executor = Here(slow_tasks(), 3, CrossLearner(slow_tasks())._scale)
    assert learned(tmp_path / "others", executor=executor, **settings) == expected


def test_outcomes_are_told_once_for_all_shards():
    tasks = slow_tasks()
    plan = plan_episodes(np.random.default_rng(3), tasks, 40, 4)
    policies = random_policies(tasks, 0)
    expected = GymnasiumExecutor(tasks).episodes(policies.expansion, plan)
    executor = in_shards(3)(tasks)
    actual = executor.episodes(policies.expansion, plan)
    executor.close()
    assert odd_seed(plan.seeds)
    for one, other in zip(actual.outcomes, expected.outcomes, strict=True):
        assert one.keys() == other.keys() == {"far"}
        np.testing.assert_array_equal(one["far"], other["far"])


def test_what_workers_warn_of_is_heard_here():
    tasks = slow_tasks(fault="warns")
    plan = plan_episodes(np.random.default_rng(3), tasks, 40, 4)
    executor = in_shards(2)(tasks)
    with pytest.warns(RuntimeWarning, match="far to the right") as heard:
        executor.episodes(random_policies(tasks, 0).expansion, plan)
    executor.close()
    assert heard[0].filename.endswith("slow_tasks.py")


# Faults ----------------------------------------------------------------------------------------


class FellOverError(Exception):
    pass


class Fragile(Here):
    """Workers of which one is lost over the second job that it is given, and once more over it."""

    given = 0

    def _run(self, job):
        self.given += 1
        if self.given in (2, 3):
            raise FellOverError
        return super()._run(job)

    def _how_lost(self, problem):
        return "fell over" if isinstance(problem, FellOverError) else super()._how_lost(problem)


def test_what_is_run_rollout_by_rollout_is_put_where_it_belongs():
    """After two lost workers a shard is split: its results are those of the whole all the same."""
    tasks = slow_tasks()
    policies = random_policies(tasks, 0).expansion
    plan = plan_episodes(np.random.default_rng(3), tasks, 12, 4)
    expected = GymnasiumExecutor(tasks).episodes(policies, plan)
    executor = Fragile(tasks, 1)
    actual = executor.episodes(policies, plan)
    assert len(executor.events) == 2
    executor.close()
    for name in ("observations", "actions", "rewards", "lengths", "terminated"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), name)


def test_workers_that_die_over_a_rollout_name_it():
    tasks = slow_tasks(fault="dies")
    plan = plan_episodes(np.random.default_rng(1), tasks[:1], 30, 4)
    (odd, *_) = odd_seed(plan.seeds)
    executor = executor_for(tasks[:1], 1, on="processes")
    with pytest.raises(TaskError, match=rf"{MOST_LOST} workers were lost .*'pull=0.1'") as caught:
        executor.episodes(random_policies(tasks[:1], 0).expansion, plan)
    assert f"seed {odd}" in str(caught.value)
    assert "ended with code 7" in str(caught.value)
    assert len(executor.events) == MOST_LOST
    executor.close()


def test_an_environment_that_hangs_is_ended_and_the_run_goes_on_from_there(tmp_path, monkeypatch):
    fields = {**SMALL, **METHODS["trust-region"], "method": "trust-region", "iterations": 6}
    fields |= {"tasks": "tests.rollouts.slow_tasks:slow_tasks", "log_every": 1}
    fields["kernel"] = {"kernel": "gaussian", "std": [1.0, 1.0]}
    train(tmp_path / "whole", make_config(fields))
    limited = make_config({**fields, "on": "processes", "workers": 1, "step_seconds": 1.5})
    monkeypatch.setenv("SLOW_FAULT", "hangs")
    with pytest.raises(TaskError, match=r"took longer than step_seconds = 1\.5") as caught:
        train(tmp_path / "hanging", limited)
    text, folder = str(caught.value), RunFolder(tmp_path / "hanging")
    actual = re.search(r"task 'pull=0\.[12]' .* at step 3 of the episode with seed (\d+)\.", text)
    assert odd_seed(np.array([int(actual[1])]))
    ((kept, _),) = folder.checkpoints()
    assert text.endswith(f"Iteration {kept} is kept; go on with: {folder.resume_command}")
    monkeypatch.delenv("SLOW_FAULT")
    assert resume(tmp_path / "hanging").finished
    for name in ("model", "metrics"):
        one, other = (getattr(RunFolder(tmp_path / run), name) for run in ("hanging", "whole"))
        assert one.read_bytes() == other.read_bytes()


def test_a_limit_that_nobody_could_hold_is_refused():
    slow, compiled = slow_tasks(), "linear-quadratic"
    with pytest.raises(InputError, match=r"a thread cannot be ended .* on = 'processes'"):
        CrossLearner(slow, step_seconds=2.0, on="threads")
    with pytest.raises(InputError, match="is for environments of Python"):
        CrossLearner(compiled, step_seconds=2.0, on="processes")
    for limit in (0.0, -1.0, np.inf, np.nan, True):
        with pytest.raises(InputError, match="step_seconds must be above 0"):
            CrossLearner(slow, step_seconds=limit, on="processes")
    assert executor_for(slow, on="auto", step_seconds=2.0).workers[0] == 0  # not started yet


class Hollow(Task):
    """A task that no process can be sent."""

    def __reduce__(self):
        raise TypeError("cannot pickle 'motor' object")


def test_what_cannot_travel_is_named():
    with pytest.raises(InputError, match=r"task 'bad' cannot be sent.*'motor'.*on = 'threads'"):
        executor_for([drift("fine"), Hollow("bad", Slow, horizon=5)], on="processes")
    environments = gymnasium.vector.SyncVectorEnv([Slow, Slow])
    with pytest.raises(InputError, match=r"task 'vector' cannot be sent.*give a function"):
        executor_for([Task("vector", environments, horizon=5)], on="processes")


def test_workers_of_another_version_are_refused():
    tasks = slow_tasks()
    setup, version = pack_setup(tasks, ActionScale.none(1)), np.__version__
    assert WorkerState(setup).tasks[1].name == tasks[1].name
    other = setup.replace(version.encode(), b"9" * len(version))
    with pytest.raises(InputError, match=rf"numpy {re.escape(version)}, not 9+; the same bits"):
        WorkerState(other)


def test_places_are_read():
    assert read_backend("ray://10.0.0.1:6379") == Backend("ray", "10.0.0.1:6379")
    with pytest.raises(InputError, match="did you mean 'processes'"):
        read_backend("proceses")
    for given in ("ray://", "ray://here", "ray://here:", 3):
        with pytest.raises(InputError, match="on is"):
            read_backend(given)
    with pytest.raises(InputError, match="no such place to run 'fork'"):
        make_config({"on": "fork"})


def test_without_ray_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"crosslearning\[ray\]"):
        executor_for(slow_tasks(), on="ray")


# By default ------------------------------------------------------------------------------------


class Paced:
    """An executor whose clock goes on by so much at every call."""

    workers, ready = (2, 2), True

    def __init__(self, clock, seconds):
        self.clock, self.seconds, self.calls, self.closed = clock, seconds, 0, False
        self.tasks, self.scale = ("task",), ActionScale.none(1)
        self.events = collections.deque()

    def start(self):
        pass

    def run(self, policies, plan, mirrored):
        self.calls += 1
        self.clock[0] += self.seconds
        return Samples(None, None, None, None, np.ones(10))

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("here", "there", "chosen"),
    [
        (0.5, 0.3, "parallel"),
        (0.5, 0.49, "serial"),
        (0.5, 0.7, "serial"),
        (0.001, 0.0001, "serial"),
    ],
)
def test_processes_are_taken_where_they_prove_faster(monkeypatch, here, there, chosen):
    clock = [0.0]
    monkeypatch.setattr(process_executor.time, "perf_counter", lambda: clock[0])
    slow, fast = Paced(clock, here), Paced(clock, there)
    executor = AutoExecutor(slow, lambda: fast)
    for _ in range(3000):
        executor.samples(None, None, False)
    before = slow.calls, fast.calls
    executor.samples(None, None, False)
    assert (slow.calls, fast.calls) == (
        before[0] + (chosen == "serial"),
        before[1] + (chosen == "parallel"),
    )
    if chosen == "parallel":
        assert executor.workers == (2, 2)
        assert executor.events.popleft().startswith("Rollouts go on in 2 processes, 1.7 times")
    else:
        assert executor.workers == (0, 0)
        assert not executor.events
        assert fast.closed or not fast.calls
    executor.close()
    assert slow.closed


def test_what_cannot_be_sent_stays_here(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(process_executor.time, "perf_counter", lambda: clock[0])

    def refuse():
        raise InputError("it has wheels")

    executor = AutoExecutor(Paced(clock, 1.0), refuse)
    for _ in range(10):
        executor.samples(None, None, False)
    assert list(executor.events) == ["Rollouts stay in one process: it has wheels"]


class Refusing(Paced):
    def run(self, policies, plan, mirrored):
        raise InputError("a worker cannot make the tasks: no wheels there")


def test_what_workers_cannot_make_stays_here(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(process_executor.time, "perf_counter", lambda: clock[0])
    serial, parallel = Paced(clock, 1.0), Refusing(clock, 0.1)
    executor = AutoExecutor(serial, lambda: parallel)
    for _ in range(20):
        executor.samples(None, None, False)
    assert serial.calls == 20
    assert parallel.closed
    (sentence,) = executor.events
    assert sentence.startswith("Rollouts stay in one process: a worker cannot make the tasks")


def test_a_run_chooses_by_itself_and_compiled_tasks_stay():
    config = make_config({"tasks": "paper"})
    assert type(config.learner()._executor).__name__ == "CompiledExecutor"
    slow = slow_tasks()
    assert isinstance(executor_for(slow, 2, on="auto"), AutoExecutor)
    assert isinstance(executor_for(slow, 1, on="auto"), GymnasiumExecutor)
    assert isinstance(executor_for(slow), GymnasiumExecutor)

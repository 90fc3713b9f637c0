"""What a correction could gain: the closed loop of the search is that of the library."""

import numpy as np
import pytest
from benchmarks.around import PARTS
from benchmarks.around_optimum import Machine, best_affine, best_in_kernel, widened

from benchmarks import around_optimum
from crosslearning.rkhs import Family
from crosslearning.tasks.families import FAMILIES

PART = PARTS["two-rooms"]


@pytest.fixture(scope="module")
def task():
    return FAMILIES["two-rooms"](1, seed=3)[0]


def test_a_correction_returns_what_it_returns_in_the_task(task):
    machine, around = Machine(task, PART.in_use()), task.around(PART.in_use())
    draw = np.random.default_rng(0)
    seen = machine.run((3, 1))[1].reshape(-1, 6)
    kernel = around_optimum.Gaussian(std=2.0 * seen.std(axis=0))
    correction = Family(kernel, seen[::40], 0.3 * draw.normal(size=(len(seen[::40]), 1, 2)))
    uniforms = np.random.default_rng(1).uniform(size=(3, 9))
    for family, most in ((None, 0.0), (correction, 0.2)):
        affine = np.column_stack([[0.1, -0.1], np.tile(0.1 / seen.std(axis=0), (2, 1))])
        found = machine.run((3, 1), family, affine, most)[0]
        for k, start in enumerate(uniforms):
            environment, total = around.make(), 0.0
            state, _ = environment.reset(options={"uniforms": start})
            for _ in range(task.horizon):
                own = 0.0 if family is None else family(state[None])[0, 0]
                change = np.clip(affine @ np.append(1.0, state), -most, most) + own
                state, reward, *_ = environment.step(1.5 * change)  # half of the heaters' range
                total += reward
            assert found[k] == pytest.approx(total)


def test_searches_gain_on_starts_that_they_have_not_seen(task, monkeypatch):
    for name, value in (("STEPS", 2), ("RANK", 3), ("KNOTS", 8), ("ROUNDS", 3)):
        monkeypatch.setattr(around_optimum, name, value)
    machine = Machine(task, PART.in_use())
    spread = machine.run((3, 1))[1].reshape(-1, 6).std(axis=0)
    curved, flat = (around_optimum.Gaussian(std=f * spread) for f in (1.4, 1e4))
    kernel = around_optimum.Sum((curved, range(6)), (flat, range(6)), scales=[0.7, 0.3])
    assert widened(kernel, 1.0) == kernel
    assert best_in_kernel(machine, kernel, 0.3) > 0.0
    assert best_affine(machine, 0.3) > 0.02

"""The benchmark of the paper's policies by later methods, in miniature."""

import numpy as np
import pytest

from benchmarks import paper_converged
from crosslearning.learner.evaluation import evaluate
from crosslearning.reproduction.paper.experiment import CROSS, POLICIES, RADII, REDRAWN_GOALS
from crosslearning.reproduction.paper.measure import (
    DISCOUNT,
    EVALUATION_SEED,
    outcome,
    scenes,
)
from crosslearning.runs import study
from tests.runs.examples import one_after_another


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    path = tmp_path_factory.mktemp("converged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "in_processes", one_after_another)
        patch.setattr(paper_converged, "TRIALS", 3)
        patch.setattr(paper_converged, "MAPS", 1)
        tiny = {"iterations": 2, "least_steps": 20, "most_steps": 40, "max_knots": 10}
        settings = {**paper_converged.SETTINGS["trust-region"], **tiny}
        patch.setitem(paper_converged.SETTINGS, "trust-region", settings)
        results = paper_converged.measure(path, "trust-region", range(2))
        yield path, results, paper_converged.measure(path, "trust-region", range(2))


def test_five_policies_of_every_seed_are_measured_once(measured):
    _, results, again = measured
    assert results == again
    assert [list(one) for one in results] == [list(POLICIES)] * 2


def test_a_task_s_own_policy_acts_on_it_and_the_centre_elsewhere(measured):
    path, results, _ = measured
    folder = paper_converged.folder_of(path, "trust-region", 0, CROSS)
    own = paper_converged.policy_of(folder, CROSS, "r=2")
    assert own.name == "r=2"
    assert paper_converged.policy_of(folder, CROSS, "mission").name == "central"
    task = scenes(REDRAWN_GOALS, 1)["training"][2]
    final = results[0][CROSS]["final"]
    assert final["radii"]["r=2"] == outcome(own, task, 3) == final["training"]["r=2"]
    # In the units of the actions, as anybody would evaluate it.
    (found,) = evaluate([own], [task], trials=3, seed=EVALUATION_SEED, discount=DISCOUNT)
    assert -found.discounted_return.value == pytest.approx(final["radii"]["r=2"]["cost"])


def test_the_tables_have_every_policy_and_the_claims(measured):
    _, results, _ = measured
    text = paper_converged.tables(results)
    assert all(f"agnostic, {radius}" in text for radius in RADII)
    assert "29 claims" in text
    costs = [one[CROSS]["final"]["radii"][radius]["cost"] for one in results for radius in RADII]
    row = next(line for line in text.splitlines() if line.startswith("| cross-learned (ε = 3) |"))
    assert row.split("|")[2].strip() == f"{np.mean(costs[::3]):.0f}"

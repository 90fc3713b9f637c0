"""The table of rates: means over seeds, and paired differences with Student's interval."""

import numpy as np

from crosslearning._base.statistics import student
from crosslearning.reproduction.paper.experiment import AVERAGE, CROSS, POLICIES
from crosslearning.reproduction.paper.measure import PLACES, rates_table


def made_up(seeds):
    generator = np.random.default_rng(3)
    results = {}
    for seed in range(seeds):
        results[seed] = {}
        for policy in POLICIES:
            final = {}
            for _, scene, task in PLACES:
                arrived, crashed = generator.uniform(0.0, 0.5, 2).round(2)
                final.setdefault(scene, {})[task] = {"arrived": arrived, "crashed": crashed}
            results[seed][policy] = {"final": final}
    return results


def test_the_table_holds_the_means_and_the_paired_difference():
    results = made_up(4)
    rows = rates_table(results).splitlines()[2:]
    assert len(rows) == len(PLACES)
    for row, (label, scene, task) in zip(rows, PLACES, strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[0] == label
        for cell, policy in zip(cells[1:-1], POLICIES, strict=True):
            own = [m[policy]["final"][scene][task] for m in results.values()]
            arrived, crashed = (np.mean([one[rate] for one in own]) for rate in own[0])
            assert cell == f"{arrived:.0%} / {crashed:.0%}"
        differences = [
            m[AVERAGE]["final"][scene][task]["crashed"] - m[CROSS]["final"][scene][task]["crashed"]
            for m in results.values()
        ]
        assert cells[-1] == student(differences).percent("+.0f")

"""Claims: the number that decides each, and the verdict from its interval."""

import copy
import math

import numpy as np
import pytest
from scipy import stats

from crosslearning.reproduction.paper.adapt import ADAPTATION_CLAIMS, STARTS
from crosslearning.reproduction.paper.claims import CLAIMS, Claim, claims_table, judge
from crosslearning.reproduction.paper.experiment import AVERAGE, CROSS, POLICIES, RADII

SCENES = {
    "radii": RADII,
    "training": RADII,
    "circle": ("circle",),
    "ellipse": ("ellipse",),
    "mission": ("mission",),
    "maps": ("maps",),
}


def as_the_paper_says():
    """Return measurements in which every claim of the paper is true."""
    m = {
        policy: {
            "final": {
                scene: {
                    task: {
                        "cost": 50.0,
                        "crashed": 0.0,
                        "arrived": 1.0,
                        "time": 40.0,
                        "path_length": 10.0,
                        "goals": 1.0,
                    }
                    for task in tasks
                }
                for scene, tasks in SCENES.items()
            }
        }
        for policy in POLICIES
    }

    def put(policy, scene, task, **values):
        m[policy]["final"][scene][task].update(values)

    for i, radius in enumerate(RADII):
        put(radius, "circle", "circle", path_length=8.0 + i, cost=50.0 + i)
        put(radius, "ellipse", "ellipse", path_length=9.0 + i)
    put(CROSS, "circle", "circle", cost=40.0, path_length=7.0)
    put(AVERAGE, "circle", "circle", crashed=1.0, arrived=0.0, cost=500.0)
    put(AVERAGE, "ellipse", "ellipse", crashed=0.9, arrived=0.1)
    put("r=0.5", "ellipse", "ellipse", crashed=0.9, arrived=0.1)
    put(CROSS, "ellipse", "ellipse", path_length=8.0)
    # Averaged over tasks all but the cross-learned policy come to the same.
    costs = {"r=0.5": (40, 90, 170), "r=1": (100, 40, 160), "r=2": (130, 125, 45)}
    for radius, row in costs.items():
        for task, cost in zip(RADII, row, strict=True):
            put(radius, "radii", task, cost=float(cost))
    for task, cost, average in zip(RADII, (41.0, 41.0, 40.0), (100, 100, 100), strict=True):
        put(CROSS, "radii", task, cost=cost)
        put(AVERAGE, "radii", task, cost=float(average))
    put(AVERAGE, "mission", "mission", crashed=1.0, arrived=0.0, goals=0.0, time=120.0)
    put("r=0.5", "mission", "mission", crashed=1.0, arrived=0.0, goals=2.0, time=120.0)
    put("r=2", "mission", "mission", crashed=0.9, arrived=0.0, goals=2.0, time=120.0)
    put("r=1", "mission", "mission", arrived=1.0, goals=3.0, time=100.0)
    put(CROSS, "mission", "mission", arrived=1.0, goals=3.0, time=80.0)
    for policy, arrived in zip(POLICIES, (0.7, 0.75, 0.8, 0.5, 0.9), strict=True):
        put(policy, "maps", "maps", arrived=arrived)
    return m


def test_every_claim_can_hold():
    m = as_the_paper_says()
    # The agnostic policies' means are 100, 100 and 100; "similar" allows a tenth of the range.
    for claim in CLAIMS:
        assert claim.value(m) > 0, claim.key


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.key)
def test_every_claim_can_fail(claim):
    # Some change of a single policy's outcomes in a single scene must turn the claim over.
    turned = 0
    for policy in POLICIES:
        for scene, tasks in SCENES.items():
            for task in tasks:
                for change in (
                    {"crashed": 1.0, "arrived": 0.0, "cost": 900.0, "time": 120.0, "goals": 0.0},
                    {"crashed": 0.0, "arrived": 1.0, "cost": 1.0, "time": 10.0, "goals": 3.0},
                    {"path_length": 1.0},
                    {"path_length": 90.0},
                ):
                    m = copy.deepcopy(as_the_paper_says())
                    m[policy]["final"][scene][task].update(change)
                    turned += claim.value(m) < 0
    assert turned > 0


def test_the_interval_is_students():
    values = np.array([0.3, 0.1, 0.4, -0.1, 0.2])
    claim = Claim("k", "s", "m", lambda m: m["v"])
    verdict = judge(claim, {i: {"v": v} for i, v in enumerate(values)})
    low, high = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    assert (verdict.low, verdict.high) == pytest.approx((low, high))
    assert verdict.estimate == pytest.approx(0.18)
    assert verdict.verdict == "undecided"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.3, 0.31, 0.29], "holds"),
        ([-0.3, -0.31, -0.29], "does not hold"),
        ([0.3, -0.3, 0.1], "undecided"),
        ([0.3], "undecided"),
    ],
)
def test_verdicts(values, expected):
    claim = Claim("k", "s", "m", lambda m: m["v"])
    assert judge(claim, {i: {"v": v} for i, v in enumerate(values)}).verdict == expected


def test_the_table_has_a_row_for_every_claim():
    results = {0: as_the_paper_says(), 1: as_the_paper_says()}
    verdicts = [judge(claim, results) for claim in CLAIMS]
    assert all(v.verdict == "holds" for v in verdicts)
    lines = claims_table(verdicts).splitlines()
    assert len(lines) == 2 + len(CLAIMS)
    assert all(line.count("|") == 5 for line in lines)
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS)


def curves(areas):
    """Return adaptation curves in which each start has the given area on every target."""
    one = {start: {"area": areas[start]} for start in STARTS}
    return {"curves": {"trained": {"a": one, "b": one}, "unseen": {"c": one}}}


def test_adaptation_is_compared_with_every_other_start():
    areas = {"central": -10.0, "zero": -90.0, "average": -20.0}
    areas |= {"r=0.5": -30.0, "r=1": -40.0, "r=2": -50.0}
    results = {0: curves(areas), 1: curves(areas)}
    verdicts = {claim.key: judge(claim, results) for claim in ADAPTATION_CLAIMS}
    assert len(verdicts) == len(ADAPTATION_CLAIMS) == 6
    assert verdicts["adapt-trained-nothing"].estimate == pytest.approx(80.0)
    assert verdicts["adapt-unseen-average"].estimate == pytest.approx(10.0)
    assert verdicts["adapt-unseen-guess"].estimate == pytest.approx(30.0)
    assert math.isclose(verdicts["adapt-trained-guess"].low, 30.0)

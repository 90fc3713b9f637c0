"""The claims of the numerical section, one by one, as numbers with intervals.

Every claim is turned into one number per seed that is positive if the claim is true for that
seed. The estimate is the mean over seeds with Student's 95 % interval; a claim holds if the
whole interval is positive, does not hold if it is negative, and is undecided otherwise.
Thresholds are stated with the claim, and were written down before the claims were first judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from crosslearning.paper.experiment import AVERAGE, CROSS, POLICIES, RADII
from crosslearning.statistics import student

#: measurements[policy] of one seed; see :func:`crosslearning.paper.measure.measure`.
Measurements = Mapping[str, Mapping[str, Any]]

#: A rate of crashes up to which a policy counts as one that avoids the obstacle.
AVOIDS = 0.05
#: A rate of crashes from which a policy counts as one that crashes.
CRASHES = 0.5
#: A rate of arrivals from which a policy counts as one that reaches the goal.
REACHES = 0.95
#: "Similar" and "comparable": within this share of the range between best and worst policy.
SIMILAR = 0.1


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper.

    Attributes
    ----------
    key : str
        A short name.
    says : str
        What the paper claims, in our words.
    measured_as : str
        The number that decides it; positive speaks for the claim.
    value : callable
        From the measurements of one seed to that number.
    """

    key: str
    says: str
    measured_as: str
    value: Callable[[Measurements], float]


@dataclass(frozen=True)
class Verdict:
    """A claim with its estimate over seeds."""

    key: str
    says: str
    measured_as: str
    estimate: float
    low: float
    high: float
    seeds: int
    verdict: str


def _final(m: Measurements, policy: str, scene: str, task: str) -> Mapping[str, float]:
    outcome: Mapping[str, float] = m[policy]["final"][scene][task]
    return outcome


def _mean_cost(m: Measurements, policy: str) -> float:
    return float(np.mean([_final(m, policy, "radii", r)["cost"] for r in RADII]))


def _others(policy: str, among: Sequence[str] = POLICIES) -> list[str]:
    return [other for other in among if other != policy]


def _cheapest(m: Measurements, policy: str, scene: str, task: str, among: Sequence[str]) -> float:
    """Return how much less a policy costs than the best of the others."""
    own = _final(m, policy, scene, task)["cost"]
    return min(_final(m, other, scene, task)["cost"] for other in _others(policy, among)) - own


def _range(m: Measurements, task: str) -> float:
    costs = [_final(m, policy, "radii", task)["cost"] for policy in POLICIES]
    return max(costs) - min(costs)


def _comparable(m: Measurements) -> float:
    """Return the least room that the cross-learned policy leaves to "comparable"."""
    return min(
        SIMILAR * _range(m, r)
        - (_final(m, CROSS, "radii", r)["cost"] - _final(m, r, "radii", r)["cost"])
        for r in RADII
    )


def _similar_means(m: Measurements, policies: Sequence[str]) -> float:
    costs = [_mean_cost(m, policy) for policy in policies]
    everything = [_mean_cost(m, policy) for policy in POLICIES]
    return SIMILAR * (max(everything) - min(everything)) - (max(costs) - min(costs))


def _rate(policy: str, scene: str, rate: str, threshold: float) -> Callable[[Measurements], float]:
    return lambda m: _final(m, policy, scene, scene)[rate] - threshold


def _longer(longer: str, shorter: str, scene: str) -> Callable[[Measurements], float]:
    return lambda m: (
        _final(m, longer, scene, scene)["path_length"]
        - _final(m, shorter, scene, scene)["path_length"]
    )


def _single_obstacle_claims() -> list[Claim]:
    small, middle, large = RADII
    return [
        Claim(
            "circle-agnostic-avoid",
            "All agnostic policies avoid the circle.",
            f"{AVOIDS:.0%} minus the largest crash rate of the three",
            lambda m: AVOIDS - max(_final(m, r, "circle", "circle")["crashed"] for r in RADII),
        ),
        Claim(
            "circle-conservative",
            "Around the circle, the larger the training radius, the more conservative the path.",
            "smaller of the two differences in path length, r=2 − r=1 and r=1 − r=0.5",
            lambda m: min(_longer(large, middle, "circle")(m), _longer(middle, small, "circle")(m)),
        ),
        Claim(
            "circle-best-agnostic",
            "Around the circle of radius 0.5 the policy trained for it is the best agnostic one.",
            "cost of the better of the other two minus its own",
            lambda m: _cheapest(m, small, "circle", "circle", RADII),
        ),
        Claim(
            "circle-cross-best",
            "Around the circle the cross-learned policy is the best of all.",
            "cost of the best other policy minus its own",
            lambda m: _cheapest(m, CROSS, "circle", "circle", POLICIES),
        ),
        Claim(
            "circle-average-crashes",
            "The average policy crashes into the circle.",
            f"its crash rate minus {CRASHES:.0%}",
            _rate(AVERAGE, "circle", "crashed", CRASHES),
        ),
        Claim(
            "ellipse-average-crashes",
            "The average policy crashes into the ellipse.",
            f"its crash rate minus {CRASHES:.0%}",
            _rate(AVERAGE, "ellipse", "crashed", CRASHES),
        ),
        Claim(
            "ellipse-small-crashes",
            "The policy trained for r=0.5 crashes into the ellipse.",
            f"its crash rate minus {CRASHES:.0%}",
            _rate(small, "ellipse", "crashed", CRASHES),
        ),
        Claim(
            "ellipse-larger-reach",
            "The policies trained for r=1 and r=2 reach the goal behind the ellipse.",
            f"smaller of their arrival rates minus {REACHES:.0%}",
            lambda m: min(_rate(r, "ellipse", "arrived", REACHES)(m) for r in (middle, large)),
        ),
        Claim(
            "ellipse-conservative",
            "Around the ellipse the policy trained for r=2 is more conservative than that for r=1.",
            "difference of their path lengths",
            _longer(large, middle, "ellipse"),
        ),
        Claim(
            "ellipse-cross-efficient",
            "Around the ellipse only the cross-learned policy is efficient.",
            "path length of the shorter of r=1 and r=2 minus that of the cross-learned policy, "
            f"or its arrival rate minus {REACHES:.0%} if that is negative",
            lambda m: min(
                _longer(middle, CROSS, "ellipse")(m),
                _longer(large, CROSS, "ellipse")(m),
                *([short] if (short := _rate(CROSS, "ellipse", "arrived", REACHES)(m)) < 0 else []),
            ),
        ),
    ]


def _cost_claims() -> list[Claim]:
    own = [
        Claim(
            f"cost-own-best-{radius}",
            f"Of the agnostic policies, the one trained for {radius} is the best at {radius}.",
            "cost of the better of the other two minus its own",
            lambda m, r=radius: _cheapest(m, r, "radii", r, RADII),  # type: ignore[misc]
        )
        for radius in RADII
    ]
    small, _, large = RADII
    return [
        *own,
        Claim(
            "cost-small-worst",
            "The policy trained for r=0.5 is the worst of all at r=2.",
            "its cost minus the largest other cost",
            lambda m: (
                _final(m, small, "radii", large)["cost"]
                - max(_final(m, o, "radii", large)["cost"] for o in _others(small))
            ),
        ),
        Claim(
            "cost-cross-comparable",
            "The cross-learned policy is comparable to the task's own policy at every radius.",
            f"{SIMILAR:.0%} of the range of costs minus its excess over the own policy, smallest",
            _comparable,
        ),
        Claim(
            "cost-cross-better-large",
            "At r=2 the cross-learned policy is better than the policy trained for r=2.",
            "cost of the policy trained for r=2 minus its own",
            lambda m: (
                _final(m, large, "radii", large)["cost"] - _final(m, CROSS, "radii", large)["cost"]
            ),
        ),
        Claim(
            "cost-average-worse",
            "The average policy is worse than the cross-learned one at every radius.",
            "smallest difference of their costs",
            lambda m: min(
                _final(m, AVERAGE, "radii", r)["cost"] - _final(m, CROSS, "radii", r)["cost"]
                for r in RADII
            ),
        ),
        Claim(
            "mean-agnostic-similar",
            "Averaged over tasks the agnostic policies are similar to each other.",
            f"{SIMILAR:.0%} of the range of all policies minus their own range",
            lambda m: _similar_means(m, RADII),
        ),
        Claim(
            "mean-average-similar",
            "Averaged over tasks the average policy is similar to the agnostic ones.",
            f"{SIMILAR:.0%} of the range of all policies minus the range of these four",
            lambda m: _similar_means(m, (*RADII, AVERAGE)),
        ),
        Claim(
            "mean-cross-best",
            "Averaged over tasks the cross-learned policy is the best.",
            "cost of the best other policy minus its own",
            lambda m: min(_mean_cost(m, o) for o in _others(CROSS)) - _mean_cost(m, CROSS),
        ),
    ]


def _mission_claims() -> list[Claim]:
    small, middle, large = RADII
    return [
        Claim(
            "mission-average-fails",
            "In the mission the average policy crashes before the first goal.",
            f"its crash rate minus {CRASHES:.0%}, or 1 minus its goals if that is smaller",
            lambda m: min(
                _rate(AVERAGE, "mission", "crashed", CRASHES)(m),
                1.0 - _final(m, AVERAGE, "mission", "mission")["goals"],
            ),
        ),
        Claim(
            "mission-small-crashes",
            "The policy trained for r=0.5 crashes in the mission.",
            f"its crash rate minus {CRASHES:.0%}",
            _rate(small, "mission", "crashed", CRASHES),
        ),
        Claim(
            "mission-large-crashes",
            "The policy trained for r=2 crashes in the mission.",
            f"its crash rate minus {CRASHES:.0%}",
            _rate(large, "mission", "crashed", CRASHES),
        ),
        Claim(
            "mission-middle-succeeds",
            "The policy trained for r=1 reaches all goals of the mission.",
            f"its arrival rate minus {REACHES:.0%}",
            _rate(middle, "mission", "arrived", REACHES),
        ),
        Claim(
            "mission-cross-succeeds",
            "The cross-learned policy reaches all goals of the mission.",
            f"its arrival rate minus {REACHES:.0%}",
            _rate(CROSS, "mission", "arrived", REACHES),
        ),
        Claim(
            "mission-cross-fastest",
            "The cross-learned policy is faster through the mission than every agnostic one.",
            "time of the fastest agnostic policy minus its own, in steps; who does not arrive "
            "counts with all steps",
            lambda m: (
                min(_final(m, r, "mission", "mission")["time"] for r in RADII)
                - _final(m, CROSS, "mission", "mission")["time"]
            ),
        ),
        Claim(
            "maps-cross-avoids",
            "The cross-learned policy avoids obstacles that were not trained for.",
            f"{AVOIDS:.0%} minus its crash rate on held-out random maps",
            lambda m: AVOIDS - _final(m, CROSS, "maps", "maps")["crashed"],
        ),
        Claim(
            "maps-cross-generalises",
            "The cross-learned policy generalises best to obstacles that were not trained for.",
            "its arrival rate on held-out random maps minus the best other one",
            lambda m: (
                _final(m, CROSS, "maps", "maps")["arrived"]
                - max(_final(m, o, "maps", "maps")["arrived"] for o in _others(CROSS))
            ),
        ),
        Claim(
            "maps-cross-beats-average",
            "The cross-learned policy generalises better than the average one.",
            "difference of their arrival rates on held-out random maps",
            lambda m: (
                _final(m, CROSS, "maps", "maps")["arrived"]
                - _final(m, AVERAGE, "maps", "maps")["arrived"]
            ),
        ),
    ]


def all_claims() -> list[Claim]:
    """Return the claims in the order of the paper."""
    return [*_single_obstacle_claims(), *_cost_claims(), *_mission_claims()]


def judge(claim: Claim, measurements: Mapping[int, Measurements]) -> Verdict:
    """Return the verdict on a claim from the measurements of every seed."""
    values = np.array([claim.value(seed) for seed in measurements.values()])
    mean, low, high = astuple(student(values))
    verdict = "holds" if low > 0 else "does not hold" if high < 0 else "undecided"
    return Verdict(claim.key, claim.says, claim.measured_as, mean, low, high, len(values), verdict)


def judge_all(measurements: Mapping[int, Measurements]) -> list[Verdict]:
    """Return the verdicts on all claims."""
    return [judge(claim, measurements) for claim in all_claims()]


def claims_table(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as a Markdown table."""
    lines = [
        "| claim | measured as (positive: for the claim) | estimate [95 % interval] | verdict |",
        "|---|---|---|---|",
    ]
    for v in verdicts:
        interval = f"{v.estimate:.3g} [{v.low:.3g}, {v.high:.3g}]"
        lines.append(f"| {v.says} | {v.measured_as} | {interval} | **{v.verdict}** |")
    return "\n".join(lines) + "\n"

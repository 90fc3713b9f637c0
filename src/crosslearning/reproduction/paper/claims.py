"""The claims of the numerical section as numbers with intervals.

A claim has one number per seed, positive if it is true for that seed. The estimate is the mean over
seeds with Student's 95 % interval: a claim holds if the interval is positive, does not hold if it
is negative, and is undecided otherwise. The thresholds were fixed before the first evaluation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crosslearning._base.files import write_atomically
from crosslearning._base.statistics import Interval, student
from crosslearning.reproduction.paper.experiment import AVERAGE, CROSS, POLICIES, RADII, Scale
from crosslearning.reproduction.paper.measure import Measurements
from crosslearning.runs.study import markdown

#: Largest crash rate of a policy that avoids the obstacle, and smallest of one that crashes.
AVOIDS, CRASHES = 0.05, 0.5
#: Smallest arrival rate of a policy that reaches the goal.
REACHES = 0.95
#: "Similar" and "comparable": within this share of the range between best and worst policy.
SIMILAR = 0.1
SMALL, MIDDLE, LARGE = RADII
_WHO = {radius: f"The policy trained for {radius}" for radius in RADII} | {
    AVERAGE: "The average policy",
    CROSS: "The cross-learned policy",
}
_Row = tuple[str, str, Callable[[Measurements], float]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and its number for one seed."""

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


def _at(m: Measurements, policy: str, scene: str, quantity: str) -> float:
    """Return a quantity in a scene with a single task of the same name."""
    return float(m[policy]["final"][scene][scene][quantity])


def _cost(m: Measurements, policy: str, radius: str) -> float:
    return float(m[policy]["final"]["radii"][radius]["cost"])


def _mean_cost(m: Measurements, policy: str) -> float:
    return float(np.mean([_cost(m, policy, radius) for radius in RADII]))


def _lowest(number: Callable[[str], float], policy: str, among: Sequence[str]) -> float:
    """Return how much lower a policy's number is than the lowest of the others'."""
    return min(number(other) for other in among if other != policy) - number(policy)


def _comparable(m: Measurements) -> float:
    """Return the smallest margin of the cross-learned policy to the limit of "comparable"."""
    margins = []
    for radius in RADII:
        excess = _cost(m, CROSS, radius) - _cost(m, radius, radius)
        margins.append(SIMILAR * np.ptp([_cost(m, policy, radius) for policy in POLICIES]) - excess)
    return float(min(margins))


def _similar_means(m: Measurements, policies: Sequence[str]) -> float:
    everything, those = ([_mean_cost(m, p) for p in some] for some in (POLICIES, policies))
    return float(SIMILAR * np.ptp(everything) - np.ptp(those))


def _longer(m: Measurements, longer: str, shorter: str, scene: str) -> float:
    return _at(m, longer, scene, "path_length") - _at(m, shorter, scene, "path_length")


def _efficient(m: Measurements) -> float:
    """Return by how much both other paths are longer, or the shortfall of the arrival rate."""
    shorter = min(_longer(m, radius, CROSS, "ellipse") for radius in RADII[1:])
    missing = _at(m, CROSS, "ellipse", "arrived") - REACHES
    return min(shorter, missing) if missing < 0 else shorter


def _crashes(policy: str, scene: str) -> _Row:
    where = "in the mission" if scene == "mission" else f"into the {scene}"
    says, measured = f"{_WHO[policy]} crashes {where}.", f"its crash rate minus {CRASHES:.0%}"
    return says, measured, lambda m: _at(m, policy, scene, "crashed") - CRASHES


def _succeeds(policy: str) -> _Row:
    measured = f"its arrival rate minus {REACHES:.0%}"
    says = f"{_WHO[policy]} reaches all goals of the mission."
    return says, measured, lambda m: _at(m, policy, "mission", "arrived") - REACHES


def _own_best(radius: str) -> _Row:
    return (
        f"Of the agnostic policies, the one trained for {radius} is the best at {radius}.",
        "cost of the better of the other two minus its own",
        lambda m: _lowest(lambda one: _cost(m, one, radius), radius, RADII),
    )


#: key → (claim, description of its number, function of it), in the paper's order.
_CLAIMS: dict[str, _Row] = {
    "circle-agnostic-avoid": (
        "All agnostic policies avoid the circle.",
        f"{AVOIDS:.0%} minus the largest crash rate of the three",
        lambda m: AVOIDS - max(_at(m, radius, "circle", "crashed") for radius in RADII),
    ),
    "circle-conservative": (
        "Around the circle, the larger the training radius, the more conservative the path.",
        "smaller of the two differences in path length, r=2 − r=1 and r=1 − r=0.5",
        lambda m: min(_longer(m, LARGE, MIDDLE, "circle"), _longer(m, MIDDLE, SMALL, "circle")),
    ),
    "circle-best-agnostic": (
        "Around the circle of radius 0.5 the policy trained for it is the best agnostic one.",
        "cost of the better of the other two minus its own",
        lambda m: _lowest(lambda one: _at(m, one, "circle", "cost"), SMALL, RADII),
    ),
    "circle-cross-best": (
        "Around the circle the cross-learned policy is the best of all.",
        "cost of the best other policy minus its own",
        lambda m: _lowest(lambda one: _at(m, one, "circle", "cost"), CROSS, POLICIES),
    ),
    "circle-average-crashes": _crashes(AVERAGE, "circle"),
    "ellipse-average-crashes": _crashes(AVERAGE, "ellipse"),
    "ellipse-small-crashes": _crashes(SMALL, "ellipse"),
    "ellipse-larger-reach": (
        "The policies trained for r=1 and r=2 reach the goal behind the ellipse.",
        f"smaller of their arrival rates minus {REACHES:.0%}",
        lambda m: min(_at(m, r, "ellipse", "arrived") for r in (MIDDLE, LARGE)) - REACHES,
    ),
    "ellipse-conservative": (
        "Around the ellipse the policy trained for r=2 is more conservative than that for r=1.",
        "difference of their path lengths",
        lambda m: _longer(m, LARGE, MIDDLE, "ellipse"),
    ),
    "ellipse-cross-efficient": (
        "Around the ellipse only the cross-learned policy is efficient.",
        "path length of the shorter of r=1 and r=2 minus that of the cross-learned policy, "
        f"or its arrival rate minus {REACHES:.0%} if that is negative",
        _efficient,
    ),
    **{f"cost-own-best-{radius}": _own_best(radius) for radius in RADII},
    "cost-small-worst": (
        "The policy trained for r=0.5 is the worst of all at r=2.",
        "its cost minus the largest other cost",
        lambda m: _lowest(lambda one: -_cost(m, one, LARGE), SMALL, POLICIES),
    ),
    "cost-cross-comparable": (
        "The cross-learned policy is comparable to the task's own policy at every radius.",
        f"{SIMILAR:.0%} of the range of costs minus its excess over the own policy, smallest",
        _comparable,
    ),
    "cost-cross-better-large": (
        "At r=2 the cross-learned policy is better than the policy trained for r=2.",
        "cost of the policy trained for r=2 minus its own",
        lambda m: _cost(m, LARGE, LARGE) - _cost(m, CROSS, LARGE),
    ),
    "cost-average-worse": (
        "The average policy is worse than the cross-learned one at every radius.",
        "smallest difference of their costs",
        lambda m: min(_cost(m, AVERAGE, r) - _cost(m, CROSS, r) for r in RADII),
    ),
    "mean-agnostic-similar": (
        "Averaged over tasks the agnostic policies are similar to each other.",
        f"{SIMILAR:.0%} of the range of all policies minus their own range",
        lambda m: _similar_means(m, RADII),
    ),
    "mean-average-similar": (
        "Averaged over tasks the average policy is similar to the agnostic ones.",
        f"{SIMILAR:.0%} of the range of all policies minus the range of these four",
        lambda m: _similar_means(m, (*RADII, AVERAGE)),
    ),
    "mean-cross-best": (
        "Averaged over tasks the cross-learned policy is the best.",
        "cost of the best other policy minus its own",
        lambda m: _lowest(lambda one: _mean_cost(m, one), CROSS, POLICIES),
    ),
    "mission-average-fails": (
        "In the mission the average policy crashes before the first goal.",
        f"its crash rate minus {CRASHES:.0%}, or 1 minus its goals if that is smaller",
        lambda m: min(
            _at(m, AVERAGE, "mission", "crashed") - CRASHES,
            1.0 - _at(m, AVERAGE, "mission", "goals"),
        ),
    ),
    "mission-small-crashes": _crashes(SMALL, "mission"),
    "mission-large-crashes": _crashes(LARGE, "mission"),
    "mission-middle-succeeds": _succeeds(MIDDLE),
    "mission-cross-succeeds": _succeeds(CROSS),
    "mission-cross-fastest": (
        "The cross-learned policy is faster through the mission than every agnostic one.",
        "time of the fastest agnostic policy minus its own, in steps; who does not arrive "
        "counts with all steps",
        lambda m: _lowest(lambda one: _at(m, one, "mission", "time"), CROSS, (*RADII, CROSS)),
    ),
    "maps-cross-avoids": (
        "The cross-learned policy avoids obstacles that were not trained for.",
        f"{AVOIDS:.0%} minus its crash rate on held-out random maps",
        lambda m: AVOIDS - _at(m, CROSS, "maps", "crashed"),
    ),
    "maps-cross-generalises": (
        "The cross-learned policy generalises best to obstacles that were not trained for.",
        "its arrival rate on held-out random maps minus the best other one",
        lambda m: _lowest(lambda one: -_at(m, one, "maps", "arrived"), CROSS, POLICIES),
    ),
    "maps-cross-beats-average": (
        "The cross-learned policy generalises better than the average one.",
        "difference of their arrival rates on held-out random maps",
        lambda m: _at(m, CROSS, "maps", "arrived") - _at(m, AVERAGE, "maps", "arrived"),
    ),
}
CLAIMS = [Claim(key, *row) for key, row in _CLAIMS.items()]


def judge(claim: Claim, measurements: Mapping[int, Measurements]) -> Verdict:
    """Return the verdict on a claim from the measurements of every seed."""
    values = np.array([claim.value(seed) for seed in measurements.values()])
    mean, low, high = astuple(student(values))
    verdict = "holds" if low > 0 else "does not hold" if high < 0 else "undecided"
    return Verdict(claim.key, claim.says, claim.measured_as, mean, low, high, len(values), verdict)


def claims_table(verdicts: Sequence[Verdict], converged: bool = True) -> str:
    """Return the verdicts as a Markdown table, marked if the policies are still learning."""
    mark = "" if converged else " (not converged)"
    measured = "measured as (positive: for the claim)"
    rows = [
        (v.says, v.measured_as, str(Interval(v.estimate, v.low, v.high)), f"**{v.verdict}**{mark}")
        for v in verdicts
    ]
    return markdown(("claim", measured, "estimate [95 % interval]", "verdict"), rows)


def plain_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict for JSON, with null for unknown ends."""
    unknown = (math.inf, -math.inf)
    return {name: None if value in unknown else value for name, value in asdict(verdict).items()}


def write_verdicts(path: Path, scale: Scale, text: str, **content: Any) -> None:
    """Write verdicts as Markdown and JSON."""
    write_atomically(path.with_suffix(".md"), text.encode())
    plain = {"scale": asdict(scale), "converged": scale.converged, **content}
    write_atomically(path.with_suffix(".json"), json.dumps(plain, indent=1).encode())

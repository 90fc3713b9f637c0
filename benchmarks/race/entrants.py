"""Who races, and for how long: every method, and the one table of budgets.

Steps are environment steps over all tasks of a family. Ours has ten seeds, rivals have five; the
tasks of a family are the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from benchmarks.race.families import FAMILIES, MACHINES

Way = Literal["separate", "mixed", "context"]


@dataclass(frozen=True)
class Ours:
    """A method of this library; JSON has no word for infinity, so that it is a text here."""

    settings: Mapping[str, Any]
    label: str


@dataclass(frozen=True)
class Rival:
    """An algorithm of :mod:`benchmarks.rival`, and how it is used on several tasks.

    With ``residual`` it corrects the nominal controller, as far as ours may.
    """

    algorithm: str
    way: Way
    residual: bool = False

    @property
    def label(self) -> str:
        """What tables call it."""
        around = " around the controller" if self.residual else ""
        return f"{algorithm_name(self.algorithm)}{around}, {_WAYS[self.way]}"


#: Algorithms whose names are not their keys in capitals.
_NAMES = {
    "sac20": "SAC with 20 updates a step",
    "sac-bullet": "SAC with settings for a swing-up",
    "crossq": "CrossQ",
}


def algorithm_name(key: str) -> str:
    """Return what tables call an algorithm."""
    return _NAMES.get(key, key.upper())


@dataclass(frozen=True)
class Engineer:
    """A controller designed for the nominal machine, or for each machine.

    With ``tuned`` it has the gains of a small grid that are best for all machines together.
    """

    knows_machine: bool
    label: str
    tuned: bool = False


_WAYS: dict[Way, str] = {
    "separate": "one agent per task",
    "mixed": "one agent for all",
    "context": "one agent, observes the context",
}
Entrant = Ours | Rival | Engineer

METHODS: dict[str, Entrant] = {
    "models": Ours({"method": "models"}, "models"),
    "models-0": Ours({"method": "models", "epsilon": 0.0}, "models, ε = 0"),
    "models-inf": Ours({"method": "models", "epsilon": "inf"}, "models, ε = ∞"),
    "models-pooled": Ours({"method": "models", "model_epsilon": 0.0}, "models, pooled"),
    "models-separate": Ours({"method": "models", "model_epsilon": "inf"}, "models, separate"),
    **{
        f"{method}{suffix}": Ours({"method": method, **radius}, f"{method}{label}")
        for method in ("trust-region", "policy-gradient")
        for suffix, radius, label in (
            ("", {}, ""),
            ("-0", {"epsilon": 0.0}, ", ε = 0"),
            ("-inf", {"epsilon": "inf"}, ", ε = ∞"),
        )
    },
    **{
        f"{algorithm}-{way}": Rival(algorithm, way)
        for algorithm in ("sac", "sac-bullet", "sac20", "crossq", "mbpo", "tqc", "ppo")
        for way in _WAYS
    },
    "sac-around-context": Rival("sac", "context", residual=True),
    "controller-nominal": Engineer(False, "controller, designed for the nominal machine"),
    "controller-own": Engineer(True, "controller, designed for each machine"),
    "controller-tuned": Engineer(False, "nominal controller, best tuning for all", tuned=True),
}


class Budget(NamedTuple):
    """How long a method learns.

    Attributes
    ----------
    marks : tuple of int
        Steps after which it is evaluated; the last is its budget.
    seeds : int
    seconds : float
        What one seed takes in all, about, on one core: for the estimate of the time that is left.
    adapt : int
        Steps on each of the first unseen tasks for which ours adapts to it at the end; 0: not.
    """

    marks: tuple[int, ...]
    seeds: int
    seconds: float
    adapt: int = 0


#: Ours that were raced again since the defaults of models and trust-region changed, by family, with
#: the number of the defaults that they had.
AGAIN: dict[str, dict[str, int]] = {
    "pendulums": {"models": 4, "trust-region": 4},
    "cart-poles": {"models": 4, "trust-region": 5},
    "navigation": {"trust-region": 5},
    "linear-quadratic": {"models": 4, "trust-region": 5},
    **{family: {"models": 4} for family in MACHINES},
}


def is_former(family: str, method: str) -> bool:
    """Tell whether a row of ours has defaults that have changed since."""
    entrant = METHODS[method]
    changed = isinstance(entrant, Ours) and entrant.settings["method"] != "policy-gradient"
    return changed and method not in AGAIN.get(family, ())


#: A controller needs no step.
_AT_ONCE = Budget((0,), 10, 5.0)
#: The second race, steps of six machines: ours has 200 of each, rivals have 500 or 5,000.
_AROUND: dict[str, Budget] = {
    "models": Budget((300, 600, 1_200), 3, 30.0),
    "sac-around-context": Budget((1_200, 3_000), 3, 24.0),
    "controller-nominal": _AT_ONCE._replace(seeds=3),
    "controller-tuned": Budget((0,), 3, 12.0),
    "controller-own": _AT_ONCE._replace(seeds=3),
}
_FROM_NOTHING: dict[str, Budget] = {
    "sac-context": Budget((1_200, 3_000), 3, 24.0),
    "sac-mixed": Budget((1_200, 3_000), 3, 24.0),
    "ppo-context": Budget((6_000, 30_000), 3, 18.0),
    "ppo-mixed": Budget((6_000, 30_000), 3, 18.0),
}


def _radii(method: str, budget: Budget) -> dict[str, Budget]:
    """Return the same budget for every radius; only the first adapts."""
    bare = budget._replace(adapt=0)
    return {method: budget, f"{method}-0": bare, f"{method}-inf": bare}


def _ways(algorithm: str, budget: Budget, *ways: Way) -> dict[str, Budget]:
    return {f"{algorithm}-{way}": budget for way in ways}


#: What rivals get: the whole must end in three hours on two cores.
BUDGETS: dict[str, dict[str, Budget]] = {
    "pendulums": {
        **_radii("models", Budget((400, 800, 1_600), 10, 20.0, adapt=50)),
        "models-pooled": Budget((400, 800), 10, 11.0),
        "models-separate": Budget((400, 800), 10, 11.0),
        **_radii("trust-region", Budget((20_000, 40_000, 80_000, 160_000), 10, 5.0, 5_000)),
        **_radii("policy-gradient", Budget((100_000, 400_000, 1_600_000), 10, 6.0)),
        **_ways("sac", Budget((2_000, 4_000, 8_000, 12_000), 5, 255.0), "mixed", "context"),
        "sac-separate": Budget((8_000, 16_000), 5, 330.0),
        "sac20-context": Budget((400, 800), 3, 120.0),
        "crossq-context": Budget((1_000, 2_000, 3_000, 4_000), 3, 100.0),
        "mbpo-context": Budget((400, 800), 3, 100.0),
        "tqc-context": Budget((2_000, 4_000, 8_000), 5, 280.0),
        **_ways("ppo", Budget((25_000, 50_000, 100_000), 5, 80.0), "mixed", "context"),
        "ppo-separate": Budget((50_000, 100_000, 200_000), 5, 180.0),
    },
    "cart-poles": {
        "models": Budget((300, 600, 1_200, 2_400), 10, 85.0),
        **_radii("trust-region", Budget((20_000, 80_000, 200_000), 10, 15.0)),
        "policy-gradient": Budget((400_000, 1_600_000), 10, 11.0),
        **_ways("sac", Budget((2_000, 5_000, 10_000), 5, 215.0), "mixed", "context"),
        "sac-bullet-mixed": Budget((2_000, 5_000, 10_000), 3, 215.0),
        "crossq-mixed": Budget((1_000, 2_000, 3_000), 3, 70.0),
        **_ways("ppo", Budget((50_000, 100_000), 5, 90.0), "mixed", "context"),
    },
    "navigation": {
        "models": Budget((150, 300, 600), 10, 40.0),
        **_radii("trust-region", Budget((20_000, 40_000, 80_000), 10, 10.0)),
        **_radii("policy-gradient", Budget((400_000, 1_600_000), 10, 13.0)),
        **_ways("sac", Budget((2_000, 5_000), 5, 100.0), "mixed", "context"),
        **_ways("ppo", Budget((25_000, 50_000), 5, 50.0), "mixed", "context"),
    },
    "reachers": {
        "models": Budget((75, 150, 300), 10, 30.0),
        "trust-region": Budget((15_000, 45_000), 10, 15.0),
        "policy-gradient": Budget((20_000, 60_000), 10, 10.0),
        **_ways("sac", Budget((2_000, 5_000), 5, 135.0), "mixed", "context"),
        **_ways("ppo", Budget((15_000, 45_000), 5, 50.0), "mixed", "context"),
    },
    "lunar-landers": {
        "models": Budget((400,), 10, 20.0),
        "trust-region": Budget((40_000, 120_000), 10, 30.0),
        "policy-gradient": Budget((40_000,), 10, 10.0),
        **_ways("ppo", Budget((100_000, 300_000), 5, 130.0), "mixed", "context"),
    },
    "linear-quadratic": {
        **_radii("models", Budget((150, 300), 10, 5.0)),
        **_radii("trust-region", Budget((3_000, 10_000, 30_000), 10, 3.0)),
        **_radii("policy-gradient", Budget((30_000, 100_000, 300_000), 10, 3.0)),
        **_ways("sac", Budget((1_000, 2_000), 5, 40.0), "mixed", "context"),
        **_ways("ppo", Budget((10_000, 25_000), 5, 25.0), "mixed", "context"),
    },
}
BUDGETS |= {family: dict(_AROUND) for family in MACHINES}
BUDGETS["dc-motors"] |= _FROM_NOTHING
BUDGETS["four-tanks"] |= _FROM_NOTHING
for _family, _budgets in BUDGETS.items():
    _budgets.setdefault("controller-nominal", _AT_ONCE)
    if FAMILIES[_family].machine:
        _budgets.setdefault("controller-own", _AT_ONCE)

"""One cell of the race: a family, a method and a seed; what it gave after so many steps."""

from __future__ import annotations

import functools
import math
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import rival
from benchmarks.race.entrants import AGAIN, METHODS, Budget, Engineer, Ours, Rival
from benchmarks.race.families import FAMILIES, RaceFamily
from benchmarks.race.machines import Log, around, at_work, while_learning
from benchmarks.rival import Agent, Seconds
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner
from crosslearning.runs.study import Measurement, stop_is_asked
from crosslearning.tasks import Task

Answer = dict[str, Any]

#: Raised when the same question gets another answer, so that stored answers are made anew. Ours has
#: another where it was raced again with other defaults.
VERSION = 2
#: Unseen tasks that ours adapts to.
ADAPTED = 3


@dataclass(frozen=True)
class Cell:
    """A family, a method and a seed, with the budget of that method."""

    family: str
    method: str
    seed: int
    budget: Budget
    out: Path

    @property
    def measurement(self) -> Measurement:
        """The question, and the file that keeps its answer."""
        family, entrant = FAMILIES[self.family], METHODS[self.method]
        asked: Answer = {
            "version": VERSION,
            "family": self.family,
            "method": self.method,
            "seed": self.seed,
            "marks": list(self.budget.marks),
            "adapt": self.budget.adapt,
            "trials": [family.trials, family.unseen_trials],
        }
        if isinstance(entrant, Ours):
            asked["settings"] = _settings(entrant, family)
            asked["version"] = AGAIN.get(self.family, {}).get(self.method, VERSION)
        if isinstance(entrant, Rival):
            asked["settings"] = asdict(rival.ZOO[entrant.algorithm][self.family])
        path = self.out / self.family / self.method / f"seed-{self.seed}.json"
        return Measurement(path, asked, measure, (self.family, self.method, self.seed, self.budget))

    @property
    def failure(self) -> Path:
        """Where it is written why the cell could not be measured."""
        return self.measurement.path.with_suffix(".failed.txt")

    def go(self) -> bool:
        """Measure, unless that was done before; what fails does not stop the others."""
        if stop_is_asked():
            return False
        try:
            self.measurement.answer()
            self.failure.unlink(missing_ok=True)
        except Exception:
            self.failure.parent.mkdir(parents=True, exist_ok=True)
            self.failure.write_text(traceback.format_exc())
        return True


def _settings(entrant: Ours, family: RaceFamily) -> Answer:
    """Return the settings of ours; around a controller also the radius of the family."""
    return {**entrant.settings, **({"epsilon": family.epsilon} if family.outside else {})}


def go(cell: Cell) -> bool:
    """Measure a cell, in a process of its own."""
    return cell.go()


def measure(family: str, method: str, seed: int, budget: Budget) -> Answer:
    """Return what a method gives on a family, as plain data.

    Under ``marks`` stands, for each of them: the ``steps`` over all tasks and the ``seconds`` of
    learning (clock, processor) until there; ``training``, what the policy or agent that is meant
    for a training task gets on it; ``central``, what ours' central policy gets there; ``unseen``,
    what the one policy for all gets on tasks that were never seen, None if there is no such. On
    machines with limits also ``outside``, the share of all steps until there outside of them, and
    ``cost``, the mean of −r over these steps; of a controller, in its evaluation.
    """
    entrant = METHODS[method]
    if isinstance(entrant, Ours):
        return _ours(FAMILIES[family], entrant, seed, budget)
    if isinstance(entrant, Engineer):
        if FAMILIES[family].outside:
            return at_work(FAMILIES[family], entrant, seed)
        return _engineer(FAMILIES[family], entrant, seed)
    setting = rival.ZOO[entrant.algorithm][family]
    learned = _separate if entrant.way == "separate" else _together
    return learned(FAMILIES[family], entrant, seed, budget, setting)


def _ours(family: RaceFamily, entrant: Ours, seed: int, budget: Budget) -> Answer:
    tasks, unseen = family.training(seed), family.unseen(seed)
    if family.outside:
        tasks = around(family, tasks)
    settings = {k: float(v) if v == "inf" else v for k, v in _settings(entrant, family).items()}
    if not family.outside:  # the second race does not compare seconds
        # What is compiled is loaded, or compiled, before the clock runs.
        CrossLearner(tasks, seed=seed, **settings).learn(1, progress=False)
    start = Seconds.now()
    learner = CrossLearner(tasks, seed=seed, **settings)
    spent = Seconds.since(start)
    marks = []
    for mark in budget.marks:
        start = Seconds.now()
        begun = learner.steps if learner.iteration else 0
        if mark > begun:
            learner.learn(steps=mark - begun, progress=False)
        spent = Seconds(*np.add(spent, Seconds.since(start)).tolist())
        policies = [learner.policy(i) for i in range(len(tasks))]
        marks.append(
            {
                "steps": learner.steps,
                "seconds": list(spent),
                "training": returns_of(policies, tasks, family.trials),
                # The second race asks for each machine's own policy alone.
                "central": None
                if family.outside
                else returns_of([learner.central] * len(tasks), tasks, family.trials),
                "unseen": _on_unseen([learner.central] * len(unseen), unseen, family),
                **while_learning(learner, family),
            }
        )
    answer: Answer = {"marks": marks, "knots": len(learner.family.knots)}
    if budget.adapt:
        answer["adapted"] = _adapted(learner, unseen[:ADAPTED], family, budget.adapt)
    learner.close()
    return answer


def _adapted(learner: Any, tasks: Sequence[Task], family: RaceFamily, steps: int) -> Answer:
    """Return what ours gets on unseen tasks before and after some steps of their own."""
    start = Seconds.now()
    entries = [learner.adapt(task, steps=steps) for task in tasks]
    spent = Seconds.since(start)
    after = returns_of([one.policy(0) for one in entries], tasks, family.trials)
    for one in entries:
        one.close()
    return {
        "steps": max(one.steps for one in entries),
        "seconds": [part / len(tasks) for part in spent],
        "before": returns_of([learner.central] * len(tasks), tasks, family.trials),
        "after": after,
    }


def _engineer(family: RaceFamily, entrant: Engineer, seed: int) -> Answer:
    def policies(tasks: Sequence[Task]) -> list[Any]:
        return [
            family.controller(task.context if entrant.knows_machine else family.nominal)
            for task in tasks
        ]

    tasks, unseen = family.training(seed), family.unseen(seed)
    mark = {
        "steps": 0,
        "seconds": [0.0, 0.0],
        "training": returns_of(policies(tasks), tasks, family.trials),
        "unseen": _on_unseen(policies(unseen), unseen, family),
    }
    return {"marks": [mark]}


def _together(
    family: RaceFamily, entrant: Rival, seed: int, budget: Budget, setting: rival.Setting
) -> Answer:
    """Measure one agent that learns all the tasks."""
    tasks, unseen, marks = family.training(seed), family.unseen(seed), list[Answer]()
    contextual, log, reach = entrant.way == "context", Log(family), family.reach
    contexts = [family.scaled_context(task) for task in tasks] if contextual else None
    practised = log.of(tasks)
    if entrant.residual:
        tasks, practised = around(family, tasks), around(family, practised)
        half = family.epsilon * tasks[0].action_space.high
        reach = (-half).tolist(), half.tolist()

    def policies(agent: Agent, some: Sequence[Task]) -> list[Agent]:
        if not contextual:
            return [agent] * len(some)
        return [agent.with_context(family.scaled_context(task)) for task in some]

    def look(agent: Agent, steps: int, spent: Seconds) -> None:
        marks.append(
            {
                "steps": steps,
                "seconds": list(spent),
                "training": returns_of(policies(agent, tasks), tasks, family.trials),
                "unseen": _on_unseen(policies(agent, unseen), unseen, family),
                **log.shares(),
            }
        )

    rival.learn(
        entrant.algorithm,
        practised,
        budget.marks[-1],
        seed,
        setting,
        contexts=contexts,
        reach=reach,
        marks=budget.marks,
        look=look,
    )
    return {"marks": marks}


def _separate(
    family: RaceFamily, entrant: Rival, seed: int, budget: Budget, setting: rival.Setting
) -> Answer:
    """Measure one agent for each task, each with an equal share of the steps."""
    tasks = family.training(seed)
    shares = [math.ceil(mark / len(tasks)) for mark in budget.marks]
    result: list[list[Answer]] = [[] for _ in shares]
    for task in tasks:
        look = functools.partial(_look_at_one, iter(result), task, family.trials)
        options: Answer = {"reach": family.reach, "marks": shares, "look": look}
        rival.learn(entrant.algorithm, [task], shares[-1], seed, setting, **options)
    return {"marks": [_joined(entries) for entries in result]}


def _look_at_one(
    marks: Iterator[list[Answer]],
    task: Task,
    trials: int,
    agent: Agent,
    steps: int,
    spent: Seconds,
) -> None:
    """Add what a task's agent gives to the next mark."""
    got = returns_of([agent], [task], trials)
    next(marks).append({"steps": steps, "seconds": list(spent), "training": got})


def _joined(marks: Sequence[Answer]) -> Answer:
    """Return the mark of separate agents as one of all."""
    training = [one["training"] for one in marks]

    def all_of(tables: Sequence[Answer], names: Sequence[str]) -> Answer:
        return {name: [value for one in tables for value in one[name]] for name in names}

    joined = all_of(training, ["totals", "discounted"])
    rates = [one["rates"] for one in training]
    joined["rates"] = all_of(rates, list(rates[0]))
    return {
        "steps": sum(one["steps"] for one in marks),
        "seconds": np.sum([one["seconds"] for one in marks], axis=0).tolist(),
        "training": joined,
        "unseen": None,
    }


def _on_unseen(policies: Sequence[Any], tasks: Sequence[Task], family: RaceFamily) -> Answer | None:
    return returns_of(policies, tasks, family.unseen_trials) if tasks else None

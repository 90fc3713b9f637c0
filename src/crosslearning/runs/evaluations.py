"""Evaluations of a run on its way: their lines in its folder, and its best policies."""

from __future__ import annotations

import math

from crosslearning.learner import CrossLearner
from crosslearning.learner.callbacks import EvaluationCallback
from crosslearning.runs.config import RunConfig
from crosslearning.runs.folder import RunFolder
from crosslearning.runs.metrics import EvaluationLine, MetricsLog


class Evaluations:
    """Evaluates a run's task policies, appends the numbers to its file, and keeps the best.

    A run that goes on drops what it will evaluate again. The best policies that it finds in its
    folder may be of an iteration beyond its checkpoint: it comes to the same ones again.

    Parameters
    ----------
    folder : RunFolder
    config : RunConfig
    learner : CrossLearner
        The run's, as it starts or goes on.
    metrics : MetricsLog
        Where events of TensorBoard go.
    """

    def __init__(
        self, folder: RunFolder, config: RunConfig, learner: CrossLearner, metrics: MetricsLog
    ) -> None:
        self._metrics = metrics
        self._log = MetricsLog(folder.evaluations, learner.iteration, form=EvaluationLine)
        self._callback = EvaluationCallback(
            learner,
            config.evaluate_every,
            trials=config.evaluation_trials,
            workers=config.workers or 1,
            path=folder.best,
        )
        before = [line["mean_return"] for line in folder.read_evaluations()]
        known = [value for value in before if value is not None]
        self._callback.best_return = max(known, default=-math.inf)

    def look(self) -> None:
        """Evaluate the policies as they are."""
        point = self._callback.evaluate()
        self._log.write(point.to_plain())
        # Before a checkpoint says that it has been done.
        self._log.flush()
        for one in point.results:
            tags = {f"evaluation/{one.task}": one.discounted_return.value}
            tags |= {f"evaluation_{k}/{one.task}": rate.value for k, rate in one.rates.items()}
            self._metrics.add_scalars(tags, point.iteration)

    def restore(self) -> None:
        """Write the file again, if it was removed."""
        self._log.restore()

    def close(self) -> None:
        """Close the file."""
        self._log.close()

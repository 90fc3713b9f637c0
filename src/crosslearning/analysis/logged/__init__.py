"""Learning from logged episodes alone, without an environment."""

from crosslearning.analysis.logged.learning import learn_from, out_of_data_fraction

__all__ = ["learn_from", "out_of_data_fraction"]

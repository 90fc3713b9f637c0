"""Learning from logged episodes alone, without an environment."""

from crosslearning.logged.learning import learn_from
from crosslearning.logged.leaving import shares_outside

__all__ = ["learn_from", "shares_outside"]

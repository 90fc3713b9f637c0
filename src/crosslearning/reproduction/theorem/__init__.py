"""The convergence theorem in numbers: corrected, as printed, in words, and at a trained run."""

# ruff: noqa: F403
from crosslearning.reproduction.theorem.bounds import *
from crosslearning.reproduction.theorem.estimates import *
from crosslearning.reproduction.theorem.messages import *
from crosslearning.reproduction.theorem.study import *

"""Verification: a run checked from its files alone, with nothing of the library but its errors."""

from crosslearning.certificates.verification.checks import Check, Checks
from crosslearning.certificates.verification.verify import Verification, verify_run

__all__ = ["Check", "Checks", "Verification", "verify_run"]

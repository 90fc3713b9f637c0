"""Certificates: what is known about a trained learner, in numbers with intervals."""

from crosslearning.certificates.certificate import Certificate, certify
from crosslearning.certificates.page import certificate_page, save_certificate
from crosslearning.certificates.stationarity import StationarityGap, stationarity_gaps
from crosslearning.certificates.verification import Check, Verification, verify_run
from crosslearning.theory.estimates import KINDS, TaskConstants, estimate_constants

__all__ = [
    "KINDS",
    "Certificate",
    "Check",
    "StationarityGap",
    "TaskConstants",
    "Verification",
    "certificate_page",
    "certify",
    "estimate_constants",
    "save_certificate",
    "stationarity_gaps",
    "verify_run",
]

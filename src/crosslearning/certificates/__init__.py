"""Certificates: what is known about a trained learner, in numbers with intervals."""

from crosslearning.certificates.certificate import Certificate, certify
from crosslearning.certificates.page import certificate_page, kept_certificate, save_certificate
from crosslearning.certificates.stationarity import StationarityGap, stationarity_gaps
from crosslearning.certificates.verification import Check, Verification, verify_run

__all__ = [
    "Certificate",
    "Check",
    "StationarityGap",
    "Verification",
    "certificate_page",
    "certify",
    "kept_certificate",
    "save_certificate",
    "stationarity_gaps",
    "verify_run",
]

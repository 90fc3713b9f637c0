"""Certificates: what a trained family is, in numbers that can be checked."""

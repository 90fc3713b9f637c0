"""Readers of learners and runs: comparison, adaptation, identification, sweeps, logged data."""

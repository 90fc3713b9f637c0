"""Measurements of speed, as ratios in one run. None of them is a test."""

"""Figures of the paper's numerical section."""

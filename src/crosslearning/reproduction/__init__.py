"""The paper's experiments and its theorem, in numbers."""

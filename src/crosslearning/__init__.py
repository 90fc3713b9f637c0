"""Multi-task reinforcement learning with kernel policies."""

__version__ = "0.1.0"

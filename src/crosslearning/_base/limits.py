"""Limits that several packages share."""

#: Text and figures summarise runs with more tasks than this.
MANY_TASKS = 24

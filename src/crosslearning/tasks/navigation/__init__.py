"""Navigation: a robot drives to a goal around obstacles, the task of the paper."""

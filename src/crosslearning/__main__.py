"""``python -m crosslearning``: the command line."""

from crosslearning.cli import main

main()

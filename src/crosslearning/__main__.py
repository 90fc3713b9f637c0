"""``crosslearning`` and ``python -m crosslearning``: the command line."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C is answered by a sentence also while it is being imported."""
    try:
        from crosslearning.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        print("Interrupted before anything was begun.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()

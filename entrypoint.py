"""Start of the container: without arguments the GitHub Action, with arguments the command line."""

from __future__ import annotations

import sys


def main() -> int:
    """Run what was asked for and return the exit code."""
    if sys.argv[1:]:
        from embed_ab import cli

        return cli.main()
    from embed_ab.action import main as action

    return action.main()


if __name__ == "__main__":
    sys.exit(main())

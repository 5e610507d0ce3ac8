"""The `braid` command, which the package has inside: this module is all that its script imports."""

import os
import sys


def main() -> None:
    """Becomes the command."""
    command = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "braid", "_bin", "braid")
    try:
        os.execv(command, [command, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"braid: {command}: {error.strerror}")

"""`python -m skerry run ...` and the console script `skerry`: hands over to the native launcher
that comes with the package."""

import os
import sys
from pathlib import Path


def main():
    launcher = Path(__file__).parent / "bin" / "skerry"
    if not launcher.exists():
        sys.exit(
            f"skerry: no launcher at {launcher}: the package is not installed completely; install it again"
        )
    os.execv(launcher, ["skerry", *sys.argv[1:]])


if __name__ == "__main__":
    main()

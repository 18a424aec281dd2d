"""The command ``ingot``, the binary that the package brings."""

import os
import sys
from pathlib import Path


def main():
    """Becomes the binary, with the same arguments."""
    binary = Path(__file__).parent / "bin" / "ingot"
    if not binary.exists():
        sys.exit(f"ingot: {binary} is missing: the package was not installed with pip")
    os.execv(binary, [str(binary), *sys.argv[1:]])

"""The structure of code, documentation and repository; the programs of docs/ and tools/ are imported from there."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tools")]

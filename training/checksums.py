"""Write the sha256 of every shipped weight file into ragtrace/evaluate/models/__init__.py: python training/checksums.py

To be run after a training script has written new weights; without it they are refused at load.
"""

import hashlib
import re
from pathlib import Path

MODELS = Path(__file__).parents[1] / "ragtrace" / "evaluate" / "models"


def main() -> None:
    """Replace the sums of the files that ragtrace itself brings."""
    source = MODELS / "__init__.py"
    text = source.read_text()
    for path in sorted((MODELS / "data").iterdir()):
        if path.is_file():
            actual = hashlib.sha256(path.read_bytes()).hexdigest()
            pattern = re.compile(rf'("{re.escape(path.name)}",\s+")[0-9a-f]*"')
            text, count = pattern.subn(rf'\g<1>{actual}"', text)
            print(path.name, actual if count else "is not in FILES")
    source.write_text(text)


if __name__ == "__main__":
    main()

"""`python -m tests.ui.published_schema` goes in; docs/schema/result.schema.json, written anew, comes out."""

from __future__ import annotations

import json

from meshwright.output.schema import schema
from tests.ui.program import ROOT

FILE = ROOT / "docs" / "schema" / "result.schema.json"


def generated() -> str:
    """The file's text as the program has it today."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(generated(), encoding="utf-8")
    print(f"wrote {FILE.relative_to(ROOT)}")

"""`python -m meshwright`: the same program as the `meshwright` command."""

import sys

from meshwright.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench`: see `bench.main`."""

import sys

try:
    from bench.main import main
except ModuleNotFoundError as missing:  # of Parley, or of a peer that stands beside it
    sys.exit(f"error: {missing.name} is not installed\nhint: run `make tools`, then `.venv/bin/python -m bench`")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

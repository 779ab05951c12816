"""`python -m bench`: see `bench.main`."""

import sys

try:
    from bench.main import main
except ModuleNotFoundError as missing:  # of Parley, or of a peer that stands beside it
    hint = "run `make tools`, then `.venv/bin/python -m bench` with the same arguments"
    sys.exit(f"error: {missing.name} is not installed\nhint: {hint}")

if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: nothing was recorded")

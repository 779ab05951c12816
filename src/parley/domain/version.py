"""The version of Parley, for those below the root package, which imports nothing."""

VERSION = "0.7.0"

"""The version of this package, where all else reads it."""

VERSION = "0.1.0"

"""The module `exec`: which programs, with which arguments, and how one runs so that nothing of it stays."""

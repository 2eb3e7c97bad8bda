"""The module `http`: which addresses, and one request that goes to just those."""

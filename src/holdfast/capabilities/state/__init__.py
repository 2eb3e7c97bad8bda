"""The module `state`: keys and values in the store, as the step that runs sees them."""

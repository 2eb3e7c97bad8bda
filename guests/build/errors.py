"""What a person who builds the guests is told when it does not work."""


class BuildError(Exception):
    """The guests cannot be built. The message is one line that says what failed and what to do."""

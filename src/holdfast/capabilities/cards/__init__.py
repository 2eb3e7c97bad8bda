"""Cards: what a run came to, kept for good, found again by what is in it, and linked to what it came from."""

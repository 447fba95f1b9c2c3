"""State at the end of a span: requests, files, checks, to-do list and decisions."""

"""State that the messages of a session leave behind: requests, files, and the to-do list."""

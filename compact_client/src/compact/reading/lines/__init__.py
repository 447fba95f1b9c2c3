"""Lines of messages: markup, pasted text, tables and records, and the class of each line."""

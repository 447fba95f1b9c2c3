"""The structured summary of a conversation: its entries, its text renderer, and the parser that reads it back."""

"""The structured summary of a conversation: its entries, its text formats, and the parser that reads them back."""

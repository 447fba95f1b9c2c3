"""Gemini CLI: its logs, and the texts that it writes itself."""

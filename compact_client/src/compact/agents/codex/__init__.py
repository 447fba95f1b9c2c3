"""Codex: its logs, the texts that it writes itself, its hooks and its settings."""

NAME = "codex"

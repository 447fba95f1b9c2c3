"""Hooks of coding agents: install them, and run what they ask for."""

"""Adapters for agent frameworks and provider clients."""

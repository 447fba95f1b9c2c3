"""Adapters for agent frameworks and provider clients.

Import each integration from its own module, because each needs its own optional package. They all run their model
calls through `compact.integrations.model_call`.
"""

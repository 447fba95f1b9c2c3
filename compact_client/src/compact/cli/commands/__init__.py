"""The commands of `compactctl`, one module each."""

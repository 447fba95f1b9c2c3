"""Context overflows: recognize the provider's error, and recover with a shorter request."""

"""The compactor process: it decides about the body of each request in compact mode, beside the relay."""

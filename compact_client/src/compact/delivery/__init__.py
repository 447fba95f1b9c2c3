"""What sends without the agent noticing: a queue and its thread, a spool on disk, a sender with patience."""

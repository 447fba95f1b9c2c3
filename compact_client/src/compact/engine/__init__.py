"""What happens in one call, and what is known of a session between calls. Internal: `compact.manager` is the front.

Read in this order: `call` and `session` (what comes in, what is known), `steps` (the order of one call), `rounds` and
`compaction` (one compaction), `overflow` and `returning` (after a refusal; what comes back). The rest serves these.
"""

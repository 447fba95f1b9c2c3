"""A local gateway between agents and providers: it forwards every byte and records the prompts.

A relay (`relay`) forwards bytes and parses only the heads of messages. It copies what it forwards as frames (`frames`)
to a recorder process of low priority, which parses, redacts and sends. The relay never waits for the recorder.
"""

"""Which parts of a span are metadata, and which are content that needs the `view_payload` right.

An allow-list: what no convention declares to be metadata is content. The decision is made when data is read, so it
also applies to data that was stored before a field was classified.
"""

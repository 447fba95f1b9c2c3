"""Where pre-compact transcripts are archived: a directory, a bucket, a database, an Ariadne server, or your own."""

from compact.adapters.ariadne import AriadneStorage
from compact.adapters.database import DatabaseStorage
from compact.adapters.fs import FileStorage
from compact.adapters.s3 import S3Storage

__all__ = ["AriadneStorage", "DatabaseStorage", "FileStorage", "S3Storage"]

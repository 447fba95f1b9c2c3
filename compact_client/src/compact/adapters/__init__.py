"""Storage adapters for transcripts from before a compaction: directory, S3 bucket, database or Ariadne server."""

from compact.adapters.ariadne import AriadneStorage
from compact.adapters.database import DatabaseStorage
from compact.adapters.fs import FileStorage
from compact.adapters.s3 import S3Storage

__all__ = ["AriadneStorage", "DatabaseStorage", "FileStorage", "S3Storage"]

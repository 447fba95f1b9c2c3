"""Protobuf messages that `opentelemetry-proto` does not have, defined at runtime.

`Parts` reads fields 1 and 2 of any message as bytes, which is how protobuf encodes nested messages. It splits a request
whose nested messages cannot all be parsed. `Status` is google.rpc.Status.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "ariadne.otlp"


def _message_classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="ariadne/otlp.proto", package=_PACKAGE, syntax="proto3")
    parts = file.message_type.add(name="Parts")
    parts.field.add(name="first", number=1, type=_Field.TYPE_BYTES, label=_Field.LABEL_REPEATED)
    parts.field.add(name="second", number=2, type=_Field.TYPE_BYTES, label=_Field.LABEL_REPEATED)
    status = file.message_type.add(name="Status")
    status.field.add(name="code", number=1, type=_Field.TYPE_INT32, label=_Field.LABEL_OPTIONAL)
    status.field.add(name="message", number=2, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("Parts", "Status")
    }


_classes = _message_classes()
Parts: Any = _classes["Parts"]
Status: Any = _classes["Status"]

"""OpenTelemetry traces: protobuf and JSON formats, mapped to spans."""

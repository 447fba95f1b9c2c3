"""The error responses of the providers, with their real bodies."""

from __future__ import annotations

from typing import Any

from providers.shapes import Path, ShapeError


class Rejection(Exception):
    """A request that the provider rejects."""

    def __init__(self, message: str, body: dict[str, Any], *, status: int = 400, is_overflow: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.body = body
        self.status = status
        self.is_overflow = is_overflow
        self.headers: dict[str, str] = {}


def openai_rejection(
    message: str, *, param: str | None = None, code: str | None = None, status: int = 400, is_overflow: bool = False
) -> Rejection:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Rejection(message, {"error": error}, status=status, is_overflow=is_overflow)


def anthropic_rejection(
    message: str, *, kind: str = "invalid_request_error", status: int = 400, is_overflow: bool = False
) -> Rejection:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}
    return Rejection(message, body, status=status, is_overflow=is_overflow)


def gemini_rejection(message: str, *, is_overflow: bool = False) -> Rejection:
    body = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    return Rejection(message, body, is_overflow=is_overflow)


def gemini_shape_rejection(error: ShapeError) -> Rejection:
    """Return Gemini's error for a request with a wrong shape."""
    path = openai_path(error.path[:-1]) or "root"
    name = str(error.path[-1]) if error.path else ""
    if error.kind == "unknown":
        return gemini_rejection(
            f"Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field."
        )
    detail = error.detail or "missing"
    return gemini_rejection(f"Invalid value at '{openai_path(error.path)}': {detail}")


def openai_shape_rejection(error: ShapeError) -> Rejection:
    """Return OpenAI's error for a request with a wrong shape."""
    path = openai_path(error.path)
    match error.kind:
        case "unknown":
            return openai_rejection(f"Unknown parameter: '{path}'.", param=path, code="unknown_parameter")
        case "missing":
            text = f"Missing required parameter: '{path}'."
            return openai_rejection(text, param=path, code="missing_required_parameter")
        case "type":
            text = f"Invalid type for '{path}': got {error.detail} instead."
            return openai_rejection(text, param=path, code="invalid_type")
        case _:
            return openai_rejection(f"Invalid value: {error.detail}.", param=path, code="invalid_value")


def anthropic_shape_rejection(error: ShapeError) -> Rejection:
    """Return Anthropic's error for a request with a wrong shape."""
    path = ".".join(str(part) for part in error.path)
    match error.kind:
        case "unknown":
            return anthropic_rejection(f"{path}: Extra inputs are not permitted")
        case "missing":
            return anthropic_rejection(f"{path}: Field required")
        case "value" if path.endswith(".role"):
            return anthropic_rejection(
                f'messages: Unexpected role "{error.detail.strip(chr(39))}". The Messages API accepts a top-level '
                '`system` parameter, not "system" as an input message role.'
            )
        case "value":
            return anthropic_rejection(f"{path}: Input should be one of the supported values, got {error.detail}")
        case _:
            return anthropic_rejection(f"{path}: Input should be a valid value, got {error.detail}")


def openai_path(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text

"""Context overflow errors of all providers."""

from __future__ import annotations

import pytest
from compact.engine.overflow.errors import is_context_length_error, read_overflow

OVERFLOW_ERRORS: dict[str, tuple[str, int | None, int | None]] = {
    # By provider: the text, the limit of the prompt, and the tokens of the prompt.
    "openai": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130512 tokens. Please reduce the length of the messages.",
        128000,
        130512,
    ),
    "openai completion": (
        "This model's maximum context length is 8192 tokens. However, you requested 9200 tokens "
        "(5200 in the messages, 4000 in the completion). Please reduce the length of the messages "
        "or completion.",
        4192,
        5200,
    ),
    "openai functions": (
        "This model's maximum context length is 4097 tokens. However, you requested 4268 tokens "
        "(3800 in the messages, 212 in the functions, 256 in the completion).",
        3841,
        4012,
    ),
    "openai legacy": (
        "This model's maximum context length is 4097 tokens, however you requested 4116 tokens "
        "(3860 in your prompt; 256 for the completion). Please reduce your prompt; or completion "
        "length.",
        3841,
        3860,
    ),
    "openai responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        None,
        None,
    ),
    "anthropic": (
        "prompt is too long: 213462 tokens > 200000 maximum",
        200000,
        213462,
    ),
    "anthropic sum": (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease "
        "input length or `max_tokens` and try again",
        178667,
        188240,
    ),
    "google": (
        "The input token count (1200001) exceeds the maximum number of tokens allowed (1048576).",
        1048576,
        1200001,
    ),
    "google no count": (
        "The input token count exceeds the maximum number of tokens allowed (1048576).",
        1048576,
        None,
    ),
    "vertex": (
        "Unable to submit request because the input token count is 33000 but model only supports up"
        " to 32768. Reduce the input token count and try again.",
        32768,
        33000,
    ),
    "bedrock": (
        "An error occurred (ValidationException) when calling the Converse operation: Input is too "
        "long for requested model.",
        None,
        None,
    ),
    "bedrock titan": (
        "ValidationException: 400 Bad Request: Too many input tokens. Max input tokens: 42000, "
        "request input token count: 42585",
        42000,
        42585,
    ),
    "mistral": (
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        32768,
        40000,
    ),
    "mistral draft": (
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32768,
        65673,
    ),
    "vllm": (
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens "
        "(112946 in the messages, 10000 in the completion). Please reduce the length of the "
        "messages or completion.",
        6384,
        112946,
    ),
    "vllm input": (
        "This model's maximum context length is 4096 tokens. However, your request has 5000 input "
        "tokens. Please reduce the length of the input messages.",
        4096,
        5000,
    ),
    "vllm max_tokens": (
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context "
        "length is 8192 tokens and your request has 7000 input tokens (2000 > 8192 - 7000).",
        6192,
        7000,
    ),
    "vllm new": (
        "This model's maximum context length is 8192 tokens. However, you requested 1000 output "
        "tokens and your prompt contains at least 7500 input tokens, for a total of at least 8500 "
        "tokens. Please reduce the length of the input prompt or the number of requested output "
        "tokens.",
        7192,
        7500,
    ),
    "vllm engine": (
        "The decoder prompt (length 25938) is longer than the maximum model length of 4096. Make "
        "sure that `max_model_len` is no smaller than the number of text tokens.",
        4096,
        25938,
    ),
    "vllm fit": (
        "The prompt (total length 25938) is too long to fit into the model (context length 4096). "
        "Make sure that `max_model_len` is no smaller",
        4096,
        25938,
    ),
    "sglang": (
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You "
        "requested a total of 41000 tokens: 33000 tokens from the input messages and 8000 tokens "
        "for the completion.",
        24768,
        33000,
    ),
    "sglang input": (
        "The input (39000 tokens) is longer than the model's context length (32768 tokens).",
        32768,
        39000,
    ),
    "sglang allowed": (
        "Input length (39000 tokens) exceeds the maximum allowed length (32768 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
        32768,
        39000,
    ),
    "nim": ("Input length 9000 exceeds maximum allowed token size 8192", 8192, 9000),
    "lm studio size": ("Context size has been exceeded.", None, None),
    "zhipu": ("Prompt exceeds max length", None, None),
    "vllm negative": ("max_tokens must be at least 1, got -200.", None, None),
    "llama.cpp short": ("request (53192 tokens) exceeds context size (50176 tokens)", 50176, 53192),
    "llama.cpp": (
        "the request exceeds the available context size (4096 tokens), try increasing it",
        4096,
        None,
    ),
    "llama.cpp json": (
        '{"error":{"code":400,"message":"the request exceeds the available context size. try '
        "increasing the context size or enable context "
        'shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}',
        8192,
        14429,
    ),
    "llama.cpp new": (
        "request (1407 tokens) exceeds the available context size (256 tokens), try increasing it",
        256,
        1407,
    ),
    "llama-cpp-python": (
        "Requested tokens (516) exceed context window of 512",
        512,
        516,
    ),
    "lm studio": (
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is "
        "loaded with context length of only 32768 tokens, which is not enough. Try to load the "
        "model with a larger context length, or provide a shorter input.",
        32768,
        111490,
    ),
    "lm studio n_keep": (
        "The number of tokens to keep from the initial prompt is greater than the context length "
        "(n_keep: 9000>= n_ctx: 8192). Try to load the model with a larger context length",
        8192,
        9000,
    ),
    "lm studio reached": (
        "Reached context length of 32000 tokens with model (arch: gpt-oss) that does not currently "
        "support mid-generation context overflow. Try reloading with a larger context length or "
        "shortening the prompt/chat.",
        32000,
        None,
    ),
    "ollama": (
        "prompt too long; exceeded max context length by 120 tokens",
        None,
        None,
    ),
    "ollama input": (
        "the input length exceeds the context length",
        None,
        None,
    ),
    "dashscope": (
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]",
        204800,
        None,
    ),
    "total number": (
        "The total number of tokens in the prompt exceeds the limit of 8192",
        8192,
        None,
    ),
    "messages too long": (
        "messages too long: maximum allowed context 8192",
        8192,
        None,
    ),
    "prompt longer": (
        "the prompt is longer than the context window (n_ctx=4096)",
        4096,
        None,
    ),
    "groq": (
        "Please reduce the length of the messages or completion.",
        None,
        None,
    ),
    "together": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 3997 "
        "`inputs` tokens and 512 `max_new_tokens`",
        3585,
        3997,
    ),
    "tgi": (
        "Input validation error: `inputs` must have less than 2048 tokens. Given: 2222",
        2048,
        2222,
    ),
    "openrouter": (
        "This endpoint's maximum context length is 204800 tokens. However, you requested about "
        "205432 tokens (81684 of text input, 3748 of tool input, 120000 in the output). Please "
        'reduce the length of either one, or use the "middle-out" transform to compress your prompt'
        " automatically.",
        84800,
        85432,
    ),
    "openrouter input": (
        "This endpoint's maximum context length is 16384 tokens. However, you requested about 94307"
        " tokens (94307 of text input). Please reduce the length of either one",
        16384,
        94307,
    ),
    "cohere": (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000",
        4081,
        None,
    ),
    "copilot": (
        "prompt token count of 70000 exceeds the limit of 64000",
        64000,
        70000,
    ),
    "xai": (
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        131072,
        150000,
    ),
    "kimi": (
        "Your request exceeded model token limit: 262144 (requested: 265000)",
        262144,
        265000,
    ),
    "minimax": (
        "invalid params, context window exceeds limit (2013)",
        None,
        None,
    ),
    "z.ai": (
        "model_context_window_exceeded",
        None,
        None,
    ),
    "replicate": (
        "Your input is too long. Max input length is 4096 tokens, but you supplied 5441 tokens.",
        4096,
        5441,
    ),
}


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize("provider", OVERFLOW_ERRORS)
def test_overflow_errors_of_every_provider_are_recognized(provider):
    """The text of each provider is recognized, also as the cause of another error."""
    text, _, _ = OVERFLOW_ERRORS[provider]
    assert is_context_length_error(RuntimeError(text))
    try:
        raise RuntimeError("call failed") from ValueError(text)
    except RuntimeError as error:
        assert is_context_length_error(error)


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize(
    "text",
    [
        "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000",
        "Request too large for gpt-5 in organization org on tokens per min (TPM): Limit 30000, Requested 70000",
        "insufficient_quota",
        "Connection reset by peer",
        "invalid api key",
        "temperature must be <= 2",
        "max_tokens must be <= 8192",
        "image exceeds the limit of 5 MB",
        "a tool's name must have less than 64 characters",
        "Request too large for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Requested 7012",
        "The maximum tokens you requested exceeds the model limit of 2048. Try again with a lower value.",
    ],
)
def test_other_errors_are_not_overflows(text):
    """Rate limits and other errors must reach the caller unchanged."""
    assert not is_context_length_error(RuntimeError(text))


@pytest.mark.req("R-OVER-1", "A-OVF-1")
@pytest.mark.parametrize("provider", OVERFLOW_ERRORS)
def test_the_numbers_of_an_overflow_error_are_read(provider):
    """Both numbers are about the prompt. Tokens that the caller reserved for the completion are subtracted."""
    text, limit, requested = OVERFLOW_ERRORS[provider]
    overflow = read_overflow(RuntimeError(text))
    assert (overflow.limit_tokens, overflow.requested_tokens) == (limit, requested)

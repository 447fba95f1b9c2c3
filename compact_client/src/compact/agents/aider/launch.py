"""Start aider behind the gateway. It calls models through LiteLLM, which reads these variables."""

from compact.agents.launch import Launch, Target

LAUNCH = Launch(
    name="aider",
    title="aider",
    variables={
        "ANTHROPIC_API_BASE": Target("anthropic"),
        "OPENAI_API_BASE": Target("openai", "/v1"),
        "GEMINI_API_BASE": Target("gemini"),
    },
)

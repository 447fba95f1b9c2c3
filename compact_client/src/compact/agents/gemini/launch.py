"""Start Gemini CLI behind the gateway, with an API key or with a Google account."""

from compact.agents.launch import Launch, Target

LAUNCH = Launch(
    name="gemini",
    title="Gemini CLI",
    variables={"GOOGLE_GEMINI_BASE_URL": Target("gemini"), "CODE_ASSIST_ENDPOINT": Target("code-assist")},
)

"""Start Gemini CLI behind the gateway, with an API key or with a Google account."""

from compact.agents.launch import Launch, Target

LAUNCH = Launch(
    name="gemini",
    title="Gemini CLI",
    variables={"GOOGLE_GEMINI_BASE_URL": Target("gemini"), "CODE_ASSIST_ENDPOINT": Target("code-assist")},
    # Version 0.61.0 rejects GEMINI_API_KEY beside an address, unless its settings name the way to log in.
    hint="With an API key, choose Use Gemini API Key once with /auth, so that its settings name it.",
)

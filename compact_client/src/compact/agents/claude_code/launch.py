"""Start Claude Code behind the gateway."""

from compact.agents.launch import Launch, Target

LAUNCH = Launch(
    name="claude",
    title="Claude Code",
    variables={"ANTHROPIC_BASE_URL": Target("anthropic")},
    # Behind an unknown address, Claude Code 2.1.197 sends 25 tools instead of 9, and 2.1.327 fewer betas and none of
    # the headers that announce a compaction. The variable is not documented, so
    # `make test-agents` compares each version.
    first_party_variables={"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"},
)

"""Two turns with the Python SDK of Anthropic: Messages, streamed."""

import anthropic

client = anthropic.Anthropic()
messages = [{"role": "user", "content": "Say hello."}]
for turn in ("And again.", ""):
    with client.messages.stream(
        model="claude-sonnet-4-5", max_tokens=100, system="You are brief.", messages=messages
    ) as stream:
        for event in stream:
            print(event.to_json(indent=None))
        answer = stream.get_final_message()
    content = [block.to_dict() for block in answer.content]
    messages += [{"role": "assistant", "content": content}, {"role": "user", "content": turn}]

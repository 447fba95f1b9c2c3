"""Two turns with the Python SDK of OpenAI: Chat Completions, streamed."""

import openai

client = openai.OpenAI()
messages = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Say hello."}]
for turn in ("And again.", ""):
    text = ""
    for chunk in client.chat.completions.create(
        model="gpt-5", messages=messages, stream=True, stream_options={"include_usage": True}
    ):
        print(chunk.to_json(indent=None))
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": turn}]

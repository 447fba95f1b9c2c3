"""Two turns with the Python SDK of OpenAI: Responses, streamed."""

import openai

client = openai.OpenAI()
items = [{"role": "user", "content": "Say hello."}]
for turn in ("And again.", ""):
    for event in client.responses.create(model="gpt-5", instructions="You are brief.", input=items, stream=True):
        print(event.to_json(indent=None))
        if event.type == "response.completed":
            items += [item.to_dict() for item in event.response.output]
    items.append({"role": "user", "content": turn})

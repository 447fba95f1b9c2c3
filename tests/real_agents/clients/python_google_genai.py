"""Two turns with google-genai for Python, streamed."""

import os

from google import genai
from google.genai import types

client = genai.Client(http_options=types.HttpOptions(base_url=os.environ["GOOGLE_GEMINI_BASE_URL"]))
chat = client.chats.create(
    model="gemini-2.5-pro", config=types.GenerateContentConfig(system_instruction="You are brief.")
)
for turn in ("Say hello.", "And again."):
    for chunk in chat.send_message_stream(turn):
        print(chunk.text)

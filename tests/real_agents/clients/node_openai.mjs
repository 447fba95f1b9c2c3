// Two turns with the Node SDK of OpenAI: Chat Completions, streamed.
import OpenAI from "openai";

const client = new OpenAI();
const messages = [
  { role: "system", content: "You are brief." },
  { role: "user", content: "Say hello." },
];
for (const turn of ["And again.", ""]) {
  let text = "";
  const stream = await client.chat.completions.create({
    model: "gpt-5",
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    console.log(JSON.stringify(chunk));
    text += chunk.choices[0]?.delta?.content ?? "";
  }
  messages.push({ role: "assistant", content: text }, { role: "user", content: turn });
}

// Two turns with the Node SDK of Anthropic: Messages, streamed.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic();
const messages = [{ role: "user", content: "Say hello." }];
for (const turn of ["And again.", ""]) {
  const stream = client.messages.stream({
    model: "claude-sonnet-4-5",
    max_tokens: 100,
    system: "You are brief.",
    messages,
  });
  for await (const event of stream) console.log(JSON.stringify(event));
  const answer = await stream.finalMessage();
  messages.push({ role: "assistant", content: answer.content }, { role: "user", content: turn });
}

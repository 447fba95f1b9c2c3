// Two turns with the Vercel AI SDK and its provider of Anthropic, streamed.
import { createAnthropic } from "@ai-sdk/anthropic";
import { streamText } from "ai";

const anthropic = createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1` });
const messages = [{ role: "user", content: "Say hello." }];
for (const turn of ["And again.", ""]) {
  const result = streamText({ model: anthropic("claude-sonnet-4-5"), system: "You are brief.", messages });
  for await (const part of result.fullStream) console.log(part.type, part.text ?? "");
  messages.push(...(await result.response).messages, { role: "user", content: turn });
}

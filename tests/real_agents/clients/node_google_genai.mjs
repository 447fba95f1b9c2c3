// Two turns with google-genai for Node, streamed.
import { GoogleGenAI } from "@google/genai";

const client = new GoogleGenAI({
  apiKey: process.env.GEMINI_API_KEY,
  httpOptions: { baseUrl: process.env.GOOGLE_GEMINI_BASE_URL },
});
const chat = client.chats.create({ model: "gemini-2.5-pro", config: { systemInstruction: "You are brief." } });
for (const turn of ["Say hello.", "And again."]) {
  for await (const chunk of await chat.sendMessageStream({ message: turn })) console.log(chunk.text);
}

// The openai package for JavaScript against a served desk project: models, chat, streams, errors.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.env.WEFT_URL}/v1`, apiKey: process.env.WEFT_TOKEN });

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.ok(models.includes("desk"), models.join());

const messages = [{ role: "user", content: "When is the dock open?" }];
const answer = await client.chat.completions.create({ model: "desk", messages });
const text = answer.choices[0].message.content;
assert.match(text, /loading dock is open/);
assert.equal(answer.choices[0].finish_reason, "stop");

let streamed = "";
let pieces = 0;
for await (const chunk of await client.chat.completions.create({ model: "desk", messages, stream: true })) {
  const piece = chunk.choices[0]?.delta?.content ?? "";
  streamed += piece;
  pieces += piece ? 1 : 0;
}
assert.equal(streamed, text);
assert.ok(pieces > 1);

const runner = client.chat.completions.stream({ model: "desk", messages });
assert.equal(await runner.finalContent(), text);

await assert.rejects(client.chat.completions.create({ model: "dsek", messages }), (error) => {
  assert.equal(error.status, 404);
  assert.equal(error.code, "model_not_found");
  return true;
});
await assert.rejects(new OpenAI({ baseURL: client.baseURL, apiKey: "sk-wrong-wrong-wrong" }).models.list(), {
  status: 401,
});
console.log("openai (JavaScript): ok");

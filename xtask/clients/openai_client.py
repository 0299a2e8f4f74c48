"""The openai package for Python against a served desk project: models, chat, streams, errors, conversations."""

import os

import openai

client = openai.OpenAI(base_url=os.environ["WEFT_URL"] + "/v1", api_key=os.environ["WEFT_TOKEN"])

models = [model.id for model in client.models.list()]
assert "desk" in models, models
assert client.models.retrieve("desk").owned_by == "weft"

question = [{"role": "user", "content": "When is the dock open?"}]
answer = client.chat.completions.create(model="desk", messages=question)
text = answer.choices[0].message.content
assert "loading dock is open" in text and "<ACTION" not in text, text
assert answer.choices[0].finish_reason == "stop" and answer.usage.total_tokens > 0, answer

streamed, pieces, usage, finish = "", 0, None, None
for chunk in client.chat.completions.create(
    model="desk", messages=question, stream=True, stream_options={"include_usage": True}
):
    if chunk.choices:
        piece = chunk.choices[0].delta.content or ""
        streamed, pieces = streamed + piece, pieces + bool(piece)
        finish = chunk.choices[0].finish_reason or finish
    usage = chunk.usage or usage
assert streamed == text and pieces > 1, (pieces, streamed)
assert finish == "stop" and usage.total_tokens == answer.usage.total_tokens, (finish, usage)

steps = client.chat.completions.create(model="desk", messages=question, extra_body={"weft": {"steps": True}})
tools = [step["data"]["tool"] for step in steps.model_extra["weft"]["steps"] if step["type"] == "agent.tool.finished"]
assert tools == ["system:get_current_time", "kb:Query", "workflow:summarize_text"], tools

with client.chat.completions.stream(model="desk", messages=question) as events:
    kinds = {event.type for event in events}
    assert "content.delta" in kinds and "content.done" in kinds, kinds
    assert events.get_final_completion().choices[0].message.content == text

try:
    client.chat.completions.create(model="dsek", messages=question)
    raise SystemExit("an unknown model was taken")
except openai.NotFoundError as error:
    assert error.code == "model_not_found" and "did you mean `desk`?" in error.message, error
try:
    openai.OpenAI(base_url=client.base_url, api_key="sk-wrong-wrong-wrong").models.list()
    raise SystemExit("a wrong key was taken")
except openai.AuthenticationError as error:
    assert error.code == "invalid_api_key", error
try:
    client.chat.completions.create(
        model="desk", messages=question, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]
    )
    raise SystemExit("tools of a client were taken")
except openai.BadRequestError as error:
    assert "tools of its own" in error.message, error
print("openai (Python): ok")

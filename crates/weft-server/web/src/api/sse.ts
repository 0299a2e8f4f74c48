// Server-sent events from a request, which a plain `EventSource` cannot give a token.

export interface ServerEvent {
  event: string;
  id: string;
  data: string;
}

/** The events of a stream of server-sent events. */
export async function* eventsOf(response: Response): AsyncIterable<ServerEvent> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (reader !== undefined) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event !== undefined) yield event;
    }
  }
}

/** One block of lines; comments and empty ones are no event. */
export function parseEvent(block: string): ServerEvent | undefined {
  const event: ServerEvent = { event: "message", id: "", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [name = "", ...rest] = line.split(":");
    const value = rest.join(":").replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event" || name === "id") event[name] = value;
  }
  if (data.length === 0) return undefined;
  event.data = data.join("\n");
  return event;
}

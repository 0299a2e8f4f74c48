// The messages and states of a session as they come, over one stream; one that breaks is opened again behind what was seen.
import { type ChatMessage, type SessionInfo, part, send } from "../api/client.ts";

export interface SessionFollower {
  message(message: ChatMessage): void;
  state(state: SessionInfo): void;
  failed(error: unknown): void;
}

/** Wait before a stream is opened again, in milliseconds. */
const PAUSE = 1000;

/** Follows a session until the answer is called. */
export function followSession(session: string, follower: SessionFollower): () => void {
  const stop = new AbortController();
  void follow(session, follower, stop.signal);
  return () => stop.abort();
}

async function follow(session: string, follower: SessionFollower, signal: AbortSignal): Promise<void> {
  let seen = 0;
  while (!signal.aborted) {
    try {
      const response = await send(`api/sessions/${part(session)}/events?after=${seen}`, { signal, headers: { accept: "text/event-stream" } });
      for await (const { event, id, data } of eventsOf(response)) {
        if (event === "message") follower.message(JSON.parse(data) as ChatMessage);
        else if (event === "state") follower.state(JSON.parse(data) as SessionInfo);
        if (id !== "") seen = Number(id);
      }
    } catch (error) {
      if (signal.aborted) return;
      follower.failed(error);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

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

// The messages and states of a session as they come, over one stream; one that breaks is opened again behind what was seen.
import { eventsOf } from "../api/sse.ts";
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

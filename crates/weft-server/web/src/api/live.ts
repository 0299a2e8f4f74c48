// Live events over one socket. A connection that breaks is opened again, and every run continues behind the last
// event that was seen; nothing is lost and nothing comes twice.
import type { TraceEvent } from "./client.ts";
import { token } from "./token.ts";

/** How the connection stands. */
export type Connection = "idle" | "connecting" | "open" | "waiting" | "refused";

/** What a follower of a run hears. */
export interface Follower {
  /** Events in order, without holes and without doubles. */
  events(batch: TraceEvent[]): void;
  /** The backlog has been sent; the following events are live. */
  live?(): void;
  /** So many events were passed over. */
  lag?(missed: number): void;
  /** The run cannot be followed. */
  failed?(code: string, message: string): void;
}

interface Following {
  follower: Follower;
  last: number;
  over: boolean;
}

type Frame =
  | { type: "hello" }
  | { type: "event"; run: string; event: TraceEvent }
  | { type: "live"; run: string }
  | { type: "lag"; run: string; missed: number; after_seq: number }
  | { type: "error"; run?: string; code: string; message: string };

/** Waits between attempts, in milliseconds. */
const PATIENCE = [0, 200, 500, 1000, 2000, 5000] as const;

/** The socket as the browser or a test makes it. */
export type SocketOf = (address: string) => WebSocket;

export class Live {
  private socket: WebSocket | undefined;
  private readonly following = new Map<string, Set<Following>>();
  private attempts = 0;
  private greeted = false;
  private readonly watchers = new Set<(connection: Connection) => void>();
  private state: Connection = "idle";
  /** Held open without a run too, so that a server that goes away is noticed. */
  private isKept = false;
  /** How often the socket was opened again. */
  reconnects = 0;

  constructor(
    private readonly address: () => string,
    private readonly open: SocketOf = (address) => new WebSocket(address),
    private readonly later: (task: () => void, ms: number) => void = (task, ms) => void setTimeout(task, ms),
  ) {}

  get connection(): Connection {
    return this.state;
  }

  /** Tells how the connection stands, now and whenever it changes. */
  watch(watcher: (connection: Connection) => void): () => void {
    this.watchers.add(watcher);
    watcher(this.state);
    return () => this.watchers.delete(watcher);
  }

  /** Holds the connection open from now on; after a refusal, tries again. */
  keep(): void {
    this.isKept = true;
    if (this.socket === undefined && this.state !== "waiting") this.connect();
  }

  /** The network went away: says so at once, and tries again when it comes back. */
  lost(): void {
    const socket = this.socket;
    if (socket === undefined) return;
    socket.close();
    // The browser may wait long for the other side's farewell.
    socket.onclose?.(new CloseEvent("close", { code: 1006 }));
  }

  /** Follows a run from behind `after`; the answer ends it. */
  follow(run: string, after: number, follower: Follower): () => void {
    const following: Following = { follower, last: after, over: false };
    const others = this.following.get(run) ?? new Set();
    others.add(following);
    this.following.set(run, others);
    if (this.socket === undefined) this.connect();
    else if (this.greeted) this.subscribe(run);
    return () => {
      others.delete(following);
      if (others.size === 0 && this.following.get(run) === others) {
        this.following.delete(run);
        if (this.greeted) this.tell({ type: "unsub", run });
      }
    };
  }

  private set(state: Connection): void {
    this.state = state;
    for (const watcher of this.watchers) watcher(state);
  }

  private connect(): void {
    this.greeted = false;
    this.set("connecting");
    const socket = this.open(this.address());
    this.socket = socket;
    socket.onopen = () => this.tell({ type: "hello", token: token() });
    socket.onmessage = (message) => this.hear(JSON.parse(String(message.data)) as Frame);
    socket.onclose = (close) => {
      if (this.socket !== socket) return;
      this.socket = undefined;
      // 1008: the server does not let us in; asking again would not help.
      if (close.code === 1008) return this.set("refused");
      if (this.following.size === 0 && !this.isKept) return this.set("idle");
      this.set("waiting");
      const wait = PATIENCE[Math.min(this.attempts, PATIENCE.length - 1)] ?? 0;
      this.attempts += 1;
      this.reconnects += 1;
      this.later(() => {
        if (this.socket === undefined && (this.following.size > 0 || this.isKept)) this.connect();
      }, wait);
    };
  }

  private hear(frame: Frame): void {
    if (frame.type === "hello") {
      this.greeted = true;
      this.attempts = 0;
      this.set("open");
      for (const run of this.following.keys()) this.subscribe(run);
      return;
    }
    const followers = frame.run === undefined ? undefined : this.following.get(frame.run);
    for (const following of followers ?? []) {
      switch (frame.type) {
        case "event":
          // What is missing is announced; anything else that is not the next one is of an older subscription.
          if (frame.event.seq !== following.last + 1) break;
          following.last = frame.event.seq;
          following.over = frame.event.type === "run.finished";
          following.follower.events([frame.event]);
          break;
        case "lag":
          if (frame.after_seq > following.last) break;
          following.last = Math.max(following.last, frame.after_seq + frame.missed);
          following.follower.lag?.(frame.missed);
          break;
        case "live":
          following.follower.live?.();
          break;
        case "error":
          following.follower.failed?.(frame.code, frame.message);
          break;
      }
    }
  }

  /** Subscribes where somebody still waits for events, from the one who has seen least. */
  private subscribe(run: string): void {
    const waiting = [...(this.following.get(run) ?? [])].filter((following) => !following.over);
    if (waiting.length === 0) return;
    const after = Math.min(...waiting.map((following) => following.last));
    this.tell({ type: "sub", run, after_seq: after });
  }

  private tell(frame: unknown): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(frame));
  }
}

/** The socket of this page. */
export const live = new Live(() => {
  const address = new URL("ws", document.baseURI.split("#")[0]);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  return address.href;
});

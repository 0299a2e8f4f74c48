// How nodes and loops of a run stand, from its events alone: the same for a run at work, a reload and a replay.

/** What is read of an event. */
export interface RunEvent {
  seq?: number;
  ts?: string;
  path?: string;
  iteration?: number;
  attempt?: number;
  call?: string;
  type: string;
  data?: unknown;
}

export type NodeStatus = "running" | "retrying" | "waiting" | "done" | "cached" | "failed" | "skipped" | "cancelled";

export interface NodeLive {
  status: NodeStatus;
  /** The path it last ran under, with the passes it ran in. */
  path: string;
  /** How often it has come to an end. */
  ends: number;
  startedAt: number;
  /** Milliseconds of the last time. */
  ms: number | null;
  /** The last value of its main output. */
  value: unknown;
  /** The end of what it streams. */
  text: string;
  message: string | null;
  attempt: number;
}

export type PassStatus = "running" | "done" | "failed" | "cancelled";

export interface Pass {
  number: number;
  status: PassStatus;
  startedAt: number;
  ms: number | null;
  firstSeq: number;
  lastSeq: number;
  /** Carried values that it changed. */
  changed: readonly string[];
  /** Values of main outputs, by the path of the node in the workflow. */
  values: ReadonlyMap<string, unknown>;
  /** What went wrong in it. */
  message: string | null;
}

/** One time that a zone ran. */
export interface LoopLive {
  /** Its own path with the passes around it, such as `outer[2]/inner`. */
  path: string;
  mode: string;
  running: boolean;
  why: string | null;
  passes: readonly Pass[];
  enteredSeq: number;
}

export interface RunLive {
  seq: number;
  status: "none" | "running" | "waiting" | "ok" | "error" | "cancelled";
  message: string | null;
  inputs: unknown;
  /** By path without passes. */
  nodes: ReadonlyMap<string, NodeLive>;
  /** By path with the passes around. */
  loops: ReadonlyMap<string, LoopLive>;
  /** By path without passes: the one that ran last. */
  latest: ReadonlyMap<string, string>;
  asks: readonly { ask: string; prompt: string | null; path: string | null }[];
}

export const NOTHING_YET: RunLive = {
  seq: 0,
  status: "none",
  message: null,
  inputs: undefined,
  nodes: new Map(),
  loops: new Map(),
  latest: new Map(),
  asks: [],
};

const MAX_TEXT = 2000;

/** The path without the numbers of passes. */
export function barePath(path: string): string {
  return path.replace(/\[\d+\]/g, "");
}

/** The zone and pass around a path: `loop[3]/a` stands in pass 3 of `loop`. */
export function passAround(path: string): { loop: string; pass: number } | null {
  const found = /^(.*)\[(\d+)\]\/[^[\]]*$/.exec(path);
  return found === null ? null : { loop: found[1] as string, pass: Number(found[2]) };
}

/** The state after some more events. What has not changed is the same object as before. */
export function advance(before: RunLive, events: readonly RunEvent[]): RunLive {
  if (events.length === 0) return before;
  const next = new Draft(before);
  for (const event of events) next.take(event);
  return next.done();
}

class Draft {
  private readonly state: {
    -readonly [K in keyof RunLive]: RunLive[K];
  };
  private readonly nodes: Map<string, NodeLive>;
  private readonly loops: Map<string, LoopLive>;
  private readonly latest: Map<string, string>;
  /** Loops whose passes are already a copy of their own. */
  private readonly fresh = new Map<string, { loop: LoopLive; passes: Pass[] }>();

  constructor(before: RunLive) {
    this.state = { ...before };
    this.nodes = new Map(before.nodes);
    this.loops = new Map(before.loops);
    this.latest = new Map(before.latest);
  }

  done(): RunLive {
    for (const [path, { loop, passes }] of this.fresh) this.loops.set(path, { ...loop, passes });
    return { ...this.state, nodes: this.nodes, loops: this.loops, latest: this.latest };
  }

  take(event: RunEvent): void {
    if (event.seq !== undefined) this.state.seq = Math.max(this.state.seq, event.seq);
    // What a tool does inside a call has paths of its own workflow.
    if (event.call !== undefined && event.call !== null) return;
    const data = (event.data ?? {}) as Record<string, unknown>;
    if (event.type.startsWith("run.")) this.takeRun(event, data);
    else if (event.type.startsWith("node.")) this.takeNode(event, data);
    else if (event.type.startsWith("loop.")) this.takeLoop(event, data);
  }

  private takeRun(event: RunEvent, data: Record<string, unknown>): void {
    switch (event.type) {
      case "run.started":
        this.state.status = "running";
        this.state.inputs = data["inputs"];
        break;
      case "run.waiting":
        this.state.status = "waiting";
        this.state.asks = asksOf(data["asks"]);
        break;
      case "run.resumed":
        this.state.status = "running";
        this.state.asks = [];
        break;
      case "run.finished": {
        const status = data["status"];
        this.state.status = status === "ok" || status === "cancelled" ? status : "error";
        this.state.message = textOrNull(data["message"]) ?? textOrNull(data["kind"]);
        this.state.asks = [];
        break;
      }
    }
  }

  private takeNode(event: RunEvent, data: Record<string, unknown>): void {
    if (event.path === undefined) return;
    const key = barePath(event.path);
    const now = timeOf(event);
    const old = this.nodes.get(key);
    const base: NodeLive = old ?? {
      status: "running",
      path: event.path,
      ends: 0,
      startedAt: now,
      ms: null,
      value: undefined,
      text: "",
      message: null,
      attempt: 1,
    };
    const node = { ...base, path: event.path };
    const ends = (status: NodeStatus) => {
      node.status = status;
      node.ms = Math.max(0, now - node.startedAt);
      node.ends += 1;
    };
    switch (event.type) {
      case "node.started":
        Object.assign(node, { status: "running", startedAt: now, ms: null, text: "", message: null, attempt: event.attempt ?? 1 });
        break;
      case "node.progress":
        node.message = textOrNull(data["message"]);
        break;
      case "node.chunk":
        node.text = (node.text + String(data["text"] ?? "")).slice(-MAX_TEXT);
        break;
      case "node.retrying":
        Object.assign(node, { status: "retrying", text: "", message: textOrNull(data["message"]) });
        break;
      case "node.waiting":
        Object.assign(node, { status: "waiting", message: textOrNull(data["prompt"]) });
        break;
      case "node.finished":
        ends("done");
        if ("value" in data) node.value = data["value"];
        node.message = textOrNull(data["handled"]);
        break;
      case "node.cached":
        ends("cached");
        node.value = data["value"];
        break;
      case "node.failed":
        ends("failed");
        node.message = textOrNull(data["message"]);
        break;
      case "node.skipped":
        ends("skipped");
        node.ms = null;
        break;
      case "node.cancelled":
        ends("cancelled");
        break;
      default:
        return;
    }
    this.nodes.set(key, node);
    this.noteInPass(event, node);
  }

  /** A pass knows what its nodes gave and which of them failed. */
  private noteInPass(event: RunEvent, node: NodeLive): void {
    const at = passAround(event.path ?? "");
    if (at === null) return;
    const gives = event.type === "node.finished" || event.type === "node.cached";
    if (!gives && event.type !== "node.failed") return;
    this.changePass(at.loop, at.pass, (pass) => ({
      ...pass,
      lastSeq: event.seq ?? pass.lastSeq,
      ...(gives ? { values: new Map(pass.values).set(barePath(event.path as string), node.value) } : {}),
      ...(gives ? {} : { status: "failed" as const, message: node.message }),
    }));
  }

  private takeLoop(event: RunEvent, data: Record<string, unknown>): void {
    const path = event.path;
    if (path === undefined) return;
    const now = timeOf(event);
    const seq = event.seq ?? this.state.seq;
    switch (event.type) {
      case "loop.entered": {
        const mode = textOrNull(data["mode"]) ?? "";
        this.fresh.delete(path);
        this.loops.set(path, { path, mode, running: true, why: null, passes: [], enteredSeq: seq });
        this.latest.set(barePath(path), path);
        break;
      }
      case "loop.iter.started":
        this.editable(path)?.passes.push({
          number: event.iteration ?? 0,
          status: "running",
          startedAt: now,
          ms: null,
          firstSeq: seq,
          lastSeq: seq,
          changed: [],
          values: new Map(),
          message: null,
        });
        break;
      case "loop.iter.finished":
        this.changePass(path, event.iteration ?? 0, (pass) => ({
          ...pass,
          status: pass.status === "running" ? "done" : pass.status,
          ms: Math.max(0, now - pass.startedAt),
          lastSeq: seq,
          changed: Array.isArray(data["changed"]) ? data["changed"].map(String) : [],
        }));
        break;
      case "loop.exited": {
        const why = textOrNull(data["why"]);
        const own = this.editable(path);
        if (own === undefined) return;
        own.loop = { ...own.loop, running: false, why };
        const rest: PassStatus = why === "error" ? "failed" : "cancelled";
        own.passes = own.passes.map((pass) => (pass.status === "running" ? { ...pass, status: rest } : pass));
        break;
      }
    }
  }

  private editable(path: string): { loop: LoopLive; passes: Pass[] } | undefined {
    const known = this.fresh.get(path);
    if (known !== undefined) return known;
    const loop = this.loops.get(path);
    if (loop === undefined) return undefined;
    const own = { loop, passes: [...loop.passes] };
    this.fresh.set(path, own);
    return own;
  }

  private changePass(path: string, number: number, change: (pass: Pass) => Pass): void {
    const own = this.editable(path);
    if (own === undefined) return;
    // Passes begin in order, so that the wanted one is nearly always the last.
    for (let at = own.passes.length - 1; at >= 0; at -= 1) {
      const pass = own.passes[at] as Pass;
      if (pass.number === number) {
        own.passes[at] = change(pass);
        return;
      }
    }
  }
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function timeOf(event: RunEvent): number {
  const time = event.ts === undefined ? Number.NaN : Date.parse(event.ts);
  return Number.isNaN(time) ? 0 : time;
}

function asksOf(value: unknown): RunLive["asks"] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((item: unknown) => {
    const ask = item as Record<string, unknown>;
    const id = textOrNull(ask["ask"]);
    return id === null ? [] : [{ ask: id, prompt: textOrNull(ask["prompt"]), path: textOrNull(ask["path"]) }];
  });
}

// A view that is being made from another one. What is changed is copied once a batch; the old view stays whole.
import type { TraceEvent } from "../api/types.gen.ts";
import type {
  CallEntry,
  Entry,
  GraphView,
  LogLine,
  LoopView,
  NodeView,
  NoteEntry,
  RunView,
  TurnEntry,
} from "./view.ts";

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

interface OwnGraph {
  call: string;
  nodes: Record<string, NodeView>;
  latest: Record<string, string>;
  loops: Record<string, LoopView>;
}

export class Draft {
  readonly view: Writable<RunView>;
  private readonly entries: Entry[];
  private readonly places: Map<string, number>;
  private readonly own = new Set<object>();
  private readonly graphs = new Map<string, OwnGraph>();
  private lines: LogLine[] | undefined;

  constructor(from: RunView) {
    this.entries = [...from.entries];
    this.places = placesOf(from.entries);
    known.set(this.entries, this.places);
    this.view = { ...from, entries: this.entries, usage: { ...from.usage } };
  }

  /** What every entry begins with. */
  base(id: string, event: TraceEvent): {
    id: string;
    seq: number;
    started: string;
    touched: string;
    call: string;
    depth: number;
  } {
    const depth = event.depth ?? 0;
    return { id, seq: event.seq, started: event.ts, touched: event.ts, call: event.call ?? "", depth };
  }

  add<T extends Entry>(entry: T): T {
    this.places.set(entry.id, this.entries.length);
    this.entries.push(entry);
    this.own.add(entry);
    return entry;
  }

  /** An entry that may be changed. */
  entry(id: string, ts?: string): Entry | undefined {
    const place = this.places.get(id);
    const found = place === undefined ? undefined : this.entries[place];
    if (place === undefined || found === undefined) return undefined;
    let mine = found;
    if (!this.own.has(found)) {
      mine = { ...found };
      this.own.add(mine);
      this.entries[place] = mine;
    }
    if (ts) mine.touched = ts;
    return mine;
  }

  /** A call that may be changed. */
  call(call: string | null | undefined, ts?: string): CallEntry | undefined {
    const found = call ? this.entry(`call:${call}`, ts) : undefined;
    return found?.kind === "call" ? found : undefined;
  }

  /** The newest turn of a scope, that may be changed. */
  turn(event: TraceEvent): TurnEntry | undefined {
    const scope = scopeOf(event);
    for (let place = this.entries.length - 1; place >= 0; place -= 1) {
      const entry = this.entries[place];
      if (entry?.kind !== "turn" || entry.call !== scope) continue;
      const turn = this.entry(entry.id, event.ts);
      return turn?.kind === "turn" ? turn : undefined;
    }
    return undefined;
  }

  note(event: TraceEvent, note: NoteEntry["note"], text: string, detail?: string | null): void {
    const base = this.base(`note:${event.seq}`, event);
    this.add({ ...base, kind: "note", note, text, ...(detail ? { detail } : {}) });
  }

  log(line: LogLine): void {
    this.lines ??= [...this.view.log];
    this.lines.push(line);
    this.view.log = this.lines;
  }

  /** The workflow of a scope, that may be changed. */
  graph(call: string): OwnGraph {
    let graph = this.graphs.get(call);
    if (graph === undefined) {
      const old: GraphView | undefined = this.view.graphs[call];
      graph = {
        call,
        nodes: { ...old?.nodes },
        latest: { ...old?.latest },
        loops: { ...old?.loops },
      };
      this.graphs.set(call, graph);
      this.view.graphs = { ...this.view.graphs, [call]: graph };
    }
    return graph;
  }

  /** A copy of a part of a graph, made once. */
  mine<T extends object>(part: T, copy: (part: T) => T): T {
    if (this.own.has(part)) return part;
    const mine = copy(part);
    this.own.add(mine);
    return mine;
  }
}

// Where entries stand: kept from batch to batch, since views of one run grow from each other.
const known = new WeakMap<readonly Entry[], Map<string, number>>();

function placesOf(entries: readonly Entry[]): Map<string, number> {
  const found = known.get(entries);
  if (found) return new Map(found);
  return new Map(entries.map((entry, place) => [entry.id, place]));
}

/** The call inside of which an agent's event happened: its own events name the call that they are about. */
export function scopeOf(event: TraceEvent): string {
  const isAbout =
    event.type === "agent.call.delta" ||
    event.type === "agent.call.ready" ||
    event.type.startsWith("agent.tool.") ||
    event.type === "agent.observation";
  return (isAbout ? event.parent_call : event.call) ?? "";
}

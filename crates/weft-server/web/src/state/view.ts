// What is seen of a run: the view that the reducer makes of its events. Plain values, so that a view can be
// compared with another one, kept, and shown at any point of a run.
import type { AskSummary, PassDecision, RunStatus } from "../api/types.gen.ts";

/** How a run stands; `unknown` before its first event. */
export type ViewStatus = "unknown" | "queued" | "running" | RunStatus;

/** Where in a run something belongs. */
export interface Scope {
  /** The tool call that it is part of; empty at the root. */
  call: string;
  /** Levels of agents above. */
  depth: number;
}

interface EntryBase extends Scope {
  /** Unique within a run, the same in every replay. */
  id: string;
  /** Number of the event that began it. */
  seq: number;
  started: string;
  /** When something last happened to it. */
  touched: string;
}

/** What a person said, or what a workflow was given. */
export interface SaidEntry extends EntryBase {
  kind: "said";
  text: string;
  inputs?: unknown;
}

/** How far a turn is. */
export type TurnPhase = "starting" | "thinking" | "reasoning" | "writing" | "read" | "done";

/** A pass of the agent loop: what the model thought and wrote. */
export interface TurnEntry extends EntryBase {
  kind: "turn";
  turn: number;
  phase: TurnPhase;
  /** The text for the person, as it comes. */
  text: string;
  reasoning: string;
  model?: string;
  messages?: number;
  finish?: string;
  usage?: { input: number; cached: number; output: number };
  /** Whether `text` is the answer. */
  isAnswer: boolean;
  /** What is to be known about the answer. */
  warning?: string;
  /** The node that runs the agent, where a workflow does. */
  path?: string;
  /** Calls of this turn, in order. */
  calls: string[];
}

export type CallState =
  | "writing"
  | "ready"
  | "asked"
  | "approved"
  | "denied"
  | "chosen"
  | "running"
  | "ok"
  | "failed"
  | "refused"
  | "timeout"
  | "panicked"
  | "cancelled";

/** A call of a tool, from its first letter to its observation. */
export interface CallEntry extends EntryBase {
  kind: "call";
  tool: string;
  state: CallState;
  reason?: string;
  /** Arguments as they come, by JSON pointer. */
  written: Record<string, string>;
  arguments?: Record<string, unknown>;
  repairs: string[];
  /** Pieces of the result as they come. */
  output: string;
  summary?: string;
  blob?: string;
  ms?: number;
  observation?: string;
  /** What a person said to it. */
  word?: string;
}

/** The model wrote a request that could not be used, and writes it anew. */
export interface RewriteEntry extends EntryBase {
  kind: "rewrite";
  code: string;
  /** Attempt and limit; the limit is known where a budget event names it. */
  attempt: number;
  limit: number;
  errors: unknown[];
  /** Observation that the model received. */
  observation?: string;
}

/** A question to a person. */
export interface AskEntry extends EntryBase {
  kind: "ask";
  ask: string;
  prompt?: string;
  path?: string;
  tool?: string;
  arguments?: Record<string, unknown>;
  open: boolean;
  unknownEffect: boolean;
}

/** A step of a workflow, or a loop of it. */
export interface StepEntry extends EntryBase {
  kind: "step";
  path: string;
  state: NodeState;
  nodeType?: string;
  value?: unknown;
  message?: string;
  output: string;
  /** Passes of a loop so far. */
  passes?: number;
  why?: string;
}

/** Something that happened beside. */
export interface NoteEntry extends EntryBase {
  kind: "note";
  note:
    | "compacted"
    | "warning"
    | "resumed"
    | "flow"
    | "flow_silent"
    | "flow_failed"
    | "action"
    | "handed_off"
    | "tools_changed"
    | "observation";
  text: string;
  detail?: string;
}

/** Time without an event. */
export interface GapEntry extends EntryBase {
  kind: "gap";
  ms: number;
  /** Whether a person was waited for. */
  waited: boolean;
}

/** How a run ended. */
export interface EndEntry extends EntryBase {
  kind: "end";
  status: RunStatus;
  exit?: string;
  errorKind?: string;
  message?: string;
  partial: boolean;
}

export type Entry =
  | SaidEntry
  | TurnEntry
  | CallEntry
  | RewriteEntry
  | AskEntry
  | StepEntry
  | NoteEntry
  | GapEntry
  | EndEntry;

export type NodeState =
  | "running"
  | "retrying"
  | "waiting"
  | "ok"
  | "handled"
  | "cached"
  | "failed"
  | "skipped"
  | "cancelled";

/** A node of a workflow at one place of its run. */
export interface NodeView {
  /** With passes: `loop[3]/a`. */
  path: string;
  state: NodeState;
  nodeType?: string;
  attempt: number;
  started?: string;
  ended?: string;
  /** Its main output; large values are references to blobs. */
  value?: unknown;
  /** Its other outputs, by slot. */
  outputs?: Record<string, unknown>;
  /** What has streamed out so far, by slot. */
  chunks: Record<string, string>;
  progress?: { message?: string; value?: number; max?: number };
  message?: string;
  errorKind?: string;
  cause?: string;
}

/** What a node gave first: its main output, or another one where the main one was not taken. */
export function firstGiven({ value, outputs }: { value?: unknown; outputs?: Readonly<Record<string, unknown>> | null }): unknown {
  return value === undefined ? Object.values(outputs ?? {})[0] : value;
}

/** A pass of a loop. */
export interface PassView {
  iteration: number;
  state: "running" | "ok" | "failed" | "cancelled";
  started: string;
  ended?: string;
  /** The item of mode `each`. */
  item?: unknown;
  /** Carried values that changed. */
  changed: string[];
  /** What they are now. */
  values?: Record<string, unknown>;
  decision?: PassDecision;
  /** Number of its first and last event. */
  from: number;
  to: number;
}

/** A loop zone, with its passes. */
export interface LoopView {
  /** With the passes of loops around it: `outer[1]/inner`. */
  path: string;
  mode: string;
  /** The carried values of the first pass. */
  first?: Record<string, unknown>;
  passes: PassView[];
  exited?: { passes: number; why: string };
}

/** A workflow at work: the run's own, or that of a call. */
export interface GraphView {
  /** The call that runs it; empty for the run's own. */
  call: string;
  /** By path with passes. */
  nodes: Readonly<Record<string, NodeView>>;
  /** The latest place of each node, by path without passes. */
  latest: Readonly<Record<string, string>>;
  loops: Readonly<Record<string, LoopView>>;
}

export interface LogLine {
  seq: number;
  ts: string;
  level: string;
  message: string;
  path?: string;
}

/** An open question, where it stands and what it belongs to. */
export type OpenQuestion = AskSummary;

/** All that is seen of a run. */
export interface RunView {
  run: string;
  lastSeq: number;
  /** When the last event was. */
  lastTs?: string;
  status: ViewStatus;
  exit?: string;
  errorKind?: string;
  message?: string;
  partial?: boolean;
  agent?: string;
  workflow?: string;
  started?: string;
  finished?: string;
  /** The last text for the person. */
  answer?: string;
  asks: readonly OpenQuestion[];
  entries: readonly Entry[];
  graphs: Readonly<Record<string, GraphView>>;
  log: readonly LogLine[];
  usage: { input: number; output: number };
  budgets: Readonly<Record<string, { used: number; limit: number }>>;
  /** Events that could not be had. */
  missed: number;
  /** Rewrites in a row, by scope. */
  rewrites: Readonly<Record<string, number>>;
}

export function emptyView(run: string): RunView {
  return {
    run,
    lastSeq: 0,
    status: "unknown",
    asks: [],
    entries: [],
    graphs: {},
    log: [],
    usage: { input: 0, output: 0 },
    budgets: {},
    missed: 0,
    rewrites: {},
  };
}

/** A path without its passes: `outer[1]/inner[0]/a` is `outer/inner/a`. */
export function withoutPasses(path: string): string {
  return path.replace(/\[\d+\]/g, "");
}

/** Whether nothing will come any more. */
export function isOver(view: RunView): boolean {
  return view.status === "ok" || view.status === "error" || view.status === "cancelled";
}

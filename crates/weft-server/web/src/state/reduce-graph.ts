// Events of workflows: nodes and loops, for the canvas, the loop inspector, and as steps of the timeline.
import type { TraceEvent } from "../api/types.gen.ts";
import type { Draft } from "./draft.ts";
import { firstGiven, type LoopView, type NodeView, type PassView, type StepEntry, withoutPasses } from "./view.ts";

/** Most text of a stream that a view keeps of one slot; the rest is in the events. */
const KEPT_TEXT = 20_000;

export function reduceGraph(draft: Draft, event: TraceEvent): void {
  const path = event.path;
  if (!path) return;
  if (event.type.startsWith("loop.")) reduceLoop(draft, event, path);
  else if (event.type.startsWith("node.")) reduceNode(draft, event, path);
}

function node(draft: Draft, event: TraceEvent, path: string): NodeView {
  const graph = draft.graph(event.call ?? "");
  const old = graph.nodes[path] ?? { path, state: "running", attempt: 1, chunks: {} };
  const mine = draft.mine(old, (part) => ({ ...part, chunks: { ...part.chunks } }));
  graph.nodes[path] = mine;
  graph.latest[withoutPasses(path)] = path;
  return mine;
}

/** The step of the timeline for a node: nodes within passes are counted at their loop. */
function step(draft: Draft, event: TraceEvent, path: string): StepEntry | undefined {
  if (path.includes("[")) return undefined;
  const id = `step:${event.call ?? ""}:${path}`;
  const known = draft.entry(id, event.ts);
  if (known?.kind === "step") return known;
  return draft.add({ ...draft.base(id, event), kind: "step", path, state: "running", output: "" });
}

function reduceNode(draft: Draft, event: TraceEvent, path: string): void {
  const mine = node(draft, event, path);
  const shown = step(draft, event, path);
  const end = (state: NodeView["state"]): void => {
    mine.state = state;
    mine.ended = event.ts;
    if (shown) shown.state = state;
  };
  const gave = (data: { value?: unknown; outputs?: Record<string, unknown> | null }) => {
    if (data.value !== undefined) mine.value = data.value;
    if (data.outputs) mine.outputs = data.outputs;
    const first = firstGiven(data);
    if (shown && first !== undefined) shown.value = first;
  };
  switch (event.type) {
    case "node.started":
      mine.state = "running";
      mine.attempt = event.attempt ?? 1;
      mine.started = event.ts;
      mine.chunks = {};
      for (const gone of ["ended", "value", "outputs", "message", "errorKind", "cause", "progress"] as const) delete mine[gone];
      if (event.data.node_type) mine.nodeType = event.data.node_type;
      if (shown) {
        shown.state = "running";
        shown.output = "";
        if (event.data.node_type) shown.nodeType = event.data.node_type;
      }
      break;
    case "node.progress": {
      const { message, value, max } = event.data;
      mine.progress = {
        ...(message ? { message } : {}),
        ...(typeof value === "number" ? { value } : {}),
        ...(typeof max === "number" ? { max } : {}),
      };
      if (shown && message) shown.message = message;
      break;
    }
    case "node.chunk": {
      const { slot, text } = event.data;
      mine.chunks[slot] = ((mine.chunks[slot] ?? "") + text).slice(-KEPT_TEXT);
      if (shown) shown.output = (shown.output + text).slice(-KEPT_TEXT);
      break;
    }
    case "node.retrying":
      mine.state = "retrying";
      mine.message = event.data.message;
      if (shown) {
        shown.state = "retrying";
        shown.message = event.data.message;
      }
      break;
    case "node.cached":
      gave(event.data);
      end("cached");
      break;
    case "node.finished":
      gave(event.data);
      end(event.data.handled ? "handled" : mine.state === "cached" ? "cached" : "ok");
      break;
    case "node.failed":
      mine.message = event.data.message;
      mine.errorKind = event.data.kind;
      if (shown) shown.message = event.data.message;
      end("failed");
      break;
    case "node.skipped":
      mine.cause = event.data.cause;
      end("skipped");
      break;
    case "node.cancelled":
      mine.cause = event.data.cause;
      end("cancelled");
      break;
    case "node.waiting": {
      const { ask, prompt, unknown_effect } = event.data;
      mine.state = "waiting";
      if (prompt) mine.message = prompt;
      if (shown) shown.state = "waiting";
      const id = `ask:${ask}`;
      if (draft.entry(id) === undefined) {
        draft.add({
          ...draft.base(id, event),
          kind: "ask",
          ask,
          path,
          open: true,
          unknownEffect: unknown_effect ?? false,
          ...(prompt ? { prompt } : {}),
        });
      }
      break;
    }
    default:
      break;
  }
}

function reduceLoop(draft: Draft, event: TraceEvent, path: string): void {
  const graph = draft.graph(event.call ?? "");
  const old: LoopView = graph.loops[path] ?? { path, mode: "", passes: [] };
  const loop = draft.mine(old, (part) => ({ ...part, passes: [...part.passes] }));
  graph.loops[path] = loop;
  const shown = step(draft, event, path);
  const change = (place: number, change: Partial<PassView>): void => {
    const pass = loop.passes[place];
    if (pass) loop.passes[place] = { ...pass, to: event.seq, ...change };
  };
  switch (event.type) {
    case "loop.entered":
      loop.mode = event.data.mode;
      loop.passes = [];
      delete loop.exited;
      delete loop.first;
      if (event.data.state) loop.first = event.data.state;
      if (shown) shown.passes = 0;
      break;
    case "loop.iter.started":
      loop.passes.push({
        iteration: event.iteration ?? loop.passes.length,
        state: "running",
        started: event.ts,
        ...(event.data.item === undefined ? {} : { item: event.data.item }),
        changed: [],
        from: event.seq,
        to: event.seq,
      });
      if (shown) shown.passes = loop.passes.length;
      break;
    case "loop.iter.finished": {
      const { changed, values = [], decision } = event.data;
      // Passes may run at once.
      const place = loop.passes.findLastIndex((pass) => pass.iteration === (event.iteration ?? pass.iteration));
      change(place, {
        state: "ok",
        ended: event.ts,
        changed,
        ...(values.length === changed.length ? { values: Object.fromEntries(changed.map((key, at) => [key, values[at]])) } : {}),
        ...(decision ? { decision } : {}),
      });
      break;
    }
    case "loop.exited": {
      const { passes, why } = event.data;
      loop.exited = { passes, why };
      const state = why === "cancelled" ? "cancelled" : why === "error" ? "failed" : "ok";
      loop.passes.forEach((pass, place) => {
        if (pass.state === "running") change(place, { state, ended: event.ts });
      });
      if (shown) {
        shown.passes = passes;
        shown.why = why;
      }
      break;
    }
    default:
      break;
  }
}

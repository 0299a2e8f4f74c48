// THE reducer: events to view. Pure: the same events give the same view, however they are cut into batches, whether
// they come live, after a reload, or in a replay.
import type { TraceEvent } from "../api/types.gen.ts";
import { Draft, scopeOf } from "./draft.ts";
import { reduceAgent } from "./reduce-agent.ts";
import { reduceGraph } from "./reduce-graph.ts";
import { type RunView, emptyView } from "./view.ts";

export * from "./view.ts";

/** Shortest time without an event that is shown, in milliseconds. */
const SILENCE = 10_000;

/** The view behind some more events. Events that the view has already are passed over. The given view stays as it is. */
export function reduce(view: RunView, events: readonly TraceEvent[]): RunView {
  const draft = new Draft(view);
  for (const event of events) {
    if (event.seq <= draft.view.lastSeq) continue;
    draft.view.lastSeq = event.seq;
    tellSilence(draft, event);
    apply(draft, event);
  }
  return draft.view;
}

/** The view of a run whose events are all known. */
export function viewOf(run: string, events: readonly TraceEvent[]): RunView {
  return reduce(emptyView(run), events);
}

/** The view behind a gap: so many events could not be had. */
export function withGap(view: RunView, missed: number): RunView {
  return { ...view, missed: view.missed + missed };
}

function tellSilence(draft: Draft, event: TraceEvent): void {
  const last = draft.view.lastTs;
  draft.view.lastTs = event.ts;
  if (last === undefined) return;
  const ms = Date.parse(event.ts) - Date.parse(last);
  if (ms < SILENCE) return;
  const waited = draft.view.status === "waiting";
  const scope = { call: scopeOf(event), depth: event.depth ?? 0 };
  draft.add({ ...draft.base(`gap:${event.seq}`, event), ...scope, kind: "gap", ms, waited });
}

function apply(draft: Draft, event: TraceEvent): void {
  const { view } = draft;
  switch (event.type) {
    case "run.queued":
      view.status = "queued";
      break;
    case "run.started": {
      const { agent, workflow, message, inputs } = event.data;
      view.status = "running";
      view.started = event.ts;
      if (agent) view.agent = agent;
      if (workflow) view.workflow = workflow;
      const hasInputs = inputs !== undefined && inputs !== null;
      if (message || hasInputs) {
        draft.add({
          ...draft.base(`said:${event.seq}`, event),
          kind: "said",
          text: message ?? "",
          ...(hasInputs ? { inputs } : {}),
        });
      }
      break;
    }
    case "run.waiting":
      view.status = "waiting";
      if (event.data.exit) view.exit = event.data.exit;
      view.asks = event.data.asks;
      for (const ask of event.data.asks) openAsk(draft, event, ask);
      break;
    case "run.resumed":
      view.status = "running";
      delete view.exit;
      view.asks = [];
      closeAsks(draft, event);
      if (event.data.cause === "interrupted") {
        draft.add({ ...draft.base(`note:${event.seq}`, event), kind: "note", note: "resumed", text: "" });
      }
      break;
    case "run.finished": {
      const { status, exit, kind, message, partial } = event.data;
      view.status = status;
      view.finished = event.ts;
      view.asks = [];
      view.partial = partial ?? false;
      if (exit) view.exit = exit;
      if (kind) view.errorKind = kind;
      if (message) view.message = message;
      closeAsks(draft, event);
      draft.add({
        ...draft.base("end", event),
        kind: "end",
        status,
        partial: partial ?? false,
        ...(exit ? { exit } : {}),
        ...(kind ? { errorKind: kind } : {}),
        ...(message ? { message } : {}),
      });
      break;
    }
    case "log.line":
      draft.log({
        seq: event.seq,
        ts: event.ts,
        level: event.data.level,
        message: event.data.message,
        ...(event.path ? { path: event.path } : {}),
      });
      break;
    case "registry.changed": {
      const { added, removed, changed, warnings } = event.data;
      const parts = [...added.map((id) => `+ ${id}`), ...removed.map((id) => `− ${id}`), ...changed, ...warnings];
      draft.note(event, "tools_changed", parts.join(", "));
      break;
    }
    case "flow.matched":
      draft.note(event, "flow", event.data.flow, event.data.why);
      break;
    case "flow.finished":
      if (event.data.silent) draft.note(event, "flow_silent", event.data.flow);
      break;
    case "flow.failed":
      draft.note(event, "flow_failed", event.data.flow, event.data.message);
      break;
    case "system.action":
      draft.note(event, "action", event.data.action, event.data.message ?? event.data.status);
      break;
    case "system.handed_off":
      draft.note(event, "handed_off", event.data.action);
      break;
    default:
      if (event.type.startsWith("agent.")) reduceAgent(draft, event);
      else reduceGraph(draft, event);
  }
}

type Waiting = Extract<TraceEvent, { type: "run.waiting" }>;

function openAsk(draft: Draft, event: Waiting, ask: Waiting["data"]["asks"][number]): void {
  // A call that waits for a word is shown where the call is.
  const approves = ask.kind === undefined ? ask.tool !== undefined : ask.kind === "approval";
  const call = approves ? draft.call(ask.ask) : undefined;
  if (call) {
    call.state = "asked";
    if (ask.arguments) call.arguments = ask.arguments;
    return;
  }
  const known = draft.entry(`ask:${ask.ask}`);
  if (known?.kind === "ask") {
    known.open = true;
    if (ask.prompt) known.prompt = ask.prompt;
    return;
  }
  draft.add({
    ...draft.base(`ask:${ask.ask}`, event),
    kind: "ask",
    ask: ask.ask,
    open: true,
    unknownEffect: ask.kind === "outcome",
    ...(ask.prompt ? { prompt: ask.prompt } : {}),
    ...(ask.path ? { path: ask.path } : {}),
    ...(ask.tool && approves ? { tool: ask.tool } : {}),
    ...(ask.arguments ? { arguments: ask.arguments } : {}),
  });
}

function closeAsks(draft: Draft, event: TraceEvent): void {
  for (const entry of draft.view.entries) {
    if (entry.kind !== "ask" || !entry.open) continue;
    const open = draft.entry(entry.id, event.ts);
    if (open?.kind === "ask") open.open = false;
  }
}

// Events of agents: turns, what the model writes, calls.
import type { TraceEvent } from "../api/types.gen.ts";
import { type Draft, scopeOf } from "./draft.ts";
import type { CallEntry, CallState } from "./view.ts";

/** Faulty replies in a row that an agent is allowed where its budget does not tell. */
const CORRECTIONS = 3;

export function reduceAgent(draft: Draft, event: TraceEvent): void {
  switch (event.type) {
    case "agent.turn.started":
      draft.add({
        ...draft.base(`turn:${event.span}`, event),
        kind: "turn",
        turn: event.turn ?? 0,
        phase: "starting",
        text: "",
        reasoning: "",
        isAnswer: false,
        calls: [],
        ...(event.path ? { path: event.path } : {}),
      });
      break;
    case "agent.llm.started": {
      const turn = draft.turn(event);
      if (!turn) break;
      turn.phase = "thinking";
      turn.model = event.data.model;
      turn.messages = event.data.messages;
      break;
    }
    case "agent.thinking": {
      const turn = draft.turn(event);
      if (turn) turn.phase = "thinking";
      break;
    }
    case "agent.reasoning.delta": {
      const turn = draft.turn(event);
      if (!turn) break;
      turn.phase = "reasoning";
      turn.reasoning += event.data.text;
      break;
    }
    case "agent.text.delta": {
      const turn = draft.turn(event);
      if (!turn) break;
      turn.phase = "writing";
      // Offsets count bytes of the model's reply; pieces come in order.
      turn.text += event.data.text;
      break;
    }
    case "agent.llm.finished": {
      const turn = draft.turn(event);
      const { usage, reasoning, finish } = event.data;
      draft.view.usage.input += usage.input;
      draft.view.usage.output += usage.output;
      if (!turn) break;
      turn.phase = "read";
      turn.finish = finish;
      turn.usage = { input: usage.input, cached: usage.cached ?? 0, output: usage.output };
      if (reasoning) turn.reasoning = reasoning;
      break;
    }
    case "agent.message": {
      const turn = draft.turn(event);
      if (turn) {
        turn.text = event.data.text;
        turn.isAnswer = event.data.final;
        if (event.data.warning) turn.warning = event.data.warning;
      }
      if (event.data.final && scopeOf(event) === "") draft.view.answer = event.data.text;
      break;
    }
    case "agent.turn.finished": {
      const turn = draft.turn(event);
      if (turn) turn.phase = "done";
      break;
    }
    case "agent.parsed":
      if (event.data.calls.length > 0) draft.view.rewrites = { ...draft.view.rewrites, [scopeOf(event)]: 0 };
      break;
    case "agent.parse_failed": {
      const scope = scopeOf(event);
      const attempt = (draft.view.rewrites[scope] ?? 0) + 1;
      draft.view.rewrites = { ...draft.view.rewrites, [scope]: attempt };
      const limit = draft.view.budgets["corrections"]?.limit ?? CORRECTIONS;
      draft.add({
        ...draft.base(`rewrite:${event.seq}`, event),
        kind: "rewrite",
        code: event.data.code,
        attempt,
        limit: Math.max(limit, attempt),
        errors: event.data.errors,
      });
      break;
    }
    case "agent.compacted":
      draft.note(event, "compacted", event.data.by);
      break;
    case "agent.budget": {
      const { key, used, limit } = event.data;
      draft.view.budgets = { ...draft.view.budgets, [key]: { used, limit } };
      break;
    }
    case "agent.warning":
      draft.note(event, "warning", event.data.message, event.data.kind);
      break;
    default:
      reduceCall(draft, event);
  }
}

function reduceCall(draft: Draft, event: TraceEvent): void {
  switch (event.type) {
    case "agent.call.delta": {
      const call = callOf(draft, event, "");
      const { path, text } = event.data;
      call.written = { ...call.written, [path]: (call.written[path] ?? "") + text };
      break;
    }
    case "agent.call.ready": {
      const call = callOf(draft, event, event.data.tool);
      call.state = "ready";
      call.arguments = event.data.arguments;
      call.repairs = event.data.repairs;
      break;
    }
    case "agent.tool.chosen": {
      const call = callOf(draft, event, event.data.tool);
      // A person's no comes before what is told of the choice.
      if (call.state !== "denied") call.state = "chosen";
      if (event.data.reason) call.reason = event.data.reason;
      break;
    }
    case "agent.tool.approval": {
      const call = callOf(draft, event, event.data.tool);
      const states = { asked: "asked", approved: "approved", edited: "approved", denied: "denied" } as const;
      call.state = states[event.data.state];
      if (event.data.reason) call.word = event.data.reason;
      break;
    }
    case "agent.tool.started":
      callOf(draft, event, event.data.tool).state = "running";
      break;
    case "agent.tool.chunk":
      callOf(draft, event, event.data.tool).output += event.data.text;
      break;
    case "agent.tool.finished": {
      const call = callOf(draft, event, event.data.tool);
      const { status, summary, blob, ms } = event.data;
      // What a person refused stays what a person refused.
      const state: CallState = call.state === "denied" && status === "refused" ? "denied" : status;
      call.state = state;
      call.summary = summary;
      call.ms = ms;
      if (blob) call.blob = blob;
      break;
    }
    case "agent.observation": {
      const call = draft.call(event.call, event.ts);
      if (call && call.state !== "writing") {
        call.observation = event.data.text;
        break;
      }
      const rewrite = draft.view.entries.findLast((entry) => entry.kind === "rewrite");
      if (rewrite && scopeOf(event) === (rewrite.call || "")) {
        const mine = draft.entry(rewrite.id, event.ts);
        if (mine?.kind === "rewrite") mine.observation = join(mine.observation, event.data.text);
        break;
      }
      draft.note(event, "observation", event.data.text, event.data.tool);
      break;
    }
    default:
      break;
  }
}

function join(before: string | undefined, text: string): string {
  return before === undefined ? text : `${before}\n${text}`;
}

/** The entry of the call that an event is about; a new one where there is none. */
function callOf(draft: Draft, event: TraceEvent, tool: string): CallEntry {
  const id = event.call ?? "";
  const known = draft.call(id, event.ts);
  if (known) {
    if (tool) known.tool = tool;
    return known;
  }
  const turn = draft.turn(event);
  if (turn) turn.calls = [...turn.calls, id];
  const scope = { call: scopeOf(event), depth: event.depth ?? 0 };
  const base = { ...draft.base(`call:${id}`, event), ...scope };
  return draft.add({ ...base, kind: "call", tool, state: "writing", written: {}, repairs: [], output: "" });
}

// A run of the workflow on the canvas: followed while it works, or looked at again, by the same reducer.
import { api, type RunDetail, type TraceEvent } from "../api/client.ts";
import { live } from "../api/live.ts";
import { emptyView, isOver, reduce, viewOf, type GraphView, type LoopView, type NodeView, type RunView } from "../state/reducer.ts";
import { beginRun } from "./files.ts";
import type { JsonObject } from "./model/json.ts";

/** Events that come within this many milliseconds are drawn at once. */
const FRAME = 16;

export class Runner {
  run: string | null = $state(null);
  view: RunView = $state.raw(emptyView(""));
  detail: RunDetail | null = $state.raw(null);
  starting = $state(false);
  error: unknown = $state.raw(null);
  /** Set where the store says that no process drives the run any more, which no event can say. */
  interrupted = $state(false);
  /** All events so far, for looking back. */
  private events: TraceEvent[] = [];
  /** Number of the event that is looked at; `null` is the latest. */
  at: number | null = $state(null);
  private past: RunView = $state.raw(emptyView(""));
  private end: (() => void) | null = null;
  private waiting: TraceEvent[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;

  /** What is seen: the latest, or the moment that is looked at. */
  readonly seen: RunView = $derived(this.at === null ? this.view : this.past);
  readonly graph: GraphView | undefined = $derived(this.seen.graphs[""]);
  readonly over: boolean = $derived(isOver(this.view));
  readonly working: boolean = $derived(this.starting || (this.run !== null && !this.over && !this.interrupted));

  async start(workflow: string, inputs: JsonObject): Promise<void> {
    this.starting = true;
    this.error = null;
    try {
      const run = await beginRun(workflow, inputs);
      this.follow(run);
    } catch (error) {
      this.error = error;
    } finally {
      this.starting = false;
    }
  }

  follow(run: string): void {
    this.leave();
    this.run = run;
    this.view = emptyView(run);
    this.detail = null;
    this.at = null;
    this.interrupted = false;
    this.events = [];
    this.end = live.follow(run, 0, {
      events: (batch) => this.take(batch),
      live: () => void this.compare(run),
      failed: (code, message) => (this.error = new Error(`${code}: ${message}`)),
    });
  }

  /** Looks at no run any more. */
  close(): void {
    this.leave();
    this.run = null;
    this.view = emptyView("");
    this.detail = null;
    this.error = null;
    this.at = null;
    this.interrupted = false;
  }

  leave(): void {
    this.end?.();
    this.end = null;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.waiting = [];
  }

  /** Asks the store how the run stands, once its backlog has come. */
  private async compare(run: string): Promise<void> {
    this.draw();
    if (this.over) return;
    const seen = this.view.lastSeq;
    const status = await api.run(run).then(
      (detail) => detail.status,
      () => undefined,
    );
    if (this.run === run && this.view.lastSeq === seen) this.interrupted = status === "interrupted";
  }

  /** Continues a run that was interrupted. */
  async resume(): Promise<void> {
    if (this.run === null) return;
    try {
      await api.resume(this.run);
      this.interrupted = false;
    } catch (error) {
      this.error = error;
    }
  }

  private take(batch: TraceEvent[]): void {
    this.waiting.push(...batch);
    this.timer ??= setTimeout(() => this.draw(), FRAME);
  }

  private draw(): void {
    this.timer = null;
    const batch = this.waiting;
    if (batch.length === 0) return;
    this.waiting = [];
    this.interrupted = false;
    for (const event of batch) this.events.push(event);
    this.view = reduce(this.view, batch);
    if (isOver(this.view) && this.detail === null && this.run !== null) void this.learn(this.run);
  }

  private async learn(run: string): Promise<void> {
    try {
      const detail = await api.run(run);
      if (this.run === run) this.detail = detail;
    } catch (error) {
      this.error = error;
    }
  }

  /** Looks at the run as it was behind an event. */
  lookAt(seq: number | null): void {
    if (seq !== null) {
      const until = this.events.filter((event) => event.seq <= seq);
      this.past = viewOf(this.run ?? "", until);
    }
    this.at = seq;
  }

  async cancel(): Promise<void> {
    if (this.run === null) return;
    try {
      await api.cancel(this.run);
    } catch (error) {
      this.error = error;
    }
  }

  async answer(ask: string, value: unknown): Promise<void> {
    if (this.run === null) return;
    try {
      await api.answer(this.run, ask, { answer: value });
    } catch (error) {
      this.error = error;
    }
  }

  /** How a node stands; its path is without passes. */
  node(path: string): NodeView | undefined {
    const latest = this.graph?.latest[path];
    return latest === undefined ? undefined : this.graph?.nodes[latest];
  }

  /** The last run of a zone. */
  loop(path: string): LoopView | undefined {
    const latest = this.graph?.latest[path] ?? path;
    return this.graph?.loops[latest] ?? this.graph?.loops[path];
  }
}

// A run that is followed: its events, and the view that they make. Events are put in once a frame.
import { type Connection, live } from "../api/live.ts";
import type { TraceEvent } from "../api/types.gen.ts";
import { api } from "../api/client.ts";
import { type RunView, emptyView, isOver, reduce, withGap } from "./reducer.ts";

/** How often the view is renewed at most, in milliseconds. */
const FRAME = 30;

export class FollowedRun {
  view: RunView = $state.raw(emptyView(""));
  /** Grows with the view. */
  events: TraceEvent[] = [];
  /** Set once the backlog has been received. */
  isLive = $state(false);
  failure: { code: string; message: string } | undefined = $state.raw();
  connection: Connection = $state(live.connection);
  /** Set where the store says that no process drives the run any more, which no event can say. */
  isInterrupted = $state(false);
  private waiting: TraceEvent[] = [];
  private isPlanned = false;
  private readonly stops: (() => void)[] = [];

  constructor(readonly run: string) {
    this.view = emptyView(run);
    this.stops.push(live.watch((connection) => (this.connection = connection)));
    const follower = {
      events: (batch: TraceEvent[]) => this.take(batch),
      live: () => {
        this.flush();
        this.isLive = true;
        void this.compare();
      },
      lag: (missed: number) => {
        this.flush();
        this.view = withGap(this.view, missed);
      },
      failed: (code: string, message: string) => (this.failure = { code, message }),
    };
    this.stops.push(live.follow(run, 0, follower));
  }

  /** Ends it. */
  stop(): void {
    for (const stop of this.stops.splice(0)) stop();
  }

  /** Asks the store how the run stands: each time that the backlog has come, so behind every reconnection. */
  private async compare(): Promise<void> {
    if (isOver(this.view)) return;
    const seen = this.view.lastSeq;
    const status = await api.run(this.run).then(
      (detail) => detail.status,
      () => undefined,
    );
    if (this.view.lastSeq === seen) this.isInterrupted = status === "interrupted";
  }

  private take(batch: TraceEvent[]): void {
    this.waiting.push(...batch);
    if (batch.some((event) => event.type === "run.finished")) {
      this.flush();
      this.isLive = true;
      return;
    }
    if (this.isPlanned) return;
    this.isPlanned = true;
    setTimeout(() => this.flush(), FRAME);
  }

  private flush(): void {
    this.isPlanned = false;
    if (this.waiting.length === 0) return;
    const batch = this.waiting.splice(0);
    this.isInterrupted = false;
    this.events.push(...batch);
    this.view = reduce(this.view, batch);
  }
}

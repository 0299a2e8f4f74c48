// Views of a run at any of its events. Some are kept, so that going back does not begin anew each time.
import type { TraceEvent } from "../api/types.gen.ts";
import { type RunView, emptyView, reduce } from "../state/reducer.ts";

/** Events between two kept views. */
const APART = 250;

export class Replayed {
  private readonly kept: RunView[];

  constructor(
    run: string,
    readonly events: readonly TraceEvent[],
  ) {
    this.kept = [emptyView(run)];
  }

  /** The view behind the first `count` events. */
  at(count: number): RunView {
    const wanted = Math.max(0, Math.min(count, this.events.length));
    const base = Math.floor(wanted / APART);
    while (this.kept.length <= base) {
      const from = (this.kept.length - 1) * APART;
      const last = this.kept[this.kept.length - 1];
      if (last === undefined) break;
      this.kept.push(reduce(last, this.events.slice(from, from + APART)));
    }
    const start = this.kept[base] ?? emptyView("");
    return reduce(start, this.events.slice(base * APART, wanted));
  }
}

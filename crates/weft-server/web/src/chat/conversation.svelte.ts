// A conversation: what the server keeps of it, and behind that the exchanges that run, wait for their turn or have just ended.
import { ApiError, api, type ChatMessage } from "../api/client.ts";
import { FollowedRun } from "../state/follow.svelte.ts";
import { isOver } from "../state/reducer.ts";

/** Runs of a conversation that are looked at for those that have not ended; more cannot wait. */
const LAST = 20;
const OPEN: readonly string[] = ["running", "waiting", "interrupted"];

/** A message and what comes of it. */
export class Exchange {
  /** The run that answers it, once the server has taken it. */
  run: FollowedRun | undefined = $state.raw();
  /** The whole message. */
  text: string = $state("");
  /** Messages before it, as the server said. */
  place = $state(0);

  constructor(text: string, run?: string, place = 0) {
    this.text = text;
    this.place = place;
    if (run !== undefined) this.run = new FollowedRun(run);
  }

  get isOver(): boolean {
    return this.run !== undefined && isOver(this.run.view);
  }

  get isWaiting(): boolean {
    return this.run?.view.status === "waiting";
  }

  /** Something works on it, or will. */
  get isAtWork(): boolean {
    return !this.isOver && !this.isWaiting && this.run?.isInterrupted !== true;
  }
}

export class Conversation {
  messages: ChatMessage[] = $state.raw([]);
  exchanges: readonly Exchange[] = $state.raw([]);
  error: unknown = $state.raw();
  readonly last: Exchange | undefined = $derived(this.exchanges.at(-1));
  readonly isAtWork: boolean = $derived(this.exchanges.some((one) => one.isAtWork));
  readonly isWaiting: boolean = $derived(this.exchanges.some((one) => one.isWaiting));
  readonly interrupted: string | undefined = $derived(this.exchanges.find((one) => one.run?.isInterrupted)?.run?.run);
  /** The run that is executed now, or the first that waits for its turn. */
  readonly working: string | undefined = $derived(this.exchanges.find((one) => one.isAtWork)?.run?.run);
  private isGone = false;

  constructor(
    readonly agent: string,
    readonly name: string,
  ) {}

  /** Reads what was said, and the runs that are still at work. */
  async load(): Promise<void> {
    try {
      const [history, runs] = await Promise.all([api.messages(this.agent, this.name), api.runs({ agent: this.agent, thread: this.name, limit: LAST })]);
      if (this.isGone) return;
      const open = runs.items.filter((one) => OPEN.includes(one.status) && !this.has(one.run)).reverse();
      const found = open.map((one, place) => new Exchange(one.message ?? "", one.run, place));
      this.exchanges = [...found, ...this.exchanges];
      this.show(history);
      await Promise.all(found.map((one) => this.complete(one)));
    } catch (failed) {
      if (!this.isGone && !(failed instanceof ApiError && failed.status === 404)) this.error = failed;
    }
  }

  /** The beginning of a message becomes all of it. */
  private async complete(exchange: Exchange): Promise<void> {
    if (exchange.run === undefined || !exchange.text.endsWith("…")) return;
    exchange.text = (await api.run(exchange.run.run)).input ?? exchange.text;
  }

  /** Sends a message; it is shown at once, behind those that wait. */
  async say(text: string): Promise<boolean> {
    const exchange = new Exchange(text);
    this.error = undefined;
    this.exchanges = [...this.exchanges, exchange];
    void this.refresh();
    try {
      const { run, place } = await api.say(this.agent, this.name, text);
      exchange.place = place ?? 0;
      exchange.run = new FollowedRun(run);
      return true;
    } catch (failed) {
      this.exchanges = this.exchanges.filter((one) => one !== exchange);
      this.error = failed;
      return false;
    }
  }

  /** Follows the run of an interrupted message again. */
  async settle(run: string, how: "resume" | "cancel"): Promise<void> {
    try {
      await (how === "resume" ? api.resume(run) : api.cancel(run));
      this.error = undefined;
      const old = this.exchanges.find((one) => one.run?.run === run);
      old?.run?.stop();
      if (old) old.run = new FollowedRun(run);
      else this.exchanges = [new Exchange("", run), ...this.exchanges];
    } catch (failed) {
      this.error = failed;
    }
  }

  async cancel(run: string): Promise<void> {
    try {
      await api.cancel(run);
    } catch (failed) {
      this.error = failed;
    }
  }

  /** Reads again what the server keeps: the end of a run becomes a part of it. */
  async refresh(): Promise<void> {
    const history = await api.messages(this.agent, this.name).catch(() => undefined);
    if (history !== undefined && !this.isGone) this.show(history);
  }

  /** Ends all that is followed. */
  leave(): void {
    this.isGone = true;
    for (const one of this.exchanges) one.run?.stop();
  }

  private has(run: string): boolean {
    return this.exchanges.some((one) => one.run?.run === run);
  }

  /** Shows what is kept, but the last exchanges by their runs, which know more of them. */
  private show(history: ChatMessage[]): void {
    const kept = new Set(history.map((message) => message.run));
    const isKept = (one: Exchange): boolean => one.isOver && one !== this.last && kept.has(one.run?.run);
    const first = this.exchanges.findIndex((one) => !isKept(one));
    const from = first < 0 ? this.exchanges.length : first;
    for (const one of this.exchanges.slice(0, from)) one.run?.stop();
    this.exchanges = this.exchanges.slice(from);
    this.messages = history.filter((message) => !message.run || !this.has(message.run));
  }
}

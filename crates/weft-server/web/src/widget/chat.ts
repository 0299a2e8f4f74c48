// The conversation in the frame: what the server keeps of it, what was just written, and the answer as it comes.
import { eventsOf } from "../api/sse.ts";
import type { Words } from "./words.ts";

export interface ChatOptions {
  address: string;
  key: string;
  words: Words;
  title: string;
  greeting: string;
}

interface Message {
  role: "user" | "assistant";
  author: string;
  name: string | null;
  text: string;
}

interface State {
  with: "agent" | "person" | "closed";
  person?: string | null;
}

/** Wait before a stream is opened again, in milliseconds. */
const PAUSE = 1000;

export class Chat {
  private readonly list = element("div", "messages");
  private readonly state = element("p", "state");
  private readonly box = element("textarea", "box");
  private readonly button = element("button", "send");
  private readonly error = element("p", "error");
  /** The answer as it comes, until the conversation has it. */
  private readonly draft = element("div", "message theirs draft");
  /** What was just written, until the conversation has it. */
  private readonly pending: HTMLElement[] = [];
  private seen = 0;
  /** The message whose sending failed: where it is sent again unchanged, the server takes it once. */
  private unsent: { text: string; id: string } | null = null;

  constructor(
    private readonly root: HTMLElement,
    private readonly options: ChatOptions,
  ) {}

  start(): void {
    const { words, title, greeting } = this.options;
    const heading = element("h1", "title");
    heading.textContent = title;
    this.list.setAttribute("role", "log");
    this.list.setAttribute("aria-label", words.messages);
    this.list.tabIndex = 0;
    this.state.setAttribute("role", "status");
    this.error.setAttribute("role", "alert");
    this.box.setAttribute("aria-label", words.say);
    this.box.placeholder = words.say;
    this.box.rows = 1;
    this.button.textContent = words.send;
    this.button.type = "submit";
    const form = element("form", "composer");
    form.append(this.box, this.button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.say();
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      void this.say();
    });
    if (greeting !== "") this.list.append(bubble({ role: "assistant", author: "agent", name: null, text: greeting }));
    this.root.append(heading, this.state, this.list, this.error, form);
    this.root.dataset["chat"] = "ready";
    void this.follow();
  }

  private async ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${this.options.key}`, "content-type": "application/json", accept: "text/event-stream" };
    return fetch(`${this.options.address}/${path}`, { ...init, headers });
  }

  private async say(): Promise<void> {
    const text = this.box.value.trim();
    if (text === "") return;
    this.box.value = "";
    this.error.textContent = "";
    const mine = bubble({ role: "user", author: "user", name: null, text });
    this.pending.push(mine);
    this.list.append(mine);
    this.toEnd();
    // The id lets the server take a message once, however often the browser sends it.
    const id = this.unsent?.text === text ? this.unsent.id : crypto.randomUUID();
    this.unsent = null;
    try {
      const body = JSON.stringify({ text, message_id: id });
      const response = await this.ask("messages", { method: "POST", body });
      if (!response.ok) throw new Error(String(response.status));
      await this.hear(response);
    } catch (failed) {
      this.drop(mine);
      this.unsent = { text, id };
      // What was typed meanwhile stays.
      if (this.box.value === "") this.box.value = text;
      const { slow, failed: words } = this.options.words;
      this.error.textContent = failed instanceof Error && failed.message === "429" ? slow : words;
    } finally {
      this.draft.remove();
    }
  }

  /** Shows the answer as it comes. */
  private async hear(response: Response): Promise<void> {
    this.draft.textContent = this.options.words.thinking;
    this.draft.dataset["state"] = "thinking";
    this.list.append(this.draft);
    this.toEnd();
    for await (const { event, data } of eventsOf(response)) {
      if (event === "end") return;
      if (event !== "delta") continue;
      if (this.draft.dataset["state"] === "thinking") this.draft.textContent = "";
      this.draft.dataset["state"] = "writing";
      this.draft.append((JSON.parse(data) as { text: string }).text);
      this.toEnd();
    }
  }

  /** The conversation as the server keeps it, for as long as the frame is there. */
  private async follow(): Promise<void> {
    for (;;) {
      try {
        const response = await this.ask(`events?after=${this.seen}`);
        if (!response.ok) throw new Error(String(response.status));
        this.error.textContent = "";
        for await (const { event, id, data } of eventsOf(response)) {
          if (event === "message") this.take(JSON.parse(data) as Message);
          else if (event === "state") this.stand(JSON.parse(data) as State);
          if (id !== "") this.seen = Number(id);
        }
      } catch {
        this.error.textContent = this.options.words.lost;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }

  private take(message: Message): void {
    if (message.role === "user") {
      const mine = this.pending[0];
      if (mine !== undefined) this.drop(mine);
      if (this.unsent?.text === message.text) {
        // It had arrived all the same.
        if (this.box.value.trim() === message.text) this.box.value = "";
        this.unsent = null;
      }
    } else {
      this.draft.remove();
    }
    // What is on its way stays below what was said.
    const next = this.pending[0] ?? (this.draft.isConnected ? this.draft : null);
    this.list.insertBefore(bubble(message), next);
    this.toEnd();
  }

  private drop(mine: HTMLElement): void {
    const place = this.pending.indexOf(mine);
    if (place >= 0) this.pending.splice(place, 1);
    mine.remove();
  }

  private stand(state: State): void {
    const { words } = this.options;
    const person = state.person ? words.person.replace("{name}", state.person) : words.anybody;
    this.root.dataset["with"] = state.with;
    this.state.textContent = { agent: "", person, closed: words.closed }[state.with];
  }

  private toEnd(): void {
    this.list.scrollTop = this.list.scrollHeight;
  }
}

function bubble({ role, author, name, text }: Message): HTMLElement {
  const message = element("div", role === "user" ? "message mine" : "message theirs");
  message.dataset["author"] = author;
  if (name !== null) {
    const who = element("span", "who");
    who.textContent = name;
    message.append(who);
  }
  message.append(text);
  return message;
}

function element<Name extends keyof HTMLElementTagNameMap>(name: Name, classes: string): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  made.className = classes;
  return made;
}

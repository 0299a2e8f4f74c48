// REST, with the types that come from Rust.
import type {
  Accepted,
  AgentDetail,
  AgentSummary,
  AnswerBody,
  Called,
  ChatMessage,
  Checked,
  NewRunBody,
  LoopEntry,
  Meta,
  Node,
  OpenAsk,
  PassRecord,
  Placed,
  Problem,
  ProfilePreview,
  RecordedRequest,
  RunDetail,
  RunSummary,
  SessionInfo,
  Thread,
  ToolDetail,
  ToolSummary,
  TraceEvent,
  Validated,
  WorkflowDetail,
  WorkflowSummary,
} from "./types.gen.ts";
import { token } from "./token.ts";

export type * from "./types.gen.ts";

/** A refusal of the server, or that it cannot be reached. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly help: string | undefined;
  readonly problem: Partial<Problem> & Record<string, unknown>;

  constructor(status: number, problem: Partial<Problem> & Record<string, unknown>) {
    super(String(problem["detail"] ?? problem["title"] ?? `status ${status}`));
    this.status = status;
    this.code = String(problem["code"] ?? (status === 0 ? "offline" : "unknown"));
    this.help = typeof problem["help"] === "string" ? problem["help"] : undefined;
    this.problem = problem;
  }
}

/** An answer with the tag of the file that it came from. */
export interface Tagged<T> {
  value: T;
  tag: string | undefined;
}

export interface Page<T> {
  items: T[];
  /** Where the next page is. */
  next: string | undefined;
}

interface Options {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  body?: unknown;
  /** JSON that is text already, sent as it is. */
  text?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** An id as a part of a path. */
export const part = encodeURIComponent;

/** Asks the server. A path is relative to the page: the server may stand behind a prefix. */
export async function send(path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json", ...options.headers };
  const known = token();
  if (known) headers["authorization"] = `Bearer ${known}`;
  const init: RequestInit = { method: options.method ?? "GET", headers };
  if (options.signal) init.signal = options.signal;
  const body = options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = body;
  }
  let response: Response;
  try {
    response = await fetch(path.replace(/^\//, ""), init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "offline", detail: String(error) });
  }
  if (response.ok) return response;
  const text = await response.text();
  let problem: Record<string, unknown> = {};
  try {
    problem = JSON.parse(text) as Record<string, unknown>;
  } catch {
    problem = { detail: text.slice(0, 300) };
  }
  throw new ApiError(response.status, problem);
}

async function json<T>(path: string, options?: Options): Promise<T> {
  return (await (await send(path, options)).json()) as T;
}

async function tagged<T>(path: string, options?: Options): Promise<Tagged<T>> {
  const response = await send(path, options);
  return { value: (await response.json()) as T, tag: response.headers.get("etag") ?? undefined };
}

async function page<T>(path: string, options?: Options): Promise<Page<T>> {
  const response = await send(path, options);
  const link = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get("link") ?? "");
  return { items: (await response.json()) as T[], next: link?.[1] };
}

function query(values: Record<string, string | number | undefined>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

const matched = (tag: string | undefined): Record<string, string> => (tag ? { "if-match": tag } : {});

export interface RunFilter {
  agent?: string | undefined;
  workflow?: string | undefined;
  thread?: string | undefined;
  status?: string | undefined;
  limit?: number | undefined;
}

/** What a person does in a session. */
export type SeatAction = "take" | "messages" | "notes" | "give-back" | "close" | "reopen";

/** Everything that the page asks for. */
export const api = {
  meta: () => json<Meta>("api/meta"),
  agents: () => json<AgentSummary[]>("api/agents"),
  agent: (id: string) => tagged<AgentDetail>(`api/agents/${part(id)}`),
  addTool: (agent: string, tool: string, tag?: string) =>
    tagged<AgentDetail>(`api/agents/${part(agent)}/tools/${part(tool)}`, { method: "PUT", headers: matched(tag) }),
  removeTool: (agent: string, tool: string, tag?: string) =>
    tagged<AgentDetail>(`api/agents/${part(agent)}/tools/${part(tool)}`, { method: "DELETE", headers: matched(tag) }),

  tools: (agent?: string) => json<ToolSummary[]>(`api/tools${query({ agent })}`),
  /** What giving an agent a tool would change; the tag is for the change itself. */
  previewTool: (agent: string, tool: string) =>
    tagged<ProfilePreview>(`api/agents/${part(agent)}/tools/${part(tool)}`),
  tool: (id: string, lang = "en") => json<ToolDetail>(`api/tools/${part(id)}${query({ lang })}`),
  checkTool: (id: string, args: Record<string, unknown>) =>
    json<Checked>(`api/tools/${part(id)}/check`, { method: "POST", body: { arguments: args } }),
  callTool: (id: string, args: Record<string, unknown>) =>
    json<Called>(`api/tools/${part(id)}/call`, { method: "POST", body: { arguments: args } }),

  workflows: () => json<WorkflowSummary[]>("api/workflows"),
  workflow: (id: string) => tagged<WorkflowDetail>(`api/workflows/${part(id)}`),
  /** Saves a workflow. `tag` is what it replaces; absent, it must be new. */
  saveWorkflow: (id: string, workflow: unknown, tag: string | undefined) =>
    tagged<WorkflowDetail>(`api/workflows/${part(id)}`, {
      method: "PUT",
      body: workflow,
      headers: tag ? matched(tag) : { "if-none-match": "*" },
    }),
  validateWorkflow: (id: string, workflow?: unknown, signal?: AbortSignal) =>
    json<Validated>(`api/workflows/${part(id)}/validate`, {
      method: "POST",
      ...(workflow === undefined ? {} : { body: workflow }),
      ...(signal ? { signal } : {}),
    }),
  layoutWorkflow: (id: string, workflow?: unknown) =>
    json<Placed>(`api/workflows/${part(id)}/layout`, {
      method: "POST",
      ...(workflow === undefined ? {} : { body: workflow }),
    }),
  nodes: () => json<Node[]>("api/nodes"),

  runs: (filter: RunFilter = {}) => page<RunSummary>(`api/runs${query({ ...filter })}`),
  more: <T>(next: string) => page<T>(next),
  run: (id: string) => json<RunDetail>(`api/runs/${part(id)}`),
  begin: (body: Partial<NewRunBody>) => json<Accepted>("api/runs", { method: "POST", body }),
  cancel: (run: string) => json<Accepted>(`api/runs/${part(run)}/cancel`, { method: "POST" }),
  resume: (run: string) => json<Accepted>(`api/runs/${part(run)}/resume`, { method: "POST" }),
  /** Begins a run that continues a failed or cancelled one from its failure. */
  retry: (run: string) => json<Accepted>(`api/runs/${part(run)}/retry`, { method: "POST" }),
  /** All events that were, page by page. */
  events: async (run: string): Promise<TraceEvent[]> => {
    const all: TraceEvent[] = [];
    let next: string | undefined = `api/runs/${part(run)}/events`;
    while (next !== undefined) {
      const got: Page<TraceEvent> = await page<TraceEvent>(next);
      all.push(...got.items);
      next = got.next;
    }
    return all;
  },
  /** The record of a pass of a loop; none where the run has none of it. */
  pass: async (run: string, loop: string, pass: number, call: string, signal: AbortSignal): Promise<PassRecord | undefined> => {
    let next: string | undefined = `api/runs/${part(run)}/loops${query({ loop, pass, call, limit: 1 })}`;
    while (next !== undefined) {
      const got: Page<LoopEntry> = await page<LoopEntry>(next, { signal });
      const found = got.items.find((entry) => "pass" in entry && entry.pass === pass);
      if (found && "pass" in found) return found;
      next = got.next;
    }
    return undefined;
  },
  /** The request of a turn, as the model was sent it. */
  request: (run: string, turn: number, place: { call: string; path: string | undefined }) =>
    json<RecordedRequest>(`api/runs/${part(run)}/requests/${turn}${query(place)}`),
  blob: async (sha256: string): Promise<string> => (await send(`api/blobs/${part(sha256)}`)).text(),

  asks: (run?: string) => json<OpenAsk[]>(`api/asks${query({ run })}`),
  answer: (run: string, ask: string, body: Partial<AnswerBody>) =>
    json<Accepted>(`api/asks/${part(ask)}`, { method: "POST", body: { ...body, run } }),

  threads: (agent: string) => json<Thread[]>(`api/chat/${part(agent)}/threads`),
  sessions: () => json<SessionInfo[]>("api/sessions"),
  /** What a person does in a session: take it, answer in it, note something, give it back, close or reopen it. */
  seat: (session: string, how: SeatAction, body: { person?: string; text?: string }) =>
    json<SessionInfo>(`api/sessions/${part(session)}/${how}`, { method: "POST", body }),
  /** Begins the run that writes a reply for the person. */
  suggest: (session: string) => json<Accepted>(`api/sessions/${part(session)}/suggest`, { method: "POST" }),
  messages: (agent: string, thread: string) =>
    json<ChatMessage[]>(`api/chat/${part(agent)}/threads/${part(thread)}/messages`),
  say: (agent: string, thread: string, text: string) =>
    json<Accepted>(`api/chat/${part(agent)}/threads/${part(thread)}/messages`, { method: "POST", body: { text } }),
};

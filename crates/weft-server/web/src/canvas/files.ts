// Workflow files from and to the server, as text, so that nothing is lost on the way.
import { api, ApiError, part, send } from "../api/client.ts";
import { readTypes } from "./model/catalog.ts";
import type { WorkflowFile } from "./model/file.ts";
import { isObject, parseJson, printJson, type Json, type JsonObject } from "./model/json.ts";
import type { NodeType } from "./model/slots.ts";

export interface Loaded {
  file: WorkflowFile;
  etag: string;
}

async function read(response: Response): Promise<Json> {
  return parseJson(await response.text());
}

const address = (id: string, more = ""): string => `api/workflows/${part(id)}${more}`;

function loaded(response: Response, body: Json): Loaded {
  const file = isObject(body) ? body["workflow"] : undefined;
  if (!isObject(file)) throw new ApiError(response.status, { detail: "the server sent no workflow" });
  return { file, etag: response.headers.get("etag") ?? "" };
}

export async function loadWorkflow(id: string): Promise<Loaded> {
  const response = await send(address(id));
  return loaded(response, await read(response));
}

/** Saves over what `etag` names; `null` must be new. The answer is the new tag. */
export async function saveWorkflow(id: string, file: WorkflowFile, etag: string | null): Promise<string> {
  const headers: Record<string, string> = etag === null ? { "if-none-match": "*" } : { "if-match": etag };
  const response = await send(address(id), { method: "PUT", text: printJson(file), headers });
  return response.headers.get("etag") ?? "";
}

export function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 412;
}

/** What the server finds wrong with a file, as it gives it. */
export async function validateWorkflow(id: string, file: WorkflowFile, signal: AbortSignal): Promise<Json | undefined> {
  const response = await send(address(id, "/validate"), { method: "POST", text: printJson(file), signal });
  const body = await read(response);
  return isObject(body) ? body["problems"] : undefined;
}

export interface PlacedNode {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Places for the nodes of a file; the size of a node is what its `width` and `height` say. */
export async function layoutWorkflow(id: string, file: WorkflowFile): Promise<PlacedNode[]> {
  const response = await send(address(id, "/layout"), { method: "POST", text: printJson(file) });
  const placed = (await response.json()) as { nodes: { id: string; position: { x: number; y: number }; width: number; height: number }[] };
  return placed.nodes.map((node) => ({ id: node.id, ...node.position, width: node.width, height: node.height }));
}

/** The types of nodes, with their words in a language. */
export async function loadTypes(language: string): Promise<Map<string, NodeType>> {
  return readTypes(await read(await send(`api/nodes?lang=${language}`)));
}

/** Starts a run of what is saved. */
export async function beginRun(workflow: string, inputs: JsonObject): Promise<string> {
  const text = printJson({ workflow, inputs });
  const response = await send("api/runs", { method: "POST", text });
  return ((await response.json()) as { run: string }).run;
}

export { api };

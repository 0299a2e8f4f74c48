// Small workflows for tests.

import { indexFile, type Graph, type WorkflowFile } from "./file.ts";
import { parseJson, type JsonObject } from "./json.ts";
import { readTypes } from "./catalog.ts";
import type { World } from "./slots.ts";

const slot = (dataFlowType: string, more: JsonObject = {}): JsonObject => ({ dataFlowType, ...more });

function type(id: string, inputs: JsonObject, outputs: JsonObject, more: JsonObject = {}): JsonObject {
  return { id, title: id, description: `what ${id} does`, definition: { type: id, displayName: id.slice(5), inputs, outputs, dynamicInputs: "none", dynamicOutputs: "none", config: {}, ...more } };
}

export const world: World = {
  types: readTypes([
    type("core:Expression", { values: slot("WILDCARD") }, { value: slot("WILDCARD") }, { dynamicInputs: { namedIn: "cel" } }),
    type("core:TextReplace", { text: slot("STRING", { required: true }) }, { text: slot("STRING") }),
    type("core:TextSplit", { text: slot("STRING") }, { parts: slot("ARRAY") }),
    type("core:JsonMerge", { values: slot("WILDCARD", { multi: true }) }, { value: slot("WILDCARD") }),
    type("core:Http", {}, { body: slot("WILDCARD"), status: slot("INTEGER"), headers: slot("OBJECT") }),
    type("core:Switch", { value: slot("WILDCARD") }, { default: slot("WILDCARD") }, { dynamicOutputs: { keysOf: "cases" } }),
  ]),
  interfaces: new Map(),
};

/** A counter: state → add → next, with a result, and an output behind it. */
export const COUNTER = `{
  "name": "count", "x-note": {"1": 1.0, "a": 2},
  "interfaceInputs": {"seed": {"key": "seed", "dataFlowType": "STRING"}},
  "interfaceOutputs": {"n": {"key": "n", "dataFlowType": "INTEGER"}},
  "nodes": [
    {"id": "in", "type": "core:GroupInput", "position": {"x": 0, "y": 0}, "colour": "red"},
    {"id": "loop", "type": "core:LoopZone", "position": {"x": 300, "y": 0}, "width": 800, "height": 400, "configValues": {
      "state": [{"key": "n", "dataFlowType": "INTEGER", "initial": 0}], "mode": "until", "condition": "state.n >= 3"}},
    {"id": "state", "type": "core:LoopState", "parentNode": "loop", "position": {"x": 0, "y": 64}},
    {"id": "add", "type": "core:Expression", "parentNode": "loop", "position": {"x": 200, "y": 80}, "configValues": {"cel": "n + 1"}},
    {"id": "next", "type": "core:LoopNext", "parentNode": "loop", "position": {"x": 600, "y": 64}},
    {"id": "tidy", "type": "core:TextReplace", "position": {"x": 300, "y": 500}},
    {"id": "out", "type": "core:GroupOutput", "position": {"x": 1200, "y": 0}}
  ],
  "edges": [
    {"id": "e1", "source": "state", "sourceHandle": "n", "target": "add", "targetHandle": "n", "label": "kept"},
    {"id": "e2", "source": "add", "sourceHandle": "value", "target": "next", "targetHandle": "n"},
    {"source": "loop", "sourceHandle": "n", "target": "out", "targetHandle": "n"}
  ]
}`;

/** A zone whose body stands in its settings. */
export const BODY = `{
  "nodes": [
    {"id": "loop", "type": "core:LoopZone", "configValues": {"mode": "times", "times": 2, "state": [{"key": "n", "dataFlowType": "INTEGER", "initial": 0}],
      "body": {"nodes": [
        {"id": "state", "type": "core:LoopState"},
        {"id": "add", "type": "core:Expression", "configValues": {"cel": "n + k"}},
        {"id": "next", "type": "core:LoopNext"}],
      "edges": [
        {"source": "state", "sourceHandle": "n", "target": "add", "targetHandle": "n"},
        {"source": "konst", "sourceHandle": "value", "target": "add", "targetHandle": "k"},
        {"source": "add", "sourceHandle": "value", "target": "next", "targetHandle": "n"}]}}},
    {"id": "konst", "type": "core:Expression", "position": {"x": 0, "y": 300}, "configValues": {"cel": "2"}}
  ],
  "edges": []
}`;

export function graph(text: string): Graph {
  return indexFile(parseJson(text) as WorkflowFile);
}

// Projects that the tests serve.
import { type Files, action, script } from "./harness.ts";

/** Counts to its input in a loop. */
export const COUNT = {
  name: "count",
  description: "Counts to a number.",
  interfaceInputs: { n: { dataFlowType: "INTEGER", required: true, description: "how far" } },
  interfaceOutputs: { last: { dataFlowType: "INTEGER" } },
  nodes: [
    { id: "in", type: "core:GroupInput" },
    { id: "out", type: "core:GroupOutput" },
    {
      id: "loop",
      type: "core:LoopZone",
      configValues: {
        mode: "until",
        maxIterations: 1000,
        condition: "state.i >= state.n",
        test: "after",
        state: [
          { key: "i", dataFlowType: "INTEGER", initial: 0 },
          { key: "n", dataFlowType: "INTEGER" },
        ],
      },
    },
    { id: "s", type: "core:LoopState", parentNode: "loop" },
    { id: "add", type: "core:Expression", parentNode: "loop", configValues: { cel: "i + 1" } },
    { id: "next", type: "core:LoopNext", parentNode: "loop" },
  ],
  edges: [
    { source: "in", sourceHandle: "n", target: "loop", targetHandle: "n" },
    { source: "s", sourceHandle: "i", target: "add", targetHandle: "i" },
    { source: "add", sourceHandle: "value", target: "next", targetHandle: "i" },
    { source: "loop", sourceHandle: "i", target: "out", targetHandle: "last" },
  ],
};

/** Waits for ten minutes. */
export const SLOW = {
  name: "slow",
  description: "Waits.",
  interfaceInputs: {},
  interfaceOutputs: { v: { dataFlowType: "WILDCARD" } },
  nodes: [
    { id: "wait", type: "core:Delay", configValues: { ms: 600_000 } },
    { id: "out", type: "core:GroupOutput" },
  ],
  edges: [{ source: "wait", sourceHandle: "value", target: "out", targetHandle: "v" }],
};

/** Asks a person. */
export const ASK = {
  name: "ask",
  description: "Asks for a colour.",
  interfaceInputs: {},
  interfaceOutputs: { said: { dataFlowType: "STRING" } },
  nodes: [
    { id: "q", type: "core:Ask", configValues: { prompt: "Which colour?" } },
    { id: "out", type: "core:GroupOutput" },
  ],
  edges: [{ source: "q", sourceHandle: "answer", target: "out", targetHandle: "said" }],
};

/** An agent that makes a mistake, asks a person, hands on to another agent, and answers. */
export const BOSS: Files = {
  "weft.toml": 'script = "script.jsonl"\n',
  "workflows/count.json": COUNT,
  "workflows/ask.json": ASK,
  "agents/boss.json": {
    id: "boss",
    name: "Boss",
    description: "Has others count.",
    tool_ids_inventory: ["system:get_current_time", "workflow:count"],
    approval: { tools: { "system:get_current_time": "ask" } },
  },
  "flows.json": {
    skills: [
      {
        skill_id: "clerk",
        description: "Counts things for you.",
        execution_mode: "agent",
        system_prompt: "You count.",
        tools: ["workflow:count"],
      },
    ],
  },
  "script.jsonl": script(
    { text: `I ask the clock. ${action("get_clock")}` },
    { reasoning: "The tool has another name.", text: `I ask the clock. ${action("system:get_current_time", { timezone: "Asia/Shanghai" })}` },
    { text: `Now the clerk. ${action("skill:clerk", { task: "count to two" })}` },
    { text: `I count. ${action("workflow:count", { n: "2" })}` },
    { text: "Counted: 2." },
    { text: "The clerk counted to two." },
  ),
};

/** An agent without tools that says these things. */
export function talker(...replies: object[]): Files {
  return {
    "weft.toml": 'script = "script.jsonl"\n',
    "agents/talker.json": { id: "talker", name: "Talker", description: "Talks with you." },
    "script.jsonl": script(...replies),
  };
}

/** A tool whose schema has all that a form must cope with. It sends what it was given to `port`. */
export function forms(port: number): Files {
  return {
    ...talker({ text: "Hello." }),
    "weft.toml": `script = "script.jsonl"\n[network]\nallow = ["127.0.0.1:${port}"]\n`,
    "tools/draw.tool.json": {
      name: "draw",
      description: "Draws a picture.",
      parameters: {
        type: "object",
        properties: {
          title: { type: "string", description: "Written below it." },
          count: { type: "integer", minimum: 1, maximum: 9, default: 2 },
          note: { type: ["string", "null"] },
          colour: { enum: ["red", "green"] },
          tags: { type: "array", items: { type: "string" } },
          shape: { oneOf: [{ $ref: "#/$defs/Circle" }, { $ref: "#/$defs/Box" }] },
          place: { $ref: "#/$defs/Place" },
        },
        required: ["title", "shape", "note"],
        $defs: {
          Circle: {
            title: "Circle",
            type: "object",
            properties: { kind: { const: "circle" }, radius: { type: "number" } },
            required: ["kind", "radius"],
          },
          Box: {
            title: "Box",
            type: "object",
            properties: { kind: { const: "box" }, width: { type: "number" } },
            required: ["kind", "width"],
          },
          Place: {
            type: "object",
            properties: {
              page: { type: "integer" },
              corner: { type: "object", properties: { x: { type: "number" }, y: { type: "number" } }, required: ["x", "y"] },
            },
            required: ["page", "corner"],
          },
        },
      },
      endpoint: {
        url: `http://127.0.0.1:${port}/draw`,
        body: {
          ...{ title: "{title}", count: "{count}", note: "{note}", colour: "{colour}" },
          ...{ tags: "{tags}", shape: "{shape}", place: "{place}" },
        },
      },
    },
  };
}

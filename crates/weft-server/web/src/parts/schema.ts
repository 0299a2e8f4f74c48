// JSON Schema as a form needs it: references followed, unions taken apart, values to begin with. Pure.

export type Schema = Record<string, unknown>;

export interface Shape {
  /** The schema with its references followed. */
  schema: Schema;
  kind: "text" | "integer" | "number" | "boolean" | "null" | "object" | "list" | "tuple" | "choice" | "const" | "union" | "any";
  /** Whether null is another way to say it. */
  nullable: boolean;
  /** Of a union. */
  variants: Schema[];
  title?: string;
  description?: string;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** References that lead on to references, at most. */
const MOST_HOPS = 32;

/** A schema with its references followed and its `allOf` put together; its parts keep theirs. */
export function resolve(schema: unknown, root: Schema): Schema {
  let here: Schema = isRecord(schema) ? schema : {};
  for (let hop = 0; hop < MOST_HOPS && typeof here["$ref"] === "string"; hop += 1) {
    const { $ref, ...beside } = here;
    const target = pointed(String($ref), root);
    here = target ? { ...target, ...beside } : beside;
  }
  const all = here["allOf"];
  if (!Array.isArray(all)) return here;
  const { allOf: _, ...beside } = here;
  const parts = [...all.map((part) => resolve(part, root)), beside];
  const whole: Schema = Object.assign({}, ...parts) as Schema;
  const properties = parts.map((part) => part["properties"]).filter(isRecord);
  if (properties.length > 0) whole["properties"] = Object.assign({}, ...properties);
  const required = parts.flatMap((part) => (Array.isArray(part["required"]) ? (part["required"] as unknown[]) : []));
  if (required.length > 0) whole["required"] = [...new Set(required)];
  return whole;
}

function pointed(reference: string, root: Schema): Schema | undefined {
  if (!reference.startsWith("#")) return undefined;
  let here: unknown = root;
  for (const part of reference.slice(1).split("/").slice(1)) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    here = Array.isArray(here) ? here[Number(name)] : isRecord(here) ? here[name] : undefined;
  }
  return isRecord(here) ? here : undefined;
}

const isNull = (schema: Schema): boolean => schema["type"] === "null" || schema["const"] === null;

/** What kind of field a schema needs. */
export function shapeOf(given: unknown, root: Schema): Shape {
  const schema = resolve(given, root);
  const shape = { schema, nullable: schema["nullable"] === true, variants: [] as Schema[], ...words(schema) };
  if ("const" in schema) return { ...shape, kind: schema["const"] === null ? "null" : "const" };
  if (Array.isArray(schema["enum"])) {
    return { ...shape, kind: "choice", nullable: shape.nullable || schema["enum"].includes(null) };
  }
  const union = [schema["anyOf"], schema["oneOf"]].find(Array.isArray) as unknown[] | undefined;
  if (union) {
    const { anyOf: _any, oneOf: _one, ...beside } = schema;
    const all = union.map((part) => resolve(part, root));
    const others = all.filter((part) => !isNull(part));
    const nullable = shape.nullable || others.length < all.length;
    const [only] = others;
    if (others.length === 1 && only) return { ...shapeOf({ ...beside, ...only, ...spoken(beside) }, root), nullable };
    if (others.every((part) => "const" in part)) {
      return { ...shape, kind: "choice", nullable, schema: { ...beside, enum: others.map((part) => part["const"]) } };
    }
    return { ...shape, kind: "union", nullable, variants: others.map((part) => merged(beside, part)) };
  }
  const type = schema["type"];
  if (Array.isArray(type)) {
    const types = type.filter((one) => one !== "null");
    const nullable = shape.nullable || types.length < type.length;
    if (types.length === 1) return { ...shapeOf({ ...schema, type: types[0] }, root), nullable };
    return { ...shape, kind: "union", nullable, variants: types.map((one) => ({ ...schema, type: one })) };
  }
  return { ...shape, kind: kindOf(schema) };
}

/** What a union says of all its variants, such as properties that stand beside it. */
function merged(beside: Schema, variant: Schema): Schema {
  const { title: _title, description: _description, default: _default, ...rules } = beside;
  const both = { ...rules, ...variant };
  if (isRecord(rules["properties"]) && isRecord(variant["properties"])) {
    both["properties"] = { ...rules["properties"], ...variant["properties"] };
  }
  return both;
}

function spoken(schema: Schema): Schema {
  const { title, description } = schema;
  return { ...(title === undefined ? {} : { title }), ...(description === undefined ? {} : { description }) };
}

function words(schema: Schema): { title?: string; description?: string } {
  const { title, description } = schema;
  return {
    ...(typeof title === "string" ? { title } : {}),
    ...(typeof description === "string" ? { description } : {}),
  };
}

function kindOf(schema: Schema): Shape["kind"] {
  switch (schema["type"]) {
    case "string":
      return "text";
    case "integer":
      return "integer";
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return Array.isArray(schema["prefixItems"]) ? "tuple" : "list";
    case "object":
      return "object";
    default:
      if (isRecord(schema["properties"])) return "object";
      if ("items" in schema) return "list";
      return "any";
  }
}

/** Names of an object's members that must be there. */
export function requiredOf(schema: Schema): Set<string> {
  const names = schema["required"];
  return new Set(Array.isArray(names) ? names.filter((name): name is string => typeof name === "string") : []);
}

/** Members by name. */
export function propertiesOf(schema: Schema): [string, unknown][] {
  return isRecord(schema["properties"]) ? Object.entries(schema["properties"]) : [];
}

/** The schema of members without a name; undefined where there may be none. */
export function othersOf(schema: Schema): Schema | undefined {
  const others = schema["additionalProperties"];
  if (isRecord(others)) return others;
  // An object without any word about its members is a free one.
  if (others === true || (others === undefined && propertiesOf(schema).length === 0)) return {};
  return undefined;
}

/** A value to begin with: the default, else as little as the schema asks for. Undefined where a person must say it. */
export function initial(given: unknown, root: Schema, depth = 0): unknown {
  const shape = shapeOf(given, root);
  const { schema } = shape;
  if (schema["default"] !== undefined) return schema["default"];
  switch (shape.kind) {
    case "const":
      return schema["const"];
    case "null":
      return null;
    case "boolean":
      return false;
    case "list":
      return [];
    case "tuple":
      return partsOf(schema).map((part) => initial(part, root, depth + 1) ?? null);
    case "object": {
      if (depth > 8) return {};
      const required = requiredOf(schema);
      const members = propertiesOf(schema)
        .filter(([name]) => required.has(name))
        .map(([name, part]) => [name, initial(part, root, depth + 1)] as const);
      return Object.fromEntries(members.filter(([, value]) => value !== undefined));
    }
    case "union":
      return shape.nullable ? null : initial(shape.variants[0] ?? {}, root, depth + 1);
    default:
      return undefined;
  }
}

/** A value to begin with that is not null. */
export function beginning(shape: Shape, root: Schema): unknown {
  if (shape.kind === "union") return initial(shape.variants[0] ?? {}, root);
  const value = initial({ ...shape.schema, default: undefined, nullable: false }, root);
  if (value !== undefined && value !== null) return value;
  if (shape.kind === "integer" || shape.kind === "number") return 0;
  return shape.kind === "choice" ? (shape.schema["enum"] as unknown[]).find((one) => one !== null) : "";
}

/** The parts of a tuple. */
export function partsOf(schema: Schema): unknown[] {
  return Array.isArray(schema["prefixItems"]) ? (schema["prefixItems"] as unknown[]) : [];
}

/** Whether a value has the outer form of a schema: enough to tell the variants of a union apart. */
export function fits(value: unknown, given: unknown, root: Schema): boolean {
  const shape = shapeOf(given, root);
  const { schema } = shape;
  if (value === null) return shape.nullable || shape.kind === "null" || shape.kind === "any";
  switch (shape.kind) {
    case "text":
      return typeof value === "string";
    case "integer":
      return Number.isInteger(value);
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    case "null":
      return false;
    case "const":
      return same(value, schema["const"]);
    case "choice":
      return (schema["enum"] as unknown[]).some((one) => same(one, value));
    case "list":
    case "tuple":
      return Array.isArray(value);
    case "object": {
      if (!isRecord(value)) return false;
      const known = new Map(propertiesOf(schema));
      const hasAll = [...requiredOf(schema)].every((name) => name in value || !isMarked(known.get(name), root));
      const marksFit = [...known].every(([name, part]) => !(name in value) || !isMarked(part, root) || fits(value[name], part, root));
      const isClosed = schema["additionalProperties"] === false;
      return hasAll && marksFit && (!isClosed || Object.keys(value).every((name) => known.has(name)));
    }
    case "union":
      return shape.variants.some((variant) => fits(value, variant, root));
    default:
      return true;
  }
}

/** Whether a member says which variant it is. */
function isMarked(part: unknown, root: Schema): boolean {
  const schema = resolve(part, root);
  return "const" in schema || (Array.isArray(schema["enum"]) && schema["enum"].length === 1);
}

/** Which variant of a union a value is: the one that fits and knows most of its members. */
export function variantOf(value: unknown, variants: Schema[], root: Schema): number {
  const known = (variant: Schema): number => {
    if (!isRecord(value)) return 0;
    const names = new Set(propertiesOf(resolve(variant, root)).map(([name]) => name));
    return Object.keys(value).filter((name) => names.has(name)).length;
  };
  const fitting = variants.map((variant, index) => ({ index, fits: fits(value, variant, root), known: known(variant) }));
  const best = fitting.filter((one) => one.fits).sort((one, other) => other.known - one.known || one.index - other.index);
  return best[0]?.index ?? 0;
}

export function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** A short name of what a schema takes: `integer`, `list of text`. */
export function typeName(given: unknown, root: Schema, depth = 0): string {
  const shape = shapeOf(given, root);
  const more = (part: unknown): string => (depth > 2 ? "…" : typeName(part, root, depth + 1));
  const name = ((): string => {
    switch (shape.kind) {
      case "list":
        return "items" in shape.schema ? `[${more(shape.schema["items"])}]` : "[…]";
      case "tuple":
        return `[${partsOf(shape.schema).map(more).join(", ")}]`;
      case "choice":
        return (shape.schema["enum"] as unknown[]).filter((one) => one !== null).map((one) => JSON.stringify(one)).join(" | ");
      case "const":
        return JSON.stringify(shape.schema["const"]);
      case "union":
        return shape.variants.map(more).join(" | ");
      case "text":
        return typeof shape.schema["format"] === "string" ? `text (${shape.schema["format"]})` : "text";
      default:
        return shape.kind;
    }
  })();
  return shape.nullable ? `${name} | null` : name;
}

/** Limits of a value, as the schema says them: `≥ 1`, `≤ 20 characters`. */
export function limitsOf(schema: Schema): string[] {
  const limits: [string, string][] = [
    ["minimum", "≥ "],
    ["exclusiveMinimum", "> "],
    ["maximum", "≤ "],
    ["exclusiveMaximum", "< "],
    ["multipleOf", "× "],
    ["minLength", "length ≥ "],
    ["maxLength", "length ≤ "],
    ["minItems", "items ≥ "],
    ["maxItems", "items ≤ "],
    ["pattern", "/"],
  ];
  return limits
    .filter(([key]) => schema[key] !== undefined)
    .map(([key, sign]) => (key === "pattern" ? `/${String(schema[key])}/` : `${sign}${String(schema[key])}`));
}

// JSON read and written without loss: numbers keep their spelling (`1.0` is not `1`), objects the order of their keys.

/** A number that JavaScript would spell otherwise, or not hold at all. */
export class Numeral {
  constructor(readonly text: string) {}

  get value(): number {
    return Number(this.text);
  }

  toJSON(): number {
    return this.value;
  }
}

export type Json = null | boolean | number | string | Numeral | Json[] | JsonObject;

export interface JsonObject {
  [key: string]: Json | undefined;
}

/** Order of the keys, kept only where JavaScript would order them otherwise. Copies made by `{...object}` keep it. */
const ORDER = Symbol("order");

interface Ordered {
  [ORDER]?: string[];
}

export class JsonError extends Error {
  constructor(
    message: string,
    readonly at: number,
  ) {
    super(message);
  }
}

const MAX_DEPTH = 500;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const BLANK = /[ \t\r\n]*/y;

export function parseJson(text: string): Json {
  return new Reader(text).whole();
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {
    if (text.charCodeAt(0) === 0xfeff) this.at = 1;
  }

  whole(): Json {
    const value = this.value(0);
    this.blanks();
    if (this.at < this.text.length) this.fail("nothing may follow the value");
    return value;
  }

  private fail(message: string): never {
    throw new JsonError(message, this.at);
  }

  private take(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) return null;
    this.at = pattern.lastIndex;
    return found[0];
  }

  private blanks(): void {
    this.take(BLANK);
  }

  private next(): string {
    this.blanks();
    return this.text.charAt(this.at);
  }

  private value(depth: number): Json {
    if (depth > MAX_DEPTH) this.fail("nested too deeply");
    const first = this.next();
    if (first === "{") return this.object(depth);
    if (first === "[") return this.list(depth);
    if (first === '"') return this.string();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    const spelled = this.take(NUMBER);
    if (spelled === null) return this.fail("a value is missing");
    const number = Number(spelled);
    return Number.isFinite(number) && String(number) === spelled ? number : new Numeral(spelled);
  }

  private object(depth: number): JsonObject {
    const object: JsonObject = {};
    const order: string[] = [];
    this.at += 1;
    if (this.next() === "}") {
      this.at += 1;
      return object;
    }
    for (;;) {
      if (this.next() !== '"') this.fail("a key is missing");
      const key = this.string();
      if (this.next() !== ":") this.fail("`:` is missing");
      this.at += 1;
      if (!Object.hasOwn(object, key)) order.push(key);
      define(object, key, this.value(depth + 1));
      const mark = this.next();
      this.at += 1;
      if (mark === "}") break;
      if (mark !== ",") this.fail("`,` or `}` is missing");
    }
    keepOrder(object, order);
    return object;
  }

  private list(depth: number): Json[] {
    const list: Json[] = [];
    this.at += 1;
    if (this.next() === "]") {
      this.at += 1;
      return list;
    }
    for (;;) {
      list.push(this.value(depth + 1));
      const mark = this.next();
      this.at += 1;
      if (mark === "]") return list;
      if (mark !== ",") this.fail("`,` or `]` is missing");
    }
  }

  private string(): string {
    const start = this.at;
    this.at += 1;
    for (;;) {
      this.take(PLAIN);
      const mark = this.text.charAt(this.at);
      if (mark === '"') break;
      if (mark !== "\\") this.fail("a text does not end");
      this.at += 2;
    }
    this.at += 1;
    const raw = this.text.slice(start, this.at);
    if (!raw.includes("\\")) return raw.slice(1, -1);
    try {
      return JSON.parse(raw) as string;
    } catch {
      return this.fail("a text has a wrong escape");
    }
  }
}

const WORDS: [string, Json][] = [
  ["true", true],
  ["false", false],
  ["null", null],
];

function define(object: JsonObject, key: string, value: Json): void {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    object[key] = value;
  }
}

function keepOrder(object: JsonObject, order: string[]): void {
  const natural = Object.keys(object);
  if (natural.some((key, index) => key !== order[index])) (object as Ordered)[ORDER] = order;
}

/** The keys of an object in the order of its file; new ones at the end. */
export function keysOf(object: JsonObject): string[] {
  const natural = Object.keys(object).filter((key) => object[key] !== undefined);
  const order = (object as Ordered)[ORDER];
  if (order === undefined) return natural;
  const known = order.filter((key) => Object.hasOwn(object, key) && object[key] !== undefined);
  return [...known, ...natural.filter((key) => !order.includes(key))];
}

/** The entries of an object in the order of its file. */
export function entriesOf(object: JsonObject): [string, Json][] {
  return keysOf(object).map((key) => [key, object[key] as Json]);
}

/** An object with these entries in this order. */
export function objectOf(entries: Iterable<readonly [string, Json]>): JsonObject {
  const object: JsonObject = {};
  const order: string[] = [];
  for (const [key, value] of entries) {
    if (!Object.hasOwn(object, key)) order.push(key);
    define(object, key, value);
  }
  keepOrder(object, order);
  return object;
}

/** The text of a value; `indent` blanks a level, or all in one line. */
export function printJson(value: Json, indent = 0): string {
  return print(value, indent, "");
}

function print(value: Json, indent: number, before: string): string {
  if (value instanceof Numeral) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const inner = before + " ".repeat(indent);
  const parts = Array.isArray(value)
    ? value.map((item) => print(item, indent, inner))
    : entriesOf(value).map(
        ([key, item]) => `${JSON.stringify(key)}:${indent > 0 ? " " : ""}${print(item, indent, inner)}`,
      );
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (parts.length === 0) return open + close;
  if (indent === 0) return open + parts.join(",") + close;
  return `${open}\n${parts.map((part) => inner + part).join(",\n")}\n${before}${close}`;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Numeral);
}

/** Whether two values are the same JSON; the order of keys makes no difference, the spelling of numbers does. */
export function sameJson(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (one instanceof Numeral || other instanceof Numeral) {
    return one instanceof Numeral && other instanceof Numeral && one.text === other.text;
  }
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, index) => sameJson(item, other[index]));
  }
  if (!isObject(one) || !isObject(other)) return false;
  const keys = keysOf(one);
  return keys.length === keysOf(other).length && keys.every((key) => sameJson(one[key], other[key]));
}

// Runs before each script: the clock, random numbers and the console that it sees, and the writer of its result.
(function (now, seed, emit) {
  "use strict";
  const RealDate = Date;
  const { stringify } = JSON;
  const { isArray } = Array;
  const { keys } = Object;
  const classOf = Function.prototype.call.bind(Object.prototype.toString);
  const exactly = 2 ** 53;

  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, made) => Reflect.construct(target, args.length === 0 ? [now] : args, made),
    apply: () => new RealDate(now).toString(),
    get: (target, key) => (key === "now" ? () => now : Reflect.get(target, key)),
  });
  RealDate.prototype.constructor = globalThis.Date;
  delete globalThis.performance;
  delete globalThis.Atomics;
  delete globalThis.SharedArrayBuffer;

  let state = seed >>> 0;
  Math.random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };

  const fail = (path, fault) => {
    throw new TypeError(`${path} ${fault}`);
  };
  const ofClass = {
    "[object Map]": "is a Map; return Object.fromEntries(…)",
    "[object Set]": "is a Set; return Array.from(…)",
    "[object Promise]": "is a Promise; nothing here waits, return the value itself",
  };

  // One function for all values: each level of a value takes one frame of the stack.
  const open = [];
  function write(value, path) {
    if (value !== null && typeof value === "object" && typeof value.toJSON === "function") value = value.toJSON();
    switch (typeof value) {
      case "string":
        return stringify(value);
      case "boolean":
        return value ? "true" : "false";
      case "number":
        if (value !== value || value === Infinity || value === -Infinity) fail(path, `is ${value}, which JSON does not have`);
        return value >= exactly || value <= -exactly ? value.toExponential() : stringify(value);
      case "bigint":
        if (value > 18446744073709551615n || value < -9223372036854775808n)
          fail(path, "is a whole number of more than 64 bits; return it as text");
        return value.toString();
      case "object":
        break;
      case "undefined":
        return fail(path, "is undefined; return null, or leave it out");
      default:
        return fail(path, `is a ${typeof value}, which JSON does not have`);
    }
    if (value === null) return "null";
    if (open.includes(value)) fail(path, "holds itself");
    if (open.length >= 128) fail(path, "is nested deeper than 128 levels");
    const parts = [];
    open.push(value);
    if (isArray(value)) {
      for (let index = 0; index < value.length; index++) parts.push(write(value[index], `${path}[${index}]`));
      open.pop();
      return `[${parts.join(",")}]`;
    }
    const kind = classOf(value);
    if (kind in ofClass) fail(path, ofClass[kind]);
    if (kind !== "[object Object]") fail(path, `is ${kind.slice(8, -1)}, which JSON does not have`);
    for (const key of keys(value)) parts.push(`${stringify(key)}:${write(value[key], `${path}.${key}`)}`);
    open.pop();
    return `{${parts.join(",")}}`;
  }

  function show(value) {
    if (typeof value === "string") return value;
    try {
      open.length = 0;
      return write(value, "");
    } catch {
      try {
        return String(value);
      } catch {
        return typeof value;
      }
    }
  }

  const line = (level) => (...parts) => emit(level, parts.map(show).join(" "));
  globalThis.console = {
    debug: line("debug"),
    log: line("info"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
  };
  return (value) => {
    if (value === undefined) fail("the result", "is undefined; end the code with `return`");
    open.length = 0;
    return write(value, "result");
  };
});

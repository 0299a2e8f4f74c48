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

  // Loops of the engine over a length do not see the end of the time. So they get lists of bounded length, and what is like a
  // list through functions, which see it. The functions of the engine itself stay in here.
  const { apply, construct, get: read, getPrototypeOf, has: holds } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const toObject = Object;
  const RealProxy = Proxy;
  const proxies = new WeakSet();
  const remember = apply.bind(null, WeakSet.prototype.add);
  const remembers = apply.bind(null, WeakSet.prototype.has);
  const most = 10_000_000;

  const noted = (proxy) => {
    remember(proxies, [proxy]);
    return proxy;
  };
  const { revocable } = RealProxy;
  const notedRevocable = (target, handler) => {
    const made = revocable(target, handler);
    noted(made.proxy);
    return made;
  };
  globalThis.Proxy = new RealProxy(RealProxy, {
    construct: (target, args, made) => noted(construct(target, args, made)),
    get: (target, key) => (key === "revocable" ? notedRevocable : read(target, key)),
  });
  // It would give the functions of the engine to the code.
  defineProperty(Error, "prepareStackTrace", { value: undefined, writable: false, configurable: false });

  const replace = (owner, name, make) => {
    const value = make(owner[name]);
    defineProperty(value, "name", { value: name });
    defineProperty(owner, name, { value, writable: true, configurable: true });
  };
  const bounded = (length) => {
    if (length > most) throw new RangeError(`a list of ${length} items is longer than ${most}, the most that this works on`);
    return length;
  };
  const isList = (value) => isArray(value) && !remembers(proxies, [value]);
  const lengthOf = (value) => {
    const length = +value.length;
    return bounded(length > 0 ? length : 0);
  };
  const through = (target, length) =>
    noted(
      new RealProxy(target, {
        get: (_, key) => (key === "length" ? length : read(target, key)),
        has: (_, key) => holds(target, key),
      }),
    );
  const byText = (left, right) => {
    left = `${left}`;
    right = `${right}`;
    return left < right ? -1 : left > right ? 1 : 0;
  };

  for (const name of ["copyWithin", "fill", "join", "reverse", "shift", "slice", "sort", "splice"]
    .concat(["toLocaleString", "toReversed", "toSorted", "toSpliced", "unshift", "with"])) {
    replace(Array.prototype, name, (original) => ({
      method(...args) {
        if (this === null || this === undefined) return apply(original, this, args);
        const self = toObject(this);
        const length = lengthOf(self);
        // Its own comparison of texts is such a loop too.
        if ((name === "sort" || name === "toSorted") && length > 1_000_000 && args[0] === undefined) args = [byText];
        if (isList(self)) return apply(original, self, args);
        const view = through(self, length);
        const result = apply(original, view, args);
        return result === view ? self : result;
      },
    }).method);
  }
  replace(Array.prototype, "concat", (original) => ({
    method(...args) {
      if (this === null || this === undefined) return apply(original, this, args);
      const part = (value) => {
        if (value === null || (typeof value !== "object" && typeof value !== "function")) return value;
        const spreads = value[Symbol.isConcatSpreadable];
        if (!(spreads === undefined ? isArray(value) : spreads)) return [value];
        const length = lengthOf(value);
        if (isList(value)) return value;
        const copy = [];
        for (let index = 0; index < length; index++) if (index in value) copy[index] = value[index];
        copy.length = length;
        return copy;
      };
      for (let index = 0; index < args.length; index++) args[index] = part(args[index]);
      return apply(original, part(toObject(this)), args);
    },
  }).method);
  const flatten = (into, list, depth, change, self) => {
    const length = lengthOf(list);
    for (let index = 0; index < length; index++) {
      if (!(index in list)) continue;
      const item = change === undefined ? list[index] : apply(change, self, [list[index], index, list]);
      if (depth > 0 && isArray(item)) flatten(into, item, depth - 1);
      else into[into.length] = item;
    }
    return into;
  };
  replace(Array.prototype, "flat", () => ({
    method(depth = 1) {
      return flatten([], toObject(this), +depth || 0);
    },
  }).method);
  replace(Array.prototype, "flatMap", () => ({
    method(change, self) {
      if (typeof change !== "function") throw new TypeError("not a function");
      return flatten([], toObject(this), 1, change, self);
    },
  }).method);
  const typed = getPrototypeOf(Uint8Array.prototype);
  const typedLength = getOwnPropertyDescriptor(typed, "length").get;
  for (const name of ["sort", "toSorted"]) {
    replace(typed, name, (original) => ({
      method(...args) {
        bounded(apply(typedLength, this, []));
        return apply(original, this, args);
      },
    }).method);
  }
  // A search compares each place of a text with all of the part.
  const specials = { includes: Symbol.match, indexOf: undefined, lastIndexOf: undefined, replace: Symbol.replace };
  specials.replaceAll = Symbol.replace;
  specials.split = Symbol.split;
  for (const name of keys(specials)) {
    const special = specials[name];
    replace(String.prototype, name, (original) => ({
      method(...args) {
        if (this === null || this === undefined) return apply(original, this, args);
        let part = args[0];
        const method = special !== undefined && part !== null && typeof part === "object" ? part[special] : undefined;
        if (name === "includes" && method) throw new TypeError("a regular expression is not searched; use its `test`");
        if (name !== "includes" && method !== undefined && method !== null) {
          if (name === "replaceAll" && classOf(part) === "[object RegExp]" && !part.global)
            throw new TypeError("`replaceAll` needs the flag `g`");
          args[0] = this;
          return apply(method, part, args);
        }
        const text = `${this}`;
        if (part === undefined && name === "split") return apply(original, text, args);
        args[0] = part = `${part}`;
        if ((text.length - part.length) * part.length > 4e9)
          throw new RangeError(`a search for ${part.length} in ${text.length} characters takes too long`);
        return apply(original, text, args);
      },
    }).method);
  }
  replace(JSON, "stringify", (original) => ({
    method(value, names, space) {
      if (isArray(names)) names = flatten([], names, 0);
      return apply(original, JSON, [value, names, space]);
    },
  }).method);

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

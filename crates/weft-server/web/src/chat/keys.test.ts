import assert from "node:assert/strict";
import { test } from "node:test";
import { type Key, isSend } from "./keys.ts";

const enter: Key = {
  key: "Enter",
  shiftKey: false,
  altKey: false,
  ctrlKey: false,
  metaKey: false,
  isComposing: false,
  keyCode: 13,
  timeStamp: 1000,
};

test("Enter sends, unless it belongs to an input method or to a line", () => {
  const table: [Partial<Key>, boolean, number, boolean][] = [
    [{}, false, 0, true],
    [{ ctrlKey: true }, false, 0, true],
    [{ shiftKey: true }, false, 0, false],
    [{ key: "a" }, false, 0, false],
    [{ isComposing: true }, false, 0, false],
    [{ keyCode: 229 }, false, 0, false],
    [{}, true, 0, false],
    // Safari: the composition ends before the key comes.
    [{}, false, 995, false],
    [{}, false, 500, true],
  ];
  for (const [change, composing, ended, sends] of table) {
    assert.equal(isSend({ ...enter, ...change }, composing, ended), sends, JSON.stringify([change, composing, ended]));
  }
});

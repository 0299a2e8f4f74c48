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
};

test("Enter sends, unless it belongs to an input method or to a line", () => {
  const table: [Partial<Key>, boolean, boolean][] = [
    [{}, false, true],
    [{ ctrlKey: true }, false, true],
    [{ shiftKey: true }, false, false],
    [{ altKey: true }, false, false],
    [{ key: "a" }, false, false],
    [{ isComposing: true }, false, false],
    [{}, true, false],
    // Safari: the composition has ended when the key comes.
    [{ keyCode: 229 }, false, false],
  ];
  for (const [change, composing, sends] of table) {
    assert.equal(isSend({ ...enter, ...change }, composing), sends, JSON.stringify([change, composing]));
  }
});

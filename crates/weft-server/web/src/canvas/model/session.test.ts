import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, isRefusal } from "./connect.ts";
import { addNode, reparent } from "./edit.ts";
import { extractGroup } from "./groups.ts";
import { parseJson, printJson, type JsonObject } from "./json.ts";
import { COUNTER, world } from "./sample.ts";
import { apply, current, draftOf, enter, fileOf, graphOf, leaveTo, open, pathBefore, rebase, redo, saved, takeTheirs, undo, unsaved, type Session } from "./session.ts";

const start = (): Session => open("count", parseJson(COUNTER) as JsonObject, "1");
const step = (session: Session, result: object): Session => {
  assert.ok(!isRefusal(result), JSON.stringify(result));
  return apply(session, result as { file: JsonObject });
};

test("undo and redo go over zones and groups, back to the first letter", () => {
  const texts = [printJson(fileOf(start()))];
  let session = start();
  const note = () => texts.push(printJson(fileOf(session)));
  session = step(session, reparent(graphOf(session), ["tidy"], "loop"));
  note();
  session = step(session, connect(graphOf(session), world, { node: "state", slot: "n" }, { node: "tidy", slot: "text" }));
  note();
  session = step(session, extractGroup(graphOf(session), world, ["tidy"], "parts"));
  note();
  assert.deepEqual(unsaved(session).sort(), ["count", "parts"]);
  session = enter(session, "node_group", "parts", session.now.files.get("parts") as JsonObject, null);
  session = step(session, addNode(graphOf(session), { type: "core:Expression", at: { x: 0, y: 0 }, parent: null }));
  assert.equal(current(session), "parts");
  session = leaveTo(session, 0);
  assert.deepEqual(session.now.selected, ["node_group"]);

  session = undo(session);
  assert.equal(current(session), "parts", "an undone change is shown where it was made");
  for (const wanted of texts.slice(0, -1).reverse()) {
    session = undo(session);
    assert.equal(current(session), "count");
    assert.equal(printJson(fileOf(session)), wanted);
  }
  assert.deepEqual(unsaved(session), []);
  for (const wanted of texts.slice(1)) {
    session = redo(session);
    assert.equal(printJson(fileOf(session)), wanted);
  }
});

test("letters typed into one field are undone at once", () => {
  let session = start();
  for (const name of ["a", "ab", "abc"]) session = apply(session, { file: { ...fileOf(session), name }, kind: "name" });
  assert.equal(session.past.length, 1);
  session = undo(session);
  assert.equal(fileOf(session)["name"], "count");
});

test("a change that changes nothing leaves no step, a new change ends what could be redone", () => {
  let session = start();
  session = apply(session, { file: fileOf(session), select: ["in"] });
  assert.equal(session.past.length, 0);
  session = undo(apply(session, { file: { ...fileOf(session), name: "x" } }));
  assert.equal(session.future.length, 1);
  session = apply(session, { file: { ...fileOf(session), name: "y" } });
  assert.equal(session.future.length, 0);
});

test("saving, a conflict and the draft", () => {
  let session = start();
  assert.equal(draftOf(session, "count"), null);
  session = apply(session, { file: { ...fileOf(session), name: "mine" } });
  assert.equal(draftOf(session, "count")?.etag, "1");
  const theirs = { ...fileOf(start()), name: "theirs" };
  const kept = rebase(session, "count", theirs, "2");
  assert.equal(fileOf(kept)["name"], "mine");
  assert.deepEqual(unsaved(kept), ["count"]);
  const taken = takeTheirs(session, "count", theirs, "2");
  assert.deepEqual(unsaved(taken), []);
  assert.equal(fileOf(undo(taken))["name"], "mine");
  session = saved(session, "count", fileOf(session), "3");
  assert.deepEqual(unsaved(session), []);
  assert.equal(draftOf(session, "count"), null);
});

test("events of a workflow that is open inside another begin with the groups on the way", () => {
  let session = start();
  session = step(session, reparent(graphOf(session), ["tidy"], "loop"));
  session = step(session, extractGroup(graphOf(session), world, ["tidy"], "parts"));
  session = enter(session, "node_group", "parts", session.now.files.get("parts") as JsonObject, null);
  assert.equal(pathBefore(session), "loop/node_group/");
});

// What is being edited: some workflows at once, since groups open in place, with one history over all of them.

import { indexFile, type Graph, type WorkflowFile } from "./file.ts";
import { printJson } from "./json.ts";

/** A workflow that is open. */
export interface Doc {
  id: string;
  /** What the server has, and by which tag it calls that; both `null` for one that is new. */
  saved: WorkflowFile | null;
  etag: string | null;
}

/** One state of everything: what undo goes back to. */
export interface Moment {
  files: ReadonlyMap<string, WorkflowFile>;
  /** The workflow on the screen, last, and the groups on the way to it. */
  trail: readonly Step[];
  selected: readonly string[];
  /** Where one looked when the change that led here was made. */
  madeIn: readonly Step[];
}

export interface Step {
  workflow: string;
  /** The group that opens it; `null` for the first. */
  group: string | null;
}

export interface Session {
  docs: ReadonlyMap<string, Doc>;
  now: Moment;
  past: readonly Moment[];
  future: readonly Moment[];
  /** What kind of change the last one was; equal ones in a row are one step of undo. */
  last: string | null;
}

const MAX_STEPS = 500;

export function open(id: string, file: WorkflowFile, etag: string | null): Session {
  const trail = [{ workflow: id, group: null }];
  return {
    docs: new Map([[id, { id, saved: etag === null ? null : file, etag }]]),
    now: { files: new Map([[id, file]]), trail, selected: [], madeIn: trail },
    past: [],
    future: [],
    last: null,
  };
}

export function current(session: Session): string {
  return (session.now.trail.at(-1) as Step).workflow;
}

export function fileOf(session: Session): WorkflowFile {
  return session.now.files.get(current(session)) as WorkflowFile;
}

let indexed: Graph = indexFile({});

/** The index of the workflow on the screen. */
export function graphOf(session: Session): Graph {
  const file = fileOf(session);
  if (indexed.file !== file) indexed = indexFile(file);
  return indexed;
}

export interface Change {
  file: WorkflowFile;
  select?: readonly string[];
  more?: readonly { id: string; file: WorkflowFile }[];
  /** Equal kinds in a row are undone at once, such as letters typed into one field. */
  kind?: string;
}

/** Makes a change that can be undone. One that changes nothing leaves no step. */
export function apply(session: Session, change: Change): Session {
  const id = current(session);
  const more = change.more ?? [];
  const selected = change.select ?? session.now.selected;
  if (change.file === fileOf(session) && more.length === 0) return select(session, selected);
  const files = new Map(session.now.files).set(id, change.file);
  const docs = new Map(session.docs);
  for (const made of more) {
    files.set(made.id, made.file);
    if (!docs.has(made.id)) docs.set(made.id, { id: made.id, saved: null, etag: null });
  }
  const joins = change.kind !== undefined && change.kind === session.last && session.past.length > 0;
  const past = joins ? session.past : [...session.past, session.now].slice(-MAX_STEPS);
  return { docs, now: { ...session.now, files, selected, madeIn: session.now.trail }, past, future: [], last: change.kind ?? null };
}

export function select(session: Session, selected: readonly string[]): Session {
  const same = selected.length === session.now.selected.length && selected.every((key, at) => key === session.now.selected[at]);
  return same ? session : { ...session, now: { ...session.now, selected } };
}

export function undo(session: Session): Session {
  const before = session.past.at(-1);
  if (before === undefined) return session;
  const future = [session.now, ...session.future];
  return { ...session, now: shownAt(withOpened(before, session), session.now.madeIn), past: session.past.slice(0, -1), future, last: null };
}

export function redo(session: Session): Session {
  const [after, ...future] = session.future;
  if (after === undefined) return session;
  return { ...session, now: shownAt(withOpened(after, session), after.madeIn), past: [...session.past, session.now], future, last: null };
}

/** A change that is undone or redone is shown where it was made. */
function shownAt(moment: Moment, trail: readonly Step[]): Moment {
  const same = moment.trail.at(-1)?.workflow === trail.at(-1)?.workflow;
  return { ...moment, trail, selected: same ? moment.selected : [] };
}

/** A moment from before a group was opened does not know that group's file; one from before it was made shall not. */
function withOpened(moment: Moment, { docs, now }: Session): Moment {
  const unknown = [...now.files].filter(([id]) => !moment.files.has(id) && docs.get(id)?.saved != null);
  return unknown.length === 0 ? moment : { ...moment, files: new Map([...moment.files, ...unknown]) };
}

/** Opens a group in place. Where one looks is no change to undo. */
export function enter(session: Session, group: string, id: string, file: WorkflowFile, etag: string | null): Session {
  const docs = session.docs.has(id)
    ? session.docs
    : new Map(session.docs).set(id, { id, saved: etag === null ? null : file, etag });
  const files = session.now.files.has(id) ? session.now.files : new Map(session.now.files).set(id, file);
  const trail = [...session.now.trail, { workflow: id, group }];
  return { ...session, docs, now: { ...session.now, files, trail, selected: [] }, last: null };
}

/** Goes back to an earlier step of the trail. */
export function leaveTo(session: Session, step: number): Session {
  const left = session.now.trail[step + 1]?.group;
  const trail = session.now.trail.slice(0, step + 1);
  const selected = left === null || left === undefined ? [] : [left];
  return { ...session, now: { ...session.now, trail, selected }, last: null };
}

/** What stands before the paths of events about the workflow on the screen. */
export function pathBefore(session: Session): string {
  const parts: string[] = [];
  for (const [at, step] of session.now.trail.entries()) {
    if (step.group === null) continue;
    const outer = session.now.trail[at - 1];
    const file = outer === undefined ? undefined : session.now.files.get(outer.workflow);
    const about = file === undefined ? undefined : indexFile(file).nodes.get(step.group);
    parts.push(about?.path ?? step.group);
  }
  return parts.map((part) => `${part}/`).join("");
}

/** The workflows that differ from what the server has. */
export function unsaved(session: Session): string[] {
  const differs = (doc: Doc) => session.now.files.has(doc.id) && session.now.files.get(doc.id) !== doc.saved;
  return [...session.docs.values()].filter(differs).map((doc) => doc.id);
}

/** Notes that the server has taken `file`. */
export function saved(session: Session, id: string, file: WorkflowFile, etag: string): Session {
  const docs = new Map(session.docs).set(id, { id, saved: file, etag });
  return { ...session, docs };
}

/** Takes what the server has now as what a save will replace; what is on the screen stays. */
export function rebase(session: Session, id: string, theirs: WorkflowFile, etag: string): Session {
  return { ...session, docs: new Map(session.docs).set(id, { id, saved: theirs, etag }) };
}

/** Takes the server's file instead of what is on the screen; that too can be undone. */
export function takeTheirs(session: Session, id: string, theirs: WorkflowFile, etag: string): Session {
  const files = new Map(session.now.files).set(id, theirs);
  return {
    docs: new Map(session.docs).set(id, { id, saved: theirs, etag }),
    now: { ...session.now, files, selected: [], madeIn: session.now.trail },
    past: [...session.past, session.now],
    future: [],
    last: null,
  };
}

/** What is kept in the browser while it is not saved. */
export interface Draft {
  etag: string | null;
  text: string;
}

export function draftOf(session: Session, id: string): Draft | null {
  const file = session.now.files.get(id);
  const doc = session.docs.get(id);
  if (file === undefined || doc === undefined || file === doc.saved) return null;
  return { etag: doc.etag, text: printJson(file) };
}

// The state of the canvas: what is open, what is chosen, what is wrong, and every command.
import { ApiError, type ToolSummary, type WorkflowSummary } from "../api/client.ts";
import { prefs, t } from "../prefs.svelte.ts";
import { keepDraft, keptDraft } from "./draft.ts";
import { api, isConflict, loadTypes, loadWorkflow, saveWorkflow, validateWorkflow, type Loaded } from "./files.ts";
import { containerFor, copy, paste, readCopied } from "./model/clipboard.ts";
import { connect, isRefusal, reconnect, type Edit, type End, type Refusal } from "./model/connect.ts";
import { addNode, moveNodes, removeAll, reparent, setValue, wrap } from "./model/edit.ts";
import { configOf, FRAME, GROUP, indexFile, isContainer, textOf, withContents, ZONE } from "./model/file.ts";
import type { Graph, Place, WorkflowFile } from "./model/file.ts";
import { NODE_WIDTH, placeOf, sizeOf } from "./model/geometry.ts";
import { dissolveGroup, embeddedIn, extractGroup } from "./model/groups.ts";
import type { Json, JsonObject } from "./model/json.ts";
import { byNode, readProblems, type Problem } from "./model/problems.ts";
import * as sessions from "./model/session.ts";
import type { Session } from "./model/session.ts";
import { interfaceOf, type World } from "./model/slots.ts";
import { laidOut } from "./layout.ts";
import { neverDrawn, viewOf, type View } from "./model/view.ts";

export interface Notice {
  kind: "refused" | "info" | "error";
  text: string;
  /** Changes with every notice, so that equal ones are said again. */
  number: number;
}

export interface Conflict {
  id: string;
  mine: WorkflowFile;
  theirs: Loaded | null;
  /** Why the server's file cannot be read, where it is there and broken. */
  broken: string | null;
}

/** Something else changed a file that is open: how it stands now. */
export type Outside = { id: string; state: "changed" | "gone" } | { id: string; state: "broken"; why: string };

export type Checked = "waiting" | "ok" | "problems" | "unknown";

const EMPTY: Session = sessions.open("", { nodes: [], edges: [] }, null);

export class Editor {
  session: Session = $state.raw(EMPTY);
  world: World = $state.raw({ types: new Map(), interfaces: new Map() });
  workflows: readonly WorkflowSummary[] = $state.raw([]);
  tools: readonly ToolSummary[] = $state.raw([]);
  problems: readonly Problem[] = $state.raw([]);
  checked: Checked = $state("waiting");
  saving = $state(false);
  conflict: Conflict | null = $state.raw(null);
  notice: Notice | null = $state.raw(null);
  /** Set where the file on the disk is not the one that was opened, and both cannot be had. */
  outside: Outside | null = $state.raw(null);
  /** Where the keyboard stands. */
  focus: string | null = $state(null);
  chosenEdges: readonly string[] = $state.raw([]);
  /** A draft was taken up that the server does not have. */
  fromDraft = $state(false);
  /** Asks the board to bring a node into view. */
  show: { key: string; number: number } | null = $state.raw(null);
  private number = 0;

  readonly id: string = $derived(sessions.current(this.session));
  readonly file: WorkflowFile = $derived(sessions.fileOf(this.session));
  readonly graph: Graph = $derived(sessions.graphOf(this.session));
  readonly view: View = $derived(viewOf(this.graph, this.world));
  readonly unsaved: readonly string[] = $derived(sessions.unsaved(this.session));
  readonly chosen: readonly string[] = $derived(this.session.now.selected.filter((key) => this.graph.nodes.has(key)));
  readonly atNode: ReadonlyMap<string, Problem[]> = $derived(byNode(this.problems));
  readonly before: string = $derived(sessions.pathBefore(this.session));
  readonly canUndo: boolean = $derived(this.session.past.length > 0);
  readonly canRedo: boolean = $derived(this.session.future.length > 0);

  /** Opens a workflow, with the draft that was kept of it. */
  async open(id: string): Promise<void> {
    const [types, workflows] = await Promise.all([loadTypes(prefs.language), api.workflows()]);
    this.workflows = workflows;
    this.world = { types, interfaces: new Map() };
    let session: Session;
    const draft = keptDraft(id);
    if (workflows.some((known) => known.id === id)) {
      const read = await loadWorkflow(id);
      const { etag } = read;
      const file = await this.drawn(id, read.file, types);
      session = sessions.open(id, file, etag);
      if (draft !== null) {
        session = sessions.apply(session, { file: draft.file });
        // What was read when the draft was begun is what a save may replace, and nothing newer.
        if (draft.etag !== null && draft.etag !== etag) session = sessions.rebase(session, id, file, draft.etag);
      }
    } else {
      session = sessions.open(id, draft?.file ?? emptyFile(id), null);
    }
    this.fromDraft = draft !== null;
    this.session = session;
    this.focus = this.graph.nodes.keys().next().value ?? null;
    void this.loadInterfaces();
    void api.tools().then((tools) => (this.tools = tools)).catch(() => undefined);
  }

  /** Takes the words of node types in another language. */
  async translate(language: string): Promise<void> {
    const types = await loadTypes(language);
    if (prefs.language === language) this.world = { ...this.world, types };
  }

  /** A file that was never drawn gets places at once; a save writes them with the first real change. */
  private async drawn(id: string, file: WorkflowFile, types: World["types"]): Promise<WorkflowFile> {
    const graph = indexFile(file);
    if (!neverDrawn(graph)) return file;
    return laidOut(id, graph, viewOf(graph, { types, interfaces: new Map() })).catch(() => file);
  }

  /** Learns the slots of the workflows that groups embed. */
  async loadInterfaces(): Promise<void> {
    const wanted = embeddedIn(this.file).filter((id) => !this.world.interfaces.has(id));
    for (const id of wanted) {
      const own = this.session.now.files.get(id);
      try {
        const sets = interfaceOf(own ?? (await loadWorkflow(id)).file);
        this.world = { ...this.world, interfaces: new Map(this.world.interfaces).set(id, sets) };
      } catch {
        // The problems panel names a workflow that is not there.
      }
    }
  }

  say(kind: Notice["kind"], text: string): void {
    this.number += 1;
    this.notice = { kind, text, number: this.number };
  }

  refuse(refusal: Refusal): void {
    this.say("refused", refusalText(refusal));
  }

  reveal(key: string): void {
    this.number += 1;
    this.focus = key;
    this.choose([key]);
    this.show = { key, number: this.number };
  }

  choose(keys: readonly string[]): void {
    this.session = sessions.select(this.session, keys);
    if (keys.length > 0) this.chosenEdges = [];
  }

  /** Makes a change; a refusal is said instead. */
  apply(result: Edit | Refusal | { file: WorkflowFile }, kind?: string): boolean {
    if (isRefusal(result)) {
      this.refuse(result);
      return false;
    }
    this.notice = null;
    this.session = sessions.apply(this.session, kind === undefined ? result : { ...result, kind });
    this.settle();
    void this.loadInterfaces();
    return true;
  }

  change(file: WorkflowFile, kind?: string): void {
    this.apply({ file }, kind);
  }

  /** The focus and the chosen edges name only what is there. */
  private settle(): void {
    const { nodes, edges } = this.graph;
    const [first] = this.chosen;
    if (first !== undefined) this.focus = this.chosen.at(-1) ?? first;
    else if (this.focus !== null && !nodes.has(this.focus)) this.focus = nodes.keys().next().value ?? null;
    if (this.chosenEdges.some((key) => !edges.has(key))) this.chosenEdges = this.chosenEdges.filter((key) => edges.has(key));
    // What an own workflow gives and takes may have changed.
    const interfaces = new Map(this.world.interfaces);
    let changed = false;
    for (const [id, file] of this.session.now.files) {
      if (!interfaces.has(id)) continue;
      interfaces.set(id, interfaceOf(file));
      changed = true;
    }
    if (changed) this.world = { ...this.world, interfaces };
  }

  undo(): void {
    if (!this.canUndo) return;
    this.session = sessions.undo(this.session);
    this.settle();
    this.say("info", t("canvas.undone"));
  }

  redo(): void {
    if (!this.canRedo) return;
    this.session = sessions.redo(this.session);
    this.settle();
    this.say("info", t("canvas.redone"));
  }

  /** Where something new goes: behind what is chosen, else where there is room. */
  private spot(): { parent: string | null; at: Place; after: string | null } {
    const last = this.chosen.at(-1) ?? null;
    const about = last === null ? undefined : this.graph.nodes.get(last);
    if (last === null || about === undefined) {
      const tops = this.view.boxes.filter((box) => box.parent === null);
      const right = Math.max(0, ...tops.map((box) => box.at.x + box.size.width + 80));
      return { parent: null, at: { x: right, y: 0 }, after: null };
    }
    const box = this.view.byKey.get(last);
    if (isContainer(about.type)) {
      const inside = (this.graph.children.get(last) ?? []).flatMap((key) => this.view.byKey.get(key) ?? []);
      const free = inside.filter((inner) => inner.kind !== "rail");
      const left = about.type === ZONE ? 196 : 32;
      const x = Math.max(left, ...free.map((inner) => inner.at.x + inner.size.width + 56));
      return { parent: last, at: { x, y: 72 }, after: null };
    }
    const width = box?.size.width ?? NODE_WIDTH;
    const at = box === undefined ? { x: 0, y: 0 } : { x: box.at.x + width + 80, y: box.at.y };
    return { parent: about.parent, at, after: last };
  }

  /** Adds a node behind what is chosen, beside everything that stands there. */
  add(type: string, config?: JsonObject, at?: { place: Place; parent: string | null }): void {
    const spot = at === undefined ? this.spot() : { parent: at.parent, at: at.place };
    const place = at === undefined ? this.clear(spot.parent, spot.at) : spot.at;
    this.apply(addNode(this.graph, { type, at: place, parent: spot.parent, ...(config ? { config } : {}) }));
    const added = this.chosen.at(-1);
    if (added !== undefined) {
      this.reveal(added);
      this.say("info", t("canvas.added", { node: this.nameOf(added) }));
    }
  }

  /** Moves a place down until nothing stands there. */
  private clear(parent: string | null, at: Place): Place {
    const others = this.view.boxes.filter((box) => box.parent === parent && box.kind !== "rail");
    const place = { ...at };
    const hits = () =>
      others.find(
        (box) =>
          place.x < box.at.x + box.size.width + 16 &&
          place.x + NODE_WIDTH + 16 > box.at.x &&
          place.y < box.at.y + box.size.height + 16 &&
          place.y + 120 > box.at.y,
      );
    for (let hit = hits(); hit !== undefined; hit = hits()) place.y = hit.at.y + hit.size.height + 24;
    return place;
  }

  connect(from: End, to: End): boolean {
    const made = connect(this.graph, this.world, from, to);
    const done = this.apply(made);
    if (done) this.say("info", t("canvas.connected", { from: this.endName(from), to: this.endName(to) }));
    return done;
  }

  reconnect(edge: string, from: End, to: End): void {
    this.apply(reconnect(this.graph, this.world, edge, from, to));
  }

  move(places: ReadonlyMap<string, Place>, kind?: string): void {
    this.apply({ file: moveNodes(this.graph, places) }, kind);
  }

  /** Puts nodes into a container after they were moved; a refusal leaves them where they were. */
  moveInto(keys: readonly string[], container: string | null, at?: ReadonlyMap<string, Place>): void {
    const done = this.apply(reparent(this.graph, keys, container, at));
    if (!done) return;
    const name = container === null ? t("canvas.canvas") : this.nameOf(container);
    this.say("info", t("canvas.moved", { container: name }));
  }

  remove(): void {
    if (this.chosen.length === 0 && this.chosenEdges.length === 0) return;
    const next = this.neighbour();
    const count = this.chosen.length + this.chosenEdges.length;
    this.apply({ file: removeAll(this.graph, this.chosen, this.chosenEdges), select: [] });
    this.focus = next !== null && this.graph.nodes.has(next) ? next : (this.graph.nodes.keys().next().value ?? null);
    if (this.focus !== null) this.choose([this.focus]);
    this.say("info", t("canvas.removed", { count }));
  }

  /** What stands before the chosen nodes, so that the keyboard has a place when they are gone. */
  private neighbour(): string | null {
    const gone = withContents(this.graph, this.chosen);
    for (const key of this.chosen) {
      const source = this.graph.into.get(key)?.find((edge) => edge.source !== null && !gone.has(edge.source))?.source;
      if (source !== undefined && source !== null) return source;
      const parent = this.graph.nodes.get(key)?.parent;
      if (parent !== undefined && parent !== null && !gone.has(parent)) return parent;
    }
    return null;
  }

  copied(): string | null {
    return copy(this.graph, this.chosen);
  }

  paste(text: string): boolean {
    if (readCopied(text) === null) return false;
    const container = containerFor(this.graph, this.chosen);
    const last = this.chosen.at(-1);
    const from = last === undefined ? { x: 0, y: 0 } : placeOf(this.graph, last);
    const inside = last !== undefined && container === last;
    const at = inside ? { x: from.x + 200, y: from.y + 80 } : { x: from.x + 48, y: from.y + 48 };
    const result = paste(this.graph, text, container, at);
    if (result === null) return false;
    this.apply(result);
    const [first] = this.chosen;
    if (first !== undefined) this.show = { key: first, number: ++this.number };
    this.say("info", t("canvas.pasted", { count: this.chosen.length }));
    return true;
  }

  duplicate(): void {
    const text = this.copied();
    if (text !== null) this.paste(text);
  }

  wrap(type: typeof ZONE | typeof FRAME): void {
    this.apply(wrap(this.graph, this.chosen, type));
  }

  setConfig(key: string, name: string, value: Json | undefined): void {
    this.change(setValue(this.graph, key, "configValues", name, value), `config:${key}:${name}`);
  }

  setInput(key: string, name: string, value: Json | undefined): void {
    this.change(setValue(this.graph, key, "inputValues", name, value), `input:${key}:${name}`);
  }

  /** Moves the chosen nodes into a workflow of their own. */
  extract(id: string): boolean {
    if (this.workflows.some((known) => known.id === id) || this.session.docs.has(id)) {
      this.refuse({ refused: "name_taken", name: id });
      return false;
    }
    const made = extractGroup(this.graph, this.world, this.chosen, id);
    const inner = isRefusal(made) ? undefined : made.more?.[0]?.file;
    if (inner !== undefined) {
      this.world = { ...this.world, interfaces: new Map(this.world.interfaces).set(id, interfaceOf(inner)) };
    }
    return this.apply(made);
  }

  private embedded(key: string): string | null {
    const about = this.graph.nodes.get(key);
    return about?.type === GROUP ? textOf(configOf(about.node)["referencedWorkflowId"]) : null;
  }

  private async fileOf(id: string): Promise<{ file: WorkflowFile; etag: string | null }> {
    const own = this.session.now.files.get(id);
    if (own !== undefined) return { file: own, etag: this.session.docs.get(id)?.etag ?? null };
    return loadWorkflow(id);
  }

  async dissolve(key: string): Promise<void> {
    const id = this.embedded(key);
    if (id === null) return;
    try {
      this.apply(dissolveGroup(this.graph, key, (await this.fileOf(id)).file));
    } catch (error) {
      this.say("error", messageOf(error));
    }
  }

  /** Opens a group in place. */
  async enter(key: string): Promise<void> {
    const id = this.embedded(key);
    if (id === null) return;
    try {
      const { file, etag } = await this.fileOf(id);
      this.session = sessions.enter(this.session, key, id, file, etag);
      this.focus = this.graph.nodes.keys().next().value ?? null;
      void this.loadInterfaces();
    } catch (error) {
      this.say("error", messageOf(error));
    }
  }

  leaveTo(step: number): void {
    this.session = sessions.leaveTo(this.session, step);
    this.focus = this.chosen[0] ?? this.graph.nodes.keys().next().value ?? null;
  }

  /** Places everything anew, as the server says. */
  async layout(): Promise<void> {
    try {
      this.change(await laidOut(this.id, this.graph, this.view));
      this.number += 1;
      this.show = { key: "", number: this.number };
      this.say("info", t("canvas.laid_out"));
    } catch (error) {
      this.say("error", messageOf(error));
    }
  }

  private checking: AbortController | null = null;

  /** Asks the server what is wrong; an older question is given up. */
  async check(): Promise<void> {
    this.checking?.abort();
    const own = new AbortController();
    this.checking = own;
    this.checked = "waiting";
    const { id, graph } = this;
    try {
      const problems = readProblems(await validateWorkflow(id, graph.file, own.signal), graph);
      if (this.checking !== own) return;
      this.problems = problems;
      this.checked = problems.some((problem) => problem.severity === "error") ? "problems" : "ok";
    } catch (error) {
      if (own.signal.aborted || this.checking !== own) return;
      this.problems = [];
      this.checked = "unknown";
      if (error instanceof ApiError && error.status !== 0) {
        this.problems = [{ code: error.code, severity: "error", path: null, slot: null, message: error.message, suggest: null, nodes: [], inside: false }];
        this.checked = "problems";
      }
    }
  }

  /** Saves everything that is not saved, embedded workflows first. True where all is. */
  async save(): Promise<boolean> {
    if (this.saving) return false;
    this.saving = true;
    try {
      for (const id of [...this.unsaved].reverse()) {
        if (!(await this.saveOne(id))) return false;
      }
      this.fromDraft = false;
      this.say("info", t("canvas.saved"));
      return true;
    } finally {
      this.saving = false;
    }
  }

  private async saveOne(id: string): Promise<boolean> {
    const file = this.session.now.files.get(id);
    const doc = this.session.docs.get(id);
    if (file === undefined || doc === undefined) return true;
    try {
      const etag = await saveWorkflow(id, file, doc.etag);
      this.session = sessions.saved(this.session, id, file, etag);
      keepDraft(id, sessions.draftOf(this.session, id));
      if (doc.etag === null) this.workflows = await api.workflows();
      return true;
    } catch (error) {
      if (isConflict(error)) await this.compare(id, file);
      else this.say("error", messageOf(error));
      return false;
    }
  }

  /** Shows both versions of a file. */
  private async compare(id: string, mine: WorkflowFile): Promise<void> {
    try {
      this.conflict = { id, mine, theirs: await loadWorkflow(id), broken: null };
    } catch (error) {
      const isGone = error instanceof ApiError && error.status === 404;
      this.conflict = { id, mine, theirs: null, broken: isGone ? null : placedMessage(error) };
    }
  }

  /** Looks whether the open files are still what the server has; takes what changed where nothing here would be lost. */
  async look(): Promise<void> {
    if (this.saving || this.conflict !== null) return;
    let outside: Outside | null = null;
    for (const doc of this.session.docs.values()) {
      if (doc.etag !== null) outside = (await this.lookAt(doc.id, doc.etag)) ?? outside;
    }
    this.outside = outside;
  }

  private async lookAt(id: string, etag: string): Promise<Outside | null> {
    try {
      const read = await loadWorkflow(id);
      // A save of our own may have come between.
      if (read.etag === etag || this.saving || this.session.docs.get(id)?.etag !== etag) return null;
      if (this.unsaved.includes(id)) return { id, state: "changed" };
      this.session = sessions.takeTheirs(this.session, id, read.file, read.etag);
      this.settle();
      this.say("info", t("canvas.changed_outside", { id }));
      return null;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status === 0) return null;
      if (error.status === 404) return { id, state: "gone" };
      return error.status === 422 ? { id, state: "broken", why: placedMessage(error) } : null;
    }
  }

  /** Shows both versions of what changed outside. */
  async settleOutside(): Promise<void> {
    const id = this.outside?.id;
    const mine = id === undefined ? undefined : this.session.now.files.get(id);
    this.outside = null;
    if (id !== undefined && mine !== undefined) await this.compare(id, mine);
  }

  /** Ends a conflict: what is here replaces what is there, or the other way round. */
  async resolve(how: "mine" | "theirs" | "later"): Promise<void> {
    const conflict = this.conflict;
    this.conflict = null;
    if (conflict === null || how === "later") return;
    const { id, theirs, broken } = conflict;
    if (how === "theirs" && theirs !== null) {
      this.session = sessions.takeTheirs(this.session, id, theirs.file, theirs.etag);
      keepDraft(id, null);
      this.settle();
      return;
    }
    const file = theirs?.file ?? { nodes: [], edges: [] };
    // A broken file has no tag that one could have read; the user has seen that it is broken.
    this.session = sessions.rebase(this.session, id, file, theirs?.etag ?? "*");
    if (theirs === null && broken === null) this.session = { ...this.session, docs: new Map(this.session.docs).set(id, { id, saved: null, etag: null }) };
    await this.save();
  }

  /** Goes back to what the server has; that too can be undone. */
  async discard(): Promise<void> {
    const { id } = this;
    try {
      const { file, etag } = await loadWorkflow(id);
      this.session = sessions.takeTheirs(this.session, id, file, etag);
      keepDraft(id, null);
      this.fromDraft = false;
      this.settle();
    } catch (error) {
      this.say("error", messageOf(error));
    }
  }

  keepDrafts(): void {
    for (const id of this.session.docs.keys()) keepDraft(id, sessions.draftOf(this.session, id));
  }

  nameOf(key: string): string {
    const about = this.graph.nodes.get(key);
    if (about === undefined) return key;
    const own = textOf(about.node["displayName"]);
    return own !== null && own !== "" ? own : this.typeName(about.type);
  }

  typeName(type: string): string {
    const known = WIRING[type];
    if (known !== undefined) return t(known);
    return this.world.types.get(type)?.title ?? type;
  }

  endName(end: End): string {
    return end.slot === null || end.slot === "+" ? this.nameOf(end.node) : `${this.nameOf(end.node)} · ${end.slot}`;
  }

  sizeOf(key: string): { width: number; height: number } {
    return this.view.byKey.get(key)?.size ?? sizeOf(this.graph, key);
  }
}

const WIRING: Record<string, Parameters<typeof t>[0]> = {
  "core:GroupInput": "canvas.type.input",
  "core:GroupOutput": "canvas.type.output",
  "core:NodeGroup": "canvas.type.group",
  "core:LoopZone": "canvas.type.zone",
  "core:LoopState": "canvas.type.state",
  "core:LoopNext": "canvas.type.next",
  "core:Frame": "canvas.type.frame",
};

export function refusalText(refusal: Refusal): string {
  const { from = "", to = "", name = "" } = refusal;
  return t(`canvas.refused.${refusal.refused}`, { from: typeText(from), to: typeText(to), name });
}

export function typeText(type: string): string {
  return type === "" ? "" : t(`canvas.slot.${type}` as Parameters<typeof t>[0]);
}

/** What is wrong, with the place in the file where the server names one. */
function placedMessage(error: unknown): string {
  const problem = error instanceof ApiError ? error.problem : {};
  const place = typeof problem["line"] === "number" ? t("error.place", { line: problem["line"], column: Number(problem["column"] ?? 1) }) : "";
  return place === "" ? messageOf(error) : `${place}: ${messageOf(error)}`;
}

export function messageOf(error: unknown): string {
  if (error instanceof ApiError && error.code === "offline") return t("error.offline");
  return error instanceof Error ? error.message : String(error);
}

function emptyFile(id: string): WorkflowFile {
  return indexFile({ name: id.split("/").at(-1) ?? id, nodes: [], edges: [] }).file;
}

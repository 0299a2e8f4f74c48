// What the lists of the canvas offer: node types, ends of edges, containers.
import { t } from "../prefs.svelte.ts";
import type { Choice } from "./Chooser.svelte";
import { refusalText, typeText, type Editor } from "./editor.svelte.ts";
import { searchTypes, type Family } from "./model/catalog.ts";
import { checkEdge, isRefusal, NEW_SLOT, takesNewSlots, type End } from "./model/connect.ts";
import { reparent } from "./model/edit.ts";
import { GROUP, INPUT, isContainer, NEXT, OUTPUT, STATE } from "./model/file.ts";
import { slotsFit, type NodeType, type Slot } from "./model/slots.ts";

export const FAMILY_COLOURS: Record<Family, string> = {
  wiring: "var(--family-wiring)",
  loop: "var(--family-loop)",
  text: "var(--family-text)",
  data: "var(--family-data)",
  logic: "var(--family-logic)",
  model: "var(--family-model)",
  agent: "var(--family-agent)",
  outside: "var(--family-outside)",
  other: "var(--family-wiring)",
};

const ORDER: Family[] = ["loop", "wiring", "text", "data", "logic", "model", "agent", "outside", "other"];

export interface Pull {
  end: End;
  side: "input" | "output";
}

/** The slot of a type that an edge from `pull` would join. */
export function slotFor(editor: Editor, type: NodeType, pull: Pull): Slot | undefined {
  const box = editor.view.byKey.get(pull.end.node);
  const own = (pull.side === "output" ? box?.outputs : box?.inputs)?.find((slot) => slot.name === pull.end.slot);
  if (own === undefined) return undefined;
  return pull.side === "output" ? type.inputs.find((slot) => slotsFit(own, slot)) : type.outputs.find((slot) => slotsFit(slot, own));
}

/** Node types, and workflows to embed; what must stand in a loop is refused outside of one. */
export function typeChoices(editor: Editor, typed: string, inLoop: boolean, pull: Pull | null): Choice[] {
  const types = [...editor.world.types.values()].filter((type) => type.id !== GROUP);
  const found = searchTypes(types, typed, (type) => editor.typeName(type.id));
  const choices = found.map(({ type, family }): Choice => {
    const needsLoop = (type.id === STATE || type.id === NEXT) && !inLoop;
    const wiring = [INPUT, OUTPUT].includes(type.id) || type.dynamicInputs !== "none";
    const unfit = pull !== null && !wiring && slotFor(editor, type, pull) === undefined;
    return {
      id: type.id,
      label: editor.typeName(type.id),
      detail: type.description === "" ? t(`canvas.about.${type.id.slice(5)}` as "canvas.about.LoopZone") : type.description,
      colour: FAMILY_COLOURS[family],
      group: t(`canvas.family.${family}`),
      ...(needsLoop ? { refused: t("canvas.only_in_loop") } : unfit ? { refused: t("canvas.no_fit") } : {}),
    };
  });
  const words = typed.trim().toLowerCase();
  const workflows = editor.workflows
    .filter((one) => one.id !== editor.id && `${one.id} ${one.title ?? ""} ${one.description ?? ""}`.toLowerCase().includes(words))
    .map((one): Choice => ({
      id: `workflow:${one.id}`,
      label: one.title ?? one.id,
      detail: one.description ?? "",
      tag: t("canvas.type.group"),
      colour: FAMILY_COLOURS.wiring,
      group: t("canvas.workflows"),
    }));
  if (words !== "") return sortRefused([...choices, ...workflows]).map(({ group: _, ...choice }) => choice);
  const rank = new Map(ORDER.map((family, index) => [t(`canvas.family.${family}`), index]));
  const grouped = choices.sort((one, other) => (rank.get(one.group ?? "") ?? 99) - (rank.get(other.group ?? "") ?? 99));
  return [...grouped, ...workflows];
}

function sortRefused(choices: Choice[]): Choice[] {
  return [...choices.filter((choice) => choice.refused === undefined), ...choices.filter((choice) => choice.refused !== undefined)];
}

/** The slots of a node that an edge can begin at. */
export function ownEnds(editor: Editor, node: string, typed: string): Choice[] {
  const box = editor.view.byKey.get(node);
  if (box === undefined) return [];
  const choice = (side: "output" | "input", slot: Slot | null): Choice => ({
    id: `${side} ${slot?.name ?? NEW_SLOT}`,
    label: slot === null ? t("canvas.new_slot") : (slot.title ?? slot.name),
    detail: slot?.description ?? "",
    tag: slot === null ? "" : typeText(slot.type),
    colour: slot === null ? "var(--line-strong)" : `var(--slot-${slot.type})`,
    group: t(side === "output" ? "canvas.from_here" : "canvas.to_here"),
  });
  const all = [
    ...box.outputs.map((slot) => choice("output", slot)),
    ...(takesNewSlots(box.about, "output") ? [choice("output", null)] : []),
    ...box.inputs.map((slot) => choice("input", slot)),
    ...(takesNewSlots(box.about, "input") ? [choice("input", null)] : []),
  ];
  const words = typed.trim().toLowerCase();
  return all.filter((one) => one.label.toLowerCase().includes(words));
}

/** So many ends are looked at; who has more types a name. */
const MOST_ENDS = 400;

/** The ends that an edge can lead to, what cannot be joined last, each with its reason. */
export function otherEnds(editor: Editor, pull: Pull, typed: string): Choice[] {
  const words = typed.trim().toLowerCase();
  const choices: (Choice & { rank: number })[] = [];
  const own = (pull.side === "output" ? editor.view.byKey.get(pull.end.node)?.outputs : editor.view.byKey.get(pull.end.node)?.inputs)?.find(
    (slot) => slot.name === pull.end.slot,
  );
  for (const box of editor.view.boxes) {
    if (box.key === pull.end.node || choices.length >= MOST_ENDS) continue;
    const slots = pull.side === "output" ? box.inputs : box.outputs;
    const names: (Slot | null)[] = takesNewSlots(box.about, pull.side === "output" ? "input" : "output") && pull.end.slot !== NEW_SLOT ? [...slots, null] : slots;
    for (const slot of names) {
      const there: End = { node: box.key, slot: slot?.name ?? NEW_SLOT };
      const label = `${editor.nameOf(box.key)} · ${slot === null ? t("canvas.new_slot") : (slot.title ?? slot.name)}`;
      if (words !== "" && !`${label} ${box.key}`.toLowerCase().includes(words)) continue;
      const [from, to] = pull.side === "output" ? [pull.end, there] : [there, pull.end];
      const checked = checkEdge(editor.graph, editor.world, from, to);
      const replaces = !isRefusal(checked) && checked.replaces !== null ? t("canvas.replaces") : "";
      // What is free and of the same type comes first.
      const rank = (replaces === "" ? 0 : 4) + (slot === null ? 2 : slot.type === own?.type ? 0 : 1);
      choices.push({
        rank,
        id: `${box.key} ${there.slot ?? ""}`,
        label,
        detail: [box.key === editor.nameOf(box.key) ? "" : box.key, replaces].filter((text) => text !== "").join(" · "),
        tag: slot === null ? "" : typeText(slot.type),
        colour: slot === null ? "var(--line-strong)" : `var(--slot-${slot.type})`,
        ...(isRefusal(checked) ? { refused: refusalText(checked) } : {}),
      });
    }
  }
  return sortRefused(choices.sort((one, other) => one.rank - other.rank));
}

/** The containers that the chosen nodes can be put into. */
export function containerChoices(editor: Editor, typed: string): Choice[] {
  const parents = new Set(editor.chosen.map((key) => editor.graph.nodes.get(key)?.parent ?? ""));
  const containers: (string | null)[] = [null, ...[...editor.graph.nodes.values()].filter((about) => isContainer(about.type)).map((about) => about.key)];
  return containers
    .map((container): Choice => {
      const result = reparent(editor.graph, editor.chosen, container);
      const isThere = parents.size === 1 && parents.has(container ?? "");
      return {
        id: container ?? "",
        label: container === null ? t("canvas.outside") : editor.nameOf(container),
        detail: container ?? "",
        colour: container === null ? "var(--line-strong)" : "var(--family-loop)",
        ...(isThere ? { refused: t("canvas.is_there") } : isRefusal(result) ? { refused: refusalText(result) } : {}),
      };
    })
    .filter((choice) => choice.label.toLowerCase().includes(typed.trim().toLowerCase()));
}

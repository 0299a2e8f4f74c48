// Which key sends a message.

export interface Key {
  key: string;
  shiftKey: boolean;
  altKey: boolean;
  ctrlKey: boolean;
  metaKey: boolean;
  isComposing: boolean;
  keyCode: number;
}

/** An input method's own key code: the key was taken by it. Safari ends a composition before the Enter that ended it
 * arrives, and by this code alone that Enter is told from one that sends. */
const TAKEN = 229;

export function isSend(event: Key, isComposing: boolean): boolean {
  if (event.key !== "Enter" || event.shiftKey || event.altKey) return false;
  return !event.isComposing && !isComposing && event.keyCode !== TAKEN;
}

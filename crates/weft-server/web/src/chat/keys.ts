// Which key sends a message.

export interface Key {
  key: string;
  shiftKey: boolean;
  altKey: boolean;
  ctrlKey: boolean;
  metaKey: boolean;
  isComposing: boolean;
  keyCode: number;
  timeStamp: number;
}

/** Some browsers end a composition right before the Enter that ended it; that Enter is none of ours. */
const SAME_KEY = 50;

export function isSend(event: Key, isComposing: boolean, compositionEnd: number): boolean {
  if (event.key !== "Enter" || event.shiftKey || event.altKey) return false;
  // 229: the key was taken by an input method.
  if (event.isComposing || isComposing || event.keyCode === 229) return false;
  return compositionEnd === 0 || event.timeStamp - compositionEnd > SAME_KEY;
}

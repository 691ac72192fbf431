// Text into HTML: everything that comes from documents and models passes through here.

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
  "\r": "&#13;", // a reader of HTML would make a line feed of it
};
const SIGNS: Readonly<Record<string, string>> = { " ": "·", "\n": "⏎", "\r": "␍", "\t": "⇥" };

export function escape(text: string): string {
  return text.replace(/[&<>"'\r]/g, (sign) => ENTITIES[sign] ?? sign);
}

export function many(count: number, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`;
}

/** Return a token's text on one line, with signs for what has no shape or turns the direction of what follows. */
export function visible(text: string): string {
  const shown = text.replace(/[ \n\r\t]/g, (sign) => SIGNS[sign] ?? sign);
  const code = (sign: string): string => `U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  return escape(shown.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, code)) || "∅";
}

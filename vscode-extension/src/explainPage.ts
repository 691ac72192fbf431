// The explanation of a completion as one page: plain HTML from plain data, without a script.
import type { Explained, Segment } from "./explained";
import { STYLE } from "./explainStyle";
import { escape, many } from "./html";
import { runSection } from "./runSection";

/** Parts of a prompt that one knows when one sees them. */
const UNLABELLED: ReadonlySet<string> = new Set(["control", "separator"]);

/** Return the page. `nonce` lets its own style through, and nothing else is let through. */
export function explainPage(place: string, told: Explained, nonce: string): string {
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-${nonce}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(place)}</title>
<style nonce="${nonce}">${STYLE}</style>
</head>
<body>
<h1>${escape(place)}</h1>
${[lead(told), notices(told), runSection(told.last), contextSection(told), promptSection(told)].join("\n")}
</body>
</html>`;
}

function lead({ model, prompt_tokens }: Explained): string {
  return model === undefined
    ? ""
    : `<p class="soft">${escape(model)}, a prompt of ${many(prompt_tokens ?? 0, "token")}</p>`;
}

/** Why there was no suggestion, or will be none. */
function notices({ problem, held_back, last_reason, known }: Explained): string {
  const told = [
    problem === undefined ? "" : `There is no more to tell: ${problem}.`,
    held_back ? `Nothing is suggested here by itself: ${held_back}.` : "",
    last_reason ? `The last request in this document got nothing: ${last_reason}.` : "",
  ].filter((sentence) => sentence !== "");
  const waiting = known === true ? `<p class="soft">A suggestion for this place is known and needs no model.</p>` : "";
  return told.map((sentence) => `<p class="notice">${escape(sentence.replace(/\.{2,}$/, "."))}</p>`).join("") + waiting;
}

function contextSection({ used, refused }: Explained): string {
  if (used === undefined || refused === undefined) {
    return "";
  }
  const taken = used.map(({ path, why, characters }) => cells(path, why, many(characters, "character")));
  const left = refused.map(({ path, rule }) => cells(path, rule));
  return `<h2>Context used</h2>${table(["text", "why", "offered"], taken)}
<h2>Context refused</h2>${table(["text", "rule"], left)}`;
}

function cells(path: string, ...others: string[]): string {
  return `<td class="path">${escape(path)}</td>${others.map((text) => `<td>${escape(text)}</td>`).join("")}`;
}

function table(names: readonly string[], rows: readonly string[]): string {
  if (rows.length === 0) {
    return `<p class="soft">None.</p>`;
  }
  const head = names.map((name) => `<th scope="col">${name}</th>`).join("");
  return `<table><thead><tr>${head}</tr></thead><tbody>${rows.map((row) => `<tr>${row}</tr>`).join("")}</tbody></table>`;
}

function promptSection({ prompt }: Explained): string {
  if (prompt === undefined) {
    return "";
  }
  return `<h2>The prompt at this place</h2>
<p class="soft">Exactly what the model reads; the labels are not part of it.</p>
<pre><code>${prompt.map(segment).join("")}</code></pre>`;
}

function segment({ name, text, tokens }: Segment): string {
  const kind = /^[a-z]+$/.test(name) ? name : "other";
  const label = UNLABELLED.has(name) ? "" : ` data-about="${escape(name)} ${tokens}"`;
  return `<span class="segment ${kind}"${label} title="${escape(name)}, ${many(tokens, "token")}">${escape(text)}</span>`;
}

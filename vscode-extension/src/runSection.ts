// The last completion round by round: its text coloured by who proposed each token, and where the milliseconds went.
import { pieces, type Round, type Run, type Source, type Token } from "./explained";
import { escape, many, visible } from "./html";

const NAMES: Readonly<Record<Source, string>> = { target: "target model", lookup: "lookup", model: "draft model" };
const ENDS: Readonly<Record<string, string>> = {
  stop: "the model ended the text",
  length: "the token limit was reached",
  line: "the line ended",
  block: "the block ended",
  suffix: "it met the text right of the cursor",
  cancelled: "it was cancelled",
};
const COLUMNS = ["round", "drafted", "kept", "rows", "draft", "verify", ""];
const BAR = 100; // units of the longest round

/** Return the section about a run. */
export function runSection(run: Run | undefined): string {
  if (run === undefined) {
    return `<h2>The last completion</h2><p class="soft">There was none in this document yet.</p>`;
  }
  return `<h2>The last completion in this document</h2>
<p>${escape(summary(run))}</p>
<p>${escape(drafting(run))}</p>
${text(run)}
${legend()}
<h2>Rounds</h2>
${rounds(run)}`;
}

function summary({ stats, rounds, finish_reason }: Run): string {
  const tokens = rounds.reduce((count, round) => count + round.tokens.length, 0);
  const ms = (name: string): string => time(stats.ms[name] ?? 0);
  return [
    `${many(tokens, "token")} in ${many(rounds.length, "pass", "passes")} of the target model, ${stats.mean_acceptance_length.toFixed(2)} a pass.`,
    `Prompt: ${many(stats.prompt_tokens, "token")}, ${stats.reused_tokens} reused, ${stats.computed_tokens} computed.`,
    `First text after ${ms("first_token")}, all after ${ms("total")}: ${ms("prefill")} for the prompt,`,
    `${ms("draft")} drafting, ${ms("verify")} verifying. It ended because ${ENDS[finish_reason] ?? finish_reason}.`,
  ].join(" ");
}

function drafting({ stats }: Run): string {
  const kept = Object.entries(stats.drafted).map(
    ([source, count]) => `${nameOf(source)} ${stats.accepted[source] ?? 0} of ${count}`,
  );
  return kept.length === 0 ? "Nothing was drafted." : `Drafted tokens kept: ${kept.join(", ")}.`;
}

/** The text itself: what is marked and copied is the text and nothing else. */
function text(run: Run): string {
  if (run.text === "") {
    return `<p class="soft">It brought no text.</p>`;
  }
  const brought = pieces(run);
  let at = 0;
  const spans = run.rounds.flatMap((round, index) => {
    const about = `round ${index + 1} of ${run.rounds.length}, ${time(spent(round))} for ${many(round.tokens.length, "token")}`;
    return round.tokens.map((token) => span(token, brought === undefined ? token.text : (brought[at++] ?? ""), about));
  });
  const exact = `<p class="soft">Some characters belong to several tokens and show as \uFFFD above. The text itself:</p>
<pre><code>${escape(run.text)}</code></pre>`;
  return `<pre><code>${spans.join("")}</code></pre>${brought === undefined ? exact : ""}`;
}

function span({ source }: Token, piece: string, about: string): string {
  const title = `${nameOf(source)}, ${about}`;
  return piece === "" ? "" : `<span class="token ${kindOf(source)}" title="${escape(title)}">${escape(piece)}</span>`;
}

function legend(): string {
  const entries = Object.entries(NAMES).map(([kind, name]) => `<span class="chip ${kind}">${name}</span>`);
  return `<p class="legend soft">By source: ${entries.join("")}</p>`;
}

function rounds(run: Run): string {
  const longest = Math.max(...run.rounds.map(spent), 1e-3);
  const head = COLUMNS.map((name) => `<th scope="col" class="number">${name}</th>`).join("");
  const rows = run.rounds.map((round, index) => row(round, index, longest)).join("");
  return `<table><thead><tr>${head}</tr></thead><tbody>${rows}</tbody></table>`;
}

function row(round: Round, index: number, longest: number): string {
  const numbers = [
    index + 1,
    round.draft.length,
    round.accepted,
    round.rows,
    time(round.draft_ms),
    time(round.verify_ms),
  ];
  const cells = numbers.map((number) => `<td class="number">${number}</td>`).join("");
  return `<tr>${cells}<td>${bar(round, longest)}</td></tr>
<tr class="tokens"><td colspan="${COLUMNS.length}">${chips(round)}</td></tr>`;
}

function bar({ draft_ms, verify_ms }: Round, longest: number): string {
  const [draft, verify] = [draft_ms, verify_ms].map((ms) => ((ms / longest) * BAR).toFixed(1));
  return `<svg viewBox="0 0 ${BAR} 10" preserveAspectRatio="none" aria-hidden="true"><rect class="drafting" width="${draft}" height="10"/>\
<rect class="verifying" x="${draft}" width="${verify}" height="10"/></svg>`;
}

/** What was kept and what the target wrote, then what it refused of the draft. */
function chips({ tokens, draft, accepted }: Round): string {
  const written = tokens.map((token) => chip(kindOf(token.source), token, nameOf(token.source)));
  const refused = draft.slice(accepted).map((token) => chip("dropped", token, `${nameOf(token.source)}, not kept`));
  return [...written, ...refused].join(" ");
}

function chip(kind: string, token: Token, title: string): string {
  return `<span class="chip ${kind}" title="${escape(title)}">${visible(token.text)}</span>`;
}

function spent({ draft_ms, verify_ms }: Round): number {
  return draft_ms + verify_ms;
}

function kindOf(source: string): Source {
  return source === "lookup" || source === "model" ? source : "target";
}

function nameOf(source: string): string {
  return NAMES[kindOf(source)];
}

function time(ms: number): string {
  return ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(ms >= 100 ? 0 : 1)} ms`;
}

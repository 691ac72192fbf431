import { describe, expect, it } from "vitest";
import type { Explained, Round, Run, Source, Token } from "../src/explained";
import { pieces } from "../src/explained";
import { explainPage } from "../src/explainPage";
import { escape, visible } from "../src/html";

const NASTY = `</pre><script>alert("x")</script>&'`;

const tokens = (source: Source, ...texts: string[]): Token[] => texts.map((text) => ({ text, source }));

function round(change: Partial<Round> = {}): Round {
  return { draft: [], accepted: 0, rows: 1, draft_ms: 0, verify_ms: 10, tokens: [], ...change };
}

function run(text: string, ...rounds: Round[]): Run {
  const ms = { total: 1500, prefill: 800, draft: 20, verify: 600, overhead: 10, first_token: 810 };
  const stats = {
    prompt_tokens: 100,
    reused_tokens: 90,
    computed_tokens: 10,
    drafted: { lookup: 4 },
    accepted: { lookup: 2 },
    mean_acceptance_length: 1.5,
    ms,
  };
  return { text, finish_reason: "block", stats, rounds };
}

const told: Explained = {
  used: [{ path: "b.py", why: "imported", characters: 1200 }],
  refused: [{ path: ".env", rule: "an environment file" }],
  held_back: null,
  last_reason: "",
  known: false,
  prompt: [
    { name: "control", text: "<|fim_prefix|>", tokens: 1 },
    { name: "prefix", text: "def area(", tokens: 3 },
  ],
  prompt_tokens: 4,
  model: "qwen.gguf",
  last: run(
    "radius):\n    ",
    round({
      draft: tokens("lookup", " area(", "radius", "height"),
      accepted: 2,
      rows: 4,
      draft_ms: 2,
      verify_ms: 40,
      tokens: [...tokens("lookup", " area(", "radius"), ...tokens("target", "):\n")],
    }),
    round({
      draft: tokens("model", "    "),
      accepted: 1,
      rows: 2,
      tokens: [...tokens("model", "    "), ...tokens("target", "x")],
    }),
  ),
};

const page = (change: Partial<Explained> = {}, place = "a.py:1:9"): string =>
  explainPage(place, { ...told, ...change }, "n0");

/** What a person marks and copies of the coloured text. */
function copied(html: string): string {
  const [, body = ""] = /<pre><code>([\s\S]*?)<\/code><\/pre>/.exec(html) ?? [];
  return body.replace(/<[^>]*>/g, "");
}

describe("the page", () => {
  it("runs nothing, loads nothing, and styles itself with its nonce alone", () => {
    const html = page();
    expect(html).toContain(`content="default-src 'none'; style-src 'nonce-n0'; base-uri 'none'; form-action 'none'"`);
    expect(html).toContain(`<style nonce="n0">`);
    expect(html).not.toMatch(/<script|\son\w+=|\sstyle=|https?:|<a\s|<img/);
  });

  it("escapes whatever comes from documents, models and the server", () => {
    const nasty: Explained = {
      problem: NASTY,
      used: [{ path: NASTY, why: NASTY, characters: 1 }],
      refused: [{ path: NASTY, rule: NASTY }],
      held_back: NASTY,
      last_reason: NASTY,
      prompt: [{ name: NASTY, text: NASTY, tokens: 1 }],
      model: NASTY,
      last: {
        ...run(
          NASTY,
          round({ draft: tokens("lookup", NASTY, NASTY), accepted: 1, tokens: tokens(NASTY as Source, NASTY) }),
        ),
        finish_reason: NASTY,
      },
    };
    const html = explainPage(NASTY, nasty, "n0");
    expect(html).not.toMatch(/<script|alert\("/);
    expect(html.match(/<\/pre>/g)).toHaveLength(2);
    expect(html.split("&lt;/pre&gt;&lt;script&gt;").length).toBeGreaterThan(12);
  });

  it("colours each token of the text by its source, with the milliseconds of its round", () => {
    const html = page();
    expect(html).toContain(
      `<span class="token lookup" title="lookup, round 1 of 2, 42.0 ms for 3 tokens">radius</span>`,
    );
    expect(html).toContain(
      `<span class="token target" title="target model, round 1 of 2, 42.0 ms for 3 tokens">):\n</span>`,
    );
    expect(html).toContain(
      `<span class="token model" title="draft model, round 2 of 2, 10.0 ms for 2 tokens">    </span>`,
    );
  });

  it("lets the text be copied exactly, without what was typed before or cut after", () => {
    expect(copied(page())).toBe("radius):\n    ");
  });

  it("gives each round its rows, its times and its tokens, those refused too", () => {
    const html = page();
    const numbers = [1, 3, 2, 4, "2.0 ms", "40.0 ms"].map((cell) => `<td class="number">${cell}</td>`).join("");
    expect(html).toContain(numbers);
    expect(html).toContain(`<span class="chip target" title="target model">):⏎</span>`);
    expect(html).toContain(`<span class="chip dropped" title="lookup, not kept">height</span>`);
    expect(html.match(/class="chip dropped"/g)).toHaveLength(1);
    expect(html).toContain(
      `<rect class="drafting" width="4.8" height="10"/><rect class="verifying" x="4.8" width="95.2"`,
    );
  });

  it("says when a completion brought nothing", () => {
    expect(page({ last: run("", round({ tokens: tokens("target", "\n\n") })) })).toContain("It brought no text.");
  });

  it("sums up what was reused, drafted and spent", () => {
    const html = page();
    expect(html).toContain("5 tokens in 2 passes of the target model, 1.50 a pass.");
    expect(html).toContain("Prompt: 100 tokens, 90 reused, 10 computed.");
    expect(html).toContain("First text after 810 ms, all after 1.50 s: 800 ms for the prompt,");
    expect(html).toContain("It ended because the block ended.");
    expect(html).toContain("Drafted tokens kept: lookup 2 of 4.");
  });

  it("shows the context used and the context refused, with why", () => {
    const html = page();
    expect(html).toContain(`<td class="path">b.py</td><td>imported</td><td>1200 characters</td>`);
    expect(html).toContain(`<td class="path">.env</td><td>an environment file</td>`);
    expect(page({ used: [], refused: [] }).match(/None\./g)).toHaveLength(2);
  });

  it("shows the exact prompt, its parts labelled beside the text", () => {
    const html = page();
    expect(html).toContain(`<span class="segment control" title="control, 1 token">&lt;|fim_prefix|&gt;</span>`);
    expect(html).toContain(
      `<span class="segment prefix" data-about="prefix 3" title="prefix, 3 tokens">def area(</span>`,
    );
  });

  it("says why there was nothing", () => {
    expect(page({ held_back: "the cursor is inside a word" })).toContain("by itself: the cursor is inside a word.");
    expect(page({ last_reason: "nothing worth showing came" })).toContain("got nothing: nothing worth showing came.");
    expect(page()).not.toContain(`class="notice"`);
    expect(page({ known: true })).toContain("is known");
  });

  it("is whole when there is little to tell", () => {
    const html = explainPage("a.py:1:1", { problem: "the document is not open, or has no such position" }, "n0");
    expect(html).toContain("There is no more to tell: the document is not open, or has no such position.");
    expect(html).not.toMatch(/undefined|NaN|Context|prompt of/);
  });

  it("tells a completion in which nothing was drafted", () => {
    const plain = run("x", round({ tokens: tokens("target", "x") }));
    const html = page({ last: { ...plain, stats: { ...plain.stats, drafted: {} } } });
    expect(html).toContain("1 token in 1 pass of");
    expect(html).toContain("Nothing was drafted.");
  });
});

describe("pieces", () => {
  const of = (text: string, ...texts: string[]): string[] | undefined =>
    pieces(run(text, round({ tokens: tokens("target", ...texts) })));

  it("leaves out what was typed already and what lies beyond the end", () => {
    expect(of("turn x", "re", "turn", " x", "\n\n", "def")).toEqual(["", "turn", " x", "", ""]);
    expect(of("urn x", "ret", "ret", "urn", " x!")).toEqual(["", "", "urn", " x"]);
    expect(of("", "\n\n", "def")).toEqual(["", ""]);
  });

  it("knows a document's own line breaks", () => {
    expect(of("a\r\nb", "a", "\nb")).toEqual(["a", "\nb"]);
  });

  it("cannot tell for a character of several tokens, and the page then shows the text by itself", () => {
    expect(of("🦊!", "\uFFFD\uFFFD", "\uFFFD!")).toBeUndefined();
    const html = page({ last: run("🦊!", round({ tokens: tokens("lookup", "\uFFFD\uFFFD", "\uFFFD!") })) });
    expect(html).toContain("<pre><code>🦊!</code></pre>");
  });
});

describe("html", () => {
  it("leaves nothing that begins or ends a tag or an attribute", () => {
    expect(escape(`<a b="c" d='e'>&amp;`)).toBe("&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
  });

  it("keeps a lone carriage return, which a reader would replace", () => {
    expect(escape("a\r\nb")).toBe("a&#13;\nb");
  });

  it("gives signs to what has no shape or turns what follows", () => {
    expect(visible(" \t\n")).toBe("·⇥⏎");
    expect(visible("a\u202Eb\u0000")).toBe("aU+202EbU+0000");
    expect(visible("<b>")).toBe("&lt;b&gt;");
    expect(visible("")).toBe("∅");
  });
});

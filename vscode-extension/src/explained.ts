// What the server answers to `foretype.explain`, as far as it is shown.

export type Source = "target" | "lookup" | "model";

export interface Segment {
  name: string;
  text: string;
  tokens: number;
}

export interface Token {
  text: string;
  source: Source;
}

/** One step of the decoding: tokens were drafted, the target looked at `rows` positions, some were kept. */
export interface Round {
  draft: Token[];
  accepted: number;
  rows: number;
  draft_ms: number;
  verify_ms: number;
  tokens: Token[];
}

export interface Stats {
  prompt_tokens: number;
  reused_tokens: number;
  computed_tokens: number;
  drafted: Record<string, number>;
  accepted: Record<string, number>;
  mean_acceptance_length: number;
  ms: Record<string, number>;
}

/** A completion, round by round. */
export interface Run {
  text: string;
  finish_reason: string;
  stats: Stats;
  rounds: Round[];
}

export interface Explained {
  /** Why there is no more to tell. */
  problem?: string;
  used?: { path: string; why: string; characters: number }[];
  refused?: { path: string; rule: string }[];
  held_back?: string | null;
  last_reason?: string;
  known?: boolean;
  prompt?: Segment[];
  prompt_tokens?: number;
  model?: string;
  last?: Run;
}

/**
 * Return which part of a run's text each of its tokens brought.
 *
 * The first tokens may only spell again what was typed, the last may lie beyond the text's end: they bring nothing. The
 * answer is undefined when it cannot be told, as with characters that several tokens share.
 */
export function pieces(run: Run): string[] | undefined {
  const tokens = run.rounds.flatMap((round) => round.tokens);
  const text = run.text.replaceAll("\r\n", "\n");
  const start = tokens
    .map((token) => token.text)
    .join("")
    .indexOf(text);
  let at = -start;
  const brought = tokens.map((token) => {
    const begin = Math.max(at, 0);
    at += token.text.length;
    return text.slice(begin, Math.max(at, 0));
  });
  return start < 0 ? undefined : brought;
}

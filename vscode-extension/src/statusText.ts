// What the state of everything amounts to in words, and what can be done about it. Knows nothing of VS Code.
import type { ServerState, Status } from "./client";

/** Why no request leaves the editor. */
export type Off = { why: "setting" } | { why: "language"; language: string } | { why: "snoozed"; minutes: number };

export interface Situation {
  server: ServerState;
  status: Status | undefined;
  off: Off | undefined;
  /** Milliseconds that the last suggestion took. */
  latencyMs: number | undefined;
  /** Share of the drafted tokens that the target model kept, 0 to 1. */
  acceptance: number | undefined;
  /** Suggestions that were accepted as a whole. */
  accepted: number;
}

/** A command that mends something. */
export interface Fix {
  title: string;
  command: string;
  argument?: string;
}

export interface Described {
  /** A codicon. */
  icon: string;
  /** One to three words for the status bar. */
  label: string;
  sentence: string;
  level: "normal" | "warning" | "error";
  fix?: Fix;
}

export const SHOW_LOG: Fix = { title: "Show Log", command: "foretype.showLog" };
export const PULL: Fix = { title: "Pull Model", command: "foretype.pull" };
export const CREATE_ENVIRONMENT: Fix = { title: "Create Environment", command: "foretype.createEnvironment" };
export const RESTART: Fix = { title: "Restart Server", command: "foretype.restart" };

/** By the words in which a remedy is told. */
const FIXES: readonly [RegExp, Fix][] = [
  [/foretype pull/, PULL],
  [/Create Environment/, CREATE_ENVIRONMENT],
  [/Select Interpreter/, { title: "Select Interpreter", command: "foretype.selectInterpreter" }],
  [/smaller profile/i, { title: "Choose Model Profile", command: "foretype.chooseProfile" }],
];

/** What a person should see first: what they switched off, then what is broken, then what goes on. */
export function describe(now: Situation): Described {
  const { off, server, status } = now;
  if (off?.why === "setting") {
    const fix = { title: "Switch On", command: "foretype.toggle" };
    return { ...QUIET, label: "off", sentence: "Completions are switched off.", fix };
  }
  if (server === "crashed") {
    return { ...BROKEN, sentence: "The server ended again and again.", fix: RESTART };
  }
  if (status?.state === "failed") {
    return { ...BROKEN, sentence: told(status), fix: fixFor(status) };
  }
  return off === undefined ? describeServer(now) : describeRest(off);
}

/** The command that does what a status tells one to do. */
export function fixFor({ message, action }: Status): Fix {
  const [, fix] = FIXES.find(([words]) => words.test(action ?? message)) ?? [];
  return fix ?? SHOW_LOG;
}

const QUIET = { icon: "circle-slash", level: "normal" } as const;
const BROKEN = { icon: "error", level: "error", label: "failed" } as const;
const BUSY = { icon: "loading~spin", level: "normal" } as const;

function describeRest(off: Exclude<Off, { why: "setting" }>): Described {
  if (off.why === "language") {
    const sentence = `Completions are switched off for ${off.language}.`;
    const fix = { title: `Switch On for ${off.language}`, command: "foretype.toggleLanguage" };
    return { ...QUIET, label: "off here", sentence, fix };
  }
  const sentence = `Completions come back in ${off.minutes} ${off.minutes === 1 ? "minute" : "minutes"}.`;
  const fix = { title: "Resume", command: "foretype.resume" };
  return { icon: "bell-slash", level: "normal", label: `snoozed ${off.minutes} min`, sentence, fix };
}

function describeServer(now: Situation): Described {
  const { server, status } = now;
  if (server === "stopped") {
    return { ...QUIET, label: "not running", sentence: "The server is not running.", fix: RESTART };
  }
  switch (status?.state) {
    case "ready":
      return { icon: "sparkle", level: "normal", label: figures(now) || "ready", sentence: account(now) };
    case "busy":
      return { ...BUSY, label: figures(now) || "ready", sentence: account(now) };
    case "degraded": {
      const label = figures(now) || "degraded";
      return { icon: "warning", level: "warning", label, sentence: told(status), fix: fixFor(status) };
    }
    case "off":
      return { ...QUIET, label: "off", sentence: told(status) };
    case "loading":
      return { ...BUSY, label: /\d+ %/.exec(status.message)?.[0] ?? "loading", sentence: told(status) };
    default:
      return { ...BUSY, label: "starting", sentence: "The server is starting." };
  }
}

function told({ message, action }: Status): string {
  const sentence = message.charAt(0).toUpperCase() + message.slice(1);
  const ended = /[.!?…%]$/.test(sentence) ? sentence : `${sentence}.`;
  const isNews = action !== undefined && !FIXES.some(([words]) => words.test(message) && words.test(action));
  return isNews ? `${ended} ${action}` : ended;
}

function figures({ latencyMs, acceptance }: Situation): string {
  const parts = [latencyMs !== undefined && inWords(latencyMs), acceptance !== undefined && percent(acceptance)];
  return parts.filter((part) => part !== false).join(" · ");
}

function account({ latencyMs, acceptance, accepted }: Situation): string {
  const parts = [
    latencyMs !== undefined && `the last suggestion took ${inWords(latencyMs)}`,
    acceptance !== undefined && `the model kept ${percent(acceptance)} of the drafted tokens`,
    accepted > 0 && `you accepted ${accepted} ${accepted === 1 ? "suggestion" : "suggestions"}`,
  ];
  const known = parts.filter((part) => part !== false).join(", ");
  return known === "" ? "Ready." : `Ready: ${known}.`;
}

function inWords(milliseconds: number): string {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Gate } from "../src/snooze";
import { editor, resetEditor } from "./vscode";

const python = { languageId: "python" };
const markdown = { languageId: "markdown" };

let gate: Gate;

beforeEach(() => {
  vi.useFakeTimers();
  resetEditor();
  gate = new Gate();
});
afterEach(() => {
  gate.dispose();
  vi.useRealTimers();
});

describe("Gate", () => {
  it("lets everything through unless something is off", () => {
    expect([gate.allows(python), gate.reason(undefined)]).toEqual([true, undefined]);
  });

  it("lets nothing through when completions are off", () => {
    editor.settings.set("foretype.enable", false);
    expect(gate.allows(python)).toBe(false);
    expect(gate.reason(undefined)).toEqual({ why: "setting" });
  });

  it("lets nothing through in a language that is off, and all others", () => {
    editor.settings.set("foretype.languages", { markdown: false });
    expect([gate.allows(python), gate.allows(markdown)]).toEqual([true, false]);
    expect(gate.reason(markdown)).toEqual({ why: "language", language: "markdown" });
    expect(gate.reason(undefined)).toBeUndefined();
  });

  it("is closed for five minutes, and tells each minute of them", () => {
    const told: (number | undefined)[] = [];
    gate.onChange(() => {
      const off = gate.reason(python);
      told.push(off?.why === "snoozed" ? off.minutes : undefined);
    });
    gate.snooze();
    vi.advanceTimersByTime(4 * 60_000 + 59_999);
    expect(gate.allows(python)).toBe(false);
    vi.advanceTimersByTime(1);
    expect(gate.allows(python)).toBe(true);
    expect(told).toEqual([5, 4, 3, 2, 1, undefined]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("opens at once on demand", () => {
    gate.snooze();
    gate.resume();
    expect(gate.allows(python)).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
    expect(editor.executed).toEqual([true, false].map((on) => ["setContext", "foretype.snoozed", on]));
  });

  it("counts anew from the last snooze", () => {
    gate.snooze();
    vi.advanceTimersByTime(3 * 60_000);
    gate.snooze();
    vi.advanceTimersByTime(4 * 60_000);
    expect(gate.reason(python)).toEqual({ why: "snoozed", minutes: 1 });
  });

  it("leaves no timer behind", () => {
    gate.snooze();
    gate.dispose();
    expect(vi.getTimerCount()).toBe(0);
  });
});

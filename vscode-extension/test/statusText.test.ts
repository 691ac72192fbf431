import { describe, expect, it } from "vitest";
import type { Status } from "../src/client";
import { describe as described, fixFor, type Situation } from "../src/statusText";

function now(change: Partial<Situation> = {}): Situation {
  const nothing = { latencyMs: undefined, acceptance: undefined, accepted: 0 };
  return { server: "running", status: { state: "ready", message: "ready" }, off: undefined, ...nothing, ...change };
}

const failed: Status = {
  state: "failed",
  message: "/models/m.gguf is missing; fetch it again, for example with `foretype pull`",
  action: "Run `foretype pull` and restart the engine.",
};

describe("what is shown", () => {
  it("is the percentage while the model is loaded, with a spinning icon", () => {
    const status: Status = { state: "loading", message: "converting m.gguf … 40 %" };
    expect(described(now({ status }))).toMatchObject({
      icon: "loading~spin",
      label: "40 %",
      sentence: "Converting m.gguf … 40 %",
    });
    expect(described(now({ status: { state: "loading", message: "starting the engine" } })).label).toBe("loading");
  });

  it("is the last latency and the acceptance when the model is ready", () => {
    const told = described(now({ latencyMs: 37.6, acceptance: 0.724, accepted: 3 }));
    expect(told).toMatchObject({ icon: "sparkle", label: "38 ms · 72 %", level: "normal" });
    expect(told.sentence).toBe(
      "Ready: the last suggestion took 38 ms, the model kept 72 % of the drafted tokens, you accepted 3 suggestions.",
    );
  });

  it("leaves out what is not known yet", () => {
    expect(described(now())).toMatchObject({ label: "ready", sentence: "Ready." });
    expect(described(now({ latencyMs: 1240 })).label).toBe("1.2 s");
    expect(described(now({ acceptance: 0 })).label).toBe("0 %");
  });

  it("keeps its words while it computes, so that nothing moves but the icon", () => {
    const busy = now({ status: { state: "busy", message: "completing" }, latencyMs: 40 });
    expect(described(busy)).toMatchObject({ icon: "loading~spin", label: "40 ms" });
  });

  it("warns of what is degraded, with the fix that its words name", () => {
    const status: Status = { state: "degraded", message: "no draft model: d.gguf is missing; `foretype pull`" };
    expect(described(now({ status }))).toMatchObject({
      level: "warning",
      label: "degraded",
      fix: { command: "foretype.pull" },
    });
  });

  it("names the fault and the remedy of what failed", () => {
    const told = described(now({ status: failed }));
    expect(told).toMatchObject({ level: "error", label: "failed", fix: { title: "Pull Model" } });
    expect(told.sentence).toBe(`${failed.message}.`);
    const unnamed: Status = { ...failed, message: "no pull was made" };
    expect(described(now({ status: unnamed })).sentence).toBe(`No pull was made. ${failed.action ?? ""}`);
  });

  it.each(["starting", "stopped", "crashed"] as const)("tells a server that is %s", (server) => {
    const { label, fix } = described(now({ server, status: undefined }));
    expect([label, fix?.command]).toEqual(
      {
        starting: ["starting", undefined],
        stopped: ["not running", "foretype.restart"],
        crashed: ["failed", "foretype.restart"],
      }[server],
    );
  });
});

describe("what is off", () => {
  it("by the setting hides every fault", () => {
    const told = described(now({ off: { why: "setting" }, status: failed, server: "crashed" }));
    expect(told).toMatchObject({
      icon: "circle-slash",
      label: "off",
      level: "normal",
      fix: { command: "foretype.toggle" },
    });
  });

  it("for a language or for a while hides none", () => {
    for (const off of [{ why: "language", language: "markdown" } as const, { why: "snoozed", minutes: 4 } as const]) {
      expect(described(now({ off, status: failed })).label).toBe("failed");
    }
  });

  it("says for what, and for how long", () => {
    const language = described(now({ off: { why: "language", language: "markdown" } }));
    expect(language).toMatchObject({ label: "off here", fix: { command: "foretype.toggleLanguage" } });
    expect(language.sentence).toContain("markdown");
    const snoozed = described(now({ off: { why: "snoozed", minutes: 1 } }));
    expect(snoozed).toMatchObject({ label: "snoozed 1 min", sentence: "Completions come back in 1 minute." });
    expect(described(now({ off: { why: "snoozed", minutes: 4 } })).sentence).toContain("4 minutes");
  });
});

describe("fixFor", () => {
  it.each([
    ["Run `foretype pull` and restart the engine.", "foretype.pull"],
    ["Run “Foretype: Create Environment”.", "foretype.createEnvironment"],
    ["Run “Foretype: Select Interpreter”.", "foretype.selectInterpreter"],
    ["Choose a smaller profile, or close what takes the memory.", "foretype.chooseProfile"],
    ["See the server's log, then restart the engine.", "foretype.showLog"],
  ])("finds the command for %j", (action, command) => {
    expect(fixFor({ state: "failed", message: "", action }).command).toBe(command);
  });

  it("follows the remedy rather than the message", () => {
    const status: Status = { state: "failed", message: "after `foretype pull`", action: "See the log." };
    expect(fixFor(status).command).toBe("foretype.showLog");
  });
});

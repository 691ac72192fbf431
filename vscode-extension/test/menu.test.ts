import { beforeEach, describe, expect, it } from "vitest";
import { type MenuPlace, menuItems, openMenu } from "../src/menu";
import type { Situation } from "../src/statusText";
import { editor, resetEditor } from "./vscode";

const place: MenuPlace = { language: "python", languageOn: true, profile: "cpu" };
const ready: Situation = {
  server: "running",
  status: { state: "ready", message: "ready" },
  off: undefined,
  latencyMs: undefined,
  acceptance: undefined,
  accepted: 0,
};

function commands(situation: Situation, at: MenuPlace = place): string[] {
  return menuItems(situation, at).map((item) => item.fix.command.replace("foretype.", ""));
}

function labels(situation: Situation, at: MenuPlace = place): string {
  return menuItems(situation, at)
    .map((item) => item.label)
    .join("\n");
}

beforeEach(resetEditor);

describe("the menu", () => {
  it("has everything there is to do", () => {
    expect(commands(ready)).toEqual([
      "toggle",
      "toggleLanguage",
      "snooze",
      "chooseProfile",
      "pull",
      "explainLast",
      "showLog",
      "restart",
    ]);
  });

  it("begins with the remedy when something is wrong", () => {
    const status = { state: "failed", message: "no model", action: "Run `foretype pull`." } as const;
    expect(menuItems({ ...ready, status }, place)[0]).toMatchObject({
      label: "$(tools) Pull Model",
      description: "No model. Run `foretype pull`.",
    });
  });

  it("offers to switch on alone what is off altogether", () => {
    expect(commands({ ...ready, off: { why: "setting" } }).slice(0, 2)).toEqual(["toggle", "chooseProfile"]);
    expect(labels({ ...ready, off: { why: "setting" } })).toContain("Switch completions on");
  });

  it("names the language, and which way its switch goes", () => {
    expect(labels(ready)).toContain("Switch completions off for python");
    expect(labels(ready, { ...place, languageOn: false })).toContain("Switch completions on for python");
    expect(commands(ready, { ...place, language: undefined })).not.toContain("toggleLanguage");
  });

  it("turns a snooze into its end, with the time that is left", () => {
    const snoozed = menuItems({ ...ready, off: { why: "snoozed", minutes: 3 } }, place);
    expect(snoozed.find((item) => item.fix.command === "foretype.resume")?.description).toBe("3 min left");
    expect(snoozed.map((item) => item.fix.command)).not.toContain("foretype.snooze");
  });

  it("does what is chosen, and nothing when it is left", async () => {
    await openMenu(ready, place);
    expect(editor.executed).toEqual([]);
    expect(editor.shown[0]).toMatchObject({ message: "Foretype", detail: "Ready." });
    editor.answer = ({ items }) => items.find((item) => item.endsWith("Pull model"));
    await openMenu(ready, place);
    expect(editor.executed).toEqual([["foretype.pull"]]);
  });
});

import { beforeEach, describe, expect, it } from "vitest";
import { isLanguageOn, toggle, toggleLanguage } from "../src/switches";
import { editor, resetEditor } from "./vscode";

const NAME = "foretype.languages";

beforeEach(resetEditor);

describe("toggle", () => {
  it("switches everything off, and on again", async () => {
    await toggle();
    expect(editor.settings.get("foretype.enable")).toBe(false);
    await toggle();
    expect(editor.settings.get("foretype.enable")).toBe(true);
  });

  it("writes where the value comes from", async () => {
    editor.settings.set("foretype.enable", true);
    editor.workspaceSettings.set("foretype.enable", false);
    await toggle();
    expect([editor.settings, editor.workspaceSettings].map((one) => one.get("foretype.enable"))).toEqual([true, true]);
  });
});

describe("toggleLanguage", () => {
  it("switches one language off and leaves the others as they are", async () => {
    editor.settings.set(NAME, { go: false });
    await toggleLanguage("markdown");
    expect(editor.settings.get(NAME)).toEqual({ go: false, markdown: false });
    expect([isLanguageOn("markdown"), isLanguageOn("python")]).toEqual([false, true]);
  });

  it("leaves no trace when the language is as usual again", async () => {
    await toggleLanguage("markdown");
    await toggleLanguage("markdown");
    expect(editor.settings.get(NAME)).toEqual({});
  });

  it("overrules the user's choice in a workspace that has choices of its own", async () => {
    editor.settings.set(NAME, { markdown: false });
    editor.workspaceSettings.set(NAME, { go: false });
    await toggleLanguage("markdown");
    expect(editor.workspaceSettings.get(NAME)).toEqual({ go: false, markdown: true });
    expect(editor.settings.get(NAME)).toEqual({ markdown: false });
    expect(isLanguageOn("markdown")).toBe(true);
    await toggleLanguage("markdown");
    expect(editor.workspaceSettings.get(NAME)).toEqual({ go: false });
    expect(isLanguageOn("markdown")).toBe(false);
  });
});

import { beforeEach, describe, expect, it } from "vitest";
import { chosenInterpreter, isEnabled, placesHere, serverSettings, writeSetting } from "../src/settings";
import { editor, resetEditor, Uri, workspace } from "./vscode";

const places = { home: "/home/ada", environment: {}, folders: [], platform: "linux" as const };

beforeEach(resetEditor);

describe("serverSettings", () => {
  it("tells the server its settings under its names, and nothing else", () => {
    editor.settings.set("foretype.maxTokens", 64).set("foretype.interpreter", "/usr/bin/python3");
    const told = serverSettings(places);
    expect(told.maxTokens).toBe(64);
    expect(Object.keys(told)).toHaveLength(13);
    expect(told).not.toHaveProperty("interpreter");
  });

  it("replaces places in the models' paths, not in patterns", () => {
    editor.settings
      .set("foretype.target", "~/models/big")
      .set("foretype.draft", "auto")
      .set("foretype.exclude", ["~/x"]);
    expect(serverSettings(places)).toMatchObject({ target: "/home/ada/models/big", draft: "auto", exclude: ["~/x"] });
  });
});

describe("chosenInterpreter", () => {
  it("is nothing when the setting is empty or blank", () => {
    expect(chosenInterpreter(places)).toBeUndefined();
    editor.settings.set("foretype.interpreter", "  ");
    expect(chosenInterpreter(places)).toBeUndefined();
  });

  it("is a path that can be run", () => {
    editor.settings.set("foretype.interpreter", "~/my env/bin/python");
    expect(chosenInterpreter(places)).toBe("/home/ada/my env/bin/python");
  });
});

describe("isEnabled", () => {
  it("is on unless switched off", () => {
    expect(isEnabled()).toBe(true);
    editor.settings.set("foretype.enable", false);
    expect(isEnabled()).toBe(false);
  });
});

describe("writeSetting", () => {
  it("writes for the user when the workspace says nothing", async () => {
    await writeSetting("profile", "cpu");
    expect(editor.settings.get("foretype.profile")).toBe("cpu");
    expect(editor.workspaceSettings.size).toBe(0);
  });

  it("writes over the workspace's value, which would hide the user's", async () => {
    editor.workspaceSettings.set("foretype.profile", "cpu-small");
    await writeSetting("profile", "cpu");
    expect(editor.workspaceSettings.get("foretype.profile")).toBe("cpu");
    expect(editor.settings.size).toBe(0);
  });
});

describe("placesHere", () => {
  it("leaves folders out that are not on this host's disk", () => {
    workspace.workspaceFolders = [
      { name: "virtual", uri: Uri.parse("vscode-vfs://github/x"), index: 0 },
      { name: "app", uri: Uri.file("/projects/app"), index: 1 },
    ];
    expect(placesHere().folders).toEqual([{ name: "app", path: "/projects/app" }]);
  });
});

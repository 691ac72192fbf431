import { beforeEach, describe, expect, it } from "vitest";
import { selectInterpreter } from "../src/environment/selection";
import { FakeRunner, python } from "./fakes";
import { editor, resetEditor, Uri } from "./vscode";

const runner = new FakeRunner({ "/ws/python": () => python() });
const select = (): Promise<void> => selectInterpreter(["/ws/python", "/gone/python"], "0.1.0", runner, "/own");

beforeEach(() => {
  resetEditor();
  editor.settings.set("foretype.interpreter", "/before");
});

describe("selectInterpreter", () => {
  it("offers what the workspace has, a file, and to leave it to Foretype", async () => {
    await select();
    expect(editor.shown[0]?.items).toEqual(["Automatic", "/ws/python", "/gone/python", "Browse…"]);
    expect(editor.settings.get("foretype.interpreter")).toBe("/before");
  });

  it.each([
    ["/ws/python", "/ws/python"],
    ["Automatic", ""],
  ])("writes the setting for %s", async (label, value) => {
    editor.answer = () => label;
    await select();
    expect(editor.settings.get("foretype.interpreter")).toBe(value);
  });

  it("takes a file, and nothing when that is dismissed", async () => {
    let file: unknown = undefined;
    editor.answer = ({ items }) => (items.length > 0 ? "Browse…" : file);
    await select();
    expect(editor.settings.get("foretype.interpreter")).toBe("/before");
    file = [Uri.file("/picked/python")];
    await select();
    expect(editor.settings.get("foretype.interpreter")).toBe("/picked/python");
  });
});

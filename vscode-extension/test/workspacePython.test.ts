import type { LogOutputChannel } from "vscode";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { WorkspacePythons } from "../src/environment/workspacePython";
import { editor, EventEmitter, LogChannel, resetEditor, Uri, workspace } from "./vscode";

const log = new LogChannel();
const pythons = (): WorkspacePythons => new WorkspacePythons(log as unknown as LogOutputChannel);

const ENVIRONMENTS = "ms-python.vscode-python-envs";
const PYTHON = "ms-python.python";

function environmentsApi(executable: (folder: string) => string | undefined): object {
  return {
    getEnvironment: (folder?: Uri) => {
      const path = executable(folder?.path ?? "none");
      return Promise.resolve(path && { execInfo: { run: { executable: path } } });
    },
  };
}

function pythonApi(path: string): { api: object; change: EventEmitter<unknown> } {
  const change = new EventEmitter<unknown>();
  const environments = {
    getActiveEnvironmentPath: () => ({ path: "an id" }),
    resolveEnvironment: () => Promise.resolve({ executable: { uri: Uri.file(path) } }),
    onDidChangeActiveEnvironmentPath: change.event,
  };
  return { api: { environments }, change };
}

beforeEach(() => {
  resetEditor();
  workspace.workspaceFolders = ["/a", "/b", "/c"].map((path, index) => ({ name: path, uri: Uri.file(path), index }));
});

describe("WorkspacePythons", () => {
  it("has none without the extensions that choose them", async () => {
    expect(await pythons().all()).toEqual([]);
  });

  it("asks Python Environments first, for each folder, each answer once", async () => {
    editor.extensions.set(
      ENVIRONMENTS,
      environmentsApi((folder) => (folder === "/c" ? "/c/.venv" : "/usr/bin/python3")),
    );
    editor.extensions.set(PYTHON, pythonApi("/other").api);
    expect(await pythons().all()).toEqual(["/usr/bin/python3", "/c/.venv"]);
  });

  it("asks the Python extension where that is all there is", async () => {
    editor.extensions.set(PYTHON, pythonApi("/usr/bin/python3").api);
    expect(await pythons().all()).toEqual(["/usr/bin/python3"]);
  });

  it("asks for the window's Python where no folder is open", async () => {
    workspace.workspaceFolders = undefined;
    editor.extensions.set(
      ENVIRONMENTS,
      environmentsApi((folder) => `/python/of/${folder}`),
    );
    expect(await pythons().all()).toEqual(["/python/of/none"]);
  });

  it("runs nothing of a workspace that is not trusted, and asks once it is", async () => {
    editor.extensions.set(PYTHON, pythonApi("/ws/.venv").api);
    editor.trusted = false;
    const asked = pythons();
    expect(await asked.all()).toEqual([]);
    editor.trusted = true;
    expect(await asked.all()).toEqual(["/ws/.venv"]);
  });

  it("tells when another is chosen", async () => {
    const { api, change } = pythonApi("/x");
    editor.extensions.set(PYTHON, api);
    const [asked, listener] = [pythons(), vi.fn()];
    asked.onChange(listener);
    await asked.all();
    change.fire({});
    expect(listener).toHaveBeenCalledOnce();
  });

  it("survives an extension that fails", async () => {
    editor.extensions.set(ENVIRONMENTS, { getEnvironment: () => Promise.reject(new Error("not ready")) });
    expect(await pythons().all()).toEqual([]);
    expect(log.lines.at(-1)).toContain("not ready");
  });
});

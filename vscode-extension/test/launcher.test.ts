import type { LogOutputChannel, Memento } from "vscode";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ForetypeClient } from "../src/client";
import type { Creation } from "../src/environment/creation";
import type { PrivateEnvironment } from "../src/environment/privateEnvironment";
import { Launcher } from "../src/launcher";
import { FakeRunner, python } from "./fakes";
import { editor, LogChannel, resetEditor } from "./vscode";

const OWN = "/own/environment/bin/python";
const SET = "/set/python";

function make({ own = OWN, outdated = false, workspace = Promise.resolve([] as string[]) } = {}): {
  launcher: Launcher;
  did: string[];
  memory: Map<string, unknown>;
  client: { state: string; interpreter: string | undefined };
} {
  const did: string[] = [];
  const note = (what: string) => (): Promise<boolean> => Promise.resolve(did.push(what) > 0);
  const client = {
    state: "stopped",
    interpreter: undefined as string | undefined,
    start: (path: string) => {
      Object.assign(client, { state: "running", interpreter: path });
      return note(`start ${path}`)();
    },
    stop: () => {
      client.state = "stopped";
      return note("stop")();
    },
    reportFailure: (message: string, action: string) => did.push(`failed: ${message} ${action}`),
  };
  const memory = new Map<string, unknown>();
  const creation = {
    create: async (before: () => Promise<void>) => {
      await before();
      return note("create")();
    },
    update: note("update"),
  };
  const launcher = new Launcher({
    client: client as unknown as ForetypeClient,
    creation: creation as unknown as Creation,
    environment: {
      python: () => Promise.resolve(own === "" ? undefined : own),
      isOutdated: () => Promise.resolve(outdated),
    } as unknown as PrivateEnvironment,
    place: { runner: new FakeRunner({ [SET]: () => python() }), cwd: "/own", platform: "linux", version: "0.1.0" },
    workspacePythons: () => workspace,
    memory: {
      get: (key: string) => memory.get(key),
      update: (key: string, value: unknown) => Promise.resolve(memory.set(key, value)),
    } as unknown as Memento,
    log: new LogChannel() as unknown as LogOutputChannel,
  });
  return { launcher, did, memory, client };
}

beforeEach(resetEditor);

describe("launching", () => {
  it("starts the server in the Python that is found", async () => {
    const { launcher, did } = make();
    await launcher.launch();
    expect(did).toEqual([`start ${OWN}`]);
  });

  it("does nothing at all while completions are off", async () => {
    editor.settings.set("foretype.enable", false);
    const { launcher, did } = make({ own: "" });
    await launcher.launch();
    expect([did, editor.shown]).toEqual([[], []]);
  });

  it("brings an outdated environment up to date first, with no server in it", async () => {
    const { launcher, did } = make({ outdated: true });
    await launcher.launch();
    expect(did).toEqual(["stop", "update", `start ${OWN}`]);
  });

  it("leaves an environment alone that it does not use", async () => {
    editor.settings.set("foretype.interpreter", SET);
    const { launcher, did } = make({ outdated: true });
    await launcher.launch();
    expect(did).toEqual([`start ${SET}`]);
  });

  it("acts on the newest call only", async () => {
    let answer: (pythons: string[]) => void = () => undefined;
    const workspace = new Promise<string[]>((resolve) => (answer = resolve));
    const { launcher, did } = make({ workspace });
    const first = launcher.launch();
    const second = launcher.launch();
    answer([]);
    await Promise.all([first, second]);
    expect(did).toEqual([`start ${OWN}`]);
  });
});

describe("reconsidering", () => {
  it("leaves a server that runs in the right Python alone", async () => {
    const { launcher, did } = make();
    await launcher.launch();
    await launcher.reconsider();
    expect(did).toHaveLength(1);
  });

  it("moves the server to another Python", async () => {
    const { launcher, did } = make();
    await launcher.launch();
    editor.settings.set("foretype.interpreter", SET);
    await launcher.reconsider();
    expect(did).toEqual([`start ${OWN}`, `start ${SET}`]);
  });

  it("leaves a server alone whose Python is not found any more, unless a person restarts it", async () => {
    const { launcher, did, client } = make({ own: "" });
    client.state = "running";
    await launcher.reconsider();
    expect(did).toEqual([]);
    await launcher.restart();
    expect(did[0]).toBe("stop");
  });

  it("starts a server that is down", async () => {
    const { launcher, did, client } = make();
    await launcher.launch();
    client.state = "crashed";
    await launcher.reconsider();
    expect(did).toHaveLength(2);
  });
});

describe("without a Python", () => {
  it("says so in the status and offers to create one", async () => {
    const { launcher, did } = make({ own: "" });
    await launcher.launch();
    expect(did).toEqual(["stop", expect.stringContaining("Create Environment")]);
    expect(editor.shown[0]?.items).toEqual(["Create Environment", "Select Interpreter", "Don't Ask Again"]);
  });

  it("creates it when asked", async () => {
    editor.answer = ({ items }) =>
      items.includes("Create Environment") && editor.shown.length === 1 ? items[0] : undefined;
    const { launcher, did } = make({ own: "" });
    await launcher.launch();
    await vi.waitFor(() => {
      expect(did.slice(2, 4)).toEqual(["stop", "create"]);
    });
  });

  it("offers it once in a window, and again to a person who restarts the server", async () => {
    const { launcher } = make({ own: "" });
    await launcher.launch();
    await launcher.reconsider();
    await launcher.createEnvironment();
    expect(editor.shown).toHaveLength(1);
    await launcher.restart();
    expect(editor.shown).toHaveLength(2);
  });

  it("does not ask again when told not to, in no window", async () => {
    editor.answer = () => "Don't Ask Again";
    const { launcher, memory, did } = make({ own: "" });
    await launcher.launch();
    await vi.waitFor(() => {
      expect(memory.size).toBe(1);
    });
    await launcher.restart();
    expect(editor.shown).toHaveLength(1);
    expect(did).toHaveLength(4);
  });

  it("names what is wrong with the one that is set, and takes no other", async () => {
    editor.settings.set("foretype.interpreter", "/gone/python");
    const { launcher, did } = make();
    await launcher.launch();
    expect(did).toEqual(["stop", expect.stringMatching(/^failed: .*\/gone\/python, cannot be run/)]);
    expect(editor.shown[0]?.items).toEqual(["Select Interpreter", "Show Log"]);
  });
});

describe("creating an environment", () => {
  it("clears the setting that would keep another Python in its place", async () => {
    editor.settings.set("foretype.interpreter", "/gone/python");
    const { launcher, did } = make();
    await launcher.createEnvironment();
    expect(editor.settings.has("foretype.interpreter")).toBe(false);
    expect(did).toEqual(["stop", "create"]);
  });

  it("starts the server", async () => {
    const { launcher, did } = make();
    await launcher.createEnvironment();
    expect(did).toEqual(["stop", "create", `start ${OWN}`]);
  });
});

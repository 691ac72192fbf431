import type { LogOutputChannel, TextDocument } from "vscode";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { ForetypeClient, type ServerState, type Status } from "../src/client";
import { LanguageClient, State } from "./languageclient";
import { editor, LogChannel, resetEditor } from "./vscode";

const PYTHON = "/opt/env/bin/python";
const document = {} as TextDocument;
const items = [{ insertText: "return" }];

function make(allows = () => true): { client: ForetypeClient; states: ServerState[]; statuses: Status[] } {
  const client = new ForetypeClient(new LogChannel() as unknown as LogOutputChannel, { allows }, "/own/folder");
  const [states, statuses]: [ServerState[], Status[]] = [[], []];
  client.onState((state) => states.push(state));
  client.onStatus((status) => statuses.push(status));
  return { client, states, statuses };
}

function ask(next: () => unknown): Promise<unknown> {
  const { middleware } = LanguageClient.last.options;
  return middleware.provideInlineCompletionItems(document, {}, {}, {}, next);
}

async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

const running = LanguageClient.starts;

beforeEach(() => {
  resetEditor();
  LanguageClient.made = [];
  LanguageClient.starts = running;
});

describe("starting", () => {
  it("runs the server's module in the interpreter, in our folder, over standard input and output", async () => {
    const { client, states } = make();
    await client.start(PYTHON);
    const { server } = LanguageClient.last;
    expect(server).toMatchObject({ command: PYTHON, args: ["-m", "lsp_server"], options: { cwd: "/own/folder" } });
    expect(server.options.env).toMatchObject({ PYTHONSAFEPATH: "1", FORETYPE_LOG: "INFO" });
    expect(states).toEqual(["starting", "running"]);
    expect(client.interpreter).toBe(PYTHON);
  });

  it("gives the settings at the start, and asks for the notifications", async () => {
    editor.settings.set("foretype.profile", "cpu");
    await make().client.start(PYTHON);
    const { initializationOptions } = LanguageClient.last.options;
    expect(initializationOptions).toMatchObject({ profile: "cpu", notifications: { status: true, extended: true } });
  });

  it("answers the server's question for settings with those that hold then", async () => {
    await make().client.start(PYTHON);
    editor.settings.set("foretype.maxTokens", 7).set("foretype.interpreter", "x");
    const { workspace } = LanguageClient.last.options.middleware;
    const [told] = workspace.configuration({ items: [{ section: "foretype" }] }, {}, () => []) as object[];
    expect(told).toMatchObject({ maxTokens: 7 });
    expect(told).not.toHaveProperty("interpreter");
    expect(workspace.configuration({ items: [{ section: "editor" }] }, {}, () => "the editor's")).toBe("the editor's");
  });

  it("serves files, unsaved documents and cells of notebooks", async () => {
    await make().client.start(PYTHON);
    const { documentSelector } = LanguageClient.last.options;
    expect(documentSelector).toEqual(
      expect.arrayContaining([{ scheme: "file" }, { scheme: "untitled" }, { notebook: "*", language: "*" }]),
    );
    expect(documentSelector).not.toContainEqual({ scheme: "output" });
  });

  it("ends the server that ran before", async () => {
    const { client } = make();
    await client.start(PYTHON);
    await client.start("/other/python");
    expect(LanguageClient.made.map((made) => [made.server.command, made.disposed])).toEqual([
      [PYTHON, true],
      ["/other/python", false],
    ]);
  });

  it("starts once for each of several calls at the same time, one after the other", async () => {
    const { client } = make();
    await Promise.all([client.start(PYTHON), client.restart(), client.start("/other/python")]);
    expect(LanguageClient.made.filter((made) => !made.disposed)).toHaveLength(1);
    expect(client.interpreter).toBe("/other/python");
  });
});

describe("requests", () => {
  it("do not leave the editor when the gate is closed", async () => {
    await make(() => false).client.start(PYTHON);
    const next = vi.fn();
    expect(await ask(next)).toBeNull();
    expect(next).not.toHaveBeenCalled();
  });

  it("measure how long a suggestion took, not how long nothing took", async () => {
    const { client } = make();
    await client.start(PYTHON);
    await ask(() => null);
    await ask(() => ({ items: [] }));
    expect(client.lastLatencyMs).toBeUndefined();
    expect(await ask(() => ({ items }))).toEqual({ items });
    expect(client.lastLatencyMs).toBeGreaterThanOrEqual(0);
  });

  it("count what is accepted, and pass the commands on", async () => {
    const { client } = make();
    await client.start(PYTHON);
    const { middleware } = LanguageClient.last.options;
    const next = vi.fn();
    middleware.executeCommand("foretype.accept", [1], next);
    middleware.executeCommand("foretype.status", [], next);
    expect(client.accepted).toBe(1);
    expect(next.mock.calls).toEqual([
      ["foretype.accept", [1]],
      ["foretype.status", []],
    ]);
  });

  it("carry commands with their arguments", async () => {
    const { client } = make();
    await client.start(PYTHON);
    expect(await client.command("foretype.explain", "file:///a", { line: 1 })).toBe("answer");
    expect(LanguageClient.last.sent).toEqual([{ command: "foretype.explain", arguments: ["file:///a", { line: 1 }] }]);
  });

  it("refuse a command while there is no server, with the way out", () => {
    expect(() => make().client.command("foretype.status")).toThrow("Restart Server");
  });
});

describe("notifications", () => {
  it("reach the listeners, and the last status is kept while the server lives", async () => {
    const { client, statuses } = make();
    const extended: unknown[] = [];
    client.onExtended((one) => extended.push(one));
    await client.start(PYTHON);
    LanguageClient.last.notify("foretype/status", { state: "ready", message: "ready" });
    LanguageClient.last.notify("foretype/extended", { uri: "file:///a", version: 3 });
    expect(statuses).toEqual([{ state: "ready", message: "ready" }]);
    expect(extended).toEqual([{ uri: "file:///a", version: 3 }]);
    expect(client.status?.state).toBe("ready");
    await client.stop();
    expect(client.status).toBeUndefined();
  });

  it("can be given in the server's place", () => {
    const { client, statuses } = make();
    client.reportFailure("There is none.", "Make one.");
    expect(statuses).toEqual([{ state: "failed", message: "There is none.", action: "Make one." }]);
  });
});

describe("a server that ends by itself", () => {
  it("is started again, by a client of its own", async () => {
    const { client, states } = make();
    await client.start(PYTHON);
    expect(LanguageClient.last.options.errorHandler.closed().action).toBe(1);
    LanguageClient.last.become(State.Stopped);
    await settle();
    expect(LanguageClient.made.map((made) => made.disposed)).toEqual([true, false]);
    expect(states).toEqual(["starting", "running", "starting", "running"]);
  });

  it("is given up after five new starts, and comes back when asked", async () => {
    const { client, states } = make();
    await client.start(PYTHON);
    for (let crash = 0; crash < 6; crash++) {
      LanguageClient.last.become(State.Stopped);
      await settle();
    }
    expect(LanguageClient.made).toHaveLength(6);
    expect(states.at(-1)).toBe("crashed");
    await client.restart();
    expect(client.state).toBe("running");
    LanguageClient.last.become(State.Stopped);
    await settle();
    expect(client.state).toBe("running");
  });

  it("counts as ended when it cannot even start", async () => {
    LanguageClient.starts = (client) => {
      client.become(State.StartFailed);
      return Promise.reject(new Error("spawn ENOENT"));
    };
    const { client, states } = make();
    await client.start(PYTHON);
    await settle();
    await client.stop();
    expect(LanguageClient.made).toHaveLength(6);
    expect(states).toContain("crashed");
  });

  it("stays down when it was stopped meanwhile", async () => {
    const { client } = make();
    await client.start(PYTHON);
    LanguageClient.last.become(State.Stopped);
    await client.stop();
    await settle();
    expect(LanguageClient.made.filter((made) => !made.disposed)).toHaveLength(0);
  });

  it("stays down when it ends just before a stop gets to it", async () => {
    const { client } = make();
    await client.start(PYTHON);
    const stopping = client.stop();
    LanguageClient.last.become(State.Stopped);
    await stopping;
    await settle();
    expect(LanguageClient.made.filter((made) => !made.disposed)).toHaveLength(0);
  });

  it("is not what a stop is taken for", async () => {
    const { client, states } = make();
    await client.start(PYTHON);
    await client.stop();
    await settle();
    expect(LanguageClient.made).toHaveLength(1);
    expect(states.at(-1)).toBe("stopped");
  });
});

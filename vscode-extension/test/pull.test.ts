import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ForetypeClient, Status } from "../src/client";
import { Faults } from "../src/faults";
import { Pull } from "../src/pull";
import { FakeRunner, type Program } from "./fakes";
import { editor, EventEmitter, LogChannel, resetEditor } from "./vscode";

const PYTHON = "/env/bin/python";
const models = [
  { name: "big.gguf", bytes: 1.1e9, state: "missing" },
  { name: "small.gguf", bytes: 0.5e9, state: "present" },
];
const report = { profiles: { cpu: models, other: [] }, auto: { profile: "cpu", why: "it fits" } };
const doctor = { stdout: `a greeting\n${JSON.stringify(report)}\n` };

interface Setup {
  interpreter?: string | undefined;
  state?: string;
  pulls?: Program;
  doctor?: Program;
}

function make({ interpreter = PYTHON, state = "running", ...programs }: Setup = {}) {
  const statuses = new EventEmitter<Status>();
  const command = vi.fn(() => Promise.resolve());
  const client = { interpreter, state, command, onStatus: statuses.event };
  const runner = new FakeRunner({
    [PYTHON]: (args, options) =>
      args[2] === "doctor" ? (programs.doctor ?? (() => doctor))(args, options) : programs.pulls?.(args, options),
  });
  const log = new LogChannel();
  const pull = new Pull({ client: client as unknown as ForetypeClient, runner, storage: "/own", log });
  return { pull, client, command, runner, statuses, log };
}

const lines = (...told: object[]): Program => {
  return (_, { onLine }) => {
    told.forEach((one) => onLine?.(JSON.stringify(one)));
    return {};
  };
};

async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

beforeEach(resetEditor);

describe("a pull", () => {
  it("fetches the profile in the settings with the server's Python, and loads the engine anew", async () => {
    editor.settings.set("foretype.profile", "cpu");
    const pulls = lines(
      { profile: "cpu", models },
      { label: "big.gguf", done: 1.1e9, total: 1.1e9 },
      { say: "big.gguf: there and verified" },
    );
    const { pull, runner, command, log } = make({ pulls });
    await pull.run();
    expect(runner.ran).toEqual([`${PYTHON} -m engine pull cpu --json`]);
    expect(editor.progress).toEqual(["big.gguf, 1.1 GB of 1.1 GB", "big.gguf: there and verified"]);
    expect(editor.increments).toEqual([100]);
    expect(log.lines).toEqual(["info: pull: big.gguf: there and verified"]);
    expect(command.mock.calls).toEqual([["foretype.restartEngine"]]);
    expect(editor.shown).toEqual([]);
  });

  it("starts the server where none runs", async () => {
    const { pull, command } = make({ state: "stopped", pulls: lines() });
    await pull.run();
    expect(command).not.toHaveBeenCalled();
    expect(editor.executed).toEqual([["foretype.restart"]]);
  });

  it("runs once however often it is asked for", async () => {
    const { pull, runner } = make({ pulls: lines() });
    await Promise.all([pull.run(), pull.run()]);
    expect(runner.ran).toHaveLength(1);
    await pull.run();
    expect(runner.ran).toHaveLength(2);
  });

  it("says why it failed and offers to go on", async () => {
    const pulls: Program = (_, { onLine }) => {
      onLine?.("Error: m.gguf needs 2.2 GiB in /models; free some space");
      return { code: 1 };
    };
    editor.answer = () => "Try Again";
    const { pull, command } = make({ pulls });
    await pull.run();
    await settle();
    expect(editor.shown[0]).toMatchObject({
      message: "Foretype's models could not be fetched: m.gguf needs 2.2 GiB in /models; free some space",
      items: ["Try Again", "Show Log"],
    });
    expect(editor.executed).toEqual([["foretype.pull"]]);
    expect(command).not.toHaveBeenCalled();
  });

  it("is ended by cancel, without a word", async () => {
    const pulls: Program = (_, { signal }) => {
      editor.cancelProgress();
      return { code: signal?.aborted === true ? null : 0 };
    };
    const { pull, command } = make({ pulls });
    await pull.run();
    expect(editor.shown).toEqual([]);
    expect(command).not.toHaveBeenCalled();
  });

  it("needs an environment and offers to create it", async () => {
    editor.answer = () => "Create Environment";
    const { pull, client, runner } = make();
    client.interpreter = undefined as never;
    await pull.run();
    expect(editor.executed).toEqual([["foretype.createEnvironment"]]);
    expect(runner.ran).toEqual([]);
    expect(await pull.size()).toBeUndefined();
  });
});

describe("the offer to pull", () => {
  const failed: Status = { state: "failed", message: "m.gguf is missing", action: "Run `foretype pull`." };

  function watch(setup: Setup = {}) {
    const made = make(setup);
    return { ...made, faults: new Faults(made.client as unknown as ForetypeClient, made.pull) };
  }

  it("names the size of what is missing, and pulls when it is taken", async () => {
    editor.answer = ({ items }) => items[0];
    watch().statuses.fire(failed);
    await settle();
    expect(editor.shown).toMatchObject([
      { message: "Foretype has no model: m.gguf is missing", items: ["Pull Model (1.1 GB)", "Show Log"] },
    ]);
    expect(editor.executed).toEqual([["foretype.pull"]]);
  });

  it("does without the size where it cannot be told", async () => {
    watch({ doctor: () => ({ code: 1 }) }).statuses.fire(failed);
    await settle();
    expect(editor.shown[0]?.items).toEqual(["Pull Model", "Show Log"]);
  });

  it("is not made for a model of one's own, which no pull would fetch", async () => {
    editor.settings.set("foretype.target", "~/m.gguf");
    editor.answer = () => "Open Settings";
    watch().statuses.fire(failed);
    await settle();
    expect(editor.executed).toEqual([["workbench.action.openSettings", "foretype.target"]]);
  });

  it("is made once for a fault, and again when it comes back after all was well", async () => {
    const { statuses } = watch();
    for (const status of [failed, failed, { state: "ready", message: "" } as const, failed]) {
      statuses.fire(status);
    }
    await settle();
    expect(editor.shown).toHaveLength(2);
  });

  it("leaves to the launcher what is wrong before there is a server", async () => {
    watch({ state: "stopped" }).statuses.fire(failed);
    await settle();
    expect(editor.shown).toEqual([]);
  });

  it("is the other fix where a pull would not help, and a warning where completions are served", async () => {
    const { statuses } = watch();
    statuses.fire({ state: "degraded", message: "this completion does not fit; see the log" });
    await settle();
    expect(editor.shown).toMatchObject([
      { message: "Foretype: this completion does not fit; see the log", items: ["Show Log"] },
    ]);
  });

  it("ends with its owner", async () => {
    const { faults, statuses } = watch();
    faults.dispose();
    statuses.fire(failed);
    await settle();
    expect(editor.shown).toEqual([]);
  });
});

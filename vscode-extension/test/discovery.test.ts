import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { discover, type Place, type Sources } from "../src/environment/discovery";
import { isCompatible } from "../src/environment/probe";
import { FakeRunner, type Program, python } from "./fakes";

const nothing: Sources = {
  setting: undefined,
  workspace: () => Promise.resolve([]),
  private: () => Promise.resolve(undefined),
};

function place(programs: Record<string, Program>): Place & { runner: FakeRunner } {
  return { runner: new FakeRunner(programs), cwd: "/own", platform: "linux", version: "0.1.3" };
}

describe("the setting", () => {
  it("comes before all others, which are not asked", async () => {
    const workspace = vi.fn(() => Promise.resolve(["/ws/python"]));
    const here = place({ "/set/python": () => python(), "/ws/python": () => python() });
    const found = await discover({ ...nothing, setting: "/set/python", workspace }, here);
    expect(found).toEqual({ kind: "found", python: "/set/python", source: "setting" });
    expect(workspace).not.toHaveBeenCalled();
  });

  it("may name the environment's folder", async () => {
    const folder = await mkdtemp(join(tmpdir(), "foretype env "));
    const own = `${folder}/bin/python`;
    const found = await discover({ ...nothing, setting: folder }, place({ [own]: () => python() }));
    await rm(folder, { recursive: true });
    expect(found).toEqual({ kind: "found", python: own, source: "setting" });
  });

  it("may name a source tree's Python, where Foretype is not installed as a distribution", async () => {
    const here = place({ "/set/python": () => python({ foretype: null }) });
    expect(await discover({ ...nothing, setting: "/set/python" }, here)).toMatchObject({ kind: "found" });
  });

  it.each<[string, Program, string]>([
    [
      "cannot be run",
      () => undefined,
      "cannot be run (spawn /set/python ENOENT); correct the path or clear the setting",
    ],
    ["fails", () => ({ code: 1, stderr: "boom\n" }), "cannot be run (boom)"],
    ["says nonsense", () => ({ stdout: "hello" }), "cannot be run (it gave no answer)"],
    ["is old", () => python({ version: [3, 10, 2] }), "is version 3.10.2; choose Python 3.11 or newer"],
    [
      "has no Foretype",
      () => python({ missing: ["lsp_server", "engine"] }),
      "lacks lsp_server, engine; install Foretype",
    ],
    ["has another Foretype", () => python({ foretype: "0.2.0" }), "has Foretype 0.2.0; install version 0.1.3"],
  ])("that %s is said, and nothing else is taken", async (_, program, fault) => {
    const sources = { ...nothing, setting: "/set/python", private: () => Promise.resolve("/own/python") };
    const found = await discover(sources, place({ "/set/python": program }));
    expect(found).toMatchObject({ kind: "wrong" });
    expect((found as { sentence: string }).sentence).toContain(`/set/python, ${fault}`);
  });
});

describe("the workspace's Pythons", () => {
  it("are taken in their order, the first that has Foretype", async () => {
    const here = place({
      "/a/python": () => python({ missing: ["lsp_server"] }),
      "/b/python": () => python({ version: [3, 9, 0] }),
      "/c/python": () => python({ foretype: "0.9.0" }),
      "/d/python": () => python(),
    });
    const workspace = (): Promise<string[]> => Promise.resolve(["/a/python", "/b/python", "/c/python", "/d/python"]);
    const found = await discover({ ...nothing, workspace }, here);
    expect(found).toEqual({ kind: "found", python: "/d/python", source: "workspace" });
  });

  it("give way to the private environment when none has it", async () => {
    const sources: Sources = {
      ...nothing,
      workspace: () => Promise.resolve(["/gone/python"]),
      private: () => Promise.resolve("/own/env/bin/python"),
    };
    const found = await discover(sources, place({}));
    expect(found).toEqual({ kind: "found", python: "/own/env/bin/python", source: "private" });
  });
});

it("finds nothing where there is nothing", async () => {
  expect(await discover(nothing, place({}))).toEqual({ kind: "none" });
});

describe("isCompatible", () => {
  it.each([
    ["0.1.0", "0.1.9", true],
    ["0.1.0", "0.10.0", false],
    ["1.1.0", "0.1.0", false],
    ["0.1.0.dev3", "0.1.0", true],
  ])("%s and %s: %s", (one, other, compatible) => {
    expect(isCompatible(one, other)).toBe(compatible);
  });
});

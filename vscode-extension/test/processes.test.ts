import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemRunner } from "../src/processes";

let cwd: string;

beforeAll(async () => {
  cwd = await realpath(await mkdtemp(join(tmpdir(), "foretype test ")));
});
afterAll(() => rm(cwd, { recursive: true }));

describe("systemRunner", () => {
  it("returns both outputs, the status, and each line as it comes", async () => {
    const lines: string[] = [];
    const program = "console.log('one\\ntwo'); console.error('three'); process.exitCode = 3";
    const onLine = (line: string): number => lines.push(line);
    const finished = await systemRunner.run(process.execPath, ["-e", program], { cwd, onLine });
    expect(finished).toEqual({ code: 3, stdout: "one\ntwo\n", stderr: "three\n" });
    expect(lines.sort()).toEqual(["one", "three", "two"]);
  });

  it("works in the given folder, with Pythons that import nothing from it", async () => {
    const program = "console.log(process.cwd()); console.log(process.env.PYTHONSAFEPATH)";
    const { stdout } = await systemRunner.run(process.execPath, ["-e", program], { cwd });
    expect(stdout).toBe(`${cwd}\n1\n`);
  });

  it("tells what could not be started", async () => {
    const finished = await systemRunner.run(join(cwd, "no such python"), [], { cwd });
    expect(finished.code).toBeNull();
    expect(finished.stderr).toContain("ENOENT");
  });

  it("ends a program and its children when told to", async () => {
    const abort = new AbortController();
    // The child holds the outputs open: unless it ends too, the run does not before the test's time is up.
    const program = `
      const { spawn } = require("node:child_process");
      const child = "console.log('up'); setTimeout(() => 0, 20000)";
      spawn(process.execPath, ["-e", child], { stdio: "inherit" });`;
    const onLine = (): void => {
      abort.abort();
    };
    const { code } = await systemRunner.run(process.execPath, ["-e", program], { cwd, signal: abort.signal, onLine });
    expect(code).toBeNull();
  });

  it("starts nothing that was cancelled before", async () => {
    const { code, stdout } = await systemRunner.run(process.execPath, ["-e", "console.log(1)"], {
      cwd,
      signal: AbortSignal.abort(),
    });
    expect([code, stdout]).toEqual([null, ""]);
  });
});

import { mkdirSync } from "node:fs";
import { access, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Cancelled, PrivateEnvironment } from "../src/environment/privateEnvironment";
import type { TorchBuild } from "../src/environment/torchBuild";
import { FakeRunner, type Program, python } from "./fakes";

const CPU: TorchBuild = { kind: "cpu", index: "https://index/cpu", size: "" };
const USUAL: TorchBuild = { kind: "cpu", size: "" };
const BASE = "/usr/bin/python3";

let root: string;
let storage: string;
let dist: string;
let inside: string;
let reports: string[];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "foretype private "));
  [storage, dist, reports] = [join(root, "storage"), join(root, "dist"), []];
  inside = join(storage, "environment", "bin", "python");
  await mkdir(dist);
  await writeFile(join(dist, "foretype-0.1.0-py3-none-any.whl"), "first");
});
afterEach(() => rm(root, { recursive: true }));

const venv: Program = (args) => {
  mkdirSync(join(args[2] ?? "", "bin"), { recursive: true });
  return {};
};
const pip: Program = (args) => (args[0] === "-c" ? python() : {});

function make(programs: Record<string, Program> = {}): { environment: PrivateEnvironment; runner: FakeRunner } {
  const runner = new FakeRunner({ [BASE]: venv, [inside]: pip, ...programs });
  const log = (): undefined => undefined;
  return { environment: new PrivateEnvironment({ storage, dist, runner, platform: "linux", log }), runner };
}

function work(signal = new AbortController().signal): { report: (text: string) => void; signal: AbortSignal } {
  return { report: (text) => reports.push(text), signal };
}

function installs(runner: FakeRunner): string[] {
  const start = `${inside} -m pip install `;
  return runner.ran.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length));
}

describe("creating", () => {
  it("makes an environment, fetches torch from the chosen index and installs the carried wheel", async () => {
    const { environment, runner } = make();
    await environment.create(BASE, CPU, work());
    expect(runner.ran[0]).toBe(`${BASE} -m venv ${join(storage, "environment")}`);
    expect(installs(runner)).toEqual([
      "--upgrade pip",
      "--progress-bar raw --index-url https://index/cpu torch>=2.13",
      `--progress-bar raw ${join(dist, "foretype-0.1.0-py3-none-any.whl")}`,
    ]);
    expect(await environment.python()).toBe(inside);
    expect(await environment.isOutdated()).toBe(false);
  });

  it("leaves the index to pip where the usual one has the build", async () => {
    const { environment, runner } = make();
    await environment.create(BASE, USUAL, work());
    expect(runner.ran.join()).not.toContain("--index-url");
  });

  it("tells how far it is", async () => {
    const fetch: Program = (args, { onLine }) => {
      if (args.includes("torch>=2.13")) {
        onLine?.("  Downloading torch-2.13.0-cp312.whl (190 MB)");
        onLine?.("Progress 95 of 190");
      }
      return pip(args, { cwd: "" });
    };
    await make({ [inside]: fetch }).environment.create(BASE, CPU, work());
    expect(reports).toContain("fetching torch: downloading torch 2.13.0, 190 MB, 50 %");
  });

  it("leaves nothing when a step fails, and says what to do", async () => {
    const { environment } = make({ [inside]: () => ({ code: 1, stderr: "ERROR: No space left on device" }) });
    await expect(environment.create(BASE, CPU, work())).rejects.toThrow("The disk is full");
    await expect(access(join(storage, "environment"))).rejects.toThrow();
    expect(await environment.python()).toBeUndefined();
  });

  it("leaves nothing when it is cancelled", async () => {
    const abort = new AbortController();
    const cancel: Program = () => {
      abort.abort();
      return { code: null };
    };
    const { environment } = make({ [inside]: cancel });
    await expect(environment.create(BASE, CPU, work(abort.signal))).rejects.toThrow(Cancelled);
    await expect(access(join(storage, "environment"))).rejects.toThrow();
  });

  it("does not call complete what lacks a module", async () => {
    const lacking: Program = (args) => (args[0] === "-c" ? python({ missing: ["torch"] }) : {});
    const { environment } = make({ [inside]: lacking });
    await expect(environment.create(BASE, CPU, work())).rejects.toThrow("not complete (torch)");
    expect(await environment.python()).toBeUndefined();
  });

  it("removes the rest of an interrupted build before it begins", async () => {
    const left = join(storage, "environment", "left.txt");
    await mkdir(join(storage, "environment"), { recursive: true });
    await writeFile(left, "");
    const { environment } = make();
    expect(await environment.python()).toBeUndefined();
    await environment.create(BASE, CPU, work());
    await expect(access(left)).rejects.toThrow();
  });

  it("refuses while another window is at it, and not because of one that died", async () => {
    await mkdir(storage, { recursive: true });
    const lock = join(storage, "environment.lock");
    await writeFile(lock, String(process.pid));
    await expect(make().environment.create(BASE, CPU, work())).rejects.toThrow("being worked on already");
    await writeFile(lock, "999999999");
    await make().environment.create(BASE, CPU, work());
    await expect(access(lock)).rejects.toThrow();
  });

  it("says so when the extension carries no wheel", async () => {
    await rm(dist, { recursive: true });
    await expect(make().environment.create(BASE, CPU, work())).rejects.toThrow("carries no Foretype");
  });
});

describe("updating", () => {
  it("is due when the extension carries another wheel, and keeps the build of torch", async () => {
    await make().environment.create(BASE, CPU, work());
    await writeFile(join(dist, "foretype-0.1.0-py3-none-any.whl"), "second");
    const { environment, runner } = make();
    expect(await environment.isOutdated()).toBe(true);
    await environment.update(work());
    const wheel = join(dist, "foretype-0.1.0-py3-none-any.whl");
    expect(installs(runner)).toEqual([
      "--progress-bar raw --index-url https://index/cpu torch>=2.13",
      `--progress-bar raw --force-reinstall --no-deps ${wheel}`,
      `--progress-bar raw ${wheel}`,
    ]);
    expect(await environment.isOutdated()).toBe(false);
  });

  it("is tried again when it failed, and the old environment serves on", async () => {
    await make().environment.create(BASE, CPU, work());
    await writeFile(join(dist, "foretype-0.1.0-py3-none-any.whl"), "second");
    const { environment } = make({ [inside]: () => ({ code: 1, stderr: "Max retries exceeded" }) });
    await expect(environment.update(work())).rejects.toThrow("check the network");
    expect(await environment.python()).toBe(inside);
    expect(await environment.isOutdated()).toBe(true);
    expect(await readFile(join(storage, "environment", "foretype.json"), "utf8")).toContain("https://index/cpu");
  });

  it("is never due without an environment or without a wheel", async () => {
    const { environment } = make();
    expect(await environment.isOutdated()).toBe(false);
    await environment.create(BASE, CPU, work());
    await rm(dist, { recursive: true });
    expect(await environment.isOutdated()).toBe(false);
  });
});

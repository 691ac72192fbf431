import { describe, expect, it } from "vitest";
import { torchBuilds } from "../src/environment/torchBuild";
import { FakeRunner } from "./fakes";

async function indexes(platform: NodeJS.Platform, driver?: string): Promise<(string | undefined)[]> {
  const runner = new FakeRunner(driver === undefined ? {} : { "nvidia-smi": () => ({ stdout: driver }) });
  const builds = await torchBuilds(runner, platform, "/own");
  return builds.map((build) => build.index?.split("/").at(-1) ?? build.kind);
}

describe("torchBuilds", () => {
  it("offers the CPU's build alone where there is no card", async () => {
    expect(await indexes("linux")).toEqual(["cpu"]);
    const [build] = await torchBuilds(new FakeRunner({}), "linux", "/own");
    expect(build?.index).toBe("https://download.pytorch.org/whl/cpu");
  });

  it.each([
    ["580.65.06\n", ["cu130", "cpu"]],
    ["590.10\n580.65\n", ["cu130", "cpu"]],
    ["535.216.01\n", ["cu126", "cpu"]],
    ["470.57.02\n", ["cpu"]],
    ["", ["cpu"]],
  ])("proposes what the driver %j can run", async (driver, expected) => {
    expect(await indexes("linux", driver)).toEqual(expected);
  });

  it("takes the CPU's build from the usual index where that has it", async () => {
    const [windows] = await torchBuilds(new FakeRunner({}), "win32", "/own");
    expect(windows).not.toHaveProperty("index");
    expect(await indexes("win32", "580.1")).toEqual(["cu130", "cpu"]);
  });

  it("never asks a Mac for a card of NVIDIA's", async () => {
    const runner = new FakeRunner({ "nvidia-smi": () => ({ stdout: "580.1" }) });
    expect(await torchBuilds(runner, "darwin", "/own")).toHaveLength(1);
    expect(runner.ran).toEqual([]);
  });
});

// Which Python the server runs in: the one that is set, the workspace's, or the private environment.
import { stat } from "node:fs/promises";
import { pythonIn } from "../paths";
import type { Runner } from "../processes";
import { isCompatible, isRecent, OLDEST, type Probe, probe, servesForetype } from "./probe";

export type Source = "setting" | "workspace" | "private";

/** `wrong`: a Python is set and cannot be used; that is said, and no other is taken in its place. */
export type Discovery =
  { kind: "found"; python: string; source: Source } | { kind: "wrong"; sentence: string } | { kind: "none" };

export interface Sources {
  /** What the setting says, ready to run, or nothing. */
  setting: string | undefined;
  /** The Pythons chosen for the workspace's folders, in their order. */
  workspace: () => Promise<readonly string[]>;
  /** The Python of the private environment, if that is complete. */
  private: () => Promise<string | undefined>;
}

export interface Place {
  runner: Runner;
  /** Where Pythons are asked; see `RunOptions.cwd`. */
  cwd: string;
  platform: NodeJS.Platform;
  /** The extension's version. */
  version: string;
}

/** Look through the sources in their order. */
export async function discover(sources: Sources, place: Place): Promise<Discovery> {
  if (sources.setting !== undefined) {
    return judgeSetting(await programIn(sources.setting, place.platform), place);
  }
  for (const python of await sources.workspace()) {
    const answer = await probe(place.runner, [python], place.cwd);
    if ("python" in answer && isRecent(answer.python) && servesForetype(answer.python, place.version)) {
      return { kind: "found", python, source: "workspace" };
    }
  }
  const own = await sources.private();
  return own === undefined ? { kind: "none" } : { kind: "found", python: own, source: "private" };
}

async function judgeSetting(python: string, place: Place): Promise<Discovery> {
  const fault = faultOf(await probe(place.runner, [python], place.cwd), place.version);
  return fault === undefined
    ? { kind: "found", python, source: "setting" }
    : { kind: "wrong", sentence: `The Python in the setting foretype.interpreter, ${python}, ${fault}.` };
}

function faultOf(answer: Probe, version: string): string | undefined {
  if ("failure" in answer) {
    return `cannot be run (${answer.failure}); correct the path or clear the setting`;
  }
  const { python } = answer;
  if (!isRecent(python)) {
    return `is version ${python.version.join(".")}; choose Python ${OLDEST.join(".")} or newer`;
  }
  if (python.missing.length > 0) {
    return `lacks ${python.missing.join(", ")}; install Foretype there or clear the setting`;
  }
  if (python.foretype !== null && !isCompatible(python.foretype, version)) {
    return `has Foretype ${python.foretype}; install version ${version} there or clear the setting`;
  }
  return undefined;
}

/** People name the environment's folder as often as the Python in it. */
async function programIn(path: string, platform: NodeJS.Platform): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true ? pythonIn(path, platform) : path;
}

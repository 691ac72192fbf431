// What a Python is and what it has installed, asked cheaply: nothing of it is imported.
import type { Runner } from "../processes";

export interface Python {
  /** The real executable, wherever the command that was asked leads. */
  executable: string;
  version: readonly number[];
  /** The version of Foretype in it; null where it is not installed as a distribution. */
  foretype: string | null;
  /** Modules of Foretype that it lacks. */
  missing: readonly string[];
}

export type Probe = { python: Python } | { failure: string };

export const OLDEST: readonly [number, number] = [3, 11];
const LIMIT_MS = 30_000;
const PROGRAM = `
import importlib.metadata as metadata, importlib.util as util, json, sys
def version():
    try:
        return metadata.version("foretype")
    except metadata.PackageNotFoundError:
        return None
missing = [name for name in ("lsp_server", "engine", "pygls", "torch") if util.find_spec(name) is None]
print(json.dumps({"executable": sys.executable, "version": sys.version_info[:3], "foretype": version(), "missing": missing}))
`;

/** Ask a Python; `command` may have arguments, as in `py -3`. */
export async function probe(runner: Runner, command: readonly string[], cwd: string): Promise<Probe> {
  const [program = "", ...args] = command;
  const signal = AbortSignal.timeout(LIMIT_MS);
  const { code, stdout, stderr } = await runner.run(program, [...args, "-c", PROGRAM], { cwd, signal });
  const answer = code === 0 ? read(stdout) : undefined;
  return answer === undefined ? { failure: lastLine(stderr) || "it gave no answer" } : { python: answer };
}

/** Whether a Python can run Foretype at all. */
export function isRecent({ version: [major = 0, minor = 0] }: Python): boolean {
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

/** Whether Foretype is in it, in a version that this extension can talk to. */
export function servesForetype(python: Python, version: string): boolean {
  return python.missing.length === 0 && (python.foretype === null || isCompatible(python.foretype, version));
}

/** Versions with the same first two numbers understand each other. */
export function isCompatible(one: string, other: string): boolean {
  const series = (version: string): string => version.split(".").slice(0, 2).join(".");
  return series(one) === series(other);
}

function read(stdout: string): Python | undefined {
  try {
    return JSON.parse(lastLine(stdout)) as Python; // start-up files may have printed before
  } catch {
    return undefined;
  }
}

function lastLine(text: string): string {
  return text.trimEnd().split("\n").at(-1) ?? "";
}

// A Python from which the private environment can be made.
import type { Runner } from "../processes";
import { isRecent, OLDEST, probe } from "./probe";

export type BasePython = { executable: string } | { sentence: string };

const MINORS = [13, 12, 11];

/** The commands to try, best first. */
export function candidates(platform: NodeJS.Platform): readonly (readonly string[])[] {
  const named =
    platform === "win32"
      ? [...MINORS.map((minor) => ["py", `-3.${minor}`]), ["py", "-3"]]
      : MINORS.map((minor) => [`python3.${minor}`]);
  return [...named, ["python3"], ["python"]];
}

/** Return the first Python that is recent enough and can make environments, or what to install. */
export async function findBasePython(
  runner: Runner,
  commands: readonly (readonly string[])[],
  cwd: string,
): Promise<BasePython> {
  let lacking: string | undefined;
  for (const command of commands) {
    const executable = await recent(runner, command, cwd);
    if (executable !== undefined && (await makesEnvironments(runner, executable, cwd))) {
      return { executable };
    }
    lacking ??= executable;
  }
  return { sentence: lacking === undefined ? noneFound() : noVenv(lacking) };
}

async function recent(runner: Runner, command: readonly string[], cwd: string): Promise<string | undefined> {
  const answer = await probe(runner, command, cwd);
  return "python" in answer && isRecent(answer.python) ? answer.python.executable : undefined;
}

async function makesEnvironments(runner: Runner, executable: string, cwd: string): Promise<boolean> {
  const { code } = await runner.run(executable, ["-c", "import ensurepip, venv"], { cwd });
  return code === 0;
}

function noneFound(): string {
  return `Foretype needs Python ${OLDEST.join(".")} or newer, and none was found; install one, then create the environment again.`;
}

/** What to do about a Python whose packager has split environments off. */
export function noVenv(python: string): string {
  return `${python} cannot make environments; install the package python3-venv (or python3.x-venv for its version), then create the environment again.`;
}

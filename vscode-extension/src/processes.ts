// Running other programs: the one seam through which the extension starts processes, other than the server itself.
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export interface RunOptions {
  /** Where the process works; an own folder, so that nothing of the workspace is imported. */
  cwd: string;
  /** Gets each line of both outputs. */
  onLine?: (line: string) => void;
  /** Ends the process and its children. */
  signal?: AbortSignal;
}

export interface Finished {
  /** The exit status; nothing when it could not be started or was ended. */
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Runner {
  /** Run a program to its end; what goes wrong is told in the result. */
  run(command: string, args: readonly string[], options: RunOptions): Promise<Finished>;
}

/** What every Python of ours runs with: only installed modules are imported, and text is UTF-8. */
export function pythonEnvironment(): NodeJS.ProcessEnv {
  return {
    ...process.env,
    PYTHONSAFEPATH: "1",
    PYTHONUTF8: "1",
    PIP_NO_INPUT: "1",
    PIP_DISABLE_PIP_VERSION_CHECK: "1",
  };
}

/** Runs real processes. */
export const systemRunner: Runner = {
  run(command, args, { cwd, onLine, signal }) {
    const output = { stdout: "", stderr: "" };
    if (signal?.aborted === true) {
      return Promise.resolve({ code: null, ...output });
    }
    return new Promise((resolve) => {
      const child = spawn(command, args, {
        cwd,
        env: pythonEnvironment(),
        stdio: ["ignore", "pipe", "pipe"],
        windowsHide: true,
        detached: process.platform !== "win32", // its own group, which can be ended as one
      });
      collect(child, output, onLine);
      const end = (): void => {
        endTree(child);
      };
      signal?.addEventListener("abort", end, { once: true });
      const finish = (code: number | null): void => {
        signal?.removeEventListener("abort", end);
        resolve({ code, ...output });
      };
      child.once("error", (error) => {
        output.stderr += error.message;
        finish(null);
      });
      child.once("close", finish);
    });
  },
};

function collect(
  child: ChildProcess,
  output: { stdout: string; stderr: string },
  onLine?: (line: string) => void,
): void {
  for (const name of ["stdout", "stderr"] as const) {
    const stream = child[name];
    if (stream !== null) {
      createInterface({ input: stream, crlfDelay: Infinity }).on("line", (line) => {
        output[name] += `${line}\n`;
        onLine?.(line);
      });
    }
  }
}

function endTree(child: ChildProcess): void {
  if (child.pid === undefined) {
    return;
  }
  if (process.platform === "win32") {
    spawn("taskkill", ["/pid", String(child.pid), "/t", "/f"], { windowsHide: true });
    return;
  }
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

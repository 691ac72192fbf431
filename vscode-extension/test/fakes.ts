// A runner whose programs are functions.
import type { Finished, Runner, RunOptions } from "../src/processes";

export type Program = (args: readonly string[], options: RunOptions) => Partial<Finished> | undefined;

export class FakeRunner implements Runner {
  readonly ran: string[] = [];

  constructor(private readonly programs: Record<string, Program>) {}

  run(command: string, args: readonly string[], options: RunOptions): Promise<Finished> {
    this.ran.push([command, ...args].join(" "));
    const answer = this.programs[command]?.(args, options);
    return Promise.resolve(
      answer === undefined
        ? { code: null, stdout: "", stderr: `spawn ${command} ENOENT` }
        : { code: 0, stdout: "", stderr: "", ...answer },
    );
  }
}

export interface Pretended {
  executable?: string;
  version?: number[];
  foretype?: string | null;
  missing?: string[];
}

/** What a Python answers to the probe. */
export function python(pretended: Pretended = {}): Partial<Finished> {
  const answer = { executable: "/real/python", version: [3, 12, 1], foretype: "0.1.0", missing: [], ...pretended };
  return { stdout: `a start-up file's greeting\n${JSON.stringify(answer)}\n` };
}

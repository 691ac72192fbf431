// How far `foretype pull --json` is, from the lines that it writes.
import { gigabytes, type ModelState } from "./doctor";

type Told =
  | { profile: string; models: ModelState[] } // first
  | { label: string; done: number; total: number }
  | { say: string };

export interface Step {
  message: string;
  /** Per cent of the whole since the step before. */
  increment?: number;
}

export class PullProgress {
  readonly #left = new Map<string, number>();
  #whole = 0;
  #percent = 0;
  /** What was said in plain words, the last at the end. */
  readonly said: string[] = [];

  /** Read a line; return what to show of it, if anything. */
  take(line: string): Step | undefined {
    const told = parsed(line);
    if (told === undefined) {
      this.#say(line);
    } else if ("models" in told) {
      this.#begin(told.models);
    } else if ("say" in told) {
      this.#say(told.say);
      return { message: told.say };
    } else {
      return this.#advance(told.label, told.done, told.total);
    }
    return undefined;
  }

  #begin(models: readonly ModelState[]): void {
    for (const { name, bytes, state } of models) {
      if (state !== "present") {
        this.#left.set(name, bytes);
        this.#whole += bytes;
      }
    }
  }

  #say(line: string): void {
    if (line.trim() !== "") {
      this.said.push(line.trim());
    }
  }

  /** What is fetched anew after a source failed, and what is only checked, does not move the whole. */
  #advance(label: string, done: number, total: number): Step {
    const left = this.#left.get(label);
    if (left === undefined) {
      return { message: `${label}, ${total === 0 ? 0 : Math.round((done / total) * 100)} %` };
    }
    this.#left.set(label, Math.min(left, total - done));
    const remaining = [...this.#left.values()].reduce((all, one) => all + one, 0);
    const percent = (1 - remaining / this.#whole) * 100;
    const increment = percent - this.#percent;
    this.#percent = percent;
    return { message: `${label}, ${gigabytes(done)} of ${gigabytes(total)}`, increment };
  }
}

function parsed(line: string): Told | undefined {
  try {
    const told: unknown = JSON.parse(line);
    return typeof told === "object" && told !== null ? (told as Told) : undefined;
  } catch {
    return undefined;
  }
}

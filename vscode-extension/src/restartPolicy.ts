// Whether a server that ended by itself is started again. Pure: the caller brings the time.

const MAX_RESTARTS = 5;
const WINDOW_MS = 3 * 60 * 1000;

/** Allows five restarts within any three minutes. */
export class RestartPolicy {
  #restarts: number[] = [];

  /** Count a crash at `now`, in milliseconds, and tell whether to start again. */
  restarts(now: number): boolean {
    this.#restarts = this.#restarts.filter((then) => now - then < WINDOW_MS);
    if (this.#restarts.length >= MAX_RESTARTS) {
      return false;
    }
    this.#restarts.push(now);
    return true;
  }

  /** Forget the crashes: a person asked for a new start. */
  forget(): void {
    this.#restarts = [];
  }
}

// What pip and venv print, read: how far they are, and what went wrong.
import { noVenv } from "./basePython";

/** Turns pip's lines into what a progress bar says. */
export class PipProgress {
  #file = "";

  /** Return the text to show after a line, or nothing when it says nothing new. */
  read(line: string): string | undefined {
    const [, file, size] = /^\s*Downloading (\S+) \((.+)\)/.exec(line) ?? [];
    if (file !== undefined && size !== undefined) {
      this.#file = `${nameOf(file)}, ${size}`;
      return `downloading ${this.#file}`;
    }
    const [, done, total] = /^Progress (\d+) of (\d+)/.exec(line) ?? [];
    if (done !== undefined && Number(total) > 0 && this.#file !== "") {
      return `downloading ${this.#file}, ${Math.floor((100 * Number(done)) / Number(total))} %`;
    }
    return line.startsWith("Installing collected packages") ? "unpacking, which takes a minute" : undefined;
  }
}

const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/No space left|ENOSPC|not enough space/i, "The disk is full; free some space and create the environment again."],
  [
    /NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Read timed out|ProxyError|getaddrinfo|Max retries/,
    "The packages could not be fetched; check the network and the proxy, then create the environment again.",
  ],
  [
    /CERTIFICATE_VERIFY_FAILED|SSLError/,
    "The package index could not be trusted; have pip use your network's certificate (its setting “cert”), then create the environment again.",
  ],
  [
    /No matching distribution found|ResolutionImpossible|requires a different Python/,
    "There are no fitting packages for this Python; install Python 3.13, then create the environment again.",
  ],
];

/** Return one sentence that names the fix, from all that was printed. */
export function remedyFor(output: string, python: string): string {
  if (/ensurepip is not available|No module named .?venv/.test(output)) {
    return noVenv(python);
  }
  const known = REMEDIES.find(([pattern]) => pattern.test(output));
  return known?.[1] ?? `Creating the environment failed: ${lastError(output)} See the log, then create it again.`;
}

function lastError(output: string): string {
  const lines = output.trim().split("\n");
  const line = lines.findLast((one) => one.startsWith("ERROR:")) ?? lines.at(-1) ?? "";
  return line.replace(/^ERROR:\s*/, "").replace(/\.?$/, ".");
}

function nameOf(file: string): string {
  const [name = file, version] = (file.split("/").at(-1) ?? file).split("-");
  return version === undefined ? name : `${name} ${version}`;
}

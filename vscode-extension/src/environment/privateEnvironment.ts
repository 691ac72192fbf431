// The extension's own Python environment: made, updated, and known to be complete by a marker that is written last.
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pythonIn } from "../paths";
import type { Runner } from "../processes";
import { takeLock } from "./lock";
import { PipProgress, remedyFor } from "./pip";
import { probe } from "./probe";
import { TORCH, type TorchBuild } from "./torchBuild";

/** What it was made from. */
interface Marker {
  wheel: string;
  index: string | null;
}

export interface Work {
  report: (text: string) => void;
  signal: AbortSignal;
}

export interface Options {
  /** The folder that is the extension's own on this machine. */
  storage: string;
  /** Where the extension carries its wheel. */
  dist: string;
  runner: Runner;
  platform: NodeJS.Platform;
  log: (line: string) => void;
}

/** Its message is one sentence for the person, with the fix. */
export class EnvironmentFailure extends Error {}

/** The work was cancelled; nothing is left to say. */
export class Cancelled extends Error {}

export class PrivateEnvironment {
  readonly folder: string;
  readonly #markerFile: string;

  constructor(private readonly options: Options) {
    this.folder = join(options.storage, "environment");
    this.#markerFile = join(this.folder, "foretype.json");
  }

  /** Return its Python if the environment is complete. */
  async python(): Promise<string | undefined> {
    return (await this.#marker()) && this.#python;
  }

  /** Whether it holds another Foretype than the extension carries. */
  async isOutdated(): Promise<boolean> {
    const [marker, wheel] = [await this.#marker(), await this.#wheel()];
    return marker !== undefined && wheel !== undefined && marker.wheel !== (await digest(wheel));
  }

  /** Make it anew from a Python; what is there is lost. An interrupted build leaves no marker, and is removed next time. */
  create(base: string, build: TorchBuild, work: Work): Promise<void> {
    return this.#alone(async () => {
      const wheel = await this.#neededWheel();
      await this.#remove();
      try {
        await this.#step("making the environment", base, ["-m", "venv", this.folder], work);
        await this.#pip("updating pip", ["--upgrade", "pip"], work);
        await this.#pip("fetching torch", [...indexOptions(build.index), TORCH], work);
        await this.#pip("fetching Foretype", [wheel], work);
        await this.#finish({ wheel: await digest(wheel), index: build.index ?? null });
      } catch (error) {
        await this.#remove();
        throw error;
      }
    });
  }

  /** Bring the extension's Foretype in. The marker stays as it is until that is done, so it is tried again if it fails. */
  update(work: Work): Promise<void> {
    return this.#alone(async () => {
      const [wheel, marker] = [await this.#neededWheel(), await this.#marker()];
      const index = marker?.index ?? null;
      await this.#pip("updating torch", [...indexOptions(index), TORCH], work);
      // Only once it is in does pip look at what this one needs: of the same version, it would keep the old.
      await this.#pip("updating Foretype", ["--force-reinstall", "--no-deps", wheel], work);
      await this.#pip("updating what Foretype needs", [wheel], work);
      await this.#finish({ wheel: await digest(wheel), index });
    });
  }

  get #python(): string {
    return pythonIn(this.folder, this.options.platform);
  }

  async #marker(): Promise<Marker | undefined> {
    try {
      return JSON.parse(await readFile(this.#markerFile, "utf8")) as Marker;
    } catch {
      return undefined;
    }
  }

  async #wheel(): Promise<string | undefined> {
    const names = await readdir(this.options.dist).catch(() => []);
    const name = names.find((one) => one.endsWith(".whl"));
    return name && join(this.options.dist, name);
  }

  async #neededWheel(): Promise<string> {
    const wheel = await this.#wheel();
    if (wheel === undefined) {
      throw new EnvironmentFailure("This build of the extension carries no Foretype; install the packaged extension.");
    }
    return wheel;
  }

  async #alone(action: () => Promise<void>): Promise<void> {
    await mkdir(this.options.storage, { recursive: true });
    const release = await takeLock(`${this.folder}.lock`);
    if (release === undefined) {
      throw new EnvironmentFailure(
        "The environment is being worked on already, here or in another window; wait for that to finish.",
      );
    }
    await action().finally(release);
  }

  async #pip(what: string, args: readonly string[], work: Work): Promise<void> {
    // pip's newer releases tell the progress in lines; the one that a venv starts with may be older.
    const bar = args.includes("pip") ? [] : ["--progress-bar", "raw"];
    await this.#step(what, this.#python, ["-m", "pip", "install", ...bar, ...args], work);
  }

  async #step(what: string, program: string, args: readonly string[], { report, signal }: Work): Promise<void> {
    const { runner, storage, log } = this.options;
    const progress = new PipProgress();
    log(`${what}: ${program} ${args.join(" ")}`);
    report(what);
    const onLine = (line: string): void => {
      const text = progress.read(line);
      if (text !== undefined) {
        report(`${what}: ${text}`);
      }
      if (!line.startsWith("Progress ")) {
        log(line);
      }
    };
    const { code, stdout, stderr } = await runner.run(program, args, { cwd: storage, signal, onLine });
    if (signal.aborted) {
      throw new Cancelled();
    }
    if (code !== 0) {
      throw new EnvironmentFailure(remedyFor(`${stdout}\n${stderr}`, program));
    }
  }

  async #finish(marker: Marker): Promise<void> {
    const answer = await probe(this.options.runner, [this.#python], this.options.storage);
    const missing = "python" in answer ? answer.python.missing.join(", ") : answer.failure;
    if (missing !== "") {
      throw new EnvironmentFailure(`The environment is not complete (${missing}); see the log and create it again.`);
    }
    await writeFile(this.#markerFile, JSON.stringify(marker));
  }

  async #remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function indexOptions(index: string | null | undefined): string[] {
  return index == null ? [] : ["--index-url", index];
}

async function digest(file: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(file))
    .digest("hex");
}

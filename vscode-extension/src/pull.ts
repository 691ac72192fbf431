// Fetching the models: once at a time, with progress, and the engine starts anew afterwards.
import * as vscode from "vscode";
import type { ForetypeClient } from "./client";
import { bytesToFetch, examine, gigabytes, modelsOf } from "./doctor";
import { offer } from "./offers";
import type { Finished, Runner } from "./processes";
import { chosenProfile } from "./profiles";
import { PullProgress } from "./pullProgress";
import { CREATE_ENVIRONMENT, PULL, RESTART, SHOW_LOG } from "./statusText";

export interface PullOptions {
  client: ForetypeClient;
  runner: Runner;
  /** Where processes work. */
  storage: string;
  log: Pick<vscode.LogOutputChannel, "info">;
}

export class Pull {
  #running: Promise<void> | undefined;

  constructor(private readonly options: PullOptions) {}

  /** Fetch the models of the profile in the settings. A pull that runs already is joined. */
  run(): Promise<void> {
    this.#running ??= this.#pull().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** How much a pull would fetch, in words, or nothing when that cannot be told. */
  async size(): Promise<string | undefined> {
    const { client, runner, storage } = this.options;
    const report = client.interpreter === undefined ? undefined : await examine(client.interpreter, runner, storage);
    const bytes = report === undefined ? 0 : bytesToFetch(modelsOf(report, chosenProfile()));
    return bytes === 0 ? undefined : gigabytes(bytes);
  }

  async #pull(): Promise<void> {
    const python = this.options.client.interpreter;
    if (python === undefined) {
      const sentence = "Foretype needs a Python environment before it can fetch models.";
      await offer(vscode.window.showErrorMessage, sentence, CREATE_ENVIRONMENT);
      return;
    }
    const progress = new PullProgress();
    const { code, cancelled } = await this.#watched(python, progress);
    if (code === 0) {
      await this.#reload();
    } else if (!cancelled) {
      const fault = progress.said.at(-1)?.replace(/^Error: /, "") ?? "the pull ended without a word";
      const sentence = `Foretype's models could not be fetched: ${fault}`;
      void offer(vscode.window.showErrorMessage, sentence, { ...PULL, title: "Try Again" }, SHOW_LOG);
    }
  }

  async #watched(python: string, pull: PullProgress): Promise<Finished & { cancelled: boolean }> {
    const { runner, storage, log } = this.options;
    const abort = new AbortController();
    const title = "Fetching Foretype's models";
    const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
    const finished = await vscode.window.withProgress(options, (progress, token) => {
      token.onCancellationRequested(() => {
        abort.abort();
      });
      const onLine = (line: string): void => {
        const before = pull.said.length;
        const step = pull.take(line);
        pull.said.slice(before).forEach((said) => {
          log.info(`pull: ${said}`);
        });
        if (step !== undefined) {
          progress.report(step);
        }
      };
      const command = ["-m", "engine", "pull", chosenProfile(), "--json"];
      return runner.run(python, command, { cwd: storage, onLine, signal: abort.signal });
    });
    return { ...finished, cancelled: abort.signal.aborted };
  }

  async #reload(): Promise<void> {
    const { client } = this.options;
    if (client.state === "running") {
      await client.command("foretype.restartEngine");
    } else {
      await vscode.commands.executeCommand(RESTART.command);
    }
  }
}

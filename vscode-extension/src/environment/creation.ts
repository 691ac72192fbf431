// The private environment as the person meets it: consent, progress, cancel, and what went wrong.
import * as vscode from "vscode";
import type { Runner } from "../processes";
import { candidates, findBasePython } from "./basePython";
import { Cancelled, EnvironmentFailure, type PrivateEnvironment, type Work } from "./privateEnvironment";
import { type TorchBuild, torchBuilds } from "./torchBuild";

const INSTALL = "Install Python";
const SELECT = "Select Interpreter";
const LOG = "Show Log";
const DOWNLOADS = "https://www.python.org/downloads/";

export interface CreationOptions {
  environment: PrivateEnvironment;
  runner: Runner;
  platform: NodeJS.Platform;
  /** Where processes work. */
  storage: string;
  /** Pythons to try after the usual commands. */
  morePythons: () => Promise<readonly string[]>;
}

export class Creation {
  constructor(private readonly options: CreationOptions) {}

  /** Ask for consent and make the environment, `before` which its users must let go of it; tell whether it is there. */
  async create(before: () => Promise<void>): Promise<boolean> {
    const base = await this.#base();
    const build = base === undefined ? undefined : await this.#consent();
    if (base === undefined || build === undefined) {
      return false;
    }
    await before();
    const { environment } = this.options;
    return this.#work("Creating Foretype's environment", (work) => environment.create(base, build, work));
  }

  /** Bring the environment up to the extension's version; the old one serves on when that fails. */
  update(): Promise<boolean> {
    const { environment } = this.options;
    return this.#work("Updating Foretype's environment", (work) => environment.update(work));
  }

  async #base(): Promise<string | undefined> {
    const { runner, platform, storage, morePythons } = this.options;
    const more = (await morePythons()).map((python) => [python]);
    const base = await findBasePython(runner, [...candidates(platform), ...more], storage);
    if ("executable" in base) {
      return base.executable;
    }
    await sayFailure(base.sentence, INSTALL);
    return undefined;
  }

  async #consent(): Promise<TorchBuild | undefined> {
    const { runner, platform, storage, environment } = this.options;
    const builds = await torchBuilds(runner, platform, storage);
    const titles = new Map(builds.map((build) => [titleOf(build), build]));
    const detail = [
      `Foretype and torch are fetched from the package indexes into ${environment.folder}. Models come later.`,
      ...builds.map((build) => `${titleOf(build)}: ${build.size}.`),
    ].join("\n");
    const question = "Create a Python environment for Foretype?";
    const answer = await vscode.window.showInformationMessage(question, { modal: true, detail }, ...titles.keys());
    return answer === undefined ? undefined : titles.get(answer);
  }

  async #work(title: string, action: (work: Work) => Promise<void>): Promise<boolean> {
    const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
    try {
      await vscode.window.withProgress(options, (progress, token) => {
        const abort = new AbortController();
        token.onCancellationRequested(() => {
          abort.abort();
        });
        const report = (message: string): void => {
          progress.report({ message });
        };
        return action({ report, signal: abort.signal });
      });
      return true;
    } catch (error) {
      if (!(error instanceof Cancelled)) {
        void sayFailure(sentenceOf(error), SELECT);
      }
      return false;
    }
  }
}

/** Show a fault with what can be done about it. */
export async function sayFailure(sentence: string, ...actions: string[]): Promise<void> {
  switch (await vscode.window.showErrorMessage(sentence, ...actions, LOG)) {
    case INSTALL:
      await vscode.env.openExternal(vscode.Uri.parse(DOWNLOADS));
      break;
    case SELECT:
      await vscode.commands.executeCommand("foretype.selectInterpreter");
      break;
    case LOG:
      await vscode.commands.executeCommand("foretype.showLog");
      break;
  }
}

function titleOf({ kind }: TorchBuild): string {
  return kind === "cuda" ? "Create with CUDA" : "Create for CPU";
}

function sentenceOf(error: unknown): string {
  return error instanceof EnvironmentFailure
    ? error.message
    : `Foretype's environment could not be written (${String(error)}); see the log.`;
}

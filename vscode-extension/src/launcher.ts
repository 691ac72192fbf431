// From the settings to a running server: finds its Python, starts it, or says what is missing and offers the fix.
import * as vscode from "vscode";
import type { ForetypeClient } from "./client";
import { type Creation, sayFailure } from "./environment/creation";
import { discover, type Discovery, type Place } from "./environment/discovery";
import type { PrivateEnvironment } from "./environment/privateEnvironment";
import { chosenInterpreter, isEnabled, writeSetting } from "./settings";

const DECLINED = "offerDeclined";
const CREATE = "Create Environment";
const SELECT = "Select Interpreter";
const NEVER = "Don't Ask Again";

export interface LauncherOptions {
  client: ForetypeClient;
  environment: PrivateEnvironment;
  creation: Creation;
  place: Place;
  workspacePythons: () => Promise<readonly string[]>;
  memory: vscode.Memento;
  log: vscode.LogOutputChannel;
}

export class Launcher {
  #attempt = 0;
  #offered = false;

  constructor(private readonly options: LauncherOptions) {}

  /** Find the Python and start the server in it, in place of the one that runs. Completions that are off start nothing. */
  launch(): Promise<void> {
    return this.#find(true);
  }

  /** The same, but a server that runs in the right Python already, or in one that is gone from sight, is left alone. */
  reconsider(): Promise<void> {
    return this.#find(false);
  }

  /** What a person asks for who wants the server anew: they are also asked again about the environment. */
  restart(): Promise<void> {
    this.#offered = false;
    return this.launch();
  }

  /** Create the private environment and start the server in it. */
  async createEnvironment(): Promise<void> {
    const { client, creation } = this.options;
    this.#offered = true;
    const created = await creation.create(() => client.stop()); // it may run in what is replaced
    if (created && chosenInterpreter() !== undefined) {
      await writeSetting("interpreter", undefined); // which launches, as every change of it
    } else {
      await this.reconsider();
    }
  }

  async #find(anew: boolean): Promise<void> {
    const attempt = ++this.#attempt;
    if (!isEnabled()) {
      return;
    }
    const found = await this.#discover();
    if (attempt === this.#attempt) {
      await this.#act(found, anew);
    }
  }

  #discover(): Promise<Discovery> {
    const { environment, workspacePythons, place } = this.options;
    const sources = { setting: chosenInterpreter(), workspace: workspacePythons, private: () => environment.python() };
    return discover(sources, place);
  }

  async #act(found: Discovery, anew: boolean): Promise<void> {
    const { client, log } = this.options;
    switch (found.kind) {
      case "found":
        log.info(`found ${found.python} (${found.source})`);
        await this.#refresh(found.source === "private");
        if (anew || !this.#serves || client.interpreter !== found.python) {
          await client.start(found.python);
        }
        break;
      case "wrong":
        await client.stop();
        client.reportFailure(found.sentence, "Run “Foretype: Select Interpreter”.");
        void sayFailure(found.sentence, SELECT);
        break;
      case "none":
        if (anew || !this.#serves) {
          await client.stop();
          client.reportFailure("There is no Python with Foretype yet.", "Run “Foretype: Create Environment”.");
          void this.#offer();
        }
    }
  }

  get #serves(): boolean {
    const { state } = this.options.client;
    return state === "running" || state === "starting";
  }

  async #refresh(isPrivate: boolean): Promise<void> {
    const { client, creation, environment } = this.options;
    if (isPrivate && (await environment.isOutdated())) {
      await client.stop();
      await creation.update();
    }
  }

  async #offer(): Promise<void> {
    const { memory } = this.options;
    if (this.#offered || memory.get<boolean>(DECLINED) === true) {
      return;
    }
    this.#offered = true;
    const question =
      "Foretype needs a Python environment: it can create its own, or use one that has Foretype installed.";
    switch (await vscode.window.showInformationMessage(question, CREATE, SELECT, NEVER)) {
      case CREATE:
        await this.createEnvironment();
        break;
      case SELECT:
        await vscode.commands.executeCommand("foretype.selectInterpreter");
        break;
      case NEVER:
        await memory.update(DECLINED, true);
    }
  }
}

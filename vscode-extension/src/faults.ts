// What the server finds wrong, told once with the fix.
import * as vscode from "vscode";
import type { ForetypeClient, Status } from "./client";
import { offer } from "./offers";
import type { Pull } from "./pull";
import { SECTION } from "./settings";
import { type Fix, fixFor, PULL, SHOW_LOG } from "./statusText";

const OWN_MODEL: Fix = {
  title: "Open Settings",
  command: "workbench.action.openSettings",
  argument: "foretype.target",
};

export class Faults implements vscode.Disposable {
  readonly #subscription: vscode.Disposable;
  readonly #told = new Set<string>();

  constructor(
    private readonly client: ForetypeClient,
    private readonly pull: Pick<Pull, "size">,
  ) {
    this.#subscription = client.onStatus((status) => {
      this.#heard(status);
    });
  }

  dispose(): void {
    this.#subscription.dispose();
  }

  /** What is said while no server runs comes from the launcher, which offers the way out itself. */
  #heard(status: Status): void {
    if (status.state === "ready") {
      this.#told.clear();
    }
    const isFault = status.state === "failed" || status.state === "degraded";
    if (isFault && this.client.state === "running" && !this.#told.has(status.message)) {
      this.#told.add(status.message);
      void this.#tell(status);
    }
  }

  async #tell(status: Status): Promise<void> {
    const failed = status.state === "failed";
    const sentence = failed ? `Foretype has no model: ${status.message}` : `Foretype: ${status.message}`;
    const fix = await this.#fix(status);
    const fixes = fix.command === SHOW_LOG.command ? [fix] : [fix, SHOW_LOG];
    await offer(failed ? vscode.window.showErrorMessage : vscode.window.showWarningMessage, sentence, ...fixes);
  }

  async #fix(status: Status): Promise<Fix> {
    const fix = fixFor(status);
    if (fix !== PULL) {
      return fix;
    }
    if ((vscode.workspace.getConfiguration(SECTION).get<string>("target") ?? "") !== "") {
      return OWN_MODEL; // a pull fetches the profile's models, and none of the person's own
    }
    const size = await this.pull.size();
    return size === undefined ? fix : { ...fix, title: `${fix.title} (${size})` };
  }
}

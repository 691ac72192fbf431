// Wiring only: what the parts are, and which of the editor's events reach which part.
import { join } from "node:path";
import * as vscode from "vscode";
import { ForetypeClient } from "./client";
import { Creation } from "./environment/creation";
import type { Place } from "./environment/discovery";
import { PrivateEnvironment } from "./environment/privateEnvironment";
import { selectInterpreter } from "./environment/selection";
import { WorkspacePythons } from "./environment/workspacePython";
import { Launcher } from "./launcher";
import { systemRunner } from "./processes";
import { SECTION } from "./settings";
import { Gate } from "./snooze";
import { createSurface } from "./surface";

let client: ForetypeClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const storage = context.globalStorageUri.fsPath;
  await vscode.workspace.fs.createDirectory(context.globalStorageUri);
  const log = vscode.window.createOutputChannel("Foretype", { log: true });
  const pythons = new WorkspacePythons(log);
  const gate = new Gate();
  client = new ForetypeClient(log, gate, storage);
  const runner = systemRunner;
  const manifest = context.extension.packageJSON as { version: string };
  const place: Place = { runner, cwd: storage, platform: process.platform, version: manifest.version };
  const launcher = createLauncher(context, client, pythons, place, log);
  context.subscriptions.push(log, pythons, client, gate);
  context.subscriptions.push(...createSurface({ client, gate, runner, storage, log, manifest }));
  context.subscriptions.push(...commands(launcher, pythons, place, log), ...events(client, launcher, pythons));
  void launcher.launch();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

function createLauncher(
  context: vscode.ExtensionContext,
  client: ForetypeClient,
  pythons: WorkspacePythons,
  place: Place,
  log: vscode.LogOutputChannel,
): Launcher {
  const { runner, platform, cwd: storage } = place;
  const workspacePythons = (): Promise<readonly string[]> => pythons.all();
  const environment = new PrivateEnvironment({
    storage,
    dist: join(context.extensionPath, "dist"),
    runner,
    platform,
    log: (line) => {
      log.info(line);
    },
  });
  const creation = new Creation({ environment, runner, platform, storage, morePythons: workspacePythons });
  return new Launcher({ client, environment, creation, place, workspacePythons, memory: context.globalState, log });
}

function commands(
  launcher: Launcher,
  pythons: WorkspacePythons,
  place: Place,
  log: vscode.LogOutputChannel,
): vscode.Disposable[] {
  const { version, runner, cwd } = place;
  return [
    vscode.commands.registerCommand("foretype.showLog", () => {
      log.show();
    }),
    vscode.commands.registerCommand("foretype.restart", () => launcher.restart()),
    vscode.commands.registerCommand("foretype.createEnvironment", () => launcher.createEnvironment()),
    vscode.commands.registerCommand("foretype.selectInterpreter", async () => {
      await selectInterpreter(await pythons.all(), version, runner, cwd);
    }),
  ];
}

function events(client: ForetypeClient, launcher: Launcher, pythons: WorkspacePythons): vscode.Disposable[] {
  return [
    client.onState((state) => {
      void vscode.commands.executeCommand("setContext", "foretype.serverRuns", state === "running");
      if (state === "crashed") {
        void offerRestart();
      }
    }),
    pythons.onChange(() => launcher.reconsider()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => launcher.reconsider()),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (["interpreter", "enable"].some((name) => change.affectsConfiguration(`${SECTION}.${name}`))) {
        void launcher.reconsider();
      }
    }),
  ];
}

async function offerRestart(): Promise<void> {
  const sentence = "Foretype's server ended again and again; see its log for why.";
  switch (await vscode.window.showErrorMessage(sentence, "Restart", "Show Log")) {
    case "Restart":
      await vscode.commands.executeCommand("foretype.restart");
      break;
    case "Show Log":
      await vscode.commands.executeCommand("foretype.showLog");
  }
}

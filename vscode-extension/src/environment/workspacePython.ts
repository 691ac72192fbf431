// The Python that the person has chosen for a workspace, from the extensions that manage such choices.
import * as vscode from "vscode";
import { within } from "../time";

/** The part we use of the API of Python Environments. */
interface EnvironmentsApi {
  getEnvironment(scope: vscode.Uri | undefined): Promise<{ execInfo: { run: { executable: string } } } | undefined>;
  onDidChangeEnvironment?: vscode.Event<unknown>;
}

/** The part we use of the API of the Python extension. */
interface PythonApi {
  environments: {
    getActiveEnvironmentPath(scope?: vscode.Uri): { path: string };
    resolveEnvironment(path: { path: string }): Promise<{ executable: { uri: vscode.Uri | undefined } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

interface Manager {
  pythonOf(folder: vscode.Uri | undefined): Promise<string | undefined>;
  onChange: vscode.Event<unknown> | undefined;
}

const LIMIT_MS = 15_000; // another extension's trouble must not keep ours from starting

/** Asks the extensions that are installed; without one, the workspace has no Python. */
export class WorkspacePythons implements vscode.Disposable {
  readonly #changes = new vscode.EventEmitter<void>();
  #manager: Promise<Manager | undefined> | undefined;
  #subscription: vscode.Disposable | undefined;

  /** Another Python was chosen. */
  readonly onChange = this.#changes.event;

  constructor(private readonly log: vscode.LogOutputChannel) {}

  /** Return the Pythons of the folders, each once. A workspace that is not trusted gets none of its own run. */
  async all(): Promise<readonly string[]> {
    const manager = vscode.workspace.isTrusted ? await (this.#manager ??= this.#find()) : undefined;
    if (manager === undefined) {
      return [];
    }
    const folders = vscode.workspace.workspaceFolders?.map((folder) => folder.uri) ?? [undefined];
    const pythons = await Promise.all(folders.map((folder) => this.#ask(manager, folder)));
    return [...new Set(pythons.filter((python) => python !== undefined))];
  }

  dispose(): void {
    this.#subscription?.dispose();
    this.#changes.dispose();
  }

  async #ask(manager: Manager, folder: vscode.Uri | undefined): Promise<string | undefined> {
    try {
      return await within(LIMIT_MS, manager.pythonOf(folder));
    } catch (error) {
      this.log.warn("the workspace's Python could not be asked for:", String(error));
      return undefined;
    }
  }

  async #find(): Promise<Manager | undefined> {
    const manager =
      environmentsManager(await this.#api<EnvironmentsApi>("ms-python.vscode-python-envs")) ??
      pythonManager(await this.#api<PythonApi>("ms-python.python"));
    this.#subscription = manager?.onChange?.(() => {
      this.#changes.fire();
    });
    return manager;
  }

  async #api<T>(id: string): Promise<T | undefined> {
    const extension = vscode.extensions.getExtension<T | undefined>(id);
    try {
      return extension && (await within(LIMIT_MS, extension.activate()));
    } catch (error) {
      this.log.warn(`the extension ${id} gives no Pythons:`, String(error));
      return undefined;
    }
  }
}

function environmentsManager(api: EnvironmentsApi | undefined): Manager | undefined {
  return (
    api && {
      pythonOf: async (folder) => (await api.getEnvironment(folder))?.execInfo.run.executable,
      onChange: api.onDidChangeEnvironment,
    }
  );
}

function pythonManager(api: PythonApi | undefined): Manager | undefined {
  return (
    api && {
      pythonOf: async (folder) => {
        const active = api.environments.getActiveEnvironmentPath(folder);
        return (await api.environments.resolveEnvironment(active))?.executable.uri?.fsPath;
      },
      onChange: api.environments.onDidChangeActiveEnvironmentPath,
    }
  );
}

// One connection to one server process: how it is started, what it is told at the start, and that it is quiet.
import type * as vscode from "vscode";
import {
  CloseAction,
  type DocumentSelector,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  type Middleware,
  RevealOutputChannelOn,
  type ServerOptions,
  TransportKind,
} from "vscode-languageclient/node";
import { pythonEnvironment } from "./processes";
import { levelName, logLines } from "./serverLog";
import { SECTION, serverSettings } from "./settings";

const DOCUMENTS: DocumentSelector = [
  ...["file", "untitled", "vscode-remote", "vscode-vfs", "vscode-notebook-cell"].map((scheme) => ({ scheme })),
  { notebook: "*", language: "*" },
];

/** Return a connection that is not started yet; `folder` is where the server works. */
export function createConnection(
  interpreter: string,
  folder: string,
  log: vscode.LogOutputChannel,
  middleware: Middleware,
): LanguageClient {
  const env = { ...pythonEnvironment(), FORETYPE_LOG: process.env.FORETYPE_LOG ?? levelName(log.logLevel) };
  const server: ServerOptions = {
    command: interpreter,
    args: ["-m", "lsp_server"],
    transport: TransportKind.stdio,
    options: { cwd: folder, env },
  };
  return new QuietClient(SECTION, "Foretype", server, optionsOf(log, middleware));
}

/** End a connection and its process, in whatever state it is. */
export async function endConnection(connection: LanguageClient, log: vscode.LogOutputChannel): Promise<void> {
  try {
    await connection.dispose();
  } catch (error) {
    log.debug("ending the server:", String(error)); // it ends what is still starting, and then complains
  }
}

function optionsOf(log: vscode.LogOutputChannel, middleware: Middleware): LanguageClientOptions {
  return {
    documentSelector: DOCUMENTS,
    outputChannel: log,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    initializationOptions: { ...serverSettings(), notifications: { status: true, extended: true } },
    initializationFailedHandler: () => false,
    stdioOptions: { stdout: logLines, stderr: logLines },
    // Whether to start again is decided above it, with a new connection: this one may end in the middle of its start.
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
    },
    middleware,
  };
}

/** Logs its errors and shows none: what a person should know, the status says. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

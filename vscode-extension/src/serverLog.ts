// The server's standard error, line by line at its own level into the log.
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { LogLevel, type LogOutputChannel } from "vscode";

type Level = "debug" | "info" | "warn" | "error";

const LEVELS: Readonly<Record<string, Level>> = {
  DEBUG: "debug",
  INFO: "info",
  WARNING: "warn",
  ERROR: "error",
  CRITICAL: "error",
};

/** Return a writer of the server's lines; what has no level, as in a traceback, has that of the line before. */
export function lineLogger(log: Pick<LogOutputChannel, Level>): (line: string) => void {
  let level: Level = "info";
  return (line) => {
    const [, name = "", text = ""] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    const named = LEVELS[name];
    level = named ?? level;
    log[level](named === undefined ? line : text);
  };
}

/** Log a stream of lines. */
export function logLines(input: Readable, log: LogOutputChannel): void {
  createInterface({ input, crlfDelay: Infinity }).on("line", lineLogger(log));
}

/** The server's name for the level at which the person reads the log. */
export function levelName(level: LogLevel): string {
  switch (level) {
    case LogLevel.Trace:
    case LogLevel.Debug:
      return "DEBUG";
    case LogLevel.Info:
      return "INFO";
    case LogLevel.Warning:
      return "WARNING";
    default:
      return "ERROR";
  }
}

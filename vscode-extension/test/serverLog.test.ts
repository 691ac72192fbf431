import { PassThrough } from "node:stream";
import { LogLevel, type LogOutputChannel } from "vscode";
import { describe, expect, it } from "vitest";
import { levelName, lineLogger, logLines } from "../src/serverLog";
import { LogChannel } from "./vscode";

describe("lineLogger", () => {
  it("logs each line at the server's level", () => {
    const log = new LogChannel();
    const write = lineLogger(log);
    ["INFO lsp_server: ready", "WARNING engine.loader: slow", "CRITICAL x: gone", "DEBUG y: z"].forEach(write);
    expect(log.lines).toEqual([
      "info: lsp_server: ready",
      "warn: engine.loader: slow",
      "error: x: gone",
      "debug: y: z",
    ]);
  });

  it("keeps a traceback at the level of its error", () => {
    const log = new LogChannel();
    ["ERROR lsp_server: failed", "Traceback (most recent call last):", "OSError: no"].forEach(lineLogger(log));
    expect(log.lines).toEqual([
      "error: lsp_server: failed",
      "error: Traceback (most recent call last):",
      "error: OSError: no",
    ]);
  });

  it("takes a word in capitals that is no level for text", () => {
    const log = new LogChannel();
    lineLogger(log)("HTTP request failed");
    expect(log.lines).toEqual(["info: HTTP request failed"]);
  });
});

describe("logLines", () => {
  it("splits a stream into lines, of either kind", async () => {
    const [log, stream] = [new LogChannel(), new PassThrough()];
    logLines(stream, log as unknown as LogOutputChannel);
    stream.end("INFO a: one\r\nINFO a: two\n");
    await new Promise((resolve) => setImmediate(resolve));
    expect(log.lines).toEqual(["info: a: one", "info: a: two"]);
  });
});

describe("levelName", () => {
  it("asks the server for what the person reads", () => {
    const names = [LogLevel.Trace, LogLevel.Debug, LogLevel.Info, LogLevel.Warning, LogLevel.Error, LogLevel.Off];
    expect(names.map((level) => levelName(level))).toEqual(["DEBUG", "DEBUG", "INFO", "WARNING", "ERROR", "ERROR"]);
  });
});

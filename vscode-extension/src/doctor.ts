// What `foretype doctor` says about this machine and its models.
import type { Runner } from "./processes";

export interface ModelState {
  name: string;
  bytes: number;
  state: "present" | "partial" | "missing";
}

/** What of the report is used. */
export interface Report {
  profiles: Record<string, ModelState[]>;
  auto: { profile: string; why: string };
}

/** Return the report, or nothing when the Python cannot give it. */
export async function examine(python: string, runner: Runner, cwd: string): Promise<Report | undefined> {
  const { code, stdout } = await runner.run(python, ["-m", "engine", "doctor", "--json"], { cwd });
  const line = stdout.split("\n").findLast((one) => one.startsWith("{"));
  return code === 0 && line !== undefined ? (JSON.parse(line) as Report) : undefined;
}

/** The models of a profile, `auto` included. */
export function modelsOf(report: Report, profile: string): readonly ModelState[] {
  return report.profiles[profile === "auto" ? report.auto.profile : profile] ?? [];
}

export function bytesToFetch(models: readonly ModelState[]): number {
  return bytesOf(models.filter(({ state }) => state !== "present"));
}

export function bytesOf(models: readonly ModelState[]): number {
  return models.reduce((bytes, model) => bytes + model.bytes, 0);
}

export function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

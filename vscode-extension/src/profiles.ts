// The person chooses a model profile.
import * as vscode from "vscode";
import { bytesOf, bytesToFetch, examine, gigabytes, type ModelState, modelsOf, type Report } from "./doctor";
import type { Runner } from "./processes";
import { SECTION, writeSetting } from "./settings";

/** A profile as the settings describe it. */
export interface Profile {
  name: string;
  about: string;
}

export interface ProfileItem extends vscode.QuickPickItem {
  profile: string;
}

/** The profile in the settings, which may be `auto`. */
export function chosenProfile(): string {
  return vscode.workspace.getConfiguration(SECTION).get("profile", "auto");
}

/** Return a row for each profile: what it is and needs, and whether its models are here. */
export function profileItems(profiles: readonly Profile[], report: Report | undefined, current: string): ProfileItem[] {
  return profiles.map(({ name, about }) => ({
    profile: name,
    label: name === current ? `$(check) ${name}` : name,
    description: about,
    ...(report !== undefined && { detail: detail(name, report) }),
  }));
}

/** Return the profiles that the manifest offers. */
export function profilesOf(manifest: unknown): Profile[] {
  const { contributes } = manifest as {
    contributes: {
      configuration: { properties: Record<string, { enum: string[]; markdownEnumDescriptions: string[] }> };
    };
  };
  const setting = contributes.configuration.properties[`${SECTION}.profile`];
  return setting?.enum.map((name, at) => ({ name, about: setting.markdownEnumDescriptions[at] ?? "" })) ?? [];
}

/** Offer the profiles and write the setting, which has the server load another model. */
export async function chooseProfile(
  profiles: readonly Profile[],
  python: string | undefined,
  runner: Runner,
  cwd: string,
): Promise<void> {
  const report = python === undefined ? Promise.resolve(undefined) : examine(python, runner, cwd);
  const current = chosenProfile();
  const items = report.then((known) => profileItems(profiles, known, current));
  const target = vscode.workspace.getConfiguration(SECTION).get<string>("target") ?? "";
  const title = "Foretype: the models";
  const placeHolder =
    target === "" ? "Select a profile" : `The setting foretype.target stands above the profile's: ${target}`;
  const picked = await vscode.window.showQuickPick(items, { title, placeHolder });
  if (picked !== undefined && picked.profile !== current) {
    await writeSetting("profile", picked.profile);
  }
}

function detail(profile: string, report: Report): string {
  const size = sizeOf(modelsOf(report, profile));
  return profile === "auto" ? `${report.auto.profile}: ${report.auto.why}; ${size}` : size;
}

function sizeOf(models: readonly ModelState[]): string {
  const [whole, left] = [gigabytes(bytesOf(models)), gigabytes(bytesToFetch(models))];
  if (bytesToFetch(models) === 0) {
    return `${whole}, on this machine`;
  }
  return left === whole ? `${whole} to be fetched` : `${whole}, ${left} of it to be fetched`;
}

// The builds of torch to choose from, and which one this machine's hardware suggests.
import type { Runner } from "../processes";

export interface TorchBuild {
  kind: "cpu" | "cuda";
  /** The package index that carries the build; nothing for the usual one. */
  index?: string;
  /** About how much is fetched, and how much it becomes on disk. */
  size: string;
}

/** The same requirement as the project's own. */
export const TORCH = "torch>=2.13";

const INDEX = "https://download.pytorch.org/whl";
/** The oldest driver for each CUDA of which there are builds, newest first; driver numbers are NVIDIA's. */
const CUDA_BUILDS = [
  { driver: 580, name: "cu130" },
  { driver: 525, name: "cu126" },
];

/** Return the builds that can run here, the one to propose first. */
export async function torchBuilds(runner: Runner, platform: NodeJS.Platform, cwd: string): Promise<TorchBuild[]> {
  const cpu: TorchBuild = {
    kind: "cpu",
    size: "about 0.3 GB to download, 1.5 GB on disk",
    ...(platform === "linux" ? { index: `${INDEX}/cpu` } : {}), // elsewhere the usual index has it
  };
  const driver = platform === "darwin" ? undefined : await driverOf(runner, cwd);
  const suitable = CUDA_BUILDS.find((build) => driver !== undefined && driver >= build.driver);
  return suitable === undefined ? [cpu] : [cudaBuild(suitable.name), cpu];
}

function cudaBuild(name: string): TorchBuild {
  return { kind: "cuda", index: `${INDEX}/${name}`, size: "about 3 GB to download, 7 GB on disk" };
}

async function driverOf(runner: Runner, cwd: string): Promise<number | undefined> {
  const question = ["--query-gpu=driver_version", "--format=csv,noheader"];
  const { code, stdout } = await runner.run("nvidia-smi", question, { cwd });
  const major = code === 0 ? Number.parseInt(stdout, 10) : Number.NaN;
  return Number.isNaN(major) ? undefined : major;
}

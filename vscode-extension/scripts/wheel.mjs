// Builds the wheel that the extension carries into dist/, from a copy of the sources: setuptools leaves files behind,
// and would take up those of deleted modules again.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const project = fileURLToPath(new URL("../..", import.meta.url));
const dist = fileURLToPath(new URL("../dist", import.meta.url));
const SOURCES = ["pyproject.toml", "README.md", "LICENSE", "engine", "lsp_server"];
const HAS_SETUPTOOLS = "import setuptools; raise SystemExit(int(setuptools.__version__.split('.')[0]) < 77)";

function findPython() {
  const own = process.platform === "win32" ? "Scripts/python.exe" : "bin/python";
  const found = [process.env.PYTHON, join(project, ".venv", own), "python3", "python"].filter(Boolean);
  const python = found.find((one) => spawnSync(one, ["-m", "pip", "--version"]).status === 0);
  if (python === undefined) {
    throw new Error("no Python with pip was found to build the wheel; name one in the environment variable PYTHON");
  }
  return python;
}

function buildIn(folder, python) {
  for (const name of SOURCES) {
    cpSync(join(project, name), join(folder, name), {
      recursive: true,
      filter: (path) => !path.includes("__pycache__"),
    });
  }
  // Without isolation pip needs no network, but the build backend must be there.
  const isolation = spawnSync(python, ["-c", HAS_SETUPTOOLS]).status === 0 ? ["--no-build-isolation"] : [];
  const options = ["--no-deps", "--quiet", ...isolation, "--wheel-dir", dist];
  // The same sources give the same bytes, so that an environment made from them counts as up to date.
  const env = { ...process.env, SOURCE_DATE_EPOCH: "315532800" };
  execFileSync(python, ["-m", "pip", "wheel", ...options, folder], { stdio: "inherit", env });
}

mkdirSync(dist, { recursive: true });
for (const old of readdirSync(dist).filter((name) => name.endsWith(".whl"))) {
  rmSync(join(dist, old));
}
const folder = mkdtempSync(join(tmpdir(), "foretype-wheel-"));
try {
  buildIn(folder, findPython());
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const wheel = readdirSync(dist).find((name) => name.endsWith(".whl"));
if (wheel === undefined || !existsSync(join(dist, wheel))) {
  throw new Error("pip made no wheel; see its output above");
}
console.log(`built dist/${wheel}`);

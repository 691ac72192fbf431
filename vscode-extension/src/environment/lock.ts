// One window at a time builds the private environment.
import { readFile, rm, writeFile } from "node:fs/promises";

/** Take a lock file; return how to give it back, or nothing when a living process holds it. */
export async function takeLock(path: string): Promise<(() => Promise<void>) | undefined> {
  if ((await create(path)) || (!(await isHeld(path)) && (await replace(path)))) {
    return () => rm(path, { force: true });
  }
  return undefined;
}

async function create(path: string): Promise<boolean> {
  try {
    await writeFile(path, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") {
      return false;
    }
    throw error;
  }
}

async function replace(path: string): Promise<boolean> {
  await rm(path, { force: true });
  return create(path);
}

async function isHeld(path: string): Promise<boolean> {
  const holder = Number(await readFile(path, "utf8").catch(() => ""));
  try {
    return holder > 0 && process.kill(holder, 0);
  } catch (error) {
    return codeOf(error) === "EPERM"; // somebody else's, and alive
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

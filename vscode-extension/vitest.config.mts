import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const inTest = (name: string): string => fileURLToPath(new URL(`./test/${name}`, import.meta.url));

export default defineConfig({
  resolve: {
    alias: {
      // Neither exists outside of an editor.
      vscode: inTest("vscode.ts"),
      "vscode-languageclient/node": inTest("languageclient.ts"),
    },
  },
  test: { include: ["test/**/*.test.ts"] },
});

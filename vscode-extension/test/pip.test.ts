import { describe, expect, it } from "vitest";
import { PipProgress, remedyFor } from "../src/environment/pip";

describe("PipProgress", () => {
  it("tells what is fetched and how much of it is there", () => {
    const progress = new PipProgress();
    const lines = [
      "Collecting torch>=2.13",
      "  Downloading https://x.org/whl/cpu/torch-2.13.0%2Bcpu-cp312-cp312-linux_x86_64.whl (190.1 MB)",
      "Progress 0 of 200",
      "Progress 99 of 200",
      "Progress 5 of 0",
      "Installing collected packages: torch",
      "Successfully installed torch-2.13.0",
    ];
    expect(lines.map((line) => progress.read(line))).toEqual([
      undefined,
      "downloading torch 2.13.0%2Bcpu, 190.1 MB",
      "downloading torch 2.13.0%2Bcpu, 190.1 MB, 0 %",
      "downloading torch 2.13.0%2Bcpu, 190.1 MB, 49 %",
      undefined,
      "unpacking, which takes a minute",
      undefined,
    ]);
  });
});

describe("remedyFor", () => {
  it.each([
    ["ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "The disk is full"],
    [
      "Retrying after connection broken by 'NewConnectionError(...)'\nERROR: No matching distribution found for torch",
      "network",
    ],
    ["ERROR: No matching distribution found for torch>=2.13", "install Python 3.13"],
    ["SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))", "certificate"],
    ["The virtual environment was not created successfully because ensurepip is not available.", "python3-venv"],
    ["something\nERROR: it broke\nnotice: x", "failed: it broke. See the log"],
    ["just this.", "failed: just this. See the log"],
  ])("makes of %j a sentence with the fix", (output, fix) => {
    const sentence = remedyFor(output, "/usr/bin/python3");
    expect(sentence).toContain(fix);
    expect(sentence).not.toContain("\n");
  });

  it("blames the network and not the package when both are said", () => {
    const output = "Max retries exceeded\nERROR: No matching distribution found for torch";
    expect(remedyFor(output, "python")).not.toContain("Python 3.13");
  });
});

import { describe, expect, it } from "vitest";
import { RestartPolicy } from "../src/restartPolicy";

const MINUTE = 60_000;

function crash(policy: RestartPolicy, ...times: number[]): boolean[] {
  return times.map((time) => policy.restarts(time));
}

describe("RestartPolicy", () => {
  it("starts again five times, not a sixth", () => {
    expect(crash(new RestartPolicy(), 0, 1, 2, 3, 4, 5)).toEqual([true, true, true, true, true, false]);
  });

  it("forgets what lies three minutes back", () => {
    const policy = new RestartPolicy();
    crash(policy, 0, 1, 2, 3, 4);
    expect(policy.restarts(3 * MINUTE - 1)).toBe(false);
    expect(policy.restarts(3 * MINUTE)).toBe(true);
  });

  it("never gives up on a server that ends now and then", () => {
    const policy = new RestartPolicy();
    const hourly = Array.from({ length: 20 }, (_, hour) => hour * 60 * MINUTE);
    expect(crash(policy, ...hourly)).not.toContain(false);
  });

  it("begins anew when somebody asks for it", () => {
    const policy = new RestartPolicy();
    crash(policy, 0, 1, 2, 3, 4, 5);
    policy.forget();
    expect(policy.restarts(6)).toBe(true);
  });
});

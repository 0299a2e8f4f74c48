// Runs the tests below the given folders or files, one file after the other: node scripts/test.mjs src tests
import { spawnSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";

const wanted = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const options = process.argv.slice(2).filter((word) => word.startsWith("--"));
const files = wanted.flatMap((path) =>
  statSync(path).isFile()
    ? [path]
    : readdirSync(path, { recursive: true })
        .map((name) => `${path}/${name}`)
        .filter((name) => name.endsWith(".test.ts")),
);
if (files.length === 0) throw new Error(`no tests below ${wanted.join(", ")}`);
const node = ["--import", "tsx", "--test", "--test-concurrency=1", "--test-timeout=180000", "--test-force-exit", ...options, ...files.sort()];
const { status } = spawnSync(process.execPath, node, { stdio: "inherit" });
process.exit(status ?? 1);

// The routes as the router has them, for tests that ask every one: read from its table, so that a
// new route is asked too.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../scripts/toolchain.mjs";

const SPEC = /spec\(Method::(\w+), "([^"]+)", Endpoint::(\w+), Access::(\w+)\)/g;

/** `{ method, pattern, path, access }`; in `path` every `{…}` segment has a value. */
export const ROUTES = [...readFileSync(join(ROOT, "src/http/route.rs"), "utf8").matchAll(SPEC)]
  .map(([, method, pattern, , access]) => ({
    method: method.toUpperCase(),
    pattern,
    path: pattern.replaceAll("{job}", "sweeper").replaceAll(/\{\w+\}/g, "nothing-1"),
    access,
  }));

// The Worker's entry. A short link that this isolate remembers is answered here: what the rules
// look at goes into wasm as one text and the answer comes back as one; whatever else is asked is
// the router's, which lives behind worker-build's own entry.

import Router, { Account, LedgerShard, StandIn } from "./index.js";

export { Account, LedgerShard, StandIn };

const { redirect_at_once, care_for_clicks, watch_clicks } = Router.prototype;

/** By now clicks have usually been gathered and written. */
const FIRST_LOOK_MS = 100;
/** Pauses between looks double up to this one; behind it `ledger::clicks` watches. */
const LAST_LOOK_MS = 800;
/** What `care_for_clicks` says. */
const NOTHING_LEFT = 0;
const LOOK_AGAIN = 1;
const SEE_TO_IT = 2;

/** A response copies its headers: these are set anew for each, and made once. */
const redirected = new Headers({
  "cache-control": "private, no-store",
  "x-robots-tag": "noindex, nofollow",
});

function atOnce(request) {
  const { headers, cf } = request;
  const said = (name) => headers.get(name) ?? "";
  try {
    return redirect_at_once(
      `${request.method}\n${request.url}\n${cf?.country ?? ""}\n${said("user-agent")}\n` +
      `${said("referer")}\n${said("cf-connecting-ip")}\n${said("sec-purpose")}\n` +
      `${said("purpose")}\n${said("x-purpose")}\n${said("x-moz")}`,
    );
  } catch (thrown) {
    // worker-build's entry listens for it and begins with a new instance.
    reportError(thrown);
    return undefined;
  }
}

/** Watches the clicks of a short while: the request that carries them may be gone. */
async function watch(window, leads, env, context) {
  let [care, waited] = [leads ? SEE_TO_IT : LOOK_AGAIN, 0];
  for (let pause = FIRST_LOOK_MS; care === LOOK_AGAIN && pause <= LAST_LOOK_MS; pause *= 2) {
    await new Promise((done) => setTimeout(done, pause));
    waited += pause;
    care = care_for_clicks(window, waited);
  }
  if (care !== NOTHING_LEFT) await watch_clicks(window, waited, env, context);
}

export default {
  fetch(request, env, context) {
    const told = atOnce(request);
    if (told === undefined) return new Router(context, env).fetch(request);
    const [location, id, window, leads] = told.split("\n");
    if (window !== "") context.waitUntil(watch(Number(window), leads === "1", env, context));
    redirected.set("location", location);
    redirected.set("x-request-id", id);
    return new Response(null, { status: 302, headers: redirected });
  },
  scheduled(event, env, context) {
    return new Router(context, env).scheduled(event);
  },
};

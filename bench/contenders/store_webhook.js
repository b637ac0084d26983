// A webhook receiver in JavaScript: verify with WebCrypto, insert into D1, answer 200.
const keys = new Map();

const bytes = (text) =>
  Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const json = (text) => JSON.parse(new TextDecoder().decode(bytes(text)));

async function keyOf(kid, jwks) {
  if (!keys.has(kid)) {
    const jwk = jwks.keys.find((key) => key.kid === kid);
    if (!jwk) return null;
    const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
    keys.set(kid, await crypto.subtle.importKey("jwk", jwk, algorithm, false, ["verify"]));
  }
  return keys.get(kid);
}

export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === "/total") {
      return Response.json(await env.DB.prepare("select count(*) as total from event").first());
    }
    const body = (await request.text()).trim();
    const [head, payload, signature] = body.split(".");
    const key = await keyOf(json(head).kid, env.JWKS);
    const signed = new TextEncoder().encode(`${head}.${payload}`);
    const valid =
      key && (await crypto.subtle.verify("RSASSA-PKCS1-v1_5", key, bytes(signature), signed));
    if (!valid) return new Response("bad signature", { status: 401 });
    const event = json(payload);
    await env.DB.prepare("insert into event (id, type, body) values (?1, ?2, ?3) on conflict do nothing")
      .bind(event.event_id, event.type, JSON.stringify(event))
      .run();
    return new Response("stored");
  },
};

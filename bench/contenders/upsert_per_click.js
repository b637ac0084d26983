// The usual way to count clicks: one D1 upsert for each, after the redirect was answered.
const UPSERT =
  "insert into clicks (code, day, total) values (?1, ?2, 1) " +
  "on conflict (code, day) do update set total = total + 1";

export default {
  async fetch(request, env, context) {
    const url = new URL(request.url);
    if (url.pathname === "/total") {
      return Response.json(await env.DB.prepare("select sum(total) as total from clicks").first());
    }
    const day = new Date().toISOString().slice(0, 10);
    context.waitUntil(env.DB.prepare(UPSERT).bind(url.pathname.slice(1), day).run());
    return new Response(null, { status: 302, headers: { location: "https://example.com/" } });
  },
};

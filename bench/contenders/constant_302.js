// A Worker that answers every request with the same redirect.
export default {
  fetch() {
    return new Response(null, {
      status: 302,
      headers: { location: "https://example.com/", "cache-control": "private, no-store" },
    });
  },
};

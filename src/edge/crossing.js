// A whole request and a whole answer in one call each: every crossing between wasm and JavaScript
// costs about as much as what it carries. Neither a header nor a URL can hold a line break.

/** Method, URL, country (empty where it is not known), then names and values of all headers. */
export function head(request) {
  const country = request.cf?.country;
  const lines = [request.method, request.url, typeof country === "string" ? country : ""];
  for (const [name, value] of request.headers) lines.push(name, value);
  return lines.join("\n");
}

/** `lines` are names and values of headers, in turn. */
export function answer(status, lines, body) {
  const words = lines === "" ? [] : lines.split("\n");
  const headers = [];
  for (let at = 0; at < words.length; at += 2) headers.push([words[at], words[at + 1]]);
  return new Response(body, { status, headers });
}

// A Durable Object that does what an admission must at least do: one read and two writes.
import { DurableObject } from "cloudflare:workers";

export class Bare extends DurableObject {
  constructor(state, env) {
    super(state, env);
    this.sql = state.storage.sql;
    this.sql.exec("create table if not exists budget (id integer primary key, held integer)");
    this.sql.exec("create table if not exists job (id text primary key, held integer)");
    this.sql.exec("insert or ignore into budget values (1, 0)");
  }

  async fetch() {
    const { held } = this.sql.exec("select held from budget where id = 1").one();
    this.sql.exec("update budget set held = ?1 where id = 1", held + 1);
    const id = crypto.randomUUID();
    this.sql.exec("insert into job values (?1, 1)", id);
    return Response.json({ id, held: held + 1 }, { status: 201 });
  }
}

export default {
  fetch(request, env) {
    return env.BARE.get(env.BARE.idFromName("one")).fetch(request);
  },
};

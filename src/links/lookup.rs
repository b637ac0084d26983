//! What a redirect knows of its link: from the isolate's memory, else from DB.
//!
//! Links that are not remembered and are asked for while DB is being read are read together in the
//! next query. It begins after they were asked for, so a new link works at once.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;

use super::store::{self, Target};
use crate::fault::Fault;
use crate::ports::Later;
use crate::together::{self, Journey, Travelling};
use crate::units::{LinkCode, Millis};
use crate::world::World;

/// A link that needs nobody to be asked, and while nobody is to look for changes.
pub fn remembered(world: &World, code: &LinkCode, now: Millis) -> Option<Rc<Target>> {
    let (memory, age_ms) = (&world.isolate.links, age_ms(world));
    if memory.look_is_due(now, age_ms) {
        return None;
    }
    memory.get(code, now, age_ms)
}

/// The link of that code, as the isolate remembers it or as DB has it now.
pub async fn target_of(
    world: &Rc<World>,
    code: &LinkCode,
    now: Millis,
) -> Result<Option<Rc<Target>>, Fault> {
    let (memory, age_ms) = (&world.isolate.links, age_ms(world));
    if memory.look_is_due(now, age_ms) {
        look_behind(world);
    }
    if let Some(target) = memory.get(code, now, age_ms) {
        return Ok(Some(target));
    }
    let reading = memory.reading(now);
    let target = together::ask(world, &Lookups(()), code.clone()).await?;
    if let Some(target) = &target {
        memory.keep(code, Rc::clone(target), reading);
    }
    Ok(target)
}

fn age_ms(world: &World) -> i64 {
    world.settings.link_cache_seconds * 1000
}

/// Looks behind the answer which links were changed. Where that fails, links are read anew.
fn look_behind(world: &Rc<World>) {
    let look = world.isolate.links.look(world.now());
    let world = Rc::clone(world);
    world.background.clone().spawn(Box::pin(async move {
        match store::changes(&*world.db, look.after).await {
            Ok(changes) => world.isolate.links.looked(look, &changes),
            Err(fault) => {
                let fields = json!({"cause": fault.to_string()});
                world.log.line("warn", "links.look", fields);
            }
        }
    }));
}

/// Reads of links.
#[derive(Clone)]
pub struct Lookups(());

impl Journey for Lookups {
    type Key = ();
    type Ask = LinkCode;
    type Told = Option<Rc<Target>>;
    const TOGETHER_MAX: usize = 100;

    fn travelling(world: &World) -> &Travelling<Self> {
        &world.isolate.lookups
    }

    fn key(&self) -> &() {
        &self.0
    }

    fn call<'a>(
        &'a self,
        world: &'a World,
        asks: Vec<LinkCode>,
    ) -> Later<'a, Result<Vec<Self::Told>, Fault>> {
        Box::pin(async move {
            let targets = store::targets(&*world.db, &asks).await?;
            let targets: BTreeMap<_, _> = targets.into_iter().collect();
            let found = asks.iter().map(|code| targets.get(code).cloned());
            Ok(found.collect())
        })
    }
}

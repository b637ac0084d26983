//! A few hundred short seeds of the simulation. A seed that fails is printed; it does the same
//! again with `SEED=<seed> cargo test --test native simulation`.

use counterfoil::native::simulation::run::{Size, run};
use counterfoil::native::simulation::stats::Stats;

const SIZE: Size = Size {
    accounts: 3,
    moments: 160,
};

fn seeds() -> Vec<u64> {
    match std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(seed) => vec![seed],
        None => (1..=40).collect(),
    }
}

#[test]
fn no_seed_breaks_an_invariant_and_together_they_exercise_everything() {
    let all = Stats::default();
    for seed in seeds() {
        let outcome = run(seed, SIZE).expect("the world itself works");
        assert!(
            outcome.broken.is_empty(),
            "seed {seed}:\n{}",
            outcome.broken.join("\n")
        );
        all.merge(&outcome.stats);
    }
    println!("{:#?}", all.all());
}

//! Runs seeds of the simulation, one after another, until the time is over or one fails.
//!
//! `cargo run --profile quick --bin simulate -- --minutes 10`, or `-- --seed 17` to see one
//! again.
#![cfg(not(target_arch = "wasm32"))]
#![allow(
    clippy::disallowed_methods,
    reason = "a tool measures time by the machine's clock"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use counterfoil::native::simulation::run::{Size, run};
use counterfoil::native::simulation::stats::Stats;

/// Runs seeds of the simulation.
#[derive(Debug, Parser)]
struct Options {
    /// End after so many minutes.
    #[arg(long, default_value_t = 1)]
    minutes: u64,
    /// Run only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Begin with this seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Accounts of each world.
    #[arg(long, default_value_t = 3)]
    accounts: u64,
    /// Moments of trouble of each world.
    #[arg(long, default_value_t = 400)]
    moments: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let size = Size {
        accounts: options.accounts,
        moments: options.moments,
    };
    let until = Instant::now() + Duration::from_secs(options.minutes * 60);
    let all = Stats::default();
    let mut seed = options.seed.unwrap_or(options.from);
    let mut seeds = 0_u64;
    loop {
        match run(seed, size) {
            Ok(outcome) if outcome.broken.is_empty() => all.merge(&outcome.stats),
            Ok(outcome) => {
                let what = format!("{}\n{}", outcome.broken.join("\n"), outcome.stored);
                return failed(seeds, seed, size, &what);
            }
            Err(fault) => return failed(seeds, seed, size, &fault.to_string()),
        }
        seeds += 1;
        seed += 1;
        if options.seed.is_some() || Instant::now() >= until {
            break;
        }
    }
    for (name, count) in all.all() {
        println!("{name:<28} {count}");
    }
    println!("{seeds} passed, 0 failed");
    ExitCode::SUCCESS
}

fn failed(passed: u64, seed: u64, size: Size, what: &str) -> ExitCode {
    println!("seed {seed} broke:\n{what}");
    let Size { accounts, moments } = size;
    println!("again: cargo run --profile quick --bin simulate -- \\");
    println!("    --seed {seed} --accounts {accounts} --moments {moments}");
    println!("{passed} passed, 1 failed");
    ExitCode::FAILURE
}

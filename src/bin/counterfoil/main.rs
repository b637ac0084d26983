//! The command-line tool of an operator: load tests that check themselves, reconciling, exports.
//!
//! One file per command. A command speaks to a running Counterfoil over HTTP only, prints its
//! result to stdout and what went wrong to stderr, and ends with a status that is not zero when
//! its figures differ or it could not do its work.

mod client;
mod events;
mod export_ledger;
mod load_clicks;
mod load_jobs;
mod reconcile;
mod table;
mod visits;
mod webhook;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use client::{Client, Failed};

/// Counterfoil from a terminal.
#[derive(Debug, Parser)]
#[command(name = "counterfoil", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    server: Server,
}

/// Which Counterfoil, and as whom.
#[derive(Debug, Args)]
struct Server {
    /// Where Counterfoil answers.
    #[arg(long, global = true, default_value = "http://localhost:8787")]
    url: String,
    /// The operator's token, or an account's API key.
    #[arg(
        long,
        global = true,
        env = "OPERATOR_TOKEN",
        default_value = "dev-operator"
    )]
    #[arg(hide_env_values = true)]
    token: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put load on a running Counterfoil and check its figures.
    #[command(subcommand)]
    Load(Load),
    /// Compare the ledger with the provider's meters now, and repair what differs.
    Reconcile(reconcile::Reconcile),
    /// Webhooks of the stand-in.
    #[command(subcommand)]
    Webhook(Webhook),
    /// The inbox: list events, show one, replay.
    #[command(subcommand)]
    Events(events::Events),
    /// Print what is stored, as CSV.
    #[command(subcommand)]
    Export(Export),
}

#[derive(Debug, Subcommand)]
enum Load {
    /// Send clicks to a link, then compare sent, recorded, ledger and meter.
    Clicks(load_clicks::LoadClicks),
    /// Start jobs against a limit on a fresh stand-in account, then check that it held.
    Jobs(load_jobs::LoadJobs),
}

#[derive(Debug, Subcommand)]
enum Webhook {
    /// Have the stand-in sign an event and deliver it.
    Send(webhook::Send),
}

#[derive(Debug, Subcommand)]
enum Export {
    /// Every entry of an account's cycle.
    Ledger(export_ledger::ExportLedger),
}

/// Whether a command found what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as it should be.
    Right,
    /// The work was done and its figures differ; the command has said where.
    Differs,
}

async fn run(cli: &Cli) -> Result<Outcome, Failed> {
    let client = Client::new(&cli.server.url, &cli.server.token)?;
    match &cli.command {
        Command::Load(Load::Clicks(command)) => command.run(&client).await,
        Command::Load(Load::Jobs(command)) => command.run(&client).await,
        Command::Reconcile(command) => command.run(&client).await,
        Command::Webhook(Webhook::Send(command)) => command.run(&client).await,
        Command::Events(command) => command.run(&client).await,
        Command::Export(Export::Ledger(command)) => command.run(&client).await,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Cli::parse()).await {
        Ok(Outcome::Right) => ExitCode::SUCCESS,
        Ok(Outcome::Differs) => ExitCode::from(1),
        Err(failed) => {
            eprintln!("counterfoil: {failed}");
            ExitCode::from(2)
        }
    }
}

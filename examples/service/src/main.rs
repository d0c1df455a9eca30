//! The program `shop`: opens the database, serves requests, and closes the database after SIGTERM or ctrl-c.

use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use odm_service::{
    models::{Db, Tenant},
    seed,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// The pause between two rounds of the worker.
const WORKER_PAUSE: Duration = Duration::from_secs(5);

/// A shop as a web service.
#[derive(Debug, Parser)]
struct Args {
    /// The URL of the database: `memory:`, `odm:./shop.odm` or `mongodb://localhost/shop`.
    #[arg(
        long,
        env = "SHOP_URL",
        hide_env_values = true,
        default_value = "memory:"
    )]
    url: String,
    /// The address to listen on.
    #[arg(long, env = "SHOP_LISTEN", default_value = "127.0.0.1:3000")]
    listen: String,
    /// Store a small catalog for the tenant `demo`, unless the tenant has a catalog already.
    #[arg(long)]
    seed: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).init();

    let db = Db::open(&args.url).await?;
    let indexes = db.sync_indexes().await?;
    tracing::info!(created = indexes.created.len(), "the indexes are complete");
    // Completes follow-up work of an earlier process, for example after a crash.
    let worker = db.spawn_worker(WORKER_PAUSE);
    if args.seed {
        let demo = "demo".parse::<Tenant>()?;
        let products = seed::insert_catalog(&db.scope(&demo)).await?;
        tracing::info!(products, "the catalog of the tenant `demo` is complete");
    }

    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        odm::axum::shutdown_signal().await;
        stopped.cancel();
    });
    let listener = TcpListener::bind(&args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    tracing::info!(address = %listener.local_addr()?, "serving requests");
    odm_service::serve(listener, db.clone(), stop).await?;

    tracing::info!("closing the database");
    drop(worker);
    db.close().await?;
    Ok(())
}

//! Runs a storm on a database and prints the progress, until the process is killed: `writer STORM URL SEED TASKS IDS`.

use std::{env, process::ExitCode, time::Duration};

use odm::Database;
use odm_tests::storm::{Copies, Links, OutcomeCounts, Rollups, Size, Storm, run_tasks};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [storm, url, seed, tasks, ids] = arguments.as_slice() else {
        eprintln!("writer STORM URL SEED TASKS IDS");
        return ExitCode::FAILURE;
    };
    let (Ok(seed), Ok(tasks), Ok(ids)) = (seed.parse(), tasks.parse(), ids.parse()) else {
        eprintln!("the seed, the number of tasks or that of ids is no number");
        return ExitCode::FAILURE;
    };
    let size = Size {
        tasks,
        operations: u64::MAX,
        ids,
        seed,
    };
    match storm.as_str() {
        "links" => write::<Links>(url, size).await,
        "copies" => write::<Copies>(url, size).await,
        "rollups" => write::<Rollups>(url, size).await,
        other => {
            eprintln!("there is no storm of {other}");
            ExitCode::FAILURE
        }
    }
}

async fn open_synced<S: Storm>(url: &str) -> odm::Result<Database<S::Schema>> {
    let db = Database::open(url).await?;
    db.sync_indexes().await?;
    Ok(db)
}

async fn write<S: Storm>(url: &str, size: Size) -> ExitCode {
    let db = match open_synced::<S>(url).await {
        Ok(db) => db,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("0");
    // The fill fails if the database already has documents.
    let _ = S::fill(&db, size.ids).await;
    let outcomes = OutcomeCounts::default();
    let print_counts = async {
        loop {
            println!("{}", outcomes.all());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = run_tasks::<S>(&db, size, &outcomes, |_| false) => ExitCode::SUCCESS,
        code = print_counts => code,
    }
}

//! Lets a storm loose on a database, and says how far it is, until it is killed: `writer STORM URL SEED TASKS IDS`.

use std::{env, process::ExitCode, time::Duration};

use odm::Database;
use odm_tests::storm::{Copies, Counts, Links, Size, Storm, Told, blow};

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
        "counts" => write::<Counts>(url, size).await,
        other => {
            eprintln!("there is no storm of {other}");
            ExitCode::FAILURE
        }
    }
}

async fn ready<S: Storm>(url: &str) -> odm::Result<Database<S::Schema>> {
    let db = Database::open(url).await?;
    db.sync_indexes().await?;
    Ok(db)
}

async fn write<S: Storm>(url: &str, size: Size) -> ExitCode {
    let db = match ready::<S>(url).await {
        Ok(db) => db,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("0");
    // It fails where there are some already.
    let _ = S::fill(&db, size.ids).await;
    let told = Told::default();
    let tell = async {
        loop {
            println!("{}", told.all());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = blow::<S>(&db, size, &told, |_| false) => ExitCode::SUCCESS,
        code = tell => code,
    }
}

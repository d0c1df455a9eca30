//! Writes to an office at random until it is killed: `writer URL SEED`.

use std::{env, process::ExitCode};

use odm_tests::office::{Db, act, fill};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [url, seed] = arguments.as_slice() else {
        eprintln!("writer URL SEED");
        return ExitCode::FAILURE;
    };
    let (Ok(db), Ok(seed)) = (Db::open(url).await, seed.parse::<u64>()) else {
        eprintln!("there is no such database, or the seed is no number");
        return ExitCode::FAILURE;
    };
    println!("ready");
    // It fails where there are some already.
    let _ = fill(&db, 20).await;
    let writers = (0..4).map(|writer| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(seed * 4 + writer);
            loop {
                // Whatever comes of it: what is asked is whether all sides agree afterwards.
                let _ = act(&db, &mut random, 20).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        let _ = writer.await;
    }
    ExitCode::SUCCESS
}

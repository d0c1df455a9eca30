//! Tests that end a writing program or the server with `kill -9`. Afterwards, references and inverses must agree.
//!
//! A short run kills a few times. With `ODM_KILLS=100`, each test kills a hundred times.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use odm_tests::{
    aftermath::recover_and_check,
    mongod::{self, Kind, Server},
    office::{Db, Office, run_random_operation},
    storm::Size,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn number_of_kills(short: u64) -> u64 {
    let kills = std::env::var("ODM_KILLS").ok();
    kills.and_then(|kills| kills.parse().ok()).unwrap_or(short)
}

/// A separate process that runs a storm.
pub(crate) struct Writer {
    child: Child,
    /// The number of completed operations.
    done: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the process, and waits until the database is open.
    pub(crate) fn start(storm: &str, url: &str, size: Size) -> Self {
        let Size {
            tasks, ids, seed, ..
        } = size;
        let mut child = Command::new(env!("CARGO_BIN_EXE_writer"))
            .args([storm, url])
            .args([seed.to_string(), tasks.to_string(), ids.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the writer starts");
        let out = child.stdout.take().expect("its output");
        let mut lines = BufReader::new(out).lines();
        let first = lines.next().expect("a line").expect("a text");
        assert_eq!(first, "0");
        let done = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&done);
        // The thread ends with the process.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                counter.store(line.parse().expect("a number"), Ordering::Relaxed);
            }
        });
        Self { child, done }
    }

    /// Waits until the process has completed the given number of operations.
    pub(crate) async fn wait_for_operations(&mut self, operations: u64) {
        while self.done.load(Ordering::Relaxed) < operations {
            let ended = self.child.try_wait().expect("its state");
            assert!(ended.is_none(), "the writer has ended: {ended:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Kills the process with `SIGKILL`, so that the process cannot clean up.
impl Drop for Writer {
    fn drop(&mut self) {
        self.child.kill().expect("it is there to be killed");
        self.child.wait().expect("it ends");
    }
}

/// Completes all pending work, even with a valid lease, and checks the database.
async fn assert_consistent(db: &Db, when: &str) {
    let seen = recover_and_check::<Office>(db.backend().clone(), |_| false).await;
    seen.unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
}

async fn kill_program_repeatedly(url: &str, kills: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for kill in 0..kills {
        let size = Size {
            tasks: 4,
            operations: 0,
            ids: 20,
            seed: kill,
        };
        let writer = Writer::start("links", url, size);
        tokio::time::sleep(Duration::from_millis(random.random_range(20..250))).await;
        drop(writer);
        let db = Db::open(url).await.unwrap();
        assert_consistent(&db, &format!("kill {kill}")).await;
    }
    let report = Db::open(url).await.unwrap().check().await.unwrap();
    println!(
        "{kills} kills: {} documents, {} references",
        report.documents, report.references
    );
    assert!(report.documents > 0);
}

#[tokio::test]
async fn killed_program_with_an_engine() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", directory.path().join("office.odm").display());
    kill_program_repeatedly(&url, number_of_kills(6)).await;
}

#[tokio::test]
async fn killed_program_with_a_standalone_server() {
    let url = mongod::standalone().await.fresh_url();
    kill_program_repeatedly(&url, number_of_kills(6)).await;
}

#[tokio::test]
async fn killed_program_with_a_replica_set() {
    let url = mongod::replica_set().await.fresh_url();
    kill_program_repeatedly(&url, number_of_kills(6)).await;
}

async fn kill_server_repeatedly(kind: Kind, kills: u64) {
    let mut server = Server::start(kind).await.expect("a server");
    if server.is_foreign() {
        // A test must not kill a foreign server.
        return;
    }
    let url = server.fresh_url();
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for kill in 0..kills {
        let db = Db::open(&url).await.unwrap();
        let writers = (0..4).map(|writer| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut random = ChaCha8Rng::seed_from_u64(kill * 4 + writer);
                while !matches!(
                    run_random_operation(&db, &mut random, 20).await,
                    Err(error) if error.kind() == odm::ErrorKind::Connection
                ) {}
            })
        });
        let writers: Vec<_> = writers.collect();
        tokio::time::sleep(Duration::from_millis(random.random_range(50..400))).await;
        server.kill().expect("it is killed");
        for writer in &writers {
            writer.abort();
        }
        for writer in writers {
            let _ = writer.await;
        }
        server.restart().await.expect("it starts again");
        let db = Db::open(&url).await.unwrap();
        assert_consistent(&db, &format!("kill {kill}")).await;
    }
}

#[tokio::test]
async fn killed_standalone_server() {
    kill_server_repeatedly(Kind::Standalone, number_of_kills(2)).await;
}

#[tokio::test]
async fn killed_replica_set() {
    kill_server_repeatedly(Kind::ReplicaSet, number_of_kills(2)).await;
}

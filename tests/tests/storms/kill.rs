//! `kill -9`, of a program that writes to linked documents and of the server: afterwards all sides agree.
//!
//! A few times in a short run, a hundred times each with `ODM_KILLS=100`.

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
    aftermath::look,
    mongod::{self, Kind, Server},
    office::{Db, Office, act},
    storm::Size,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn kills(short: u64) -> u64 {
    let kills = std::env::var("ODM_KILLS").ok();
    kills.and_then(|kills| kills.parse().ok()).unwrap_or(short)
}

/// Another process, which lets a storm loose.
pub(crate) struct Writer {
    child: Child,
    /// How many operations it has carried out.
    done: Arc<AtomicU64>,
}

impl Writer {
    /// Starts it, and waits until it has opened the database.
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
        let told = Arc::clone(&done);
        // It ends with the process.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                told.store(line.parse().expect("a number"), Ordering::Relaxed);
            }
        });
        Self { child, done }
    }

    /// Waits until it has carried out so many operations.
    pub(crate) async fn until(&mut self, operations: u64) {
        while self.done.load(Ordering::Relaxed) < operations {
            let ended = self.child.try_wait().expect("its state");
            assert!(ended.is_none(), "the writer has ended: {ended:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// `SIGKILL`: nothing of it is asked.
impl Drop for Writer {
    fn drop(&mut self) {
        self.child.kill().expect("it is there to be killed");
        self.child.wait().expect("it ends");
    }
}

/// Finishes what was begun, however short a time ago, and looks.
async fn assert_all_sides_agree(db: &Db, when: &str) {
    let seen = look::<Office>(db.backend().clone(), |_| false).await;
    seen.unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
}

async fn the_program_is_killed(url: &str, kills: u64) {
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
        assert_all_sides_agree(&db, &format!("kill {kill}")).await;
    }
    let report = Db::open(url).await.unwrap().check().await.unwrap();
    println!(
        "{kills} kills: {} documents, {} references",
        report.documents, report.references
    );
    assert!(report.documents > 0);
}

#[cfg(feature = "engine")]
#[tokio::test]
async fn a_program_with_an_engine() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", directory.path().join("office.odm").display());
    the_program_is_killed(&url, kills(6)).await;
}

#[tokio::test]
async fn a_program_with_a_standalone_server() {
    let url = mongod::standalone().await.fresh_url();
    the_program_is_killed(&url, kills(6)).await;
}

#[tokio::test]
async fn a_program_with_a_replica_set() {
    let url = mongod::replica_set().await.fresh_url();
    the_program_is_killed(&url, kills(6)).await;
}

async fn the_server_is_killed(kind: Kind, kills: u64) {
    let mut server = Server::start(kind).await.expect("a server");
    if server.is_foreign() {
        // It is not ours to be killed.
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
                    act(&db, &mut random, 20).await,
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
        assert_all_sides_agree(&db, &format!("kill {kill}")).await;
    }
}

#[tokio::test]
async fn a_standalone_server() {
    the_server_is_killed(Kind::Standalone, kills(2)).await;
}

#[tokio::test]
async fn a_replica_set() {
    the_server_is_killed(Kind::ReplicaSet, kills(2)).await;
}

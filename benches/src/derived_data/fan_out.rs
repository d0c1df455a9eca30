//! Benchmarks of a fan-out, from the change of a source to the last changed copy.

use std::time::{Duration, Instant};

use odm::{
    Database, Ref,
    bson::{doc, serialize_to_raw_document_buf},
};

use super::{
    DerivedSizes, MAX_PENDING_WAIT,
    handwritten::HandwrittenDatabase,
    model::{self, Derived, Host, Line, NewLine, NewPort, Port, Switch},
};
use crate::{contender::Result, measure};

/// The id of the source of all dependents.
const SOURCE_ID: i64 = 1;

/// Measures default copies, and copies with `sync`, which change before the answer.
pub(super) async fn compare(
    db: &Database<Derived>,
    hand: &impl HandwrittenDatabase,
    sizes: DerivedSizes,
) -> Result<()> {
    load_lines(db, SOURCE_ID, sizes.dependents).await?;
    load_lines_by_hand(hand, SOURCE_ID, sizes.dependents).await?;
    db.insert(Switch {
        id: SOURCE_ID,
        name: "switch".to_owned(),
        ip: model::address(0),
    })
    .await?;
    for ids in batches(sizes.dependents) {
        let ports = ids.map(|id| NewPort {
            id,
            message: model::message(id),
            host: Ref::new(SOURCE_ID),
        });
        db.insert_many(ports).await?;
    }
    db.wait_for_pending().timeout(MAX_PENDING_WAIT).await?;
    let name = format!("fan-out to {}", sizes.dependents);
    // The first round must change `address(0)`, the address of the insert.
    measure::measure_in_turns(
        &name,
        sizes.rounds,
        async |round| change(db, SOURCE_ID, round + 1).await,
        async |round| change_by_hand(hand, SOURCE_ID, round + 1, sizes.dependents).await,
    )
    .await?;
    measure::measure_in_turns(
        &format!("{name}, sync"),
        sizes.rounds,
        async |round| change_switch(db, round + 1).await,
        async |round| {
            change_by_hand(hand, SOURCE_ID, sizes.rounds + round + 2, sizes.dependents).await
        },
    )
    .await?;
    assert_copies_current(db, SOURCE_ID, sizes.rounds + 1, sizes.dependents).await?;
    let ip = model::address(sizes.rounds + 1);
    let ports = db.find::<Port>().filter(|port| port.ip().eq(&ip)).count();
    match ports.await? == u64::try_from(sizes.dependents)? {
        true => Ok(()),
        false => Err("not all copies have followed".into()),
    }
}

/// Inserts a host with this number of lines.
pub(super) async fn load_lines(db: &Database<Derived>, host: i64, lines: i64) -> Result<()> {
    db.insert(source(host)).await?;
    for ids in batches(lines) {
        let lines = ids.map(|id| NewLine {
            id: line_id(host, id),
            message: model::message(id),
            host: Ref::new(host),
        });
        db.insert_many(lines).await?;
        db.wait_for_pending().timeout(MAX_PENDING_WAIT).await?;
    }
    Ok(())
}

/// Inserts the same documents without a mapper.
pub(super) async fn load_lines_by_hand(
    hand: &impl HandwrittenDatabase,
    host: i64,
    lines: i64,
) -> Result<()> {
    let document = serialize_to_raw_document_buf(&source(host))?;
    hand.load("hosts", vec![document]).await?;
    for ids in batches(lines) {
        let lines = ids.map(|id| {
            serialize_to_raw_document_buf(&Line {
                id: line_id(host, id),
                message: model::message(id),
                host: Ref::new(host),
                ip: model::address(0),
            })
        });
        hand.load("lines", lines.collect::<std::result::Result<_, _>>()?)
            .await?;
    }
    Ok(())
}

/// Returns the id of a line of a host.
pub(super) fn line_id(host: i64, line: i64) -> i64 {
    host * 1_000_000_000 + line
}

fn source(id: i64) -> Host {
    Host {
        id,
        name: "host".to_owned(),
        ip: model::address(0),
    }
}

/// Returns ranges of ids, each for a single insert call.
fn batches(count: i64) -> impl Iterator<Item = std::ops::Range<i64>> {
    const BATCH: i64 = 10_000;
    let starts = (0..count).step_by(usize::try_from(BATCH).unwrap_or(1));
    starts.map(move |start| start..count.min(start + BATCH))
}

/// Changes the source, and waits until all copies are current.
pub(super) async fn change(db: &Database<Derived>, host: i64, round: usize) -> Result<Duration> {
    let start = Instant::now();
    db.update::<Host>(host)
        .set(|host| host.ip(), model::address(round))
        .await?;
    db.wait_for_pending().timeout(MAX_PENDING_WAIT).await?;
    Ok(start.elapsed())
}

async fn change_switch(db: &Database<Derived>, round: usize) -> Result<Duration> {
    let start = Instant::now();
    db.update::<Switch>(SOURCE_ID)
        .set(|switch| switch.ip(), model::address(round))
        .await?;
    db.wait_for_pending().timeout(MAX_PENDING_WAIT).await?;
    Ok(start.elapsed())
}

/// Changes the host, and then all lines of the host.
pub(super) async fn change_by_hand(
    hand: &impl HandwrittenDatabase,
    host: i64,
    round: usize,
    lines: i64,
) -> Result<Duration> {
    let ip = doc! { "ip": model::address(round) };
    let start = Instant::now();
    hand.update_fields("hosts", ("_id", host), ip.clone())
        .await?;
    let followed = hand.update_fields("lines", ("host", host), ip).await?;
    let took = start.elapsed();
    match followed == u64::try_from(lines)? {
        true => Ok(took),
        false => Err("by hand, not all have followed".into()),
    }
}

/// Fails the benchmark if a copy is not current.
pub(super) async fn assert_copies_current(
    db: &Database<Derived>,
    host: i64,
    round: usize,
    lines: i64,
) -> Result<()> {
    let (host, ip) = (Ref::new(host), model::address(round));
    let followed = db.find::<Line>();
    let followed = followed.filter(|line| line.host().eq(host) & line.ip().eq(&ip));
    match followed.count().await? == u64::try_from(lines)? {
        true => Ok(()),
        false => Err("not all copies have followed".into()),
    }
}

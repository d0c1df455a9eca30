//! A copied field is changed, until every copy is.

use std::time::{Duration, Instant};

use odm::{
    Database, Ref,
    bson::{doc, serialize_to_raw_document_buf},
};

use super::{
    PATIENCE, Sizes,
    hand::Hand,
    model::{self, Derived, Host, Line, NewLine, NewPort, Port, Switch},
};
use crate::{contender::Result, measure};

/// What all of the dependents copy from.
const SOURCE: i64 = 1;

/// Measures copies that follow as they do by default, and those that follow before the answer.
pub(super) async fn compare(db: &Database<Derived>, hand: &impl Hand, sizes: Sizes) -> Result<()> {
    load_lines(db, SOURCE, sizes.dependents).await?;
    load_lines_by_hand(hand, SOURCE, sizes.dependents).await?;
    db.insert(Switch {
        id: SOURCE,
        name: "switch".to_owned(),
        ip: model::address(0),
    })
    .await?;
    for ids in batches(sizes.dependents) {
        let ports = ids.map(|id| NewPort {
            id,
            message: model::message(id),
            host: Ref::new(SOURCE),
        });
        db.insert_many(ports).await?;
    }
    db.settled().within(PATIENCE).await?;
    let name = format!("fan-out to {}", sizes.dependents);
    // It was `address(0)` before the first round.
    measure::turns(
        &name,
        sizes.rounds,
        async |round| change(db, SOURCE, round + 1).await,
        async |round| change_by_hand(hand, SOURCE, round + 1, sizes.dependents).await,
    )
    .await?;
    measure::turns(
        &format!("{name}, sync"),
        sizes.rounds,
        async |round| change_switch(db, round + 1).await,
        async |round| {
            change_by_hand(hand, SOURCE, sizes.rounds + round + 2, sizes.dependents).await
        },
    )
    .await?;
    agree(db, SOURCE, sizes.rounds + 1, sizes.dependents).await?;
    let ip = model::address(sizes.rounds + 1);
    let ports = db.find::<Port>().filter(|port| port.ip().eq(&ip)).count();
    match ports.await? == u64::try_from(sizes.dependents)? {
        true => Ok(()),
        false => Err("not all copies have followed".into()),
    }
}

/// One host with so many lines.
pub(super) async fn load_lines(db: &Database<Derived>, host: i64, lines: i64) -> Result<()> {
    db.insert(source(host)).await?;
    for ids in batches(lines) {
        let lines = ids.map(|id| NewLine {
            id: line_id(host, id),
            message: model::message(id),
            host: Ref::new(host),
        });
        db.insert_many(lines).await?;
        db.settled().within(PATIENCE).await?;
    }
    Ok(())
}

/// The same without a mapper.
pub(super) async fn load_lines_by_hand(hand: &impl Hand, host: i64, lines: i64) -> Result<()> {
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

/// The id of a line of a host.
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

/// Ids, as many as are inserted at once.
fn batches(count: i64) -> impl Iterator<Item = std::ops::Range<i64>> {
    const BATCH: i64 = 10_000;
    let starts = (0..count).step_by(usize::try_from(BATCH).unwrap_or(1));
    starts.map(move |start| start..count.min(start + BATCH))
}

/// Changes what lines copy, until none is behind.
pub(super) async fn change(db: &Database<Derived>, host: i64, round: usize) -> Result<Duration> {
    let start = Instant::now();
    db.update::<Host>(host)
        .set(|host| host.ip(), model::address(round))
        .await?;
    db.settled().within(PATIENCE).await?;
    Ok(start.elapsed())
}

async fn change_switch(db: &Database<Derived>, round: usize) -> Result<Duration> {
    let start = Instant::now();
    db.update::<Switch>(SOURCE)
        .set(|switch| switch.ip(), model::address(round))
        .await?;
    db.settled().within(PATIENCE).await?;
    Ok(start.elapsed())
}

/// Changes the host, then all of its lines.
pub(super) async fn change_by_hand(
    hand: &impl Hand,
    host: i64,
    round: usize,
    lines: i64,
) -> Result<Duration> {
    let ip = doc! { "ip": model::address(round) };
    let start = Instant::now();
    hand.set("hosts", ("_id", host), ip.clone()).await?;
    let followed = hand.set("lines", ("host", host), ip).await?;
    let took = start.elapsed();
    match followed == u64::try_from(lines)? {
        true => Ok(took),
        false => Err("by hand, not all have followed".into()),
    }
}

/// All have followed, or nothing was worth measuring.
pub(super) async fn agree(
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

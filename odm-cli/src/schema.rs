//! The commands on a database with models.

pub(crate) mod diagram;
pub(crate) mod json_schema;

use std::fmt::Display;

use odm::pending::PendingWork;
use odm::{Database, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::tool::SchemaCommand;

/// Runs a command.
pub(crate) async fn run<S: Schema>(
    command: SchemaCommand,
    database: &Database<S>,
    output: &mut Output,
) -> Result<()> {
    match command {
        SchemaCommand::Check => check(database, output).await,
        SchemaCommand::Repair { dry_run } => repair(database, dry_run, output).await,
        SchemaCommand::SyncIndexes {
            dry_run,
            replace_differing,
            drop_undeclared,
        } => {
            let mut sync = database.sync_indexes();
            if replace_differing {
                sync = sync.replace_differing();
            }
            if drop_undeclared {
                sync = sync.drop_undeclared();
            }
            if dry_run {
                sync = sync.dry_run();
            }
            print_indexes(&sync.await?, output)
        }
        SchemaCommand::Upgrade { dry_run: true } => outdated(database, output).await,
        SchemaCommand::Upgrade { dry_run: false } => upgrade(database, output).await,
        SchemaCommand::Pending => {
            let pending = database.pending().await?;
            print(&pending, &pending_to_json(&pending), output)?;
            ensure(pending.is_empty(), "work is pending")
        }
        SchemaCommand::RunPending { dry_run: true } => {
            let pending = database.pending().await?;
            print(&pending, &pending_to_json(&pending), output)
        }
        SchemaCommand::RunPending { dry_run: false } => {
            let completed = database.run_pending().await?;
            let text = format!("completed the pending work of {completed} documents");
            print(&text, &json!({ "documents": completed }), output)
        }
        SchemaCommand::Backfill { dry_run } => backfill(database, dry_run, output).await,
        SchemaCommand::Arrays => arrays(database, output).await,
    }
}

async fn check<S: Schema>(database: &Database<S>, output: &mut Output) -> Result<()> {
    let report = database.check().await?;
    print(&report, &report, output)?;
    ensure(report.is_clean(), "the check has findings")
}

async fn repair<S: Schema>(
    database: &Database<S>,
    dry_run: bool,
    output: &mut Output,
) -> Result<()> {
    let repair = database.repair();
    let report = match dry_run {
        true => repair.await?,
        false => repair.apply().await?,
    };
    print(&report, &report, output)?;
    ensure(report.is_clean(), "findings are not repaired")
}

fn print_indexes(report: &odm::schema::IndexReport, output: &mut Output) -> Result<()> {
    let names = |indexes: &[(String, odm::backend::operation::Index)]| {
        let names = indexes.iter();
        let names = names.map(|(collection, index)| format!("{collection}.{}", index.name));
        names.collect::<Vec<_>>()
    };
    let differing = report.differing.iter();
    let differing = differing.map(|(collection, index, _)| format!("{collection}.{}", index.name));
    let value = json!({
        "created": names(&report.created),
        "differing": differing.collect::<Vec<_>>(),
        "undeclared": names(&report.undeclared),
        "dropped": names(&report.dropped),
    });
    print(report, &value, output)
}

fn pending_to_json(pending: &PendingWork) -> Value {
    let models = pending.models.iter().map(|work| {
        json!({
            "model": work.model,
            "fanOuts": work.fan_outs,
            "copied": work.copied,
            "revalidations": work.revalidations,
            "rollups": work.rollups,
            "recomputes": work.recomputes,
            "references": work.references,
            "arrays": work.arrays,
            "ageSeconds": work.age.as_secs_f64(),
        })
    });
    models.collect()
}

async fn outdated<S: Schema>(database: &Database<S>, output: &mut Output) -> Result<()> {
    for (model, documents) in database.outdated().await? {
        let text = format!("{model}: {documents} outdated documents");
        print(
            &text,
            &json!({ "model": model, "outdated": documents }),
            output,
        )?;
    }
    Ok(())
}

async fn upgrade<S: Schema>(database: &Database<S>, output: &mut Output) -> Result<()> {
    let mut failed = 0;
    for (model, report) in database.upgrade_all().await? {
        let errors: Vec<_> = report.failed.iter().map(ToString::to_string).collect();
        failed += errors.len();
        let mut text = format!("{model}: {} documents upgraded", report.upgraded);
        for error in &errors {
            text.push_str(&format!("\n  {error}"));
        }
        let value = json!({ "model": model, "upgraded": report.upgraded, "failed": errors });
        print(&text, &value, output)?;
    }
    ensure(
        failed == 0,
        &format!("{failed} documents cannot be upgraded"),
    )
}

async fn backfill<S: Schema>(
    database: &Database<S>,
    dry_run: bool,
    output: &mut Output,
) -> Result<()> {
    let backfills = database.backfills().await?;
    for backfill in &backfills {
        let fields = backfill.fields.join(", ");
        let value = json!({ "model": backfill.model, "fields": backfill.fields });
        print(&format!("{}: {fields}", backfill.model), &value, output)?;
    }
    if backfills.is_empty() || dry_run {
        return ensure(backfills.is_empty(), "fields need a backfill");
    }
    repair(database, false, output).await
}

async fn arrays<S: Schema>(database: &Database<S>, output: &mut Output) -> Result<()> {
    for (model, lengths) in database.array_lengths().await? {
        let percentiles = [50.0, 90.0, 99.0, 99.9, 100.0].map(|percent| {
            json!({
                "percent": percent,
                "elements": lengths.percentile(percent),
                "bytes": lengths.bytes(percent),
            })
        });
        let value = json!({
            "model": model,
            "field": lengths.field(),
            "documents": lengths.documents(),
            "percentiles": percentiles,
            "proposal": lengths.proposal(),
        });
        print(&format!("{model}: {lengths}"), &value, output)?;
    }
    Ok(())
}

/// Prints a result as text or as JSON.
fn print(text: &impl Display, value: &impl Serialize, output: &mut Output) -> Result<()> {
    match output.is_json() {
        true => output.json_line(value),
        false => output.lines(text),
    }
}

/// Fails with the exit code 1 unless a condition holds.
fn ensure(holds: bool, problem: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Failure::problem(problem)),
    }
}

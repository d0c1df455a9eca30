use odm::transfer::{CopiedCollection, CopyDatabase, CopyPlan, CopyReport};
use serde_json::{Value, json};

use crate::arguments::CopyArguments;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::Place;
use crate::progress::progress_bar;
use crate::runtime::runtime;

pub(super) fn run(arguments: &CopyArguments, output: &mut Output) -> Result<()> {
    if arguments.follow && matches!(arguments.from, Place::File(_)) {
        let message =
            "--follow needs a MongoDB source: no program can write the file during the copy";
        return Err(Failure::Usage(message.into()));
    }
    match arguments.dry_run {
        true => print_plan(&runtime()?.block_on(plan(arguments))?, output),
        false => print_report(&runtime()?.block_on(copy(arguments))?, output),
    }
}

async fn plan(arguments: &CopyArguments) -> Result<CopyPlan> {
    let from = arguments.from.open_source().await?;
    let to = arguments.to.open_target_read_only().await?;
    Ok(with_options(odm::copy(&from, &to), arguments)
        .plan()
        .await?)
}

async fn copy(arguments: &CopyArguments) -> Result<CopyReport> {
    let from = arguments.from.open_source().await?;
    let to = arguments.to.open_target().await?;
    let bar = progress_bar(0, "{msg} {wide_bar} {pos}/{len}");
    let mut copy = with_options(odm::copy(&from, &to), arguments).on_progress(|progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.documents);
        bar.set_message(progress.to_string());
    });
    if arguments.follow {
        copy = copy.follow_until(async {
            // Without a signal handler, Ctrl-C ends the process, and the same command continues the copy.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        });
    }
    let report = copy.await;
    bar.finish_and_clear();
    let closed = to.close().await;
    let report = report?;
    closed?;
    Ok(report)
}

fn with_options<'a>(mut copy: CopyDatabase<'a>, arguments: &CopyArguments) -> CopyDatabase<'a> {
    // The lock of the file keeps writers out.
    if arguments.quiescent || matches!(arguments.from, Place::File(_)) {
        copy = copy.quiescent();
    }
    if arguments.skip_unsupported {
        copy = copy.skip_unsupported();
    }
    if arguments.restart {
        copy = copy.restart();
    }
    copy
}

fn print_plan(plan: &CopyPlan, output: &mut Output) -> Result<()> {
    match output.is_json() {
        true => output.json_line(&json!({
            "collections": collections_to_json(&plan.collections),
            "skipped": plan.skipped,
            "continues": plan.continues,
        })),
        false => output.lines(plan),
    }
}

fn print_report(report: &CopyReport, output: &mut Output) -> Result<()> {
    match output.is_json() {
        true => output.json_line(&json!({
            "collections": collections_to_json(&report.collections),
            "skipped": report.skipped,
            "changes": report.changes,
        })),
        false => output.lines(report),
    }
}

fn collections_to_json(collections: &[CopiedCollection]) -> Vec<Value> {
    let collections = collections.iter().map(|collection| {
        json!({
            "name": collection.name,
            "documents": collection.documents,
            "indexes": collection.indexes,
        })
    });
    collections.collect()
}

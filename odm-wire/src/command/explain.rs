//! `{ explain: { find: … }, verbosity: "executionStats" }`: how a command finds its documents.

use std::time::Instant;

use bson::{RawArrayBuf, RawDocumentBuf, raw::cstr, rawdoc};
use odm_engine::{Explain, ExplainStage, Find};

use super::aggregate::AggregateCommand;
use super::find::FindCommand;
use super::{Command, build_info, count, distinct, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::read("explain", run);

/// How much an explanation contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verbosity {
    QueryPlanner,
    ExecutionStats,
}

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let command = arguments.required_document("explain")?;
    let verbosity = match arguments.text("verbosity")?.as_deref() {
        Some("queryPlanner") => Verbosity::QueryPlanner,
        // All rejected plans are without cost, because no rejected plan runs.
        Some("executionStats" | "allPlansExecution") | None => Verbosity::ExecutionStats,
        Some(other) => {
            let message = format!(
                "verbosity string must be one of {{'queryPlanner', 'executionStats', 'allPlansExecution'}}, and is '{other}'"
            );
            return Err(CommandError::new(code::FAILED_TO_PARSE, message));
        }
    };
    arguments.finish()?;
    let mut command = Arguments::from_document(&command)?;
    command.accept(&[
        "$db",
        "lsid",
        "comment",
        "maxTimeMS",
        "readConcern",
        "writeConcern",
    ]);
    let name = super::find(command.command())?.name;
    command.set_command(name);
    let (collection, find) = match name {
        "find" => {
            let command = FindCommand::parse(command)?;
            (command.collection, command.find)
        }
        "count" => {
            let (collection, count) = count::parse(command)?;
            let find = Find {
                filter: count.filter,
                skip: count.skip,
                limit: count.limit,
                hint: count.hint,
                collation: count.collation,
                ..Find::default()
            };
            (collection, find)
        }
        "distinct" => {
            let (collection, distinct) = distinct::parse(command)?;
            let find = Find {
                filter: distinct.filter,
                collation: distinct.collation,
                ..Find::default()
            };
            (collection, find)
        }
        "aggregate" => {
            let command = AggregateCommand::parse(command)?;
            return explain_aggregate(operation, command, verbosity);
        }
        "update" | "delete" | "findAndModify" => query_of_write(command, name)?,
        _ => {
            let message = format!("Explain failed due to unknown command: {name}");
            return Err(CommandError::new(code::COMMAND_NOT_FOUND, message));
        }
    };
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("explainVersion"), "1");
    append_plan(&mut reply, operation, &collection, &find, verbosity)?;
    reply.append(
        cstr!("serverInfo"),
        rawdoc! { "version": build_info::VERSION },
    );
    Ok(reply)
}

/// Returns the query of a write, which an explanation does not run.
fn query_of_write(mut command: Arguments, name: &str) -> Result<(String, Find)> {
    let collection = command.collection(name)?;
    let (statements, query) = match name {
        "update" => ("updates", "q"),
        "delete" => ("deletes", "q"),
        _ => ("", "query"),
    };
    let mut statement = match statements {
        "" => command,
        statements => {
            let list = command.required_documents(statements)?;
            let [statement] = list.as_slice() else {
                let message = format!("explained {name} must contain exactly one statement");
                return Err(CommandError::new(code::INVALID_LENGTH, message));
            };
            Arguments::nested(statements, statement)?
        }
    };
    let find = Find {
        filter: statement.document(query)?.unwrap_or_default(),
        sort: super::find::not_empty(statement.document("sort")?),
        hint: statement.hint()?,
        collation: statement.collation()?,
        limit: (!statement.flag("multi")? && statement.integer("limit")? != Some(0)).then_some(1),
        ..Find::default()
    };
    Ok((collection, find))
}

/// Explains a pipeline: the engine answers the first `$match` by a query.
pub(super) fn explain_aggregate(
    operation: &Operation,
    command: AggregateCommand,
    verbosity: Verbosity,
) -> Result<RawDocumentBuf> {
    let Some(collection) = &command.collection else {
        let message = "a pipeline without a collection has no plan";
        return Err(CommandError::not_supported(message));
    };
    let stages = &command.aggregate.pipeline;
    let first = stages.first().map(|stage| stage.get_document("$match"));
    let find = Find {
        filter: first
            .and_then(Result::ok)
            .map(ToOwned::to_owned)
            .unwrap_or_default(),
        hint: command.aggregate.hint.clone(),
        collation: command.aggregate.collation.clone(),
        variables: command.aggregate.variables.clone(),
        ..Find::default()
    };
    let mut cursor = RawDocumentBuf::new();
    append_plan(&mut cursor, operation, collection, &find, verbosity)?;
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("explainVersion"), "1");
    let mut explained: RawArrayBuf = [rawdoc! { "$cursor": cursor }].into_iter().collect();
    let matched = usize::from(!find.filter.is_empty());
    for stage in stages.iter().skip(matched) {
        explained.push(stage.clone());
    }
    reply.append(cstr!("stages"), explained);
    reply.append(
        cstr!("serverInfo"),
        rawdoc! { "version": build_info::VERSION },
    );
    Ok(reply)
}

fn append_plan(
    reply: &mut RawDocumentBuf,
    operation: &Operation,
    collection: &str,
    find: &Find,
    verbosity: Verbosity,
) -> Result<()> {
    let name = operation.engine_name(collection)?;
    let started = Instant::now();
    let explain = operation.engine().explain(&name, find)?;
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let plan = winning_plan(operation, &name, &explain)?;
    let rejected: RawArrayBuf = explain
        .rejected
        .iter()
        .map(|index| rawdoc! { "stage": "IXSCAN", "indexName": index.as_str() })
        .collect();
    let planner = rawdoc! {
        "namespace": operation.namespace(collection).to_string(),
        "indexFilterSet": false,
        "parsedQuery": find.filter.clone(),
        "winningPlan": plan.clone(),
        "rejectedPlans": rejected,
    };
    reply.append(cstr!("queryPlanner"), planner);
    if verbosity == Verbosity::ExecutionStats {
        let statistics = rawdoc! {
            "executionSuccess": true,
            "nReturned": number(explain.returned.saturating_sub(find.skip)),
            "executionTimeMillis": number(millis),
            "totalKeysExamined": number(explain.keys_examined),
            "totalDocsExamined": number(explain.documents_examined),
            "executionStages": plan,
        };
        reply.append(cstr!("executionStats"), statistics);
    }
    Ok(())
}

/// Returns the plan as a tree of stages with MongoDB's names.
fn winning_plan(operation: &Operation, name: &str, explain: &Explain) -> Result<RawDocumentBuf> {
    let indexes = operation.database().list_indexes(name)?;
    let bounds: RawArrayBuf = explain.bounds.iter().map(String::as_str).collect();
    let scan = |index: &String| {
        let mut scan = rawdoc! { "stage": "IXSCAN", "indexName": index.as_str() };
        let known = indexes.iter().find(|known| known.name == *index);
        let definition = known.map(odm_engine::Index::to_document);
        if let Some(Ok(key)) = definition.as_ref().map(|known| known.get_document("key")) {
            scan.append(cstr!("keyPattern"), key);
        }
        scan
    };
    let access = match explain.stage {
        ExplainStage::Nothing => rawdoc! { "stage": "EOF" },
        ExplainStage::CollectionScan => rawdoc! { "stage": "COLLSCAN", "direction": "forward" },
        ExplainStage::IdLookup => rawdoc! { "stage": "IDHACK" },
        ExplainStage::Union => {
            let branches: RawArrayBuf = explain.indexes.iter().map(scan).collect();
            let union = rawdoc! { "stage": "OR", "inputStages": branches, "indexBounds": bounds };
            rawdoc! { "stage": "FETCH", "inputStage": union }
        }
        _ => {
            let mut scan = explain.indexes.first().map(scan).unwrap_or_default();
            scan.append(cstr!("indexBounds"), bounds);
            let stage = match explain.covered {
                true => "PROJECTION_COVERED",
                false => "FETCH",
            };
            rawdoc! { "stage": stage, "inputStage": scan }
        }
    };
    Ok(match explain.sorted_by_index {
        true => access,
        false => rawdoc! { "stage": "SORT", "inputStage": access },
    })
}

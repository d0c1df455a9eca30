//! `{ update: "c", updates: [{ q, u, … }] }`: changes of documents.

use bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, raw::cstr, rawdoc};
use odm_engine::{CollectionWrite, Update, UpdateReport, WriteOperation, WriteReport};

use super::write::{self, WriteOptions};
use super::{Command, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};
use crate::request::OperationNumber;

pub(super) const COMMAND: Command = Command::write("update", run).in_transaction().retryable();

/// The result of all updates of a command.
#[derive(Default)]
struct Totals {
    matched: u64,
    modified: u64,
    upserted: RawArrayBuf,
    has_upserted: bool,
    errors: Vec<(usize, CommandError)>,
}

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("update")?;
    let options = WriteOptions::take(&mut arguments)?;
    let statements = write::take_writes(&mut arguments, "updates")?;
    arguments.finish()?;
    let name = operation.engine_name_to_write(&collection)?;
    let updates = statements.iter();
    let updates = updates.map(|statement| parse_update(operation, statement, &options));
    let mut updates = updates.collect::<Result<Vec<_>>>()?;
    let mut totals = Totals::default();
    match (updates.pop(), updates.is_empty()) {
        (Some(update), true) => match operation.engine().update(&name, &update) {
            Ok(report) => totals.add(0, report),
            Err(error) if write::is_of_one_write(&error) => totals.fail(0, error),
            Err(error) => return Err(error.into()),
        },
        (last, _) => {
            updates.extend(last);
            let writes: Vec<_> = updates
                .into_iter()
                .map(|update| CollectionWrite {
                    collection: name.clone(),
                    write: WriteOperation::Update(update),
                    stop_if_unmatched: false,
                })
                .collect();
            let reports = operation.engine().bulk_write(&writes, options.ordered)?;
            for (index, report) in reports.into_iter().enumerate() {
                match report {
                    Ok(WriteReport::Updated(report)) => totals.add(index, report),
                    Ok(WriteReport::Inserted | WriteReport::Deleted(_)) => {}
                    Err(error) => totals.fail(index, error),
                }
            }
        }
    }
    Ok(totals.into_reply(operation))
}

impl Totals {
    fn add(&mut self, index: usize, report: UpdateReport) {
        self.matched += report.matched;
        self.modified += report.modified;
        if let Some(id) = report.upserted_id {
            self.matched += 1;
            self.has_upserted = true;
            self.upserted
                .push(rawdoc! { "index": number(index as u64), "_id": id });
        }
        if let Some(error) = report.failure {
            self.fail(index, error);
        }
    }

    fn fail(&mut self, index: usize, error: odm_engine::Error) {
        self.errors.push((index, error.into()));
    }

    fn into_reply(self, operation: &Operation) -> RawDocumentBuf {
        let mut reply = write::reply(self.matched);
        if self.has_upserted {
            reply.append(cstr!("upserted"), self.upserted);
        }
        reply.append(cstr!("nModified"), number(self.modified));
        write::append_errors(&mut reply, operation, self.errors);
        reply
    }
}

/// Reads `{ q, u, multi, upsert, arrayFilters, hint, collation, c }`.
fn parse_update(
    operation: &Operation,
    statement: &RawDocument,
    options: &WriteOptions,
) -> Result<Update> {
    let mut arguments = Arguments::nested("update.updates", statement)?;
    let mut update = Update {
        filter: arguments.required_document("q")?,
        update: RawDocumentBuf::new(),
        pipeline: None,
        array_filters: arguments.documents("arrayFilters")?.unwrap_or_default(),
        multi: arguments.flag("multi")?,
        upsert: arguments.flag("upsert")?,
        variables: options.variables.clone(),
        hint: arguments.hint()?,
        collation: arguments.collation()?,
    };
    match arguments.value("u") {
        Some(operand) => (update.update, update.pipeline) = write::parse_operand(operand)?,
        None => return Err(arguments.missing("u")),
    }
    if let Some(constants) = arguments.document("c")? {
        if update.pipeline.is_none() {
            let message = "Constant values may only be specified for pipeline updates";
            return Err(CommandError::new(51198, message));
        }
        for element in &constants {
            let (name, value) = element?;
            // A constant is no expression.
            update
                .variables
                .append(name, rawdoc! { "$literal": RawBson::from(value) });
        }
    }
    arguments.accept(&["upsertSupplied"]);
    arguments.finish()?;
    ensure_single(operation, update.multi)?;
    Ok(update)
}

/// Refuses a retryable write of several documents, as MongoDB does.
pub(super) fn ensure_single(operation: &Operation, multi: bool) -> Result<()> {
    match operation.options.number {
        OperationNumber::RetryableWrite(_) if multi => Err(CommandError::new(
            code::INVALID_OPTIONS,
            "Cannot use (or request) retryable writes with multi=true",
        )),
        _ => Ok(()),
    }
}

//! Several writes in few commands.

use ::mongodb::{
    Database,
    bson::{Bson, Document},
};
use bson::{
    RawArrayBuf, RawBson, RawDocumentBuf,
    raw::{CStr, cstr},
    rawdoc,
};

use super::{
    WriteSession, delete, error, insert, update,
    write_command::{self, ARRAY_ELEMENT_OVERHEAD_BYTES, MAX_DOCUMENT_BYTES, MAX_STATEMENTS},
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{
        BulkItem, BulkItemOutcome, BulkOperation, BulkWrite, BulkWriteResult, DocumentChange,
        InsertOperation, OperationOrigin, Unmatched, UpdateOperation, ensure_no_upsert,
    },
};

/// MongoDB's code for an update that would change the `_id`.
const IMMUTABLE_FIELD_CODE: i32 = 66;

/// Runs a bulk write: [`Executor::bulk_write`](crate::backend::Executor::bulk_write).
pub(super) async fn bulk_write(
    database: &Database,
    bulk: BulkWrite,
    mut session: WriteSession<'_>,
) -> BulkWriteResult {
    let in_transaction = session.is_some();
    let ordered = bulk.ordered || in_transaction;
    let mut totals = BulkWriteResult::not_attempted(bulk.writes.len());
    for command in group_into_commands(&bulk.writes, ordered, in_transaction) {
        let may_continue = match command.kind {
            CommandKind::Single => {
                run_single(
                    database,
                    &bulk.writes,
                    &command,
                    session.as_deref_mut(),
                    &mut totals,
                )
                .await
            }
            _ => {
                run_combined(
                    database,
                    &bulk.writes,
                    &command,
                    ordered,
                    session.as_deref_mut(),
                    &mut totals,
                )
                .await
            }
        };
        if !may_continue && (ordered || has_lost_connection(&totals)) {
            break;
        }
    }
    totals
}

/// Whether the connection to the server is lost, so that the remaining writes would fail as well.
fn has_lost_connection(totals: &BulkWriteResult) -> bool {
    let is_lost_connection = |result: &BulkItemOutcome| matches!(result, BulkItemOutcome::Failed(error) if error.kind() == ErrorKind::Connection);
    totals.results.iter().any(is_lost_connection)
}

/// Writes that are sent in one command.
#[derive(Debug, PartialEq)]
struct CombinedCommand {
    kind: CommandKind,
    /// The positions of the writes in the bulk write.
    /// The statement of each write.
    positions: Vec<usize>,
    statements: Vec<RawDocumentBuf>,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandKind {
    Insert,
    Update,
    Delete,
    /// A single write, sent by the driver's own action, or an error.
    Single,
}

impl CommandKind {
    /// Returns the names of the command and of its array of statements.
    fn command_names(self) -> (&'static CStr, &'static CStr) {
        match self {
            Self::Insert => (cstr!("insert"), cstr!("documents")),
            Self::Update => (cstr!("update"), cstr!("updates")),
            Self::Delete | Self::Single => (cstr!("delete"), cstr!("deletes")),
        }
    }
}

/// Groups the writes into commands: adjacent writes if ordered, otherwise all writes of one kind to one collection.
fn group_into_commands(
    writes: &[BulkItem],
    ordered: bool,
    in_transaction: bool,
) -> Vec<CombinedCommand> {
    let mut commands: Vec<CombinedCommand> = Vec::new();
    for (position, item) in writes.iter().enumerate() {
        let (kind, statement) = match combined_statement(item, in_transaction) {
            Some((kind, statement)) if statement.as_bytes().len() <= MAX_DOCUMENT_BYTES => {
                (kind, statement)
            }
            _ => (CommandKind::Single, RawDocumentBuf::new()),
        };
        let bytes = statement.as_bytes().len() + ARRAY_ELEMENT_OVERHEAD_BYTES;
        let has_room = |command: &&mut CombinedCommand| {
            let first = command
                .positions
                .first()
                .and_then(|first| writes.get(*first));
            kind != CommandKind::Single
                && command.kind == kind
                && first.is_some_and(|first| first.write.collection() == item.write.collection())
                && command.statements.len() < MAX_STATEMENTS
                && command.bytes + bytes <= MAX_DOCUMENT_BYTES
        };
        let open = match ordered {
            true => commands.last_mut().filter(has_room),
            false => commands.iter_mut().rev().find(|command| has_room(command)),
        };
        match open {
            Some(command) => {
                command.positions.push(position);
                command.statements.push(statement);
                command.bytes += bytes;
            }
            None => commands.push(CombinedCommand {
                kind,
                positions: vec![position],
                statements: vec![statement],
                bytes,
            }),
        }
    }
    // Send a single write by the driver's action, because the driver retries the action.
    for command in &mut commands {
        if command.positions.len() == 1 {
            command.kind = CommandKind::Single;
        }
    }
    commands
}

/// Returns the statement of a write in a combined command, or `None` if the write must be sent alone.
fn combined_statement(
    item: &BulkItem,
    in_transaction: bool,
) -> Option<(CommandKind, RawDocumentBuf)> {
    let is_outcome_needed = item.unmatched != Unmatched::Ignore;
    match &item.write {
        BulkOperation::Insert { document, .. } => Some((CommandKind::Insert, document.clone())),
        BulkOperation::Delete(_) if is_outcome_needed => None,
        BulkOperation::Delete(delete) => {
            let limit = i32::from(!delete.multi);
            let statement = rawdoc! { "q": delete.filter.clone(), "limit": limit };
            Some((CommandKind::Delete, statement))
        }
        // The failure of the statement would end the transaction.
        BulkOperation::Update(_)
            if is_outcome_needed && in_transaction && item.unmatched != Unmatched::Rollback =>
        {
            None
        }
        BulkOperation::Update(update) if update.upsert => None,
        BulkOperation::Update(update) => Some((
            CommandKind::Update,
            update_statement(update, is_outcome_needed)?,
        )),
    }
}

/// Returns the statement of an update. With `is_outcome_needed`, an update that matches no document fails.
///
/// The answer to a command has only the total number of matched documents, but reports every failure separately. So the statement
/// becomes an upsert that must fail: its insert sets the `_id` to a value other than the `_id` of the filter, which the server
/// rejects. This relies on a filter with an equality on the `_id`.
fn update_statement(update: &UpdateOperation, is_outcome_needed: bool) -> Option<RawDocumentBuf> {
    update.change.ensure_operators_match().ok()?;
    let mut statement = rawdoc! { "q": update.filter.clone() };
    match &update.change {
        DocumentChange::Operators {
            update: operators,
            array_filters,
        } => {
            let mut operators = operators.clone();
            if is_outcome_needed {
                let writes_id = |operator: &RawBson| {
                    operator
                        .as_document()
                        .is_some_and(|paths| !matches!(paths.get("_id"), Ok(None)))
                };
                for operator in operators.iter() {
                    let (name, paths) = operator.ok()?;
                    if name == "$setOnInsert" || writes_id(&paths.into()) {
                        return None;
                    }
                }
                operators.append(cstr!("$setOnInsert"), rawdoc! { "_id": RawBson::MinKey });
            }
            statement.append(cstr!("u"), operators);
            if !array_filters.is_empty() {
                let filters: RawArrayBuf = array_filters.iter().map(|f| f.as_ref()).collect();
                statement.append(cstr!("arrayFilters"), filters);
            }
        }
        _ if is_outcome_needed => return None,
        DocumentChange::Replacement(_) if update.multi => return None,
        DocumentChange::Replacement(document) => statement.append(cstr!("u"), document.clone()),
        DocumentChange::Pipeline(stages) => {
            let stages: RawArrayBuf = stages.iter().map(|stage| stage.as_ref()).collect();
            statement.append(cstr!("u"), stages);
        }
    }
    statement.append(cstr!("multi"), update.multi);
    statement.append(cstr!("upsert"), is_outcome_needed);
    Some(statement)
}

/// Executes a single write, and returns whether the bulk write may continue.
async fn run_single(
    database: &Database,
    writes: &[BulkItem],
    command: &CombinedCommand,
    session: WriteSession<'_>,
    totals: &mut BulkWriteResult,
) -> bool {
    let Some((position, item)) = command
        .positions
        .first()
        .and_then(|position| Some((*position, writes.get(*position)?)))
    else {
        return true;
    };
    let result = match execute_write(database, &item.write, session, totals).await {
        Ok(0) if item.unmatched != Unmatched::Ignore => BulkItemOutcome::NotApplied,
        Ok(_) => BulkItemOutcome::Applied,
        Err(error) => BulkItemOutcome::Failed(error),
    };
    let may_continue = may_continue_after(&result, item);
    totals.record_outcome(position, result);
    may_continue
}

fn may_continue_after(result: &BulkItemOutcome, item: &BulkItem) -> bool {
    match result {
        BulkItemOutcome::Applied => true,
        BulkItemOutcome::NotApplied => !item.unmatched.stops(),
        BulkItemOutcome::Failed(_) | BulkItemOutcome::NotAttempted => false,
    }
}

/// Executes a single write, adds its effect to the totals, and returns the number of affected documents.
async fn execute_write(
    database: &Database,
    write: &BulkOperation,
    session: WriteSession<'_>,
    totals: &mut BulkWriteResult,
) -> Result<u64> {
    ensure_no_upsert(write)?;
    match write.clone() {
        BulkOperation::Insert {
            collection,
            document,
        } => {
            let insert = InsertOperation {
                collection,
                documents: vec![document],
                ordered: true,
                origin: OperationOrigin::default(),
            };
            let inserted = insert::insert_documents(database, insert, session).await;
            inserted.map_err(Error::without_inserted)?;
            totals.inserted += 1;
            Ok(1)
        }
        BulkOperation::Update(update) => {
            let updated = update::update_documents(database, update, session).await?;
            totals.matched += updated.matched;
            totals.modified += updated.modified;
            Ok(updated.matched)
        }
        BulkOperation::Delete(delete) => {
            let deleted = delete::delete_documents(database, delete, session).await?;
            totals.deleted += deleted.deleted;
            Ok(deleted.deleted)
        }
    }
}

/// Sends the writes of a command, and returns whether the bulk write may continue.
async fn run_combined(
    database: &Database,
    writes: &[BulkItem],
    command: &CombinedCommand,
    ordered: bool,
    mut session: WriteSession<'_>,
    totals: &mut BulkWriteResult,
) -> bool {
    let mut remaining = 0..command.positions.len();
    let mut may_continue = true;
    while may_continue && !remaining.is_empty() {
        let statements = command
            .statements
            .get(remaining.clone())
            .unwrap_or_default();
        let collection = command
            .positions
            .first()
            .and_then(|first| writes.get(*first));
        let collection = collection.map_or("", |item| item.write.collection());
        let names = command.kind.command_names();
        let answer = write_command::send_write_command(
            database,
            names,
            collection,
            statements,
            ordered,
            session.as_deref_mut(),
        )
        .await;
        let answer = match answer {
            Ok(answer) => answer,
            // The outcome of the writes is unknown, or nothing was written.
            Err(error) => {
                let error = error.with_collection(collection);
                for position in command.positions.get(remaining).unwrap_or_default() {
                    totals.record_outcome(*position, BulkItemOutcome::Failed(error.clone()));
                }
                return false;
            }
        };
        add_to_totals(command.kind, &answer, totals);
        let sent = AnsweredCommand {
            writes,
            positions: command.positions.get(remaining.clone()).unwrap_or_default(),
            collection,
        };
        let (attempted, continues) = sent.record_outcomes(&answer, ordered, totals);
        may_continue = continues;
        remaining = remaining.start + attempted..remaining.end;
    }
    may_continue
}

fn add_to_totals(kind: CommandKind, answer: &Document, totals: &mut BulkWriteResult) {
    let number = |name| match answer.get(name) {
        Some(Bson::Int32(n)) => u64::try_from(*n).unwrap_or(0),
        Some(Bson::Int64(n)) => u64::try_from(*n).unwrap_or(0),
        _ => 0,
    };
    match kind {
        CommandKind::Insert => totals.inserted += number("n"),
        CommandKind::Update => {
            totals.matched += number("n");
            totals.modified += number("nModified");
        }
        CommandKind::Delete | CommandKind::Single => totals.deleted += number("n"),
    }
}

/// The writes of an answered command.
struct AnsweredCommand<'a> {
    writes: &'a [BulkItem],
    positions: &'a [usize],
    collection: &'a str,
}

impl AnsweredCommand<'_> {
    /// Records the outcome of each write. Returns the number of attempted writes, and whether the bulk write may continue.
    fn record_outcomes(
        &self,
        answer: &Document,
        ordered: bool,
        totals: &mut BulkWriteResult,
    ) -> (usize, bool) {
        let rejections = error::all_in_answer(answer);
        let concern_failure = rejections
            .iter()
            .find(|rejection| rejection.position.is_none());
        let default_outcome = match concern_failure {
            None => BulkItemOutcome::Applied,
            Some(rejection) => {
                BulkItemOutcome::Failed(rejection.error.clone().with_collection(self.collection))
            }
        };
        let mut may_continue = concern_failure.is_none();
        let mut attempted = self.positions.len();
        if ordered
            && let Some(last) = rejections
                .iter()
                .filter_map(|rejection| rejection.position)
                .next_back()
        {
            attempted = attempted.min(last + 1);
        }
        for position in self.positions.get(..attempted).unwrap_or_default() {
            totals.record_outcome(*position, default_outcome.clone());
        }
        for rejection in rejections {
            let Some(item) = rejection
                .position
                .and_then(|index| self.positions.get(index))
                .and_then(|position| Some((*position, self.writes.get(*position)?)))
            else {
                continue;
            };
            let (position, item) = item;
            let result = self.rejected_outcome(item, rejection.error);
            may_continue &= may_continue_after(&result, item);
            totals.record_outcome(position, result);
        }
        (attempted, may_continue)
    }

    fn rejected_outcome(&self, item: &BulkItem, error: Error) -> BulkItemOutcome {
        match &item.write {
            BulkOperation::Update(_)
                if item.unmatched != Unmatched::Ignore
                    && error.code() == Some(IMMUTABLE_FIELD_CODE) =>
            {
                BulkItemOutcome::NotApplied
            }
            BulkOperation::Insert { document, .. } => BulkItemOutcome::Failed(insert::with_id(
                error.with_collection(self.collection),
                Some(document),
            )),
            _ => BulkItemOutcome::Failed(error.with_collection(self.collection)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::operation::DeleteOperation;

    fn insert_item(collection: &'static str) -> BulkItem {
        BulkItem {
            write: BulkOperation::Insert {
                collection: collection.into(),
                document: rawdoc! { "_id": 1 },
            },
            unmatched: Unmatched::Ignore,
        }
    }

    fn update_item(unmatched: Unmatched) -> BulkItem {
        let update = UpdateOperation {
            collection: "a".into(),
            filter: rawdoc! { "_id": 1 },
            change: DocumentChange::operators(rawdoc! { "$inc": { "n": 1 } }),
            multi: false,
            upsert: false,
            origin: OperationOrigin::default(),
        };
        BulkItem {
            write: BulkOperation::Update(update),
            unmatched,
        }
    }

    fn delete_item(unmatched: Unmatched) -> BulkItem {
        let delete = DeleteOperation {
            collection: "a".into(),
            filter: rawdoc! { "_id": 1 },
            multi: false,
            origin: OperationOrigin::default(),
        };
        BulkItem {
            write: BulkOperation::Delete(delete),
            unmatched,
        }
    }

    fn command_sizes(writes: &[BulkItem], ordered: bool, in_transaction: bool) -> Vec<usize> {
        let commands = group_into_commands(writes, ordered, in_transaction).into_iter();
        commands.map(|command| command.positions.len()).collect()
    }

    #[test]
    fn writes_of_one_kind_share_a_command() {
        let mut writes = Vec::new();
        for _ in 0..50 {
            writes.extend([
                insert_item("a"),
                insert_item("b"),
                update_item(Unmatched::Abort),
            ]);
        }
        assert_eq!(command_sizes(&writes, false, false), [50, 50, 50]);
        assert_eq!(command_sizes(&writes, true, false), [1; 150]);
        writes.sort_by_key(|item| format!("{item:?}"));
        assert_eq!(command_sizes(&writes, true, false), [50, 50, 50]);
    }

    #[test]
    fn writes_that_report_no_match_are_sent_alone() {
        let deletes = [Unmatched::Ignore, Unmatched::Ignore, Unmatched::Report].map(delete_item);
        assert_eq!(command_sizes(&deletes, true, false), [2, 1]);
        let updates = [Unmatched::Report, Unmatched::Ignore, Unmatched::Ignore].map(update_item);
        assert_eq!(command_sizes(&updates, true, false), [3]);
        assert_eq!(command_sizes(&updates, true, true), [1, 2]);
        let updates = [Unmatched::Rollback; 3].map(update_item);
        assert_eq!(command_sizes(&updates, true, true), [3]);
    }

    #[test]
    fn commands_have_a_size_limit() {
        let large = || BulkItem {
            write: BulkOperation::Insert {
                collection: "a".into(),
                document: rawdoc! { "_id": 1, "text": "x".repeat(7 * 1024 * 1024) },
            },
            unmatched: Unmatched::Ignore,
        };
        assert_eq!(
            command_sizes(&[large(), large(), large()], true, false),
            [2, 1]
        );
    }
}

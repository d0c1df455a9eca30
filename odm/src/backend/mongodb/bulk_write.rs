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
    Session, delete, error, insert, update,
    write_command::{self, ELEMENT_BYTES, MAX_BYTES, MAX_STATEMENTS},
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{
        BulkItem, BulkWrite, BulkWritten, Change, Insert, Unmatched, Update, Write, Written,
        refuse_upsert,
    },
};

/// MongoDB's number for an update that would change the `_id`.
const IMMUTABLE_FIELD: i32 = 66;

/// See [`Executor::bulk_write`](crate::backend::Executor::bulk_write).
pub(super) async fn bulk_write(
    database: &Database,
    bulk: BulkWrite,
    mut session: Session<'_>,
) -> BulkWritten {
    let in_transaction = session.is_some();
    let ordered = bulk.ordered || in_transaction;
    let mut done = BulkWritten::none_of(bulk.writes.len());
    for command in commands(&bulk.writes, ordered, in_transaction) {
        let goes_on = match command.kind {
            Kind::Alone => {
                alone(
                    database,
                    &bulk.writes,
                    &command,
                    session.as_deref_mut(),
                    &mut done,
                )
                .await
            }
            _ => {
                together(
                    database,
                    &bulk.writes,
                    &command,
                    ordered,
                    session.as_deref_mut(),
                    &mut done,
                )
                .await
            }
        };
        if !goes_on && (ordered || is_cut_off(&done)) {
            break;
        }
    }
    done
}

/// Whether the server can no longer be heard: what else there is to do would fail as well.
fn is_cut_off(done: &BulkWritten) -> bool {
    let cut_off = |result: &Written| matches!(result, Written::Failed(error) if error.kind() == ErrorKind::Connection);
    done.results.iter().any(cut_off)
}

/// Writes that are sent together.
#[derive(Debug, PartialEq)]
struct Command {
    kind: Kind,
    /// Their positions in the bulk, and what is sent of each.
    positions: Vec<usize>,
    statements: Vec<RawDocumentBuf>,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Insert,
    Update,
    Delete,
    /// One write, by the driver's own action, or refused.
    Alone,
}

impl Kind {
    /// The name of the command, and of the array of its statements.
    fn names(self) -> (&'static CStr, &'static CStr) {
        match self {
            Self::Insert => (cstr!("insert"), cstr!("documents")),
            Self::Update => (cstr!("update"), cstr!("updates")),
            Self::Delete | Self::Alone => (cstr!("delete"), cstr!("deletes")),
        }
    }
}

/// The commands for the writes: in order those that stand together, else all of one kind to one collection.
fn commands(writes: &[BulkItem], ordered: bool, in_transaction: bool) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for (position, item) in writes.iter().enumerate() {
        let (kind, statement) = match statement(item, in_transaction) {
            Some((kind, statement)) if statement.as_bytes().len() <= MAX_BYTES => (kind, statement),
            _ => (Kind::Alone, RawDocumentBuf::new()),
        };
        let bytes = statement.as_bytes().len() + ELEMENT_BYTES;
        let fits = |command: &&mut Command| {
            let first = command
                .positions
                .first()
                .and_then(|first| writes.get(*first));
            kind != Kind::Alone
                && command.kind == kind
                && first.is_some_and(|first| first.write.collection() == item.write.collection())
                && command.statements.len() < MAX_STATEMENTS
                && command.bytes + bytes <= MAX_BYTES
        };
        let open = match ordered {
            true => commands.last_mut().filter(fits),
            false => commands.iter_mut().rev().find(|command| fits(command)),
        };
        match open {
            Some(command) => {
                command.positions.push(position);
                command.statements.push(statement);
                command.bytes += bytes;
            }
            None => commands.push(Command {
                kind,
                positions: vec![position],
                statements: vec![statement],
                bytes,
            }),
        }
    }
    // The driver tries an action of one write again.
    for command in &mut commands {
        if command.positions.len() == 1 {
            command.kind = Kind::Alone;
        }
    }
    commands
}

/// What is sent of a write together with others; none if it goes by itself.
fn statement(item: &BulkItem, in_transaction: bool) -> Option<(Kind, RawDocumentBuf)> {
    let is_told = item.unmatched != Unmatched::Fine;
    match &item.write {
        Write::Insert { document, .. } => Some((Kind::Insert, document.clone())),
        Write::Delete(_) if is_told => None,
        Write::Delete(delete) => {
            let limit = i32::from(!delete.multi);
            let statement = rawdoc! { "q": delete.filter.clone(), "limit": limit };
            Some((Kind::Delete, statement))
        }
        Write::Update(_) if is_told && in_transaction => None,
        Write::Update(update) if update.upsert => None,
        Write::Update(update) => Some((Kind::Update, update_statement(update, is_told)?)),
    }
}

/// The answer to a command has of all its updates only how many documents they matched together. So one whose own number
/// counts is made to fail where it matches none, which the answer tells of each: it is told to insert a document then whose
/// `_id` would have to be another one than its `_id`, and that is refused.
fn update_statement(update: &Update, is_told: bool) -> Option<RawDocumentBuf> {
    update.change.check().ok()?;
    let mut statement = rawdoc! { "q": update.filter.clone() };
    match &update.change {
        Change::Operators {
            update: operators,
            array_filters,
        } => {
            let mut operators = operators.clone();
            if is_told {
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
        _ if is_told => return None,
        Change::Replacement(_) if update.multi => return None,
        Change::Replacement(document) => statement.append(cstr!("u"), document.clone()),
        Change::Pipeline(stages) => {
            let stages: RawArrayBuf = stages.iter().map(|stage| stage.as_ref()).collect();
            statement.append(cstr!("u"), stages);
        }
    }
    statement.append(cstr!("multi"), update.multi);
    statement.append(cstr!("upsert"), is_told);
    Some(statement)
}

/// Carries out one write by itself, and says whether those behind it may follow.
async fn alone(
    database: &Database,
    writes: &[BulkItem],
    command: &Command,
    session: Session<'_>,
    done: &mut BulkWritten,
) -> bool {
    let Some((position, item)) = command
        .positions
        .first()
        .and_then(|position| Some((*position, writes.get(*position)?)))
    else {
        return true;
    };
    let result = match one(database, &item.write, session, done).await {
        Ok(0) if item.unmatched != Unmatched::Fine => Written::NotApplied,
        Ok(_) => Written::Applied,
        Err(error) => Written::Failed(error),
    };
    let goes_on = goes_on(&result, item);
    done.note(position, result);
    goes_on
}

fn goes_on(result: &Written, item: &BulkItem) -> bool {
    match result {
        Written::Applied => true,
        Written::NotApplied => item.unmatched != Unmatched::Stops,
        Written::Failed(_) | Written::NotAttempted => false,
    }
}

/// Counts what a write did, and says of how many documents it was.
async fn one(
    database: &Database,
    write: &Write,
    session: Session<'_>,
    done: &mut BulkWritten,
) -> Result<u64> {
    refuse_upsert(write)?;
    match write.clone() {
        Write::Insert {
            collection,
            document,
        } => {
            let insert = Insert {
                collection,
                documents: vec![document],
                ordered: true,
            };
            let inserted = insert::insert(database, insert, session).await;
            inserted.map_err(Error::without_inserted)?;
            done.inserted += 1;
            Ok(1)
        }
        Write::Update(update) => {
            let updated = update::update(database, update, session).await?;
            done.matched += updated.matched;
            done.modified += updated.modified;
            Ok(updated.matched)
        }
        Write::Delete(delete) => {
            let deleted = delete::delete(database, delete, session).await?;
            done.deleted += deleted.deleted;
            Ok(deleted.deleted)
        }
    }
}

/// Sends writes together, and says whether those behind them may follow.
async fn together(
    database: &Database,
    writes: &[BulkItem],
    command: &Command,
    ordered: bool,
    mut session: Session<'_>,
    done: &mut BulkWritten,
) -> bool {
    let mut rest = 0..command.positions.len();
    let mut goes_on = true;
    while goes_on && !rest.is_empty() {
        let statements = command.statements.get(rest.clone()).unwrap_or_default();
        let collection = command
            .positions
            .first()
            .and_then(|first| writes.get(*first));
        let collection = collection.map_or("", |item| item.write.collection());
        let names = command.kind.names();
        let answer = write_command::send(
            database,
            names,
            collection,
            statements,
            ordered,
            session.as_deref_mut(),
        )
        .await;
        let answered = match answer {
            Ok(answer) => answer,
            // What became of them is unknown, or nothing.
            Err(error) => {
                let error = error.with_collection(collection);
                for position in command.positions.get(rest).unwrap_or_default() {
                    done.note(*position, Written::Failed(error.clone()));
                }
                return false;
            }
        };
        count(command.kind, &answered, done);
        let sent = Sent {
            writes,
            positions: command.positions.get(rest.clone()).unwrap_or_default(),
            collection,
        };
        let (attempted, may_follow) = sent.note(&answered, ordered, done);
        goes_on = may_follow;
        rest = rest.start + attempted..rest.end;
    }
    goes_on
}

fn count(kind: Kind, answer: &Document, done: &mut BulkWritten) {
    let number = |name| match answer.get(name) {
        Some(Bson::Int32(n)) => u64::try_from(*n).unwrap_or(0),
        Some(Bson::Int64(n)) => u64::try_from(*n).unwrap_or(0),
        _ => 0,
    };
    match kind {
        Kind::Insert => done.inserted += number("n"),
        Kind::Update => {
            done.matched += number("n");
            done.modified += number("nModified");
        }
        Kind::Delete | Kind::Alone => done.deleted += number("n"),
    }
}

/// The writes of one command that was answered.
struct Sent<'a> {
    writes: &'a [BulkItem],
    positions: &'a [usize],
    collection: &'a str,
}

impl Sent<'_> {
    /// Notes what became of them: how many were attempted, and whether those behind may follow.
    fn note(&self, answer: &Document, ordered: bool, done: &mut BulkWritten) -> (usize, bool) {
        let refused = error::all_in_answer(answer);
        let not_safe = refused.iter().find(|refused| refused.position.is_none());
        let all = match not_safe {
            None => Written::Applied,
            Some(refused) => {
                Written::Failed(refused.error.clone().with_collection(self.collection))
            }
        };
        let mut may_follow = not_safe.is_none();
        let mut attempted = self.positions.len();
        if ordered && let Some(last) = refused.iter().filter_map(|r| r.position).next_back() {
            attempted = attempted.min(last + 1);
        }
        for position in self.positions.get(..attempted).unwrap_or_default() {
            done.note(*position, all.clone());
        }
        for refused in refused {
            let Some(item) = refused
                .position
                .and_then(|at| self.positions.get(at))
                .and_then(|position| Some((*position, self.writes.get(*position)?)))
            else {
                continue;
            };
            let (position, item) = item;
            let result = self.refusal(item, refused.error);
            may_follow &= goes_on(&result, item);
            done.note(position, result);
        }
        (attempted, may_follow)
    }

    fn refusal(&self, item: &BulkItem, error: Error) -> Written {
        match &item.write {
            Write::Update(_)
                if item.unmatched != Unmatched::Fine && error.code() == Some(IMMUTABLE_FIELD) =>
            {
                Written::NotApplied
            }
            Write::Insert { document, .. } => Written::Failed(insert::with_id(
                error.with_collection(self.collection),
                Some(document),
            )),
            _ => Written::Failed(error.with_collection(self.collection)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::operation::Delete;

    fn insert(collection: &'static str) -> BulkItem {
        BulkItem {
            write: Write::Insert {
                collection: collection.into(),
                document: rawdoc! { "_id": 1 },
            },
            unmatched: Unmatched::Fine,
        }
    }

    fn update(unmatched: Unmatched) -> BulkItem {
        let update = Update {
            collection: "a".into(),
            filter: rawdoc! { "_id": 1 },
            change: Change::operators(rawdoc! { "$inc": { "n": 1 } }),
            multi: false,
            upsert: false,
        };
        BulkItem {
            write: Write::Update(update),
            unmatched,
        }
    }

    fn delete(unmatched: Unmatched) -> BulkItem {
        let delete = Delete {
            collection: "a".into(),
            filter: rawdoc! { "_id": 1 },
            multi: false,
        };
        BulkItem {
            write: Write::Delete(delete),
            unmatched,
        }
    }

    fn sizes(writes: &[BulkItem], ordered: bool, in_transaction: bool) -> Vec<usize> {
        let commands = commands(writes, ordered, in_transaction).into_iter();
        commands.map(|command| command.positions.len()).collect()
    }

    #[test]
    fn one_command_for_all_of_a_kind() {
        let mut writes = Vec::new();
        for _ in 0..50 {
            writes.extend([insert("a"), insert("b"), update(Unmatched::Stops)]);
        }
        assert_eq!(sizes(&writes, false, false), [50, 50, 50]);
        assert_eq!(sizes(&writes, true, false), [1; 150]);
        writes.sort_by_key(|item| format!("{item:?}"));
        assert_eq!(sizes(&writes, true, false), [50, 50, 50]);
    }

    #[test]
    fn what_must_be_told_goes_alone_where_a_command_cannot_tell() {
        let deletes = [Unmatched::Fine, Unmatched::Fine, Unmatched::Told].map(delete);
        assert_eq!(sizes(&deletes, true, false), [2, 1]);
        let updates = [Unmatched::Told, Unmatched::Fine, Unmatched::Fine].map(update);
        assert_eq!(sizes(&updates, true, false), [3]);
        assert_eq!(sizes(&updates, true, true), [1, 2]);
    }

    #[test]
    fn a_command_has_a_size() {
        let large = || BulkItem {
            write: Write::Insert {
                collection: "a".into(),
                document: rawdoc! { "_id": 1, "text": "x".repeat(7 * 1024 * 1024) },
            },
            unmatched: Unmatched::Fine,
        };
        assert_eq!(sizes(&[large(), large(), large()], true, false), [2, 1]);
    }
}

//! The operations of common calls with their origins, as listed in `book/src/operations.md`.
//!
//! Two sources must agree with the page: the recorded operations of each call, and the plan that `explain` returns before the call.
//! On a database with transactions, `explain` also returns the plan of a standalone server.
//!
//! `ODM_WRITE_PAGES=1` writes the recorded lists into the page instead of comparing them:
//! `ODM_WRITE_PAGES=1 cargo test -p odm-tests --test derived match_the_book -- --test-threads=1`.

use std::{fmt::Write, sync::Arc};

use odm::{
    Database, ErrorKind, Schema,
    action::WritePlan,
    backend::{Backend, Recorder, operation::Operation},
};

use crate::{Fixture, crash::Done};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/operations.md");

const LABELS: [&str; 2] = ["with transactions", "on a standalone server"];

/// A call of the page. A row depends on the documents that the rows before have written.
///
/// The first database records the call. The second database is for operations that do not belong to the call.
pub(crate) struct CostRow<S> {
    pub(crate) name: &'static str,
    pub(crate) run: RunCall<S>,
    /// `None` for a read.
    pub(crate) explain: Option<ExplainCall<S>>,
}

type RunCall<S> = for<'d> fn(&'d Database<S>, &'d Database<S>) -> Done<'d, odm::Result<()>>;

/// Explains a call, as on a standalone server if the flag is set.
type ExplainCall<S> =
    for<'d> fn(&'d Database<S>, &'d Database<S>, bool) -> Done<'d, odm::Result<WritePlan>>;

/// Makes the row of a write: `write_row!("insert", |db| db.insert(maker(2)))`.
macro_rules! write_row {
    ($name:literal, |$db:ident| $write:expr) => {
        $crate::operation_lists::CostRow {
            name: $name,
            run: |$db, _| Box::pin(async move { $write.await.map(drop) }),
            explain: Some(|$db, _, is_standalone| {
                Box::pin(async move {
                    let explain = $write.explain();
                    match is_standalone {
                        true => explain.standalone().await,
                        false => explain.await,
                    }
                })
            }),
        }
    };
}
pub(crate) use write_row;

/// Makes the row of a read.
macro_rules! read_row {
    ($name:literal, |$db:ident| $read:expr) => {
        $crate::operation_lists::CostRow {
            name: $name,
            run: |$db, _| Box::pin(async move { $read.await.map(drop) }),
            explain: None,
        }
    };
}
pub(crate) use read_row;

/// Equal operations in one line, with their number.
type Lines = Vec<(String, usize)>;

/// The lists of one section of the page.
pub(crate) struct OperationLists {
    backend: Arc<dyn Backend>,
    has_transactions: bool,
    /// Whether background tasks send operations at the same time, so that their order varies.
    in_any_order: bool,
    /// The recorded lists of the backend of the test.
    recorded: Vec<(String, Lines)>,
    /// The explained lists of a standalone server, and whether no work is pending afterwards.
    standalone: Vec<(String, Lines, bool)>,
}

impl OperationLists {
    pub(crate) fn new(fixture: &Fixture) -> Self {
        let backend = fixture.backend();
        Self {
            has_transactions: backend.capabilities().transactions,
            in_any_order: false,
            backend,
            recorded: Vec::new(),
            standalone: Vec::new(),
        }
    }

    /// Compares the recorded lists with the page without the order of the lines.
    pub(crate) fn in_any_order(self) -> Self {
        Self {
            in_any_order: true,
            ..self
        }
    }

    /// Explains and runs a call, and compares the plan with the recorded operations. Returns the number of operations, without the
    /// start of a transaction.
    pub(crate) async fn run_row<S: Schema>(
        &mut self,
        row: &CostRow<S>,
        db: &Database<S>,
        recorder: &Recorder,
    ) -> usize {
        let name = row.name;
        let aside = Database::<S>::with_backend(self.backend.clone());
        let plan = match row.explain {
            None => None,
            Some(explain) if self.has_transactions => {
                let plan = explain(db, &aside, false)
                    .await
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                let standalone = explain(db, &aside, true).await;
                let standalone =
                    standalone.unwrap_or_else(|error| panic!("{name}, standalone: {error}"));
                let is_complete = standalone.pending.is_empty();
                let lines = lines(&standalone.operations);
                self.standalone.push((name.to_owned(), lines, is_complete));
                Some(plan)
            }
            Some(explain) => {
                let error = explain(db, &aside, false).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                None
            }
        };
        recorder.clear();
        (row.run)(db, &aside)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        aside.wait_for_pending().await.unwrap();
        let recorded = lines(&recorder.operations());
        if let Some(plan) = plan {
            let explained = lines(&plan.operations);
            match plan.pending.is_empty() {
                true => assert_eq!(explained, recorded, "{name}\n{plan}"),
                false => assert_contains(&recorded, &explained, name),
            }
        }
        let count = recorded.iter().map(|(_, count)| count).sum();
        self.recorded.push((name.to_owned(), recorded));
        count
    }

    /// Compares the lists with the page.
    pub(crate) fn assert_match_the_book(self) {
        let mut page = std::fs::read_to_string(PAGE).unwrap();
        let label = LABELS[usize::from(!self.has_transactions)];
        if std::env::var_os("ODM_WRITE_PAGES").is_some() {
            for (call, lines) in &self.recorded {
                let (start, end) = find(&page, call, label);
                page.replace_range(start..end, &text(lines));
            }
            return std::fs::write(PAGE, page).unwrap();
        }
        for (call, lines) in &self.recorded {
            let (start, end) = find(&page, call, label);
            let (mut documented, mut recorded) = (parse(&page[start..end]), lines.clone());
            if self.in_any_order {
                documented.sort();
                recorded.sort();
            }
            assert_eq!(text(&documented), text(&recorded), "{call} {label}");
        }
        for (call, explained, is_complete) in &self.standalone {
            let (start, end) = find(&page, call, LABELS[1]);
            match is_complete {
                true => assert_eq!(&page[start..end], text(explained), "explained: {call}"),
                false => assert_contains(&parse(&page[start..end]), explained, call),
            }
        }
    }
}

/// Asserts that all operations of a plan were sent. The background work of the call sends further operations.
fn assert_contains(all: &Lines, explained: &Lines, call: &str) {
    for (line, count) in explained {
        let sent = all.iter().find(|(other, _)| other == line);
        let sent = sent.map_or(0, |(_, count)| *count);
        assert!(
            sent >= *count,
            "{call}: {count} × {line}, but {sent} in\n{}",
            text(all)
        );
    }
}

/// Returns the position of a list in the page.
fn find(page: &str, call: &str, label: &str) -> (usize, usize) {
    let heading = format!("\n### {call}\n");
    let heading_start = page.find(&heading);
    let heading_start =
        heading_start.unwrap_or_else(|| panic!("book/src/operations.md has no `{call}`"));
    let label = format!("\n{label}\n");
    let start = heading_start + page[heading_start..].find(&label).expect("a list") + label.len();
    // From the end of the label, so that an empty list is found.
    let rest = &page[start - 1..];
    let end = rest.find("\n```").expect("the end of the block");
    let end = rest[..end].find("\n\n").unwrap_or(end);
    (start, start + end)
}

/// Returns a line for each kind of operation: the name, the collection and the origin.
fn lines(operations: &[Operation]) -> Lines {
    let mut lines: Lines = Vec::new();
    // The start of a transaction is sent with its first operation.
    for operation in operations
        .iter()
        .filter(|operation| !matches!(operation, Operation::Begin))
    {
        let line = line(operation);
        match lines.iter_mut().find(|(other, _)| *other == line) {
            Some((_, count)) => *count += 1,
            None => lines.push((line, 1)),
        }
    }
    lines
}

fn line(operation: &Operation) -> String {
    let name = operation.summary();
    if matches!(operation, Operation::Commit) {
        return name;
    }
    let origin = operation.origin();
    assert_ne!(
        origin.action, "",
        "an operation without an action: {operation}"
    );
    match origin.stage {
        Some(stage) => format!("{name:30} {}: {}", stage.name(), origin.step),
        None => format!("{name:30} {}", origin.action),
    }
}

fn text(lines: &Lines) -> String {
    let mut text = String::new();
    for (line, count) in lines {
        writeln!(text, "{count:5} × {line}").unwrap();
    }
    text
}

fn parse(text: &str) -> Lines {
    let lines = text.lines().map(|line| {
        let (count, line) = line.split_once(" × ").expect("a list");
        (line.to_owned(), count.trim().parse().expect("a number"))
    });
    lines.collect()
}

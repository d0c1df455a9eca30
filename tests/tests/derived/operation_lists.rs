//! The operations of common calls with their origins, as listed in `book/src/operations.md`.
//!
//! `ODM_WRITE_PAGES=1` writes the recorded lists into the page instead of comparing them:
//! `ODM_WRITE_PAGES=1 cargo test -p odm-tests --test derived match_the_book -- --test-threads=1`.

use std::fmt::Write;

use odm::backend::{Backend, operation::Operation};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/operations.md");

/// The recorded lists of one kind of backend, for one section of the page.
pub(crate) struct OperationLists {
    /// The line above the list of this kind of backend.
    label: &'static str,
    lists: Vec<(String, String)>,
}

impl OperationLists {
    pub(crate) fn new(backend: &dyn Backend) -> Self {
        let label = match backend.capabilities().transactions {
            true => "with transactions",
            false => "on a standalone server",
        };
        Self {
            label,
            lists: Vec::new(),
        }
    }

    /// Adds the operations of a call.
    pub(crate) fn add(&mut self, call: &str, operations: &[Operation]) {
        self.lists.push((call.to_owned(), list(operations)));
    }

    /// Compares the lists with the page.
    pub(crate) fn assert_match_the_book(self) {
        let mut page = std::fs::read_to_string(PAGE).unwrap();
        if std::env::var_os("ODM_WRITE_PAGES").is_some() {
            for (call, list) in &self.lists {
                let (start, end) = self.find(&page, call);
                page.replace_range(start..end, list);
            }
            return std::fs::write(PAGE, page).unwrap();
        }
        for (call, list) in &self.lists {
            let (start, end) = self.find(&page, call);
            assert_eq!(&page[start..end], list, "{call} {}", self.label);
        }
    }

    /// Returns the position of a list in the page.
    fn find(&self, page: &str, call: &str) -> (usize, usize) {
        let heading = format!("\n### {call}\n");
        let heading_start = page.find(&heading);
        let heading_start =
            heading_start.unwrap_or_else(|| panic!("book/src/operations.md has no `{call}`"));
        let label = format!("\n{}\n", self.label);
        let start =
            heading_start + page[heading_start..].find(&label).expect("a list") + label.len();
        // From the end of the label, so that an empty list is found.
        let rest = &page[start - 1..];
        let end = rest.find("\n```").expect("the end of the block");
        let end = rest[..end].find("\n\n").unwrap_or(end);
        (start, start + end)
    }
}

/// Returns a line for each operation: the number of equal operations, the name, the collection and the origin.
fn list(operations: &[Operation]) -> String {
    let mut lines: Vec<(String, usize)> = Vec::new();
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
    let mut text = String::new();
    for (line, count) in lines {
        writeln!(text, "{count:5} × {line}").unwrap();
    }
    text
}

fn line(operation: &Operation) -> String {
    let name = match operation {
        Operation::Find(find) => format!("find {}", find.collection),
        Operation::FindEach(find) => format!("find {}", find.collection),
        Operation::FindSeveral(several) => {
            let names: Vec<_> = several.finds.iter().map(|find| &*find.collection).collect();
            format!("find {}", names.join(", "))
        }
        Operation::Aggregate(aggregate) => format!("aggregate {}", aggregate.collection),
        Operation::Count(count) => format!("count {}", count.collection),
        Operation::Insert(insert) => format!("insert {}", insert.collection),
        Operation::Update(update) => format!("update {}", update.collection),
        Operation::Delete(delete) => format!("delete {}", delete.collection),
        Operation::FindAndModify(modify) => format!("findAndModify {}", modify.collection),
        Operation::BulkWrite(bulk) => {
            let mut names: Vec<_> = bulk
                .writes
                .iter()
                .map(|item| &**item.write.collection())
                .collect();
            names.dedup();
            format!("bulkWrite {}", names.join(", "))
        }
        Operation::Commit => return "commit".to_owned(),
        other => panic!("{other:?}"),
    };
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

//! Tests that run the program on files.

mod commands;
mod copies;
mod dumps;
mod failures;
mod kills;
mod serve;
#[cfg(feature = "mongodb")]
mod servers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Direction, Find, Index};
use serde_json::Value;

/// Asserts that two databases have the same collections, documents and indexes.
fn assert_same_content(source: &Database, target: &Database) {
    target.validate().unwrap();
    let names = source.list_collections().unwrap();
    assert_eq!(names, target.list_collections().unwrap());
    for name in names {
        assert_eq!(all(source, &name), all(target, &name));
        let indexes = |database: &Database| {
            let indexes = database.list_indexes(&name).unwrap().into_iter();
            let mut indexes: Vec<_> = indexes.map(|index| index.to_document()).collect();
            indexes.sort_by_key(|index| index.get_str("name").unwrap().to_owned());
            indexes
        };
        assert_eq!(indexes(source), indexes(target));
    }
}

/// A directory with the file of a small database.
struct Shop {
    directory: tempfile::TempDir,
}

impl Shop {
    fn new() -> Shop {
        let directory = tempfile::tempdir().unwrap();
        let shop = Shop { directory };
        let database = Database::open(shop.file()).unwrap();
        let indexes = [
            Index::new([("age", Direction::Ascending)]),
            Index::new([("name", Direction::Descending)])
                .unique()
                .sparse(),
        ];
        database.create_indexes("people", &indexes).unwrap();
        insert(
            &database,
            "people",
            vec![
                rawdoc! { "_id": 1, "name": "Ada", "age": 36, "address": { "city": "London" } },
                rawdoc! { "_id": 2, "name": "Bob, \"the\" builder", "age": 41, "tags": ["a", "b"] },
                rawdoc! { "_id": 3, "name": "Cy", "age": 17_i64 << 40 },
            ],
        );
        insert(
            &database,
            "orders",
            (0..2_500)
                .map(|id| rawdoc! { "_id": id, "n": id % 7 })
                .collect(),
        );
        database.close();
        shop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("shop.odm")
    }

    /// Runs the program with a command on the file.
    fn run(&self, command: &str, arguments: &[&str]) -> Output {
        run_on(command, &self.file(), arguments)
    }

    /// Runs a command that succeeds, and returns the lines of its output.
    fn lines(&self, command: &str, arguments: &[&str]) -> Vec<String> {
        let output = self.run(command, arguments);
        assert_success(&output);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Runs a command that succeeds with `--json`, and returns the values of the lines.
    fn json(&self, command: &str, arguments: &[&str]) -> Vec<Value> {
        let arguments = [arguments, &["--json"]].concat();
        let lines = self.lines(command, &arguments);
        lines
            .iter()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }
}

fn run_on(command: &str, file: &Path, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_odm"));
    let program = program.arg(command).arg(file).args(arguments);
    program.output().unwrap()
}

fn assert_success(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "");
}

/// Checks the exit code, and returns the message: one sentence on the standard error.
fn failure(output: &Output, code: i32) -> String {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.starts_with("odm: "), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

fn insert(database: &Database, collection: &str, documents: Vec<RawDocumentBuf>) {
    let inserted = database.insert(collection, documents).unwrap();
    inserted.into_result().unwrap();
}

fn all(database: &Database, collection: &str) -> Vec<RawDocumentBuf> {
    let found = database.find(collection, &Find::default()).unwrap();
    found.collect::<Result<_, _>>().unwrap()
}

//! Exit codes and messages.

use std::fs;
use std::process::Command;

use odm_engine::Database;
use serde_json::{Value, json};

use crate::{Shop, failure, run_on};

#[test]
fn wrong_arguments_have_the_code_2() {
    let shop = Shop::new();
    for (command, arguments, message) in [
        ("find", vec!["people", "{age: 1}"], "the filter is not JSON"),
        ("find", vec!["people", "[]"], "the filter is not a document"),
        (
            "find",
            vec!["people", "{\"a\": {\"$oid\": 1}}"],
            "the filter is not extended JSON",
        ),
        ("find", vec!["people", "{\"a\": {\"$grt\": 1}}"], "$grt"),
        (
            "find",
            vec!["people", "--sort", "1"],
            "the sort is not a document",
        ),
        ("count", vec!["people", "{\"$where\": \"1\"}"], "$where"),
        (
            "aggregate",
            vec!["people", "{}"],
            "the pipeline is not an array",
        ),
        (
            "aggregate",
            vec!["people", "[{\"$nothing\": 1}]"],
            "$nothing",
        ),
        ("export", vec!["people", "--format", "csv"], "--fields"),
    ] {
        let error = failure(&shop.run(command, &arguments), 2);
        assert!(error.contains(message), "{error}");
    }
    for arguments in [
        vec![],
        vec!["unknown"],
        vec!["find"],
        vec!["stats", "a", "--unknown"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_odm"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

#[test]
fn a_file_that_cannot_be_opened_has_the_code_3() {
    let shop = Shop::new();
    fs::write(shop.path("text.odm"), "not a database".repeat(1_000)).unwrap();
    let [missing, text] = ["missing.odm", "text.odm"].map(|name| shop.path(name));
    for command in ["stats", "collections", "validate", "compact"] {
        assert!(failure(&run_on(command, &missing, &[]), 3).contains("missing.odm"));
        let error = failure(&run_on(command, &text, &[]), 3);
        assert!(error.contains("not a database of this engine"), "{error}");
    }
    assert!(!missing.exists());

    let database = Database::open(shop.file()).unwrap();
    for command in ["stats", "compact"] {
        let error = failure(&shop.run(command, &[]), 3);
        assert!(error.contains("open already"), "{error}");
    }
    assert!(failure(&shop.run("stats", &[]), 3).contains("backup"));
    database.close();
}

#[test]
fn a_missing_collection_has_the_code_1() {
    let shop = Shop::new();
    for (command, arguments) in [
        ("find", vec!["poeple"]),
        ("count", vec!["poeple"]),
        ("explain", vec!["poeple", "{}"]),
        ("aggregate", vec!["poeple", "[]"]),
        ("indexes", vec!["poeple"]),
        ("export", vec!["poeple"]),
        ("dump", vec!["dump", "--collection", "poeple"]),
    ] {
        let error = failure(&shop.run(command, &arguments), 1);
        assert!(
            error.contains("no collection poeple; the collections are orders, people"),
            "{error}"
        );
    }
}

#[test]
fn a_damaged_file_is_not_valid() {
    let shop = Shop::new();
    let mut content = fs::read(shop.file()).unwrap();
    let text = b"the\" builder";
    let at = content
        .windows(text.len())
        .rposition(|window| window == text)
        .unwrap();
    content[at] = b'T';
    fs::write(shop.file(), content).unwrap();
    let output = shop.run("validate", &["--json"]);
    let error = failure(&output, 1);
    assert!(error.contains("damaged"), "{error}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["valid"], json!(false));
    assert!(report["problem"].as_str().unwrap().contains("damaged"));
    // A damaged file has the same code in every command, also if the damage prevents the open.
    let length = shop.file().metadata().unwrap().len();
    let file = fs::File::options().write(true).open(shop.file()).unwrap();
    file.set_len(length / 2).unwrap();
    for command in ["stats", "collections", "validate", "compact"] {
        assert!(failure(&shop.run(command, &[]), 1).contains("damaged"));
    }
}

#[test]
fn existing_files_stay() {
    let shop = Shop::new();
    fs::write(shop.path("copy.odm"), "mine").unwrap();
    let copy = shop.path("copy.odm");
    assert!(failure(&shop.run("backup", &[copy.to_str().unwrap()]), 1).contains("copy.odm"));
    assert_eq!(fs::read(copy).unwrap(), b"mine");
    fs::create_dir_all(shop.path("dump/shop")).unwrap();
    let dump = shop.path("dump");
    let error = failure(&shop.run("dump", &[dump.to_str().unwrap()]), 1);
    assert!(error.contains("exists"), "{error}");
    assert_eq!(
        fs::read_dir(dump).unwrap().count(),
        1,
        "no unfinished dump is left"
    );
}

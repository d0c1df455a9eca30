//! Copies of whole databases.

use std::fs;
use std::process::{Command, Output};

use bson::rawdoc;
use odm_engine::{Database, Direction, Index};
use serde_json::{Value, json};

use crate::{Shop, all, assert_same_content, assert_success, failure, insert};

fn copy(from: &str, to: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_odm"));
    command
        .args(["copy", from, to])
        .args(options)
        .output()
        .unwrap()
}

fn json_of(output: &Output) -> Value {
    assert_success(output);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_file_is_copied_into_a_file() {
    let shop = Shop::new();
    let (from, to) = (shop.file(), shop.path("copy.odm"));
    let before = fs::read(&from).unwrap();
    let [from_text, to_text] = [&from, &to].map(|path| path.to_str().unwrap());

    // A dry run creates no file.
    let expected = json!([
        { "name": "orders", "documents": 2500, "indexes": 0 },
        { "name": "people", "documents": 3, "indexes": 2 },
    ]);
    let plan = json_of(&copy(from_text, to_text, &["--dry-run", "--json"]));
    assert_eq!(
        (&plan["collections"], &plan["continues"]),
        (&expected, &json!(false))
    );
    assert!(!to.exists());

    let report = json_of(&copy(from_text, to_text, &["--json"]));
    assert_eq!(
        (&report["collections"], &report["skipped"]),
        (&expected, &json!([]))
    );
    assert!(
        fs::read(&from).unwrap() == before,
        "the copy has changed the source"
    );
    let (source, target) = (Database::open(&from).unwrap(), Database::open(&to).unwrap());
    target.validate().unwrap();
    assert_eq!(target.list_collections().unwrap(), ["orders", "people"]);
    for name in ["orders", "people"] {
        assert_eq!(all(&source, name), all(&target, name));
        assert_eq!(
            source.list_indexes(name).unwrap(),
            target.list_indexes(name).unwrap()
        );
    }
    drop((source, target));

    // A second copy is refused, also as a dry run.
    for options in [&[][..], &["--dry-run"], &["--restart"]] {
        let error = failure(&copy(from_text, to_text, options), 1);
        assert!(error.contains("must be empty"), "{error}");
    }
    let output = copy(from_text, shop.path("text.odm").to_str().unwrap(), &[]);
    assert_success(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "orders: 2500 documents, 0 indexes\npeople: 3 documents, 2 indexes\n"
    );
}

#[test]
fn a_copy_refuses_what_it_cannot_do() {
    let shop = Shop::new();
    let (from, to) = (shop.file(), shop.path("copy.odm"));
    let [from, to] = [&from, &to].map(|path| path.to_str().unwrap());
    let error = failure(&copy("missing.odm", to, &[]), 3);
    assert!(error.contains("missing.odm"), "{error}");
    let error = failure(&copy(from, to, &["--follow"]), 2);
    assert!(error.contains("MongoDB source"), "{error}");
    assert_eq!(copy(from, to, &["--unknown"]).status.code(), Some(2));
    if !cfg!(feature = "mongodb") {
        let error = failure(&copy(from, "mongodb://localhost/shop", &[]), 2);
        assert!(error.contains("feature mongodb"), "{error}");
    }
    // The file is in use.
    let database = Database::open(from).unwrap();
    failure(&copy(from, to, &[]), 3);
    database.close();
    let damaged = shop.path("damaged.odm");
    let content = fs::read(from).unwrap();
    fs::write(&damaged, &content[..content.len() / 2]).unwrap();
    let error = failure(&copy(damaged.to_str().unwrap(), to, &[]), 1);
    assert!(error.contains("damaged"), "{error}");
}

/// A file goes to a server and back.
#[cfg(feature = "mongodb")]
#[tokio::test]
async fn a_file_is_copied_to_a_server_and_back() {
    let shop = Shop::new();
    let file = shop.file();
    let database = Database::open(&file).unwrap();
    let expiring =
        Index::new([("at", Direction::Ascending)]).expire_after(std::time::Duration::from_secs(9));
    database.create_indexes("orders", &[expiring]).unwrap();
    insert(
        &database,
        "_odm.sequences",
        vec![rawdoc! { "_id": { "collection": "orders", "prefix": "" }, "last": 5_i64 }],
    );
    database.close();
    for server in [
        odm_mongod::standalone().await,
        odm_mongod::replica_set().await,
    ] {
        let (url, back) = (server.fresh_url(), shop.path("back.odm"));
        let [from, back_text] = [&file, &back].map(|path| path.to_str().unwrap());
        json_of(&copy(from, &url, &["--json"]));
        if server.kind() == odm_mongod::Kind::Standalone {
            let error = failure(&copy(&url, back_text, &[]), 1);
            assert!(error.contains("quiescent"), "{error}");
            json_of(&copy(&url, back_text, &["--json", "--quiescent"]));
        } else {
            json_of(&copy(&url, back_text, &["--json"]));
        }
        let (source, target) = (
            Database::open(&file).unwrap(),
            Database::open(&back).unwrap(),
        );
        assert_same_content(&source, &target);
        drop((source, target));
        fs::remove_file(&back).unwrap();
    }
}

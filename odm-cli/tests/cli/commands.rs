//! Every command on a file, with and without `--json`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use odm_engine::{Count, Database, Delete};
use serde_json::json;

use crate::{Shop, assert_success};

#[test]
fn stats_prints_sizes() {
    let shop = Shop::new();
    let stats = shop.json("stats", &[]).remove(0);
    assert_eq!(stats["fileBytes"], shop.file().metadata().unwrap().len());
    assert_eq!(
        (&stats["formatVersion"], &stats["logBytes"]),
        (&json!(5), &json!(0))
    );
    let people = &stats["collections"][1];
    assert_eq!(
        (&people["name"], &people["documents"]),
        (&json!("people"), &json!(3))
    );
    let age = json!({ "name": "age_1", "key": { "age": 1 }, "entries": 3, "entryBytes": 81 });
    assert_eq!(people["indexes"][1], age);

    let lines = shop.lines("stats", &[]);
    assert!(
        lines[0].contains("shop.odm: ") && lines[0].contains("format 5"),
        "{lines:?}"
    );
    let row = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(row(&lines[2])[..2], ["orders", "2500"]);
    assert_eq!(row(&lines[6]), ["age_1", "{\"age\":1}", "3", "81", "B"]);
    let widths: Vec<_> = lines[1..].iter().map(|line| line.chars().count()).collect();
    assert!(
        widths.iter().all(|width| *width == widths[0]),
        "aligned: {lines:#?}"
    );
}

#[test]
fn collections_and_indexes_are_listed() {
    let shop = Shop::new();
    assert_eq!(shop.lines("collections", &[]), ["orders", "people"]);
    assert_eq!(shop.json("collections", &[]), [json!(["orders", "people"])]);
    let indexes = shop.json("indexes", &["people"]);
    let expected = json!([
        { "collection": "people", "key": { "_id": 1 }, "name": "_id_" },
        { "collection": "people", "key": { "age": 1 }, "name": "age_1" },
        { "collection": "people", "key": { "name": -1 }, "name": "name_-1", "unique": true, "sparse": true },
    ]);
    assert_eq!(indexes, [expected]);
    assert_eq!(
        shop.lines("indexes", &[]),
        [
            "orders  _id_     {\"_id\":1}",
            "people  _id_     {\"_id\":1}",
            "people  age_1    {\"age\":1}",
            "people  name_-1  {\"name\":-1}  {\"unique\":true,\"sparse\":true}",
        ]
    );
}

#[test]
fn find_prints_relaxed_extended_json() {
    let shop = Shop::new();
    let found = shop.lines(
        "find",
        &[
            "people",
            "{\"age\": {\"$gte\": 36}}",
            "--sort",
            "{\"age\": -1}",
        ],
    );
    assert_eq!(
        found,
        [
            "{\"_id\":3,\"name\":\"Cy\",\"age\":18691697672192}",
            "{\"_id\":2,\"name\":\"Bob, \\\"the\\\" builder\",\"age\":41,\"tags\":[\"a\",\"b\"]}",
            "{\"_id\":1,\"name\":\"Ada\",\"age\":36,\"address\":{\"city\":\"London\"}}",
        ]
    );
    let options = [
        "people",
        "--project",
        "{\"name\": 1, \"_id\": 0}",
        "--sort",
        "{\"_id\": 1}",
        "--limit",
        "1",
    ];
    assert_eq!(shop.lines("find", &options), ["{\"name\":\"Ada\"}"]);
    // Extended JSON of a type that JSON does not have.
    let canonical = [
        "people",
        "{\"age\": {\"$numberLong\": \"18691697672192\"}}",
        "--json",
    ];
    assert_eq!(shop.lines("find", &canonical).len(), 1);
    assert_eq!(shop.lines("find", &["orders"]).len(), 2_500);
}

/// JSON and CSV keep what a document has: dates after the year 9999, and fields with the same name.
#[test]
fn unusual_documents_are_printed_unchanged() {
    let shop = Shop::new();
    let database = Database::open(shop.file()).unwrap();
    let date = bson::DateTime::from_millis;
    let mut document = bson::rawdoc! {
        "_id": 1, "last": date(253_402_300_799_999), "later": [date(253_402_300_800_000)], "end": date(i64::MAX),
    };
    document.append(bson::cstr!("a"), 1);
    document.append(bson::cstr!("a"), 2);
    crate::insert(&database, "unusual", vec![document]);
    database.create_collection("line\nbreak").unwrap();
    database.close();
    assert_eq!(
        shop.lines("find", &["unusual"]),
        [
            "{\"_id\":1,\"last\":{\"$date\":\"9999-12-31T23:59:59.999Z\"},\
          \"later\":[{\"$date\":{\"$numberLong\":\"253402300800000\"}}],\
          \"end\":{\"$date\":{\"$numberLong\":\"9223372036854775807\"}},\"a\":1,\"a\":2}"
        ]
    );
    let csv = ["unusual", "--format", "csv", "--fields", "last,later,end"];
    assert_eq!(
        shop.lines("export", &csv)[1],
        "9999-12-31T23:59:59.999Z,\
         \"[{\"\"$date\"\":{\"\"$numberLong\"\":\"\"253402300800000\"\"}}]\",9223372036854775807"
    );
    assert_eq!(shop.lines("collections", &[])[0], "line\\nbreak");
}

#[test]
fn count_explain_and_aggregate() {
    let shop = Shop::new();
    assert_eq!(shop.lines("count", &["orders"]), ["2500"]);
    assert_eq!(
        shop.json("count", &["orders", "{\"n\": 6}"]),
        [json!({ "count": 357 })]
    );

    let explain = shop
        .json("explain", &["people", "{\"age\": {\"$gt\": 40}}"])
        .remove(0);
    assert_eq!(
        (&explain["stage"], &explain["indexes"]),
        (&json!("IndexScan"), &json!(["age_1"]))
    );
    assert_eq!(
        (&explain["keysExamined"], &explain["returned"]),
        (&json!(2), &json!(2))
    );
    let lines = shop.lines("explain", &["people", "{\"age\": {\"$gt\": 40}}"]);
    assert_eq!(lines[0], "scan of the index age_1");
    assert_eq!(
        lines[2],
        "2 index entries and 2 documents examined, 2 documents returned"
    );
    assert_eq!(
        shop.lines("explain", &["orders", "{\"n\": 1}"])[0],
        "scan of all documents"
    );
    assert_eq!(
        shop.lines("explain", &["orders", "{\"_id\": 1}"])[0],
        "look-up by _id"
    );

    let pipeline =
        "[{\"$group\": {\"_id\": null, \"n\": {\"$sum\": \"$n\"}}}, {\"$unset\": \"_id\"}]";
    assert_eq!(
        shop.lines("aggregate", &["orders", pipeline]),
        ["{\"n\":7497}"]
    );
}

#[test]
fn export_writes_json_lines_and_csv() {
    let shop = Shop::new();
    let fields = ["people", "--fields", "name,address.city"];
    assert_eq!(
        shop.lines("export", &fields)[0],
        "{\"name\":\"Ada\",\"address\":{\"city\":\"London\"}}"
    );
    assert_eq!(shop.lines("export", &["orders"]).len(), 2_500);
    let csv = [
        "people",
        "--format",
        "csv",
        "--fields",
        "_id,name,address.city,tags.1,tags",
    ];
    assert_eq!(
        shop.lines("export", &csv),
        [
            "_id,name,address.city,tags.1,tags",
            "1,Ada,London,,",
            "2,\"Bob, \"\"the\"\" builder\",,b,\"[\"\"a\"\",\"\"b\"\"]\"",
            "3,Cy,,,",
        ]
    );
}

#[test]
fn validate_and_backup() {
    let shop = Shop::new();
    assert!(shop.lines("validate", &[])[0].ends_with("shop.odm is valid"));
    assert_eq!(
        shop.json("validate", &[]),
        [json!({ "valid": true, "problem": null })]
    );
    let copy = shop.path("copy.odm");
    let copied = shop.json("backup", &[copy.to_str().unwrap()]).remove(0);
    assert_eq!(copied["bytes"], copy.metadata().unwrap().len());
    let copy = Database::open(&copy).unwrap();
    assert_eq!(copy.count("orders", &Count::default()).unwrap(), 2_500);
}

#[test]
fn compact_shrinks_the_file() {
    let shop = Shop::new();
    let database = Database::open(shop.file()).unwrap();
    for start in 0..20 {
        let ids = (0..1_000).map(|id| start * 1_000 + id);
        let documents = ids.map(|id| bson::rawdoc! { "_id": id, "text": "x".repeat(1_000) });
        crate::insert(&database, "large", documents.collect());
    }
    let delete = Delete {
        multi: true,
        ..Delete::default()
    };
    database.delete("large", &delete).unwrap();
    database.close();
    let report = shop.json("compact", &[]).remove(0);
    let (before, after) = (
        report["bytesBefore"].as_u64().unwrap(),
        report["bytesAfter"].as_u64().unwrap(),
    );
    assert!(after * 3 < before, "{report}");
    assert_eq!(shop.file().metadata().unwrap().len(), after);
    assert_eq!(shop.lines("count", &["orders"]), ["2500"]);
    assert!(shop.lines("compact", &[])[0].contains(" after"));
}

#[test]
fn reads_leave_the_file_unchanged() {
    let shop = Shop::new();
    let before = fs::read(shop.file()).unwrap();
    let directory = shop.path("dump");
    for (command, arguments) in [
        ("stats", vec![]),
        ("validate", vec![]),
        ("find", vec!["people"]),
        ("dump", vec![directory.to_str().unwrap()]),
        ("export", vec!["orders"]),
    ] {
        assert_success(&shop.run(command, &arguments));
        assert!(fs::read(shop.file()).unwrap() == before, "{command}");
    }
}

/// The program ends without an error when the reader of a pipe has seen enough.
#[test]
fn a_closed_pipe_ends_the_output() {
    let shop = Shop::new();
    // More than the buffer of a pipe.
    let database = Database::open(shop.file()).unwrap();
    let orders = (2_500..10_000).map(|id| bson::rawdoc! { "_id": id, "n": 0 });
    crate::insert(&database, "orders", orders.collect());
    database.close();
    for (arguments, line) in [
        (vec!["find", "orders"], "{\"_id\":0,\"n\":0}\n"),
        (
            vec!["export", "orders", "--format", "csv", "--fields", "_id,n"],
            "_id,n\n",
        ),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_odm"));
        program
            .arg(arguments[0])
            .arg(shop.file())
            .args(&arguments[1..]);
        let mut child = program
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap())
            .read_line(&mut first)
            .unwrap();
        assert_eq!(first, line);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert!(output.status.success());
    }
}

#[test]
fn help_and_version() {
    for argument in ["--help", "--version"] {
        let output = Command::new(env!("CARGO_BIN_EXE_odm"))
            .arg(argument)
            .output()
            .unwrap();
        assert_success(&output);
        assert!(String::from_utf8(output.stdout).unwrap().contains("odm"));
    }
}

//! The commands of `shop_admin`, with their exit codes.

use std::path::Path;
use std::process::{Command, Output};

use odm::backend::operation::{DocumentChange, UpdateOperation};
use odm::bson::{RawDocumentBuf, rawdoc};
use odm::prelude::*;
use odm::transfer::insert_verbatim;
use odm_examples::shop::{Basket, Maker, NewMaker, NewProduct, Product, Shop};

type Db = odm::Database<Shop>;

/// A shop in a file.
struct File {
    directory: tempfile::TempDir,
}

impl File {
    async fn new() -> Self {
        let file = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let db = file.open().await;
        db.insert(NewMaker {
            id: 1,
            name: "Acme".into(),
        })
        .await
        .unwrap();
        for id in 1..=3 {
            let title = format!("Product {id}");
            db.insert(NewProduct {
                id,
                title,
                maker: Ref::new(1),
                cents: 500,
            })
            .await
            .unwrap();
        }
        let entries: Overflow<String> = (0..10).map(|entry| entry.to_string()).collect();
        db.insert(Basket { id: 1, entries }).await.unwrap();
        // `close` leaves background work pending.
        db.wait_for_pending().await.unwrap();
        db.close().await.unwrap();
        file
    }

    fn url(&self) -> String {
        format!("odm:{}", self.directory.path().join("shop.odm").display())
    }

    async fn open(&self) -> Db {
        Db::open(self.url()).await.unwrap()
    }

    /// Writes without the maintenance of derived data.
    async fn update(&self, collection: &'static str, id: i64, change: RawDocumentBuf) {
        let db = self.open().await;
        let update = UpdateOperation {
            collection: collection.into(),
            filter: rawdoc! { "_id": id },
            change: DocumentChange::operators(change),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        assert_eq!(db.backend().update(update).await.unwrap().matched, 1);
        db.close().await.unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop_admin"));
        command.env("DATABASE_URL", self.url());
        command.args(arguments).output().unwrap()
    }

    /// Runs a command, and returns the output and the exit code.
    fn text(&self, arguments: &[&str]) -> (String, i32) {
        let output = self.run(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        (text, output.status.code().unwrap())
    }

    fn json(&self, arguments: &[&str]) -> (Vec<serde_json::Value>, i32) {
        let (text, code) = self.text(&[arguments, &["--json"]].concat());
        let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
        (values.collect(), code)
    }
}

#[tokio::test]
async fn a_check_and_a_repair_have_exit_codes() {
    let file = File::new().await;
    let (text, code) = file.text(&["check"]);
    assert_eq!(
        (text.trim(), code),
        ("5 documents, 3 references: no findings", 0)
    );

    file.update("products", 2, rawdoc! { "$set": { "maker_name": "Other" } })
        .await;
    let (values, code) = file.json(&["check"]);
    assert_eq!(code, 1);
    assert_eq!(values[0]["findings"][0]["path"], "maker_name");
    let (text, code) = file.text(&["repair", "--dry-run"]);
    assert_eq!(code, 1);
    assert!(text.contains("1 can be repaired"), "{text}");
    assert_eq!(file.text(&["check"]).1, 1, "the dry run has written");
    assert_eq!(file.text(&["repair"]).1, 0);
    assert_eq!(file.text(&["check"]).1, 0);
    assert_eq!(
        file.open()
            .await
            .get::<Product>(2)
            .await
            .unwrap()
            .maker_name,
        "Acme"
    );
}

#[tokio::test]
async fn indexes_are_planned_created_and_dropped() {
    let file = File::new().await;
    let (planned, code) = file.json(&["sync-indexes", "--dry-run"]);
    assert_eq!(code, 0);
    let created = planned[0]["created"].as_array().unwrap();
    assert!(
        created.iter().any(|index| index == "products.title_1"),
        "{created:?}"
    );
    let db = file.open().await;
    assert!(
        db.backend()
            .list_indexes("products")
            .await
            .unwrap()
            .is_empty()
    );
    db.close().await.unwrap();
    let (done, code) = file.json(&["sync-indexes"]);
    assert_eq!((&done[0]["created"], code), (&planned[0]["created"], 0));
    assert_eq!(
        file.json(&["sync-indexes"]).0[0]["created"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
}

#[tokio::test]
async fn outdated_documents_are_counted_and_upgraded() {
    let file = File::new().await;
    let change =
        rawdoc! { "$set": { "price": 7_i64 }, "$unset": { "_odm.schema_version": 1, "cents": 1 } };
    file.update("products", 3, change).await;
    let (outdated, code) = file.json(&["upgrade", "--dry-run"]);
    assert_eq!((outdated[0]["outdated"].as_i64(), code), (Some(1), 0));
    let (upgraded, code) = file.json(&["upgrade"]);
    assert_eq!((upgraded[0]["upgraded"].as_i64(), code), (Some(1), 0));
    assert_eq!(file.json(&["upgrade", "--dry-run"]).0[0]["outdated"], 0);
    assert_eq!(
        file.open().await.get::<Product>(3).await.unwrap().cents,
        700
    );
}

#[tokio::test]
async fn pending_work_is_printed_and_completed() {
    let file = File::new().await;
    assert_eq!(file.text(&["pending"]).1, 0);
    let lease = DateTime::from_millis(0);
    let token = ObjectId::new();
    let work = rawdoc! { "$set": { "_odm.pending.recompute": { "token": token, "lease": lease }, "products": 9_i64 } };
    file.update("makers", 1, work).await;
    let (pending, code) = file.json(&["pending"]);
    assert_eq!((pending[0][0]["recomputes"].as_i64(), code), (Some(1), 1));
    assert_eq!(file.text(&["run-pending", "--dry-run"]).1, 0);
    assert_eq!(file.text(&["pending"]).1, 1, "the dry run has written");
    let (text, code) = file.text(&["run-pending"]);
    assert_eq!(
        (text.trim(), code),
        ("completed the pending work of 1 documents", 0)
    );
    assert_eq!(file.text(&["pending"]).1, 0);
    assert_eq!(file.open().await.get::<Maker>(1).await.unwrap().products, 3);
}

#[tokio::test]
async fn new_derived_fields_are_filled() {
    let file = File::new().await;
    // A product of a program without the copy.
    let db = file.open().await;
    let product = rawdoc! { "_id": 9_i64, "title": "old", "maker": 1_i64, "maker_name": "", "cents": 1_i64, "_odm": { "schema_version": 2_i64 } };
    let inserted = insert_verbatim(&db, "products", vec![product]).await;
    inserted.unwrap();
    db.backend().drop_collection("_odm.schema").await.unwrap();
    db.close().await.unwrap();
    let (fields, code) = file.json(&["backfill", "--dry-run"]);
    assert_eq!(code, 1);
    assert!(
        fields.iter().any(|field| field["model"] == "Product"),
        "{fields:?}"
    );
    assert_eq!(file.text(&["backfill"]).1, 0);
    assert_eq!(file.text(&["backfill", "--dry-run"]), (String::new(), 0));
    assert_eq!(
        file.open()
            .await
            .get::<Product>(9)
            .await
            .unwrap()
            .maker_name,
        "Acme"
    );
}

#[tokio::test]
async fn lengths_and_a_proposal_are_printed() {
    let file = File::new().await;
    let (lengths, code) = file.json(&["arrays"]);
    assert_eq!((lengths.len(), code), (1, 0));
    assert_eq!(
        (&lengths[0]["model"], &lengths[0]["proposal"]),
        (&"Basket".into(), &10.into())
    );
    let (text, _) = file.text(&["arrays"]);
    assert!(
        text.contains("Basket: entries: 1 documents, overflows after 3"),
        "{text}"
    );
}

#[tokio::test]
async fn the_models_are_drawn() {
    let file = File::new().await;
    let (mermaid, code) = file.text(&["diagram"]);
    assert_eq!(code, 0);
    for line in [
        "erDiagram",
        "    Product }o--|| Maker : \"maker (restrict)\"",
        "    Product }o..|| Maker : \"copy maker_name of name\"",
        "    Maker }o..|| Product : \"rollup products\"",
        "        managed maker_name",
        "        field title",
    ] {
        assert!(
            mermaid.lines().any(|found| found == line),
            "{line}: {mermaid}"
        );
    }
    let (svg, code) = file.text(&["diagram", "--svg"]);
    assert_eq!(code, 0);
    assert!(
        svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"),
        "{svg}"
    );
    assert_eq!(svg.matches("<rect").count(), 3);
    assert_eq!(svg.matches("marker-end").count(), 3);
}

#[tokio::test]
async fn the_models_have_a_json_schema() {
    let file = File::new().await;
    let (schemas, code) = file.json(&["schema"]);
    assert_eq!(code, 0);
    assert_eq!(
        schemas[0]["Product"]["properties"]["cents"]["type"],
        "integer"
    );
    assert!(schemas[0]["Basket"].is_object() && schemas[0]["Maker"].is_object());
}

#[tokio::test]
async fn wrong_calls_have_exit_codes() {
    let file = File::new().await;
    assert_eq!(file.text(&["unknown"]).1, 2);
    assert_eq!(file.text(&["check", "--database", "nowhere:x"]).1, 2);
    assert_eq!(
        file.text(&["check", "--database", "odm:missing/folder/x.odm"])
            .1,
        3
    );
    assert!(!Path::new("missing").exists());
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop_admin"));
    let output = command
        .arg("check")
        .env_remove("DATABASE_URL")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    // The commands without models are part of the program.
    let path = file.directory.path().join("shop.odm");
    let (collections, code) = file.text(&["collections", path.to_str().unwrap()]);
    assert_eq!(code, 0);
    assert!(
        collections.lines().any(|name| name == "products"),
        "{collections}"
    );
    let db = file.open().await;
    assert_eq!(file.text(&["check"]).1, 3, "the file is in use");
    db.close().await.unwrap();
}

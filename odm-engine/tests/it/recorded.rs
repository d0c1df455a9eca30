//! Recorded answers of MongoDB 6.0.5 to single operations. Each test runs the cases of one kind: the lines of
//! `fixtures/recorded.jsonl` with that kind.

use std::collections::BTreeMap;
use std::path::Path;

use bson::{Bson, Document, RawDocumentBuf};
use odm_engine::{
    Aggregate, Database, DropIndexes, Error, Find, FindAndModify, Index, Modification, Result,
    Update,
};
use serde_json::{Map, Value, json};

/// The collection of a case.
const COLLECTION: &str = "c";

/// Runs all cases of a kind, and fails with a list of wrong answers.
fn check(kind: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/recorded.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let cases: Vec<Value> = lines.filter(|case: &Value| case["kind"] == kind).collect();
    assert!(!cases.is_empty(), "no case is of the kind {kind}");
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    let (failed, all) = (failures.len(), cases.len());
    assert!(
        failures.is_empty(),
        "{failed} of {all} cases of the kind {kind} fail:\n{}",
        failures.join("\n")
    );
}

/// Returns the difference between the engine's answer and the recorded answer.
fn failure(case: &Value) -> Option<String> {
    let database = Database::memory();
    let is_raw = case["raw"] == true;
    let prepared = prepare(&database, case);
    let mut actual = match prepared.and_then(|()| run(&database, case, is_raw)) {
        Ok(answer) => answer,
        Err(error) => Map::from_iter([(
            "code".into(),
            error.code().map_or_else(
                || Value::from(format!("not supported: {}", error.message())),
                Value::from,
            ),
        )]),
    };
    let expected = case["expect"].as_object().unwrap();
    if expected.contains_key("after") {
        let documents = all(&database, is_raw);
        actual.insert("after".into(), documents);
    }
    if expected.contains_key("indexes") {
        let indexes = database.list_indexes(COLLECTION).unwrap();
        let index_documents = indexes.iter().map(|index| json_of(&index.to_document()));
        actual.insert("indexes".into(), index_documents.collect());
    }
    let expected: BTreeMap<_, _> = expected
        .iter()
        .filter(|(name, _)| *name != "msg")
        .map(|(name, value)| (name.clone(), without_ids(value)))
        .collect();
    let actual: BTreeMap<_, _> = actual
        .iter()
        .map(|(name, value)| (name.clone(), without_ids(value)))
        .collect();
    let print = |answer: &BTreeMap<String, Value>| serde_json::to_string(answer).unwrap();
    // Compare as text, because equality of JSON objects ignores the order of fields.
    (print(&expected) != print(&actual)).then(|| {
        let request = json!({ "op": case["op"], "docs": case["docs"], "args": case["args"], "indexes": case["indexes"], "msg": case["expect"]["msg"] });
        format!("{request}\n  mongod: {}\n  engine: {}", print(&expected), print(&actual))
    })
}

fn prepare(database: &Database, case: &Value) -> Result<()> {
    if case["exists"] != false {
        database.create_collection(COLLECTION)?;
    }
    create_indexes(database, &case["indexes"])?;
    database
        .insert(COLLECTION, documents(&case["docs"]))?
        .into_result()?;
    for (name, other_documents) in case["others"].as_object().into_iter().flatten() {
        database
            .insert(name, documents(other_documents))?
            .into_result()?;
    }
    Ok(())
}

fn create_indexes(database: &Database, indexes: &Value) -> Result<()> {
    let indexes = documents(indexes);
    let indexes = indexes.iter().map(|index| Index::from_document(index));
    let indexes = indexes.collect::<Result<Vec<_>>>()?;
    match indexes.is_empty() {
        true => Ok(()),
        false => database.create_indexes(COLLECTION, &indexes),
    }
}

/// Runs the operation of a case. Returns the answer in the form of the recorded answers.
fn run(database: &Database, case: &Value, is_raw: bool) -> Result<Map<String, Value>> {
    let args = &case["args"];
    let mut answer = Map::new();
    let flag = |name: &str| args[name] == true;
    match case["op"].as_str().unwrap() {
        "find" => {
            let find = Find {
                filter: document(&args["filter"]).unwrap_or_default(),
                projection: document(&args["projection"]),
                sort: document(&args["sort"]),
                ..Find::default()
            };
            let results = database.find(COLLECTION, &find)?;
            answer.insert("docs".into(), listed(results, is_raw)?);
        }
        "aggregate" => {
            let aggregate = Aggregate {
                pipeline: documents(&args["pipeline"]),
                ..Aggregate::default()
            };
            let results = database.aggregate(COLLECTION, &aggregate)?;
            answer.insert("docs".into(), listed(results, is_raw)?);
        }
        "distinct" => {
            let key = args["key"].as_str().unwrap();
            let values = database.distinct(COLLECTION, key, &RawDocumentBuf::new())?;
            let values = values
                .into_iter()
                .map(|value| Bson::try_from(value).unwrap());
            let values = values.map(Bson::into_canonical_extjson);
            answer.insert("values".into(), values.collect());
        }
        "insert" => {
            let report = match args["ordered"] == false {
                true => database.insert_unordered(COLLECTION, documents(&args["documents"]))?,
                false => database.insert(COLLECTION, documents(&args["documents"]))?,
            };
            report.into_result()?;
        }
        "update" => {
            let (update, pipeline) = changes(&args["update"]);
            let update = Update {
                filter: document(&args["filter"]).unwrap_or_default(),
                update,
                pipeline,
                array_filters: documents(&args["arrayFilters"]),
                multi: flag("multi"),
                upsert: flag("upsert"),
                ..Update::default()
            };
            let report = database.update(COLLECTION, &update)?;
            report.failure.map_or(Ok(()), Err::<(), Error>)?;
            answer.insert("matched".into(), report.matched.into());
            answer.insert("modified".into(), report.modified.into());
        }
        "findAndModify" => {
            let (update, pipeline) = changes(&args["update"]);
            let modify = FindAndModify {
                filter: document(&args["filter"]).unwrap_or_default(),
                sort: document(&args["sort"]),
                projection: document(&args["fields"]),
                modification: Modification::Update {
                    update,
                    pipeline,
                    array_filters: Vec::new(),
                    upsert: flag("upsert"),
                    return_new: flag("new"),
                },
                variables: RawDocumentBuf::new(),
                collation: None,
                hint: None,
            };
            let report = database.find_and_modify(COLLECTION, &modify)?;
            let value = report.document.map(|document| json_of(&document));
            answer.insert("value".into(), value.unwrap_or_default());
        }
        "createIndexes" => create_indexes(database, &args["indexes"])?,
        "dropIndexes" => {
            let index = match &args["index"] {
                Value::String(all) if all == "*" => DropIndexes::All,
                Value::String(name) => DropIndexes::Named(vec![name.clone()]),
                Value::Array(names) => {
                    let names = names.iter().filter_map(Value::as_str);
                    DropIndexes::Named(names.map(str::to_owned).collect())
                }
                key => DropIndexes::Keyed(document(key).unwrap()),
            };
            database.drop_indexes(COLLECTION, &index)?;
        }
        other => panic!("a case has the operation {other}"),
    }
    Ok(answer)
}

fn changes(update: &Value) -> (RawDocumentBuf, Option<Vec<RawDocumentBuf>>) {
    match update {
        Value::Array(_) => (RawDocumentBuf::new(), Some(documents(update))),
        update => (document(update).unwrap(), None),
    }
}

fn all(database: &Database, is_raw: bool) -> Value {
    let documents = database.find(COLLECTION, &Find::default()).unwrap();
    listed(documents, is_raw).unwrap()
}

fn listed(documents: odm_engine::Cursor, is_raw: bool) -> Result<Value> {
    let fields = documents.map(|document| {
        let document = document?;
        Ok(match is_raw {
            true => hex(document.as_bytes()).into(),
            false => json_of(&document),
        })
    });
    fields.collect()
}

/// Returns the documents of an array, or an empty list if the array is missing.
fn documents(array: &Value) -> Vec<RawDocumentBuf> {
    let items = array.as_array().into_iter().flatten();
    items.map(|item| document(item).unwrap()).collect()
}

/// Parses a document, also from raw bytes: `{ "$bson": "0500000000" }`.
fn document(value: &Value) -> Option<RawDocumentBuf> {
    let fields = value.as_object()?;
    if let Some(bytes) = fields.get("$bson") {
        let bytes = unhex(bytes.as_str().unwrap());
        return Some(RawDocumentBuf::from_bytes(bytes).unwrap());
    }
    let mut command = RawDocumentBuf::new();
    for (name, value) in fields {
        let name = bson::raw::CString::try_from(name.as_str()).unwrap();
        match value.as_object() {
            Some(inner) if inner.contains_key("$bson") => {
                command.append(&name, document(value).unwrap());
            }
            _ => {
                let value = Bson::try_from(value.clone()).unwrap();
                command.append(&name, bson::RawBson::try_from(value).unwrap());
            }
        }
    }
    Some(command)
}

fn json_of(document: &RawDocumentBuf) -> Value {
    Bson::from(Document::try_from(document).unwrap()).into_canonical_extjson()
}

/// Replaces each generated id by a fixed text.
fn without_ids(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(without_ids).collect(),
        Value::Object(fields) if fields.contains_key("$oid") => "generated".into(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), without_ids(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .map(|digit| digit.to_digit(16).unwrap())
        .collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn regular_expressions_are_read_as_pcre_reads_them() {
    check("regex");
}

#[test]
fn the_filter_of_a_partial_index_takes_the_operators_of_the_server() {
    check("partial filter");
}

#[test]
fn an_upsert_accepts_or_rejects_ids_of_its_filter() {
    check("upsert");
}

#[test]
fn accumulators_are_checked_in_the_order_of_the_server() {
    check("group");
}

#[test]
fn malformed_stages_have_their_codes_in_every_pipeline() {
    check("stages");
}

#[test]
fn names_and_keys_of_indexes_have_their_codes() {
    check("index names");
}

#[test]
fn repeated_field_names_are_accepted_or_rejected() {
    check("repeated names");
}

#[test]
fn a_number_with_a_leading_zero_is_a_name() {
    check("leading zeros");
}

#[test]
fn the_positional_operator_follows_the_order_of_conditions() {
    check("positions");
}

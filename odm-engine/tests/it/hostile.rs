//! Malicious input must be handled in bounded time and memory, with a clear error.
//!
//! Each test takes seconds. If the time grew with the square of the input, a test would take many minutes, and [`within`] would
//! fail it.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};
use odm_engine::{
    Aggregate, Count, Database, Delete, Direction, Error, Find, FindEach, Index, Result, Update,
    UpdateReport,
};

use crate::{all, find};

/// Far longer than each test takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a test, and fails if the test exceeds the time limit.
fn within(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = sender.send(());
    });
    match receiver.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => panic!("it takes too long"),
        _ => thread.join().unwrap(),
    }
}

/// Returns `{ name: value }` for a name known only at run time.
fn field(name: &str, value: impl bson::raw::BindRawBsonRef) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(CString::try_from(name).unwrap(), value);
    document
}

/// Returns `{ f0: value, f1: value, … }`.
fn fields(count: usize, value: impl Fn(usize) -> RawBson) -> RawDocumentBuf {
    prefixed("f", count, value)
}

fn prefixed(prefix: &str, count: usize, value: impl Fn(usize) -> RawBson) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for n in 0..count {
        let name = CString::try_from(format!("{prefix}{n}")).unwrap();
        document.append(name, value(n));
    }
    document
}

fn one(_: usize) -> RawBson {
    RawBson::Int32(1)
}

/// Returns an array of small numbers.
fn numbers(count: i32) -> RawArrayBuf {
    (0..count).collect()
}

/// Returns nested documents with one name. The bytes are written directly, because building level by level would copy all inner
/// levels.
fn nested(name: &str, depth: usize) -> RawDocumentBuf {
    let overhead = 4 + 1 + name.len() + 1 + 1;
    let mut bytes = Vec::new();
    for level in (0..depth).rev() {
        let length = i32::try_from(5 + (level + 1) * overhead).unwrap();
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.push(0x03);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    bytes.extend_from_slice(&[5, 0, 0, 0, 0]);
    bytes.resize(bytes.len() + depth, 0);
    RawDocumentBuf::from_bytes(bytes).unwrap()
}

fn database(documents: impl IntoIterator<Item = RawDocumentBuf>) -> Database {
    let database = Database::memory();
    let documents = documents.into_iter().collect();
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    database
}

fn insert(database: &Database, document: RawDocumentBuf) -> Result<()> {
    database
        .insert("c", vec![document])?
        .into_result()
        .map(drop)
}

fn query(database: &Database, find: &Find) -> Result<Vec<RawDocumentBuf>> {
    database.find("c", find)?.collect()
}

fn count(database: &Database, filter: &RawDocumentBuf) -> Result<u64> {
    let count = Count {
        filter: filter.clone(),
        ..Count::default()
    };
    database.count("c", &count)
}

fn filter(filter: RawDocumentBuf) -> Find {
    Find {
        filter,
        ..Find::default()
    }
}

fn change(database: &Database, update: RawDocumentBuf) -> Result<UpdateReport> {
    let update = Update {
        update,
        ..Update::default()
    };
    database.update("c", &update)
}

fn index(database: &Database, path: &str) {
    let index = Index::new([(path, Direction::Ascending)]);
    database.create_indexes("c", &[index]).unwrap();
}

fn code<T>(result: Result<T>) -> Option<i32> {
    result.err().as_ref().and_then(Error::code)
}

#[test]
fn ten_thousand_levels_are_refused_everywhere() {
    within(|| {
        let deep = nested("a", 10_000);
        let database = database([rawdoc! { "_id": 1, "a": [{ "a": 1 }] }]);
        index(&database, "a.a");
        assert_eq!(code(insert(&database, deep.clone())), Some(15));
        assert_eq!(code(query(&database, &filter(deep.clone()))), Some(15));
        assert_eq!(
            code(query(&database, &filter(nested("$nor", 10_000)))),
            Some(15)
        );
        assert_eq!(
            code(query(
                &database,
                &filter(field("a", nested("$not", 10_000)))
            )),
            Some(15)
        );
        assert_eq!(
            code(query(
                &database,
                &filter(field("a", nested("$elemMatch", 10_000)))
            )),
            Some(15)
        );
        assert_eq!(code(count(&database, &deep)), Some(15));
        assert_eq!(code(database.distinct("c", "a", &deep)), Some(15));
        let delete = Delete {
            filter: deep.clone(),
            multi: true,
            ..Delete::default()
        };
        assert_eq!(code(database.delete("c", &delete)), Some(15));
        let find = Find {
            projection: Some(deep.clone()),
            ..Find::default()
        };
        assert_eq!(code(query(&database, &find)), Some(15));
        let find = Find {
            projection: Some(field("a", nested("$elemMatch", 10_000))),
            ..Find::default()
        };
        assert_eq!(code(query(&database, &find)), Some(15));
        let find = Find {
            sort: Some(deep.clone()),
            ..Find::default()
        };
        assert_eq!(code(query(&database, &find)), Some(15));
        assert_eq!(code(change(&database, deep.clone())), Some(15));
        for operator in [
            "$set",
            "$push",
            "$pull",
            "$addToSet",
            "$min",
            "$setOnInsert",
        ] {
            let update = field(operator, rawdoc! { "b": deep.clone() });
            assert_eq!(code(change(&database, update)), Some(15));
        }
        let update = Update {
            update: rawdoc! { "$set": { "a.$[x].a": 1 } },
            array_filters: vec![field("x", deep.clone())],
            ..Update::default()
        };
        assert_eq!(code(database.update("c", &update)), Some(15));
        let partial = Index::new([("b", Direction::Ascending)]).partial(deep.clone());
        assert!(database.create_indexes("c", &[partial]).is_err());
        let each = FindEach {
            path: "a".into(),
            keys: vec![RawBson::Document(deep)],
            ..FindEach::default()
        };
        assert_eq!(code(database.find_each("c", &each)), Some(15));
        assert_eq!(
            all(&database, "c"),
            [rawdoc! { "_id": 1, "a": [{ "a": 1 }] }]
        );
    });
}

#[test]
fn paths_are_limited_to_the_nesting_depth() {
    within(|| {
        let database = database([rawdoc! { "_id": 1, "a": 1 }]);
        let path = vec!["a"; 10_000].join(".");
        assert_eq!(query(&database, &filter(field(&path, 1))).unwrap().len(), 0);
        assert_eq!(
            code(change(&database, field("$set", field(&path, 1)))),
            Some(15)
        );
        let find = Find {
            sort: Some(field(&path, 1)),
            ..Find::default()
        };
        assert_eq!(code(query(&database, &find)), Some(15));
        let find = Find {
            projection: Some(field(&path, 1)),
            ..Find::default()
        };
        assert_eq!(code(query(&database, &find)), Some(15));
        let upsert = Update {
            filter: field(&path, 1),
            update: rawdoc! { "$set": { "b": 1 } },
            upsert: true,
            ..Update::default()
        };
        assert_eq!(code(database.update("c", &upsert)), Some(15));
        let index = Index::new([(path.as_str(), Direction::Ascending)]);
        let _ = database.create_indexes("c", &[index]);
        insert(&database, nested("a", 170)).unwrap();
        database.validate().unwrap();
        assert_eq!(database.distinct("c", &path, &rawdoc! {}).unwrap(), []);
    });
}

#[test]
fn a_path_of_positions_visits_each_array_once() {
    within(|| {
        let mut document = rawdoc! { "0": 7 };
        for _ in 0..80 {
            document = rawdoc! { "0": [document] };
        }
        let database = database([rawdoc! { "_id": 1, "a": [document] }]);
        for length in [20, 82, 100, 140, 170] {
            let path = format!("a{}", ".0".repeat(length));
            let _ = find(&database, "c", field(&path, 7));
            let _ = database.distinct("c", &path, &rawdoc! {}).unwrap();
            let find = Find {
                sort: Some(field(&path, 1)),
                ..Find::default()
            };
            let _ = query(&database, &find);
        }
    });
}

#[test]
fn documents_are_limited_to_sixteen_mebibytes() {
    const MAX: usize = 16 << 20;
    within(|| {
        let database = Database::memory();
        let overhead = rawdoc! { "_id": 1, "a": "" }.as_bytes().len();
        let sized = |id: i32, size: usize| rawdoc! { "_id": id, "a": "x".repeat(size - overhead) };
        insert(&database, sized(1, MAX)).unwrap();
        assert_eq!(code(insert(&database, sized(2, MAX + 1))), Some(2));
        assert_eq!(code(insert(&database, sized(2, 2 * MAX))), Some(10334));
        assert_eq!(
            code(change(&database, rawdoc! { "$set": { "b": 1 } })),
            Some(17419)
        );
        assert_eq!(
            code(change(
                &database,
                rawdoc! { "$set": { "b": "x".repeat(MAX) } }
            )),
            Some(10334)
        );
        let upsert = Update {
            filter: rawdoc! { "_id": 3 },
            update: rawdoc! { "$set": { "a": "x".repeat(MAX) } },
            upsert: true,
            ..Update::default()
        };
        assert_eq!(code(database.update("c", &upsert)), Some(17420));
        assert_eq!(all(&database, "c"), [sized(1, MAX)]);
        database.validate().unwrap();
    });
}

#[test]
fn arrays_are_limited_to_a_million_elements() {
    within(|| {
        let database = database([rawdoc! { "_id": 1, "a": numbers(1_000_000) }]);
        assert_eq!(find(&database, "c", rawdoc! { "a": 999_999 }).len(), 1);
        let last = rawdoc! { "a.999999": 999_999 };
        assert_eq!(find(&database, "c", last).len(), 1);
        let sliced_push =
            rawdoc! { "$push": { "a": { "$each": numbers(1_000_000), "$slice": 1 } } };
        let _ = change(&database, sliced_push).unwrap();
        assert_eq!(all(&database, "c"), [rawdoc! { "_id": 1, "a": [0] }]);
    });
}

#[test]
fn arrays_are_changed_with_large_arrays() {
    within(|| {
        let database = database([rawdoc! { "_id": 1 }]);
        index(&database, "b");
        let each = |count| rawdoc! { "$each": numbers(count) };
        for update in [
            rawdoc! { "$push": { "a": { "$each": numbers(200_000), "$sort": -1 } } },
            rawdoc! { "$addToSet": { "a": each(200_000), "b": each(100_000) } },
            rawdoc! { "$inc": { "a.$[]": 1 } },
            rawdoc! { "$pullAll": { "a": numbers(200_000) } },
            rawdoc! { "$pull": { "b": { "$in": numbers(100_000) } } },
        ] {
            let _ = change(&database, update).unwrap();
        }
        let expected = rawdoc! { "_id": 1, "a": [200_000], "b": [] };
        assert_eq!(all(&database, "c"), [expected]);
        database.validate().unwrap();
    });
}

#[test]
fn a_gap_in_an_array_is_filled_within_limits() {
    within(|| {
        let database = database([rawdoc! { "_id": 1, "a": [] }]);
        assert_eq!(
            code(change(&database, rawdoc! { "$set": { "a.1000000000": 1 } })),
            Some(34)
        );
        assert_eq!(
            code(change(
                &database,
                rawdoc! { "$set": { "a.18446744073709551615": 1 } }
            )),
            Some(34)
        );
        assert_eq!(
            code(change(
                &database,
                rawdoc! { "$set": { "a.1400000": 1, "a.2800000": 1 } }
            )),
            Some(10334)
        );
        // One array has its own limit. All arrays together are limited by the size in bytes.
        let _ = change(
            &database,
            field("$set", fields(100, |_| RawBson::Array(RawArrayBuf::new()))),
        )
        .unwrap();
        let gaps = (0..100).map(|n| (CString::try_from(format!("f{n}.1400000")).unwrap(), 1));
        let gaps: RawDocumentBuf = gaps.collect();
        assert_eq!(code(change(&database, field("$set", gaps))), Some(13548));
    });
}

#[test]
fn an_update_has_a_limit_on_multiplied_values() {
    within(|| {
        let arrays: RawArrayBuf = (0..1000).map(|_| RawArrayBuf::new()).collect();
        let database = database([rawdoc! { "_id": 1, "a": arrays, "b": numbers(1000) }]);
        let long = || "x".repeat(1_000_000);
        let sliced_push = rawdoc! { "$each": [long()], "$slice": 0 };
        for update in [
            rawdoc! { "$set": { "b.$[]": long() } },
            rawdoc! { "$max": { "b.$[]": long() } },
            rawdoc! { "$push": { "a.$[]": long() } },
            rawdoc! { "$push": { "a.$[]": sliced_push } },
            rawdoc! { "$addToSet": { "a.$[]": long() } },
        ] {
            assert_eq!(
                code(change(&database, update.clone())),
                Some(13548),
                "{update:?}"
            );
        }
        let fields = (0..10_000).map(|n| (CString::try_from(format!("b.$[].f{n}")).unwrap(), 1));
        let fields: RawDocumentBuf = fields.collect();
        assert_eq!(
            code(change(&database, field("$unset", fields))),
            Some(13548)
        );
    });
}

/// Returns the output of a pipeline over all documents of the collection.
fn aggregated(
    database: &Database,
    stages: impl IntoIterator<Item = RawDocumentBuf>,
) -> Result<Vec<RawDocumentBuf>> {
    let aggregate = Aggregate {
        pipeline: stages.into_iter().collect(),
        ..Aggregate::default()
    };
    database.aggregate("c", &aggregate)?.collect()
}

/// Returns an array with many copies of a value.
fn times(count: usize, value: impl Into<RawBson>) -> RawArrayBuf {
    std::iter::repeat_n(value.into(), count).collect()
}

#[test]
fn an_expression_has_a_limit_on_multiplied_values() {
    within(|| {
        let text = "x".repeat(8 << 20);
        let database = database([rawdoc! { "_id": 1, "s": text, "few": "x".repeat(100) }]);
        // Twenty copies of the text exceed the limit, and nineteen doublings exceed the limit by far.
        let single: RawArrayBuf = ["$s"].into_iter().collect();
        let groups = format!("{}x{{1000}}{}", "(".repeat(20), ")".repeat(20));
        let doubled = |operator: &str, first: RawBson| {
            let pair: RawArrayBuf = ["$$value", "$$value"].into_iter().collect();
            let body = match operator {
                "" => RawBson::Array(pair),
                operator => field(operator, pair).into(),
            };
            rawdoc! { "$reduce": { "input": { "$range": [0, 19] }, "initialValue": first, "in": body } }
        };
        let expressions: Vec<RawBson> = vec![
            times(20, "$s").into(),
            fields(20, |_| "$s".into()).into(),
            field("$concat", times(20, "$s")).into(),
            field("$concatArrays", times(20, single.clone())).into(),
            field("$setUnion", times(20, single.clone())).into(),
            field("$max", [times(10, "$s"), times(10, "$s")].into_iter().collect::<RawArrayBuf>()).into(),
            rawdoc! { "$map": { "input": { "$range": [0, 20] }, "in": "$s" } }.into(),
            rawdoc! { "$zip": { "inputs": times(20, single.clone()) } }.into(),
            rawdoc! { "$zip": {
                "inputs": [{ "$range": [0, 20] }, []], "useLongestLength": true, "defaults": [0, "$s"]
            } }
            .into(),
            rawdoc! { "$replaceAll": { "input": "$few", "find": "x", "replacement": "$s" } }.into(),
            rawdoc! { "$regexFindAll": { "input": "$s", "regex": groups } }.into(),
            doubled("$concat", "$s".into()).into(),
            doubled("$concatArrays", single.into()).into(),
            doubled("", "$s".into()).into(),
        ];
        for expression in expressions {
            let size = rawdoc! { "$set": { "size": { "$type": [expression.clone()] } } };
            let rejection = aggregated(&database, [size]);
            assert_eq!(code(rejection), Some(10334), "{expression:?}");
        }
        let stage = rawdoc! { "$set": fields(20, |_| "$s".into()) };
        assert_eq!(code(aggregated(&database, [stage])), Some(10334));
        let pair = rawdoc! { "$set": { "s": ["$s", "$s"] } };
        let doubled = aggregated(&database, vec![pair; 19]);
        assert_eq!(code(doubled), Some(10334));
        let joins = (0..20).map(|n| {
            let only = rawdoc! { "$project": { "s": 1 } };
            rawdoc! { "$lookup": { "from": "c", "pipeline": [only], "as": format!("joined{n}") } }
        });
        assert_eq!(code(aggregated(&database, joins)), Some(10334));
        // Ten copies of the text are within the limit.
        let ten = rawdoc! { "$project": { "_id": { "$size": [times(10, "$s")] } } };
        let documents = aggregated(&database, [ten]).unwrap();
        assert_eq!(documents, [rawdoc! { "_id": 10 }]);
    });
}

#[test]
fn stages_have_a_limit_on_nested_documents() {
    within(|| {
        let database = database([rawdoc! { "_id": 1, "a": 1 }]);
        let deeper = rawdoc! { "$set": { "a": { "a": { "a": { "a": "$a" } } } } };
        let grouped = rawdoc! { "$group": { "_id": 1, "a": { "$push": "$$ROOT" } } };
        for (stage, within_limits) in [(deeper, 66), (grouped, 99)] {
            let stages = |count| vec![stage.clone(); count];
            assert!(aggregated(&database, stages(within_limits)).is_ok());
            for count in [within_limits + 1, 1000] {
                let rejection = aggregated(&database, stages(count));
                assert_eq!(code(rejection), Some(15), "{count} {stage:?}");
            }
        }
    });
}

#[test]
fn index_keys_have_a_limit_on_multiplied_values() {
    within(|| {
        let database = Database::memory();
        let both = Index::new([("a", Direction::Ascending), ("b", Direction::Ascending)]);
        database.create_indexes("c", &[both]).unwrap();
        let document = rawdoc! { "_id": 1, "a": numbers(100_000), "b": "x".repeat(1_000_000) };
        assert_eq!(code(insert(&database, document)), Some(388));
        assert!(all(&database, "c").is_empty());
        database.validate().unwrap();
    });
}

#[test]
fn patterns_are_matched_without_backtracking() {
    within(|| {
        let database = database([rawdoc! { "_id": 1, "a": format!("{}!", "a".repeat(100_000)) }]);
        let count =
            |pattern: &str| query(&database, &filter(rawdoc! { "a": { "$regex": pattern } }));
        assert_eq!(count("(a+)+$").unwrap().len(), 0);
        assert_eq!(count("(a|aa)+$").unwrap().len(), 0);
        assert_eq!(count("(.*a){25}b").unwrap().len(), 0);
        assert_eq!(count("^(a?){100}a{100}").unwrap().len(), 1);
        // The pattern is too large, in its text or after compilation.
        assert_eq!(code(count(&"a".repeat(100_000))), Some(51091));
        assert_eq!(code(count("((a{1000}){1000}){1000}")), Some(51091));
        assert_eq!(code(count(&"(".repeat(30_000))), Some(51091));
        assert_eq!(code(count(&"[".repeat(30_000))), Some(51091));
        assert!(count(&"{".repeat(30_000)).is_ok());
        assert!(count(&"}".repeat(30_000)).is_ok());
        assert!(count(&"a{1".repeat(10_000)).is_ok());
        // Each pattern alone is within the limit, and all together exceed the limit.
        let large = |n| {
            RawBson::RegularExpression(bson::Regex {
                pattern: format!(r"(*UCP)\w{{40}}{n}").try_into().unwrap(),
                options: "".try_into().unwrap(),
            })
        };
        let patterns: RawArrayBuf = (0..1000).map(large).collect();
        let set = filter(rawdoc! { "a": { "$in": patterns } });
        assert_eq!(code(query(&database, &set)), Some(51091));
        let pulls = prefixed("f", 1000, large);
        assert_eq!(code(change(&database, field("$pull", pulls))), Some(51091));
    });
}

#[test]
fn a_set_has_two_hundred_thousand_values() {
    const SIZE: i32 = 200_000;
    within(|| {
        let documents = (0..100).map(|n| rawdoc! { "_id": n, "a": n, "b": n });
        let database = database(documents);
        index(&database, "b");
        let set = numbers(SIZE);
        for path in ["_id", "a", "b"] {
            let results = find(&database, "c", field(path, rawdoc! { "$in": set.clone() }));
            assert_eq!(results.len(), 100);
            let none = find(&database, "c", field(path, rawdoc! { "$nin": set.clone() }));
            assert!(none.is_empty());
        }
        // Two conditions on one field.
        let other_values: RawArrayBuf = (50..SIZE + 50).collect();
        let both = |path| {
            let membership = field(path, rawdoc! { "$in": set.clone() });
            let other = field(path, rawdoc! { "$in": other_values.clone() });
            rawdoc! { "$and": [membership, other] }
        };
        for path in ["_id", "a", "b"] {
            assert_eq!(find(&database, "c", both(path)).len(), 50);
        }
    });
}

#[test]
fn a_filter_has_a_hundred_thousand_branches() {
    within(|| {
        let database = database((0..10).map(|n| rawdoc! { "_id": n, "a": [n, n + 1], "b": n }));
        index(&database, "a");
        index(&database, "b");
        let branches = |condition: fn(i32) -> RawDocumentBuf| -> RawArrayBuf {
            (0..100_000).map(condition).collect()
        };
        let count = |filter| find(&database, "c", filter).len();
        assert_eq!(
            count(rawdoc! { "$or": branches(|n| rawdoc! { "b": n }) }),
            10
        );
        assert_eq!(
            count(rawdoc! { "$or": branches(|n| rawdoc! { "b": { "$gt": n } }) }),
            9
        );
        assert_eq!(
            count(rawdoc! { "$or": branches(|n| rawdoc! { "a": n, "b": n }) }),
            10
        );
        assert_eq!(
            count(rawdoc! { "$and": branches(|n| rawdoc! { "b": { "$gt": -n } }) }),
            9
        );
        assert_eq!(
            count(rawdoc! { "$and": branches(|n| rawdoc! { "a": { "$gt": -n } }) }),
            10
        );
        assert_eq!(
            count(rawdoc! { "$nor": branches(|n| rawdoc! { "b": { "$lt": -n } }) }),
            10
        );
        let elements = branches(|n| rawdoc! { "a": { "$elemMatch": { "$gt": -n } } });
        assert_eq!(count(rawdoc! { "$and": elements }), 10);
        assert_eq!(count(rawdoc! { "a": { "$all": numbers(100_000) } }), 0);
    });
}

#[test]
fn a_document_has_many_fields() {
    const COUNT: usize = 50_000;
    within(|| {
        let database = database([rawdoc! { "_id": 1 }]);
        let updated = |update: RawDocumentBuf| change(&database, update).unwrap().modified;
        assert_eq!(updated(field("$set", fields(COUNT, one))), 1);
        assert_eq!(updated(field("$inc", fields(COUNT, one))), 1);
        assert_eq!(updated(field("$set", prefixed("inner.f", COUNT, one))), 1);
        let both = Find {
            projection: Some(fields(COUNT, one)),
            ..Find::default()
        };
        assert_eq!(
            query(&database, &both).unwrap()[0].iter().count(),
            COUNT + 1
        );
        let inner = Find {
            projection: Some(prefixed("inner.f", COUNT, one)),
            ..Find::default()
        };
        assert_eq!(query(&database, &inner).unwrap()[0].iter().count(), 2);
        let exclusion = fields(COUNT, |_| RawBson::Int32(0));
        let exclusion = Find {
            projection: Some(exclusion),
            ..Find::default()
        };
        assert_eq!(query(&database, &exclusion).unwrap()[0].iter().count(), 2);
        let elements = fields(COUNT, |_| {
            RawBson::Document(rawdoc! { "$elemMatch": { "x": 1 } })
        });
        let elements = Find {
            projection: Some(elements),
            ..Find::default()
        };
        assert_eq!(query(&database, &elements).unwrap()[0].iter().count(), 1);
        let renames = fields(COUNT, |n| RawBson::String(format!("g{n}")));
        assert_eq!(updated(field("$rename", renames)), 1);
        assert_eq!(updated(field("$unset", prefixed("g", COUNT, one))), 1);
        assert_eq!(updated(field("$unset", prefixed("inner.f", COUNT, one))), 1);
        assert_eq!(all(&database, "c"), [rawdoc! { "_id": 1, "inner": {} }]);
        let sort = Find {
            sort: Some(fields(COUNT, one)),
            ..Find::default()
        };
        assert_eq!(code(query(&database, &sort)), Some(13103));
        let upsert = Update {
            filter: fields(COUNT, one),
            update: field("$set", prefixed("g", COUNT, one)),
            upsert: true,
            ..Update::default()
        };
        assert!(database.update("c", &upsert).unwrap().upserted_id.is_some());
    });
}

#[test]
fn names_and_paths_are_long() {
    within(|| {
        let long = "n".repeat(4_000_000);
        let database = database([field(&long, 1)]);
        assert_eq!(find(&database, "c", field(&long, 1)).len(), 1);
        // The name is stored once for all conditions. The first condition does not match.
        let mut conditions = RawDocumentBuf::new();
        for n in 0..100_000 {
            conditions.append(bson::raw::cstr!("$gt"), 5 - n);
        }
        assert_eq!(find(&database, "c", field(&long, conditions)).len(), 0);
        let _ = change(&database, field("$inc", field(&long, 1))).unwrap();
        assert_eq!(find(&database, "c", field(&long, 2)).len(), 1);
        assert_eq!(database.distinct("c", &long, &rawdoc! {}).unwrap().len(), 1);
    });
}

/// Documents with malformed BSON. Each document has a valid length and terminator.
fn malformed() -> Vec<RawDocumentBuf> {
    let regex_of = |inner: &[u8]| {
        let length = u8::try_from(inner.len() + 5).unwrap();
        let bytes = [&[length, 0, 0, 0], inner, &[0]].concat();
        RawDocumentBuf::from_bytes(bytes).unwrap()
    };
    vec![
        regex_of(b"\x10a\0\x01"),
        regex_of(b"\x10a"),
        regex_of(b"\x99a\0\x01\0\0\0"),
        regex_of(b"\x02a\0\xFF\xFF\xFF\x7Fx\0"),
        regex_of(b"\x02a\0\xFF\xFF\xFF\xFFx\0"),
        regex_of(b"\x02a\0\x00\0\0\0"),
        regex_of(b"\x02a\0\x02\0\0\0\xFF\0"),
        regex_of(b"\x03a\0\xFF\0\0\0\0"),
        regex_of(b"\x03a\0\x05\0\0\0\x01"),
        regex_of(b"\x04a\0\x00\0\0\0\0"),
        regex_of(b"\x05a\0\xFF\0\0\0\0"),
        regex_of(b"\x08a\0\x07"),
        regex_of(b"\x0Ba\0x"),
        regex_of(b"\x0Fa\0\xFF\0\0\0\0\0"),
        regex_of(b"\x10\xFF\0\x01\0\0\0"),
    ]
}

#[test]
fn malformed_bson_is_rejected_in_every_command() {
    within(|| {
        let kept = rawdoc! { "_id": 1, "a": [1] };
        let database = database([kept.clone()]);
        index(&database, "a");
        for document in malformed() {
            let codes = [
                code(insert(&database, document.clone())),
                code(query(&database, &filter(document.clone()))),
                code(query(
                    &database,
                    &Find {
                        projection: Some(document.clone()),
                        ..Find::default()
                    },
                )),
                code(query(
                    &database,
                    &Find {
                        sort: Some(document.clone()),
                        ..Find::default()
                    },
                )),
                code(count(&database, &document)),
                code(database.distinct("c", "a", &document)),
                code(database.delete(
                    "c",
                    &Delete {
                        filter: document.clone(),
                        multi: true,
                        ..Delete::default()
                    },
                )),
                code(change(&database, document.clone())),
                code(change(&database, rawdoc! { "$set": document.clone() })),
                code(change(
                    &database,
                    rawdoc! { "$set": { "b": document.clone() } },
                )),
                code(database.update(
                    "c",
                    &Update {
                        update: rawdoc! { "$set": { "a.$[x]": 1 } },
                        array_filters: vec![document.clone()],
                        ..Update::default()
                    },
                )),
                code(database.explain("c", &filter(document.clone()))),
                code(database.find_each(
                    "c",
                    &FindEach {
                        path: "a".into(),
                        keys: vec![RawBson::Int32(1)],
                        filter: document.clone(),
                        ..FindEach::default()
                    },
                )),
                code(Index::from_document(&document)),
                code(database.create_indexes(
                    "c",
                    &[Index::new([("b", Direction::Ascending)]).partial(document.clone())],
                )),
            ];
            let all_rejected = codes.iter().all(|code| *code == Some(22));
            assert!(all_rejected, "{:02x?}: {codes:?}", document.as_bytes());
        }
        assert_eq!(all(&database, "c"), [kept]);
        database.validate().unwrap();
    });
}

#[test]
fn paths_with_a_null_byte_are_rejected() {
    let database = database([rawdoc! { "_id": 1 }]);
    let each = FindEach {
        path: "a\0b".into(),
        keys: vec![RawBson::Int32(1)],
        ..FindEach::default()
    };
    assert_eq!(code(database.find_each("c", &each)), Some(31032));
    assert_eq!(
        code(database.distinct("c", "a\0b", &rawdoc! {})),
        Some(31032)
    );
    let index = Index::new([("a\0b", Direction::Ascending)]);
    assert!(database.create_indexes("c", &[index]).is_err());
    assert!(
        database
            .create_indexes(
                "c",
                &[Index::new([("a", Direction::Ascending)]).named("a\0b")]
            )
            .is_err()
    );
}

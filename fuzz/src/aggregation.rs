use std::ops::Range;

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use odm_engine::{Aggregate, Count, Database, Find, Result, Update};

use crate::collections::{all, assert_valid_bson, find_documents, sorted};
use crate::generate::{EXPRESSION_DEPTH, Generator, OTHER_COLLECTION, ValueKind, ordered, raw};

/// The collection of the pipelines.
const OWN_COLLECTION: &str = "own";

/// The maximum nesting depth of pipelines.
const MAX_PIPELINE_DEPTH: usize = 2;

/// Two databases with the same documents, with and without indexes.
struct Pair {
    plain: Database,
    indexed: Database,
}

/// Tests that pipelines give the same results with and without indexes, as aggregations and as updates. The same holds for
/// expressions in filters and projections.
pub fn pipeline(data: &[u8]) {
    let mut generator = Generator::new(data);
    // Choose the kind of test first, because the documents may use up the bytes.
    let way = generator.below(4);
    let pair = Pair::new(&mut generator);
    match way {
        0 => update(&pair, &mut generator),
        1 => expression(&pair, &mut generator),
        _ => aggregation(&pair, &mut generator),
    }
}

fn aggregation(pair: &Pair, generator: &mut Generator<'_>) {
    let filter = filter(generator);
    let matching = doc! { "$match": filter.clone() };
    let counted = [matching.clone(), doc! { "$count": "n" }];
    for database in [&pair.plain, &pair.indexed] {
        let count = Count {
            filter: raw(&filter),
            ..Count::default()
        };
        let count = database.count(OWN_COLLECTION, &count).ok();
        let counted = aggregate(database, &counted).ok();
        // `$count` returns no document for an empty input.
        let counted = counted.map(|counted| counted.first().map_or(Some(0), number));
        assert_eq!(counted, count.map(Some), "{filter}");
    }
    if let (Ok(plain), Ok(indexed)) = (
        aggregate(&pair.plain, std::slice::from_ref(&matching)),
        aggregate(&pair.indexed, std::slice::from_ref(&matching)),
    ) {
        assert_eq!(sorted(plain), sorted(indexed), "{filter}");
    }
    let mut stages = ordered(vec![matching]);
    stages.extend(generator.stages(MAX_PIPELINE_DEPTH, &[]));
    let plain = aggregate(&pair.plain, &stages);
    let indexed = aggregate(&pair.indexed, &stages);
    assert_same(&stages, plain, indexed);
    // The reverse order: a planner does not use an index for a filter after a different stage.
    let mut late = vec![doc! { "$skip": 0 }];
    late.append(&mut stages);
    let _ = aggregate(&pair.indexed, &late);
}

/// An update with a pipeline changes documents equally with and without indexes.
fn update(pair: &Pair, generator: &mut Generator<'_>) {
    let stages = generator.transforms();
    let filter = filter(generator);
    let update = Update {
        filter: raw(&filter),
        pipeline: Some(stages.iter().map(raw).collect()),
        multi: true,
        upsert: generator.one_in(8),
        ..Update::default()
    };
    let reports = [&pair.plain, &pair.indexed].map(|database| {
        let report = database.update(OWN_COLLECTION, &update).ok();
        report.filter(|report| report.failure.is_none())
    });
    let is_inserted = |report: &Option<_>| {
        matches!(
            report,
            Some(odm_engine::UpdateReport {
                upserted_id: Some(_),
                ..
            })
        )
    };
    if let [Some(plain), Some(indexed)] = &reports
        && !reports.iter().any(is_inserted)
        && is_determined(&stages)
    {
        assert_eq!(plain.matched, indexed.matched, "{filter} {stages:?}");
        assert_eq!(plain.modified, indexed.modified, "{filter} {stages:?}");
        let (plain, indexed) = (
            all(&pair.plain, OWN_COLLECTION),
            all(&pair.indexed, OWN_COLLECTION),
        );
        assert_eq!(plain, indexed, "{filter} {stages:?}");
    }
    for database in [&pair.plain, &pair.indexed] {
        all(database, OWN_COLLECTION)
            .iter()
            .for_each(|document| assert_valid_bson(document));
        database
            .validate()
            .expect("an update leaves the indexes in agreement with the documents");
    }
}

/// A filter with an expression finds the documents where the expression computes a true value. A projection of a query gives the
/// same result as a `$project` stage.
fn expression(pair: &Pair, generator: &mut Generator<'_>) {
    let expression = generator.expression(ValueKind::Boolean, EXPRESSION_DEPTH, &[]);
    let filter = doc! { "$expr": expression.clone() };
    let find = Find {
        filter: raw(&filter),
        sort: Some(rawdoc! { "_id": 1 }),
        ..Find::default()
    };
    let plain = find_documents(&pair.plain, OWN_COLLECTION, &find);
    let indexed = find_documents(&pair.indexed, OWN_COLLECTION, &find);
    let stages = ordered(vec![doc! { "$match": filter }]);
    assert_same(&stages, plain, indexed);
    let truth = doc! { "truth": { "$cond": [expression, true, false] }, "document": "$$ROOT" };
    let stages = ordered(vec![
        doc! { "$replaceWith": truth },
        doc! { "$match": { "truth": true } },
        doc! { "$replaceWith": "$document" },
    ]);
    let computed = aggregate(&pair.plain, &stages);
    assert_same(
        &stages,
        computed,
        find_documents(&pair.plain, OWN_COLLECTION, &find),
    );

    let projection = generator.computed_projection(&[]);
    let find = Find {
        projection: Some(raw(&projection)),
        sort: Some(rawdoc! { "_id": 1 }),
        ..Find::default()
    };
    let mut stages = ordered(Vec::new());
    stages.push(doc! { "$project": projection });
    let projected = aggregate(&pair.indexed, &stages);
    assert_same(
        &stages,
        projected,
        find_documents(&pair.indexed, OWN_COLLECTION, &find),
    );
}

impl Pair {
    /// Creates both databases. Skips indexes that do not fit the documents.
    fn new(generator: &mut Generator<'_>) -> Pair {
        let pair = Pair {
            plain: Database::memory(),
            indexed: Database::memory(),
        };
        for (collection, indexes) in [(OWN_COLLECTION, 0..4), (OTHER_COLLECTION, 0..3)] {
            let documents: Vec<_> = generator.typed_documents().iter().map(raw).collect();
            for database in [&pair.plain, &pair.indexed] {
                // A document that cannot be stored ends the insert in both databases.
                let _ = database.insert(collection, documents.clone());
            }
            let indexes: Range<usize> = indexes;
            for _ in 0..generator.below(indexes.end) {
                let _ = pair
                    .indexed
                    .create_indexes(collection, &[generator.index()]);
            }
        }
        pair
    }
}

fn filter(generator: &mut Generator<'_>) -> Document {
    match generator.below(4) {
        0 => Document::new(),
        1 => generator.filter_document(1),
        _ => doc! { "$expr": generator.expression(ValueKind::Boolean, EXPRESSION_DEPTH, &[]) },
    }
}

fn aggregate(database: &Database, stages: &[Document]) -> Result<Vec<RawDocumentBuf>> {
    let aggregate = Aggregate {
        pipeline: stages.iter().map(raw).collect(),
        ..Aggregate::default()
    };
    database.aggregate(OWN_COLLECTION, &aggregate)?.collect()
}

/// Asserts that two runs of stages give the same results. The second run uses indexes, and may avoid an error of the first run.
fn assert_same(
    stages: &[Document],
    first: Result<Vec<RawDocumentBuf>>,
    second: Result<Vec<RawDocumentBuf>>,
) {
    for documents in [&first, &second].into_iter().flatten() {
        documents
            .iter()
            .for_each(|document| assert_valid_bson(document));
    }
    if let Ok(first) = first
        && is_determined(stages)
    {
        let second = second.unwrap_or_else(|error| panic!("{error}: {stages:?}"));
        assert_eq!(first, second, "{stages:?}");
    }
}

/// Returns whether stages always give the same result, without randomness and without the current time.
fn is_determined(stages: &[Document]) -> bool {
    fn in_value(value: &Bson) -> bool {
        match value {
            Bson::Document(document) => in_document(document),
            Bson::Array(items) => items.iter().all(in_value),
            _ => true,
        }
    }
    fn in_document(document: &Document) -> bool {
        let is_chance = |name: &str| matches!(name, "$sample" | "$rand");
        document
            .iter()
            .all(|(name, value)| !is_chance(name) && in_value(value))
    }
    stages.iter().all(in_document)
}

/// Returns the number of a `$count` result.
fn number(document: &RawDocumentBuf) -> Option<u64> {
    let (_, value) = document.iter().next()?.ok()?;
    let number = value.as_i32().map(i64::from).or(value.as_i64());
    u64::try_from(number?).ok()
}

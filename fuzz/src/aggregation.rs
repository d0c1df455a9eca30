use std::ops::Range;

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use odm_engine::{Aggregate, Count, Database, Find, Result, Update};

use crate::collections::{all, assert_whole, found, sorted};
use crate::generate::{EXPRESSION_DEPTH, Generator, Kind, OTHER, ordered, raw};

/// The collection that pipelines are run on.
const OWN: &str = "own";

/// How deep pipelines nest.
const DEPTH: usize = 2;

/// The same documents with and without indexes.
struct Pair {
    plain: Database,
    indexed: Database,
}

/// Pipelines give the same with and without indexes, as aggregations, as updates, and so do expressions in
/// filters and projections.
pub fn pipeline(data: &[u8]) {
    let mut generator = Generator::new(data);
    // The documents may use up the bytes.
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
        let count = database.count(OWN, &count).ok();
        let counted = aggregate(database, &counted).ok();
        // Nothing has no count.
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
    stages.extend(generator.stages(DEPTH, &[]));
    let plain = aggregate(&pair.plain, &stages);
    let indexed = aggregate(&pair.indexed, &stages);
    assert_same(&stages, plain, indexed);
    // And the other way round: the planner is not asked of a filter behind another stage.
    let mut late = vec![doc! { "$skip": 0 }];
    late.append(&mut stages);
    let _ = aggregate(&pair.indexed, &late);
}

/// An update by a pipeline makes of each document what the pipeline does.
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
        let report = database.update(OWN, &update).ok();
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
        let (plain, indexed) = (all(&pair.plain, OWN), all(&pair.indexed, OWN));
        assert_eq!(plain, indexed, "{filter} {stages:?}");
    }
    for database in [&pair.plain, &pair.indexed] {
        all(database, OWN)
            .iter()
            .for_each(|document| assert_whole(document));
        database
            .validate()
            .expect("an update leaves the indexes in agreement with the documents");
    }
}

/// An expression is true of a document in a filter where it computes to what is true, and a projection of
/// a query gives what a stage does.
fn expression(pair: &Pair, generator: &mut Generator<'_>) {
    let expression = generator.expression(Kind::Boolean, EXPRESSION_DEPTH, &[]);
    let filter = doc! { "$expr": expression.clone() };
    let find = Find {
        filter: raw(&filter),
        sort: Some(rawdoc! { "_id": 1 }),
        ..Find::default()
    };
    let plain = found(&pair.plain, OWN, &find);
    let indexed = found(&pair.indexed, OWN, &find);
    let stages = ordered(vec![doc! { "$match": filter }]);
    assert_same(&stages, plain, indexed);
    let truth = doc! { "truth": { "$cond": [expression, true, false] }, "document": "$$ROOT" };
    let stages = ordered(vec![
        doc! { "$replaceWith": truth },
        doc! { "$match": { "truth": true } },
        doc! { "$replaceWith": "$document" },
    ]);
    let computed = aggregate(&pair.plain, &stages);
    assert_same(&stages, computed, found(&pair.plain, OWN, &find));

    let projection = generator.computed_projection(&[]);
    let find = Find {
        projection: Some(raw(&projection)),
        sort: Some(rawdoc! { "_id": 1 }),
        ..Find::default()
    };
    let mut stages = ordered(Vec::new());
    stages.push(doc! { "$project": projection });
    let projected = aggregate(&pair.indexed, &stages);
    assert_same(&stages, projected, found(&pair.indexed, OWN, &find));
}

impl Pair {
    /// Indexes that do not fit the documents are left out.
    fn new(generator: &mut Generator<'_>) -> Pair {
        let pair = Pair {
            plain: Database::memory(),
            indexed: Database::memory(),
        };
        for (collection, indexes) in [(OWN, 0..4), (OTHER, 0..3)] {
            let documents: Vec<_> = generator.typed_documents().iter().map(raw).collect();
            for database in [&pair.plain, &pair.indexed] {
                // A document that cannot be stored ends the insertion in both.
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
        _ => doc! { "$expr": generator.expression(Kind::Boolean, EXPRESSION_DEPTH, &[]) },
    }
}

fn aggregate(database: &Database, stages: &[Document]) -> Result<Vec<RawDocumentBuf>> {
    let aggregate = Aggregate {
        pipeline: stages.iter().map(raw).collect(),
        ..Aggregate::default()
    };
    database.aggregate(OWN, &aggregate)?.collect()
}

/// What came of stages in two ways. The second, by indexes, need not meet what fails the first.
fn assert_same(
    stages: &[Document],
    first: Result<Vec<RawDocumentBuf>>,
    second: Result<Vec<RawDocumentBuf>>,
) {
    for documents in [&first, &second].into_iter().flatten() {
        documents.iter().for_each(|document| assert_whole(document));
    }
    if let Ok(first) = first
        && is_determined(stages)
    {
        let second = second.unwrap_or_else(|error| panic!("{error}: {stages:?}"));
        assert_eq!(first, second, "{stages:?}");
    }
}

/// Whether stages give the same each time: nothing in them is by chance or by the time.
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

/// What `$count` gave.
fn number(document: &RawDocumentBuf) -> Option<u64> {
    let (_, value) = document.iter().next()?.ok()?;
    let number = value.as_i32().map(i64::from).or(value.as_i64());
    u64::try_from(number?).ok()
}

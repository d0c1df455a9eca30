//! Overflow arrays of models that change between versions.

use odm::{
    ErrorKind,
    bson::{Bson, Document as BsonDocument},
    prelude::*,
};
use odm_tests::assert_clean;

use crate::Fixture;

/// The current model.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "books")]
struct Book {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 2, into = "extra_sales"))]
    customers: Overflow<String>,
}

#[derive(Schema)]
#[schema(models(Book))]
struct Shop;

mod renamed_array {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "books", schema_version = 2, upgrade = rename_array)]
    pub(super) struct Book {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(after = 2, into = "extra_sales"))]
        pub(super) buyers: Overflow<String>,
    }

    #[expect(clippy::unnecessary_wraps, reason = "an upgrade may fail")]
    fn rename_array(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
        if let Some(customers) = document.remove("customers") {
            document.insert("buyers", customers);
        }
        Ok(())
    }

    #[derive(Schema)]
    #[schema(models(Book))]
    pub(super) struct Shop;
}

/// A model with an upgrade that drops unknown fields.
mod dropped_metadata {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "books", schema_version = 2, upgrade = keep_known_fields)]
    pub(super) struct Book {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(after = 2, into = "extra_sales"))]
        pub(super) customers: Overflow<String>,
    }

    #[expect(clippy::unnecessary_wraps, reason = "an upgrade may fail")]
    fn keep_known_fields(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
        let kept =
            ["_id", "customers"].map(|field| (field.to_owned(), document.get(field).cloned()));
        let kept = kept
            .into_iter()
            .filter_map(|(field, value)| Some((field, value?)));
        *document = kept.collect();
        Ok(())
    }

    #[derive(Schema)]
    #[schema(models(Book))]
    pub(super) struct Shop;
}

/// A model with an upgrade that changes elements.
mod changed_elements {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "books", schema_version = 2, upgrade = uppercase_elements)]
    pub(super) struct Book {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(after = 2, into = "extra_sales"))]
        pub(super) customers: Overflow<String>,
    }

    #[expect(clippy::unnecessary_wraps, reason = "an upgrade may fail")]
    fn uppercase_elements(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
        for customer in document.get_array_mut("customers").into_iter().flatten() {
            if let Bson::String(name) = customer {
                *name = name.to_uppercase();
            }
        }
        Ok(())
    }

    #[derive(Schema)]
    #[schema(models(Book))]
    pub(super) struct Shop;
}

mod before_overflow {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "books")]
    pub(super) struct Book {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(unbounded)]
        pub(super) customers: Vec<String>,
    }

    #[derive(Schema)]
    #[schema(models(Book))]
    pub(super) struct Shop;
}

/// A shelf with a limit above the capacity of the tail.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "shelves")]
struct Shelf {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 1_000, into = "more_titles"))]
    titles: Overflow<String>,
}

#[derive(Schema)]
#[schema(models(Shelf))]
struct Library;

fn names(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("customer {number}"))
        .collect()
}

/// An upgrade that renames an array with spilled elements is an error. Chunk documents keep the old name, so the upgraded model
/// would lose the elements.
pub async fn renaming_a_spilled_array_is_an_error(fixture: Fixture) {
    let old = odm::Database::<Shop>::with_backend(fixture.backend());
    old.sync_indexes().await.unwrap();
    for (id, count) in [(1, 2), (2, 5)] {
        let customers = names(count).into();
        old.insert(Book { id, customers }).await.unwrap();
    }

    let new = odm::Database::<renamed_array::Shop>::with_backend(fixture.backend());
    let typical = new.get::<renamed_array::Book>(1).await.unwrap();
    assert_eq!(typical.buyers.resident(), names(2));
    new.update::<renamed_array::Book>(1)
        .push(|b| b.buyers(), "one more")
        .await
        .unwrap();

    let outlier = new.get::<renamed_array::Book>(2).await.unwrap_err();
    assert_eq!(
        (outlier.kind(), outlier.path()),
        (ErrorKind::Invalid, Some("customers"))
    );
    let pushed = new
        .update::<renamed_array::Book>(2)
        .push(|b| b.buyers(), "one more")
        .await;
    assert_eq!(pushed.unwrap_err().kind(), ErrorKind::Invalid);
    let report = new.upgrade::<renamed_array::Book>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (0, 1));

    // The old model still reads all elements.
    let all = old
        .get::<Book>(2)
        .elements(|b| b.customers())
        .all()
        .await
        .unwrap();
    assert_eq!(all, names(5));
}

/// An upgrade that drops the metadata of a spilled array is an error, so no elements are lost.
pub async fn dropping_array_metadata_is_an_error(fixture: Fixture) {
    let old = odm::Database::<Shop>::with_backend(fixture.backend());
    old.sync_indexes().await.unwrap();
    let customers = names(5).into();
    old.insert(Book { id: 1, customers }).await.unwrap();

    let new = odm::Database::<dropped_metadata::Shop>::with_backend(fixture.backend());
    let read = new.get::<dropped_metadata::Book>(1).await.unwrap_err();
    assert_eq!(
        (read.kind(), read.path()),
        (ErrorKind::Invalid, Some("customers"))
    );
    let report = new.upgrade::<dropped_metadata::Book>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (0, 1));
    let all = old.get::<Book>(1).elements(|b| b.customers());
    assert_eq!(all.all().await.unwrap(), names(5));
}

/// An upgrade can leave NaN elements unchanged, although NaN is not equal to NaN.
pub async fn an_upgrade_keeps_nan_elements(fixture: Fixture) {
    let old = odm::Database::<untitled_series::Lab>::with_backend(fixture.backend());
    old.sync_indexes().await.unwrap();
    let values = [f64::NAN, 1.0, 2.0, f64::NAN, f64::NAN];
    let series = untitled_series::Series {
        id: 1,
        values: values.into(),
    };
    old.insert(series).await.unwrap();
    let new = odm::Database::<titled_series::Lab>::with_backend(fixture.backend());
    let read = new.get::<titled_series::Series>(1).await.unwrap();
    assert_eq!((read.title.as_str(), read.values.len()), ("untitled", 5));
    let report = new.upgrade::<titled_series::Series>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (1, 0));
}

mod untitled_series {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "series")]
    pub(super) struct Series {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(after = 2, into = "more_values"))]
        pub(super) values: Overflow<f64>,
    }

    #[derive(Schema)]
    #[schema(models(Series))]
    pub(super) struct Lab;
}

mod titled_series {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "series", schema_version = 2, upgrade = add_title)]
    pub(super) struct Series {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) title: String,
        #[embed(overflow(after = 2, into = "more_values"))]
        pub(super) values: Overflow<f64>,
    }

    #[expect(clippy::unnecessary_wraps, reason = "an upgrade may fail")]
    fn add_title(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
        document.insert("title", "untitled");
        Ok(())
    }

    #[derive(Schema)]
    #[schema(models(Series))]
    pub(super) struct Lab;
}

/// An upgrade that changes elements of a spilled array is an error. The upgrade does not see spilled elements, so the array would
/// mix two versions.
pub async fn changing_spilled_elements_is_an_error(fixture: Fixture) {
    let old = odm::Database::<Shop>::with_backend(fixture.backend());
    old.sync_indexes().await.unwrap();
    for (id, count) in [(1, 2), (2, 5)] {
        let customers = names(count).into();
        old.insert(Book { id, customers }).await.unwrap();
    }
    let new = odm::Database::<changed_elements::Shop>::with_backend(fixture.backend());
    let typical = new.get::<changed_elements::Book>(1).await.unwrap();
    assert_eq!(typical.customers.resident()[0], "CUSTOMER 0");
    let outlier = new.get::<changed_elements::Book>(2).await.unwrap_err();
    assert_eq!(
        (outlier.kind(), outlier.path()),
        (ErrorKind::Invalid, Some("customers"))
    );
    let report = new.upgrade::<changed_elements::Book>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (1, 1));
    let all = old.get::<Book>(2).elements(|b| b.customers());
    assert_eq!(all.all().await.unwrap(), names(5));

    // Without spilled elements, the upgrade can change the elements, even before a fold.
    let pull = old.update::<Book>(2).pull_where(
        |b| b.customers(),
        |customer| customer.is_in(["customer 2", "customer 3", "customer 4"]),
    );
    pull.await.unwrap();
    let report = new.upgrade::<changed_elements::Book>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (1, 0));
    let push = new
        .update::<changed_elements::Book>(2)
        .push(|b| b.customers(), "CUSTOMER 9");
    push.await.unwrap();
    let all = new
        .get::<changed_elements::Book>(2)
        .elements(|b| b.customers());
    assert_eq!(
        all.all().await.unwrap(),
        ["CUSTOMER 0", "CUSTOMER 1", "CUSTOMER 9"]
    );
    assert_clean(&new).await;
}

/// Lengths can be measured before the array is declared to overflow. The spill does not change the lengths.
pub async fn plain_arrays_can_be_measured(fixture: Fixture) {
    let old = odm::Database::<before_overflow::Shop>::with_backend(fixture.backend());
    for (id, count) in [(1, 0), (2, 3), (3, 3), (4, 40)] {
        let customers = names(count);
        old.insert(before_overflow::Book { id, customers })
            .await
            .unwrap();
    }
    let arrays = old.arrays::<before_overflow::Book>();
    let measured = arrays.lengths_of(|b| b.customers()).await.unwrap();
    assert_eq!((measured.field(), measured.documents()), ("customers", 4));
    let percentiles = [25.0, 50.0, 75.0, 100.0].map(|percent| measured.percentile(percent));
    assert_eq!(percentiles, [0, 3, 3, 40]);
    assert_eq!((measured.proposal(), measured.longer_than(3)), (40, 1));
    let text = measured.to_string();
    assert!(
        text.starts_with("customers: 4 documents, does not overflow\n"),
        "{text}"
    );

    let new = odm::Database::<Shop>::with_backend(fixture.backend());
    new.sync_indexes().await.unwrap();
    assert_eq!(new.arrays::<Book>().spill().await.unwrap(), 3);
    let measured = new
        .arrays::<Book>()
        .lengths_of(|b| b.customers())
        .await
        .unwrap();
    assert_eq!(
        [25.0, 50.0, 75.0, 100.0].map(|percent| measured.percentile(percent)),
        percentiles
    );
    let text = measured.to_string();
    assert!(
        text.starts_with("customers: 4 documents, overflows after 2\n"),
        "{text}"
    );
}

/// Elements within the limit stay in the document, even beyond the capacity of the tail, and `has_more` stays false.
pub async fn elements_within_the_limit_stay_resident(fixture: Fixture) {
    let db = odm::Database::<Library>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let titles = names(300).into();
    db.insert(Shelf { id: 1, titles }).await.unwrap();
    let add = db
        .update::<Shelf>(1)
        .add_each_to_set(|s| s.titles(), names(900));
    assert!(add.await.unwrap().is_applied());
    let shelf = db.get::<Shelf>(1).await.unwrap();
    assert_eq!(shelf.titles.resident(), names(900));
    let outliers = db.find::<Shelf>().filter(|s| s.titles().has_more());
    assert_eq!(outliers.count().await.unwrap(), 0);

    let add = db
        .update::<Shelf>(1)
        .add_each_to_set(|s| s.titles(), names(2_500));
    add.await.unwrap();
    let all = db.get::<Shelf>(1).elements(|s| s.titles());
    assert_eq!(all.all().await.unwrap(), names(2_500));
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

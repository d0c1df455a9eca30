//! Arrays that overflow, in models that change.

use odm::{
    ErrorKind,
    bson::{Bson, Document as BsonDocument},
    prelude::*,
};

use super::is_clean;
use crate::Fixture;

/// The model of today.
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

mod next {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "books", schema_version = 2, upgrade = renamed)]
    pub(super) struct Book {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(after = 2, into = "extra_sales"))]
        pub(super) buyers: Overflow<String>,
    }

    #[expect(clippy::unnecessary_wraps, reason = "an upgrade may fail")]
    fn renamed(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
        if let Some(customers) = document.remove("customers") {
            document.insert("buyers", customers);
        }
        Ok(())
    }

    #[derive(Schema)]
    #[schema(models(Book))]
    pub(super) struct Shop;
}

/// An upgrade that forgets what it does not know.
mod anew {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "books", schema_version = 2, upgrade = written_anew)]
    pub(super) struct Book {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(after = 2, into = "extra_sales"))]
        pub(super) customers: Overflow<String>,
    }

    #[expect(clippy::unnecessary_wraps, reason = "an upgrade may fail")]
    fn written_anew(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
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

/// An upgrade that changes elements.
mod louder {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "books", schema_version = 2, upgrade = in_capitals)]
    pub(super) struct Book {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed(overflow(after = 2, into = "extra_sales"))]
        pub(super) customers: Overflow<String>,
    }

    #[expect(clippy::unnecessary_wraps, reason = "an upgrade may fail")]
    fn in_capitals(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
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

mod before {
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

/// One that keeps more in its document than a tail holds.
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

/// The documents of the extras know nothing of the new name, so none of them is lost by it.
pub async fn a_new_name_loses_no_elements(fixture: Fixture) {
    let old = odm::Database::<Shop>::with_backend(fixture.backend());
    old.sync_indexes().await.unwrap();
    for (id, count) in [(1, 2), (2, 5)] {
        let customers = names(count).into();
        old.insert(Book { id, customers }).await.unwrap();
    }

    let new = odm::Database::<next::Shop>::with_backend(fixture.backend());
    let typical = new.get::<next::Book>(1).await.unwrap();
    assert_eq!(typical.buyers.resident(), names(2));
    new.update::<next::Book>(1)
        .push(|b| b.buyers(), "one more")
        .await
        .unwrap();

    let outlier = new.get::<next::Book>(2).await.unwrap_err();
    assert_eq!(
        (outlier.kind(), outlier.path()),
        (ErrorKind::Invalid, Some("customers"))
    );
    let pushed = new
        .update::<next::Book>(2)
        .push(|b| b.buyers(), "one more")
        .await;
    assert_eq!(pushed.unwrap_err().kind(), ErrorKind::Invalid);
    let report = new.upgrade::<next::Book>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (0, 1));

    // All of it is there, to whom the array has its old name.
    let all = old
        .get::<Book>(2)
        .elements(|b| b.customers())
        .all()
        .await
        .unwrap();
    assert_eq!(all, names(5));
}

/// Nor does an upgrade that gives back less than it has got.
pub async fn what_an_upgrade_forgets_is_an_error(fixture: Fixture) {
    let old = odm::Database::<Shop>::with_backend(fixture.backend());
    old.sync_indexes().await.unwrap();
    let customers = names(5).into();
    old.insert(Book { id: 1, customers }).await.unwrap();

    let new = odm::Database::<anew::Shop>::with_backend(fixture.backend());
    let read = new.get::<anew::Book>(1).await.unwrap_err();
    assert_eq!(
        (read.kind(), read.path()),
        (ErrorKind::Invalid, Some("customers"))
    );
    let report = new.upgrade::<anew::Book>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (0, 1));
    let all = old.get::<Book>(1).elements(|b| b.customers());
    assert_eq!(all.all().await.unwrap(), names(5));
}

/// What is not the same as itself is the same as it was.
pub async fn an_upgrade_leaves_what_is_no_number(fixture: Fixture) {
    let old = odm::Database::<measured::Lab>::with_backend(fixture.backend());
    old.sync_indexes().await.unwrap();
    let values = [f64::NAN, 1.0, 2.0, f64::NAN, f64::NAN];
    let series = measured::Series {
        id: 1,
        values: values.into(),
    };
    old.insert(series).await.unwrap();
    let new = odm::Database::<titled::Lab>::with_backend(fixture.backend());
    let read = new.get::<titled::Series>(1).await.unwrap();
    assert_eq!((read.title.as_str(), read.values.len()), ("untitled", 5));
    let report = new.upgrade::<titled::Series>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (1, 0));
}

mod measured {
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

mod titled {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "series", schema_version = 2, upgrade = untitled)]
    pub(super) struct Series {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) title: String,
        #[embed(overflow(after = 2, into = "more_values"))]
        pub(super) values: Overflow<f64>,
    }

    #[expect(clippy::unnecessary_wraps, reason = "an upgrade may fail")]
    fn untitled(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
        document.insert("title", "untitled");
        Ok(())
    }

    #[derive(Schema)]
    #[schema(models(Series))]
    pub(super) struct Lab;
}

/// It does not see those outside: some would be of the new version, and others of the old one.
pub async fn what_an_upgrade_does_to_elements_is_an_error(fixture: Fixture) {
    let old = odm::Database::<Shop>::with_backend(fixture.backend());
    old.sync_indexes().await.unwrap();
    for (id, count) in [(1, 2), (2, 5)] {
        let customers = names(count).into();
        old.insert(Book { id, customers }).await.unwrap();
    }
    let new = odm::Database::<louder::Shop>::with_backend(fixture.backend());
    let typical = new.get::<louder::Book>(1).await.unwrap();
    assert_eq!(typical.customers.resident()[0], "CUSTOMER 0");
    let outlier = new.get::<louder::Book>(2).await.unwrap_err();
    assert_eq!(
        (outlier.kind(), outlier.path()),
        (ErrorKind::Invalid, Some("customers"))
    );
    let report = new.upgrade::<louder::Book>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (1, 1));
    let all = old.get::<Book>(2).elements(|b| b.customers());
    assert_eq!(all.all().await.unwrap(), names(5));

    // As soon as none is outside it is as with any other array, though nothing was folded.
    let pull = old.update::<Book>(2).pull_where(
        |b| b.customers(),
        |customer| customer.is_in(["customer 2", "customer 3", "customer 4"]),
    );
    pull.await.unwrap();
    let report = new.upgrade::<louder::Book>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (1, 0));
    let push = new
        .update::<louder::Book>(2)
        .push(|b| b.customers(), "CUSTOMER 9");
    push.await.unwrap();
    let all = new.get::<louder::Book>(2).elements(|b| b.customers());
    assert_eq!(
        all.all().await.unwrap(),
        ["CUSTOMER 0", "CUSTOMER 1", "CUSTOMER 9"]
    );
    is_clean(&new).await;
}

/// An array that does not overflow yet is measured before it is said to, and is as long behind it.
pub async fn what_does_not_overflow_yet_is_measured(fixture: Fixture) {
    let old = odm::Database::<before::Shop>::with_backend(fixture.backend());
    for (id, count) in [(1, 0), (2, 3), (3, 3), (4, 40)] {
        let customers = names(count);
        old.insert(before::Book { id, customers }).await.unwrap();
    }
    let arrays = old.arrays::<before::Book>();
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

/// What has room in its document stays there, also where it is more than a tail holds: nothing says that there is more.
pub async fn many_that_have_room_are_added_inside(fixture: Fixture) {
    let db = odm::Database::<Library>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let titles = names(300).into();
    db.insert(Shelf { id: 1, titles }).await.unwrap();
    let add = db
        .update::<Shelf>(1)
        .add_each_to_set(|s| s.titles(), names(900));
    assert!(add.await.unwrap().applied());
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

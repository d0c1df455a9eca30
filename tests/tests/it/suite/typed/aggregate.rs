use std::collections::BTreeMap;

use bson::{doc, rawdoc};
use futures_util::TryStreamExt;
use odm::{ErrorKind, backend::operation::InsertOperation, prelude::*};

use crate::{
    Fixture,
    models::{Comment, Db, Post},
};

/// A sale with fields of all number types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
struct Sale {
    #[serde(rename = "_id")]
    id: i64,
    shop: Option<String>,
    year: i32,
    count: i32,
    bytes: u64,
    weight: f64,
    discount: Option<f32>,
    price: Decimal128,
    seen: Option<DateTime>,
    paid: bool,
    #[embed]
    by: Option<Seller>,
    #[embed]
    parts: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Seller {
    name: String,
    rank: i32,
}

#[derive(Schema)]
#[schema(models(Sale))]
struct Market;
type Sales = odm::Database<Market>;

fn decimal(text: &str) -> Decimal128 {
    text.parse().unwrap()
}

fn sale(id: i64) -> Sale {
    let third = id % 3;
    Sale {
        id,
        shop: (third > 0).then(|| format!("shop {third}")),
        year: 2020 + (id % 2) as i32,
        count: i32::MAX,
        bytes: id as u64,
        weight: id as f64 + 0.5,
        discount: (third == 1).then_some(0.25),
        price: decimal("0.10"),
        seen: (third > 0).then(|| DateTime::from_millis(id)),
        paid: id % 2 == 0,
        by: (id > 2).then(|| Seller {
            name: ["Ann", "Bob"][(id % 2) as usize].into(),
            rank: id as i32,
        }),
        parts: BTreeMap::from([("2024".into(), id)]),
    }
}

/// Inserts the sales 0 to 5, with the shops none, 1, 2, none, 1 and 2.
async fn insert_sales(fixture: &Fixture) -> Sales {
    let db = Sales::with_backend(fixture.backend());
    db.insert_many((0..6).map(sale)).await.unwrap();
    db
}

pub async fn sums_and_averages_have_their_types(fixture: Fixture) {
    let db = insert_sales(&fixture).await;
    let all = || db.find::<Sale>();
    // The sum exceeds an `i32`.
    let count: i64 = all().sum(|s| s.count()).await.unwrap();
    assert_eq!(count, 6 * i64::from(i32::MAX));
    let bytes: i64 = all().sum(|s| s.bytes()).await.unwrap();
    assert_eq!(bytes, 15);
    let weight: f64 = all().sum(|s| s.weight()).await.unwrap();
    assert_eq!(weight, 18.0);
    let price: Decimal128 = all().sum(|s| s.price()).await.unwrap();
    assert_eq!(price.to_string(), "0.60");
    let discount: f64 = all().sum(|s| s.discount()).await.unwrap();
    assert_eq!(discount, 0.5);

    let count: Option<f64> = all().avg(|s| s.year()).await.unwrap();
    assert_eq!(count, Some(2020.5));
    let price: Option<Decimal128> = all().avg(|s| s.price()).await.unwrap();
    assert_eq!(price.unwrap().to_string(), "0.10");
    // A null value is left out of the average, and is not counted as zero.
    assert_eq!(all().avg(|s| s.discount()).await.unwrap(), Some(0.25));
    // A path through an optional struct, and a map key that looks like a position.
    assert_eq!(all().sum(|s| s.by().rank()).await.unwrap(), 3 + 4 + 5);
    assert_eq!(all().sum(|s| s.parts().key("2024")).await.unwrap(), 15);
}

pub async fn minimum_and_maximum(fixture: Fixture) {
    let db = insert_sales(&fixture).await;
    let all = || db.find::<Sale>();
    assert_eq!(all().min(|s| s.weight()).await.unwrap(), Some(0.5));
    assert_eq!(all().max(|s| s.bytes()).await.unwrap(), Some(5));
    assert_eq!(
        all().max(|s| s.price()).await.unwrap(),
        Some(decimal("0.10"))
    );
    // A null value is not the minimum.
    let seen = DateTime::from_millis;
    assert_eq!(all().min(|s| s.seen()).await.unwrap(), Some(seen(1)));
    assert_eq!(all().max(|s| s.seen()).await.unwrap(), Some(seen(5)));
    assert_eq!(
        all().max(|s| s.shop()).await.unwrap(),
        Some("shop 2".to_owned())
    );
    assert_eq!(
        all().min(|s| s.by().name()).await.unwrap(),
        Some("Ann".to_owned())
    );
}

pub async fn empty_results_have_no_average(fixture: Fixture) {
    let db = insert_sales(&fixture).await;
    let none = || db.find::<Sale>().filter(|s| s.id().gt(99));
    assert_eq!(none().sum(|s| s.count()).await.unwrap(), 0);
    assert_eq!(none().sum(|s| s.weight()).await.unwrap(), 0.0);
    assert_eq!(none().sum(|s| s.price()).await.unwrap(), decimal("0"));
    assert_eq!(none().avg(|s| s.count()).await.unwrap(), None);
    assert_eq!(none().min(|s| s.weight()).await.unwrap(), None);
    assert_eq!(none().max(|s| s.seen()).await.unwrap(), None);
    assert_eq!(
        none().distinct(|s| s.year()).await.unwrap(),
        Vec::<i32>::new()
    );
    assert_eq!(
        none()
            .group_by(|s| s.year())
            .select(|g| g.count())
            .all()
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        db.find::<Sale>().limit(0).sum(|s| s.count()).await.unwrap(),
        0
    );
    // All values are null.
    let without = || db.find::<Sale>().filter(|s| s.seen().is_none());
    assert_eq!(without().max(|s| s.seen()).await.unwrap(), None);
    assert_eq!(without().avg(|s| s.discount()).await.unwrap(), None);
}

pub async fn filter_sort_and_limit_apply_before_aggregation(fixture: Fixture) {
    let db = insert_sales(&fixture).await;
    let largest = || {
        db.find::<Sale>()
            .filter(|s| s.paid().eq(true))
            .sort(|s| s.bytes().desc())
            .limit(2)
    };
    assert_eq!(largest().sum(|s| s.bytes()).await.unwrap(), 4 + 2);
    let years = largest()
        .group_by(|s| s.year())
        .select(|g| g.count())
        .all()
        .await
        .unwrap();
    assert_eq!(years, [(2020, 2)]);
    let refused = db
        .find::<Sale>()
        .limit(1)
        .distinct(|s| s.year())
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.model()),
        (ErrorKind::Invalid, Some("Sale"))
    );
}

pub async fn distinct_values_and_elements(fixture: Fixture) {
    let db = insert_sales(&fixture).await;
    let mut shops: Vec<String> = db.find::<Sale>().distinct(|s| s.shop()).await.unwrap();
    shops.sort();
    assert_eq!(shops, ["shop 1", "shop 2"]);
    let mut names = db
        .find::<Sale>()
        .filter(|s| s.id().gt(3))
        .distinct(|s| s.by().name())
        .await
        .unwrap();
    names.sort();
    assert_eq!(names, ["Ann", "Bob"]);

    let blog = Db::with_backend(fixture.backend());
    let comment = |author: &str| Comment {
        who: author.into(),
        votes: 1,
        hidden: None,
    };
    let mut first = Post::new(1, "alex", &["rust", "db"]);
    first.comments = vec![comment("jane"), comment("joe")];
    let mut second = Post::new(2, "alex", &["rust"]);
    second.comments = vec![comment("jane")];
    blog.insert_many([first, second]).await.unwrap();
    let mut tags: Vec<String> = blog.find::<Post>().distinct(|p| p.tags()).await.unwrap();
    tags.sort();
    assert_eq!(tags, ["db", "rust"]);
    let mut authors: Vec<String> = blog
        .find::<Post>()
        .distinct(|p| p.comments().who())
        .await
        .unwrap();
    authors.sort();
    assert_eq!(authors, ["jane", "joe"]);
}

pub async fn groups_by_one_field_and_by_several(fixture: Fixture) {
    let db = insert_sales(&fixture).await;
    type Row = (Option<String>, (u64, i64, Option<f64>, Option<DateTime>));
    let shops: Vec<Row> = db
        .find::<Sale>()
        .group_by(|s| s.shop())
        .select(|g| {
            (
                g.count(),
                g.sum(|s| s.bytes()),
                g.avg(|s| s.weight()),
                g.max(|s| s.seen()),
            )
        })
        .sort(|shop, _| shop.asc())
        .all()
        .await
        .unwrap();
    let seen = DateTime::from_millis;
    assert_eq!(
        shops,
        [
            (None, (2, 3, Some(2.0), None)),
            (Some("shop 1".into()), (2, 5, Some(3.0), Some(seen(4)))),
            (Some("shop 2".into()), (2, 7, Some(4.0), Some(seen(5)))),
        ]
    );
    let largest = db
        .find::<Sale>()
        .group_by(|s| (s.year(), s.by().name()))
        .select(|g| (g.sum(|s| s.bytes()), g.min(|s| s.id())))
        .sort(|key, (bytes, _)| (bytes.desc(), key.asc()))
        .limit(3)
        .all();
    // A missing optional struct has no name, so that the group key does not fit the model.
    let error = largest.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Decode, Some("Sale"))
    );
    let largest = db
        .find::<Sale>()
        .filter(|s| s.by().name().exists())
        .group_by(|s| (s.year(), s.by().name()))
        .select(|g| (g.sum(|s| s.bytes()), g.min(|s| s.id())))
        .sort(|key, (bytes, _)| (bytes.desc(), key.asc()))
        .limit(3)
        .all()
        .await
        .unwrap();
    assert_eq!(
        largest,
        [
            ((2021, "Bob".to_owned()), (8, Some(3))),
            ((2020, "Ann".to_owned()), (4, Some(4)))
        ]
    );
}

/// Missing and null values form a single group, also as part of a key of several fields.
pub async fn null_and_missing_are_one_group(fixture: Fixture) {
    let blog = Db::with_backend(fixture.backend());
    blog.insert_many((1..4).map(|id| Post::new(id, "alex", &[])))
        .await
        .unwrap();
    let null = odm::backend::operation::UpdateOperation {
        collection: "posts".into(),
        filter: rawdoc! { "_id": 1_i64 },
        change: odm::backend::operation::DocumentChange::operators(
            rawdoc! { "$set": { "subtitle": null } },
        ),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(null).await.unwrap();
    let one = blog
        .find::<Post>()
        .group_by(|p| p.subtitle())
        .select(|g| g.count())
        .all()
        .await
        .unwrap();
    assert_eq!(one, [(None, 3)]);
    let two = blog
        .find::<Post>()
        .group_by(|p| (p.author(), p.subtitle()))
        .select(|g| g.count())
        .all()
        .await
        .unwrap();
    assert_eq!(two, [(("alex".to_owned(), None), 3)]);
}

pub async fn overflows_and_misfits_are_errors(fixture: Fixture) {
    let blog = Db::with_backend(fixture.backend());
    let mut posts = [Post::new(1, "alex", &["a"]), Post::new(2, "alex", &["b"])];
    for post in &mut posts {
        post.votes = i64::MAX;
    }
    blog.insert_many(posts).await.unwrap();
    let error = blog.find::<Post>().sum(|p| p.votes()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Invalid, Some("Post"))
    );
    let error = blog
        .find::<Post>()
        .group_by(|p| p.author())
        .select(|g| g.sum(|p| p.votes()))
        .all()
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    // An expression would read a field named `0`.
    let error = blog
        .find::<Post>()
        .max(|p| p.tags().at(0))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("tags.0"))
    );
    let broken = InsertOperation {
        collection: "posts".into(),
        documents: vec![rawdoc! { "_id": 3_i64, "author": 7 }],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(broken).await.unwrap();
    let error = blog
        .find::<Post>()
        .distinct(|p| p.author())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Decode, Some("author"))
    );
}

#[derive(Debug, PartialEq, Deserialize)]
struct Tag {
    #[serde(rename = "_id")]
    name: String,
    posts: i64,
}

pub async fn a_pipeline_returns_typed_rows(fixture: Fixture) {
    let blog = Db::with_backend(fixture.backend());
    let posts = (0..250).map(|id| {
        Post::new(
            id,
            ["alex", "jane"][(id % 2) as usize],
            &["rust", ["db", "web"][(id % 5 / 3) as usize]],
        )
    });
    blog.insert_many(posts).await.unwrap();
    let stages = || {
        [
            doc! { "$unwind": "$tags" },
            doc! { "$group": { "_id": "$tags", "posts": { "$sum": 1 } } },
            doc! { "$sort": { "_id": 1 } },
        ]
    };
    let of_alex = || {
        blog.find::<Post>()
            .filter(|p| p.author().eq("alex"))
            .sort(|p| p.id().asc())
            .limit(10)
    };
    let tags: Vec<Tag> = of_alex().pipeline(stages()).all_as().await.unwrap();
    let tag = |name: &str, posts| Tag {
        name: name.into(),
        posts,
    };
    assert_eq!(tags, [tag("db", 6), tag("rust", 10), tag("web", 4)]);
    // A user's value stays a value in the typed filter.
    let none = blog
        .find::<Post>()
        .filter(|p| p.author().eq("{ \"$ne\": null }"))
        .pipeline(stages());
    assert_eq!(none.all_as::<Tag>().await.unwrap(), []);

    #[derive(Debug, PartialEq, Deserialize)]
    struct Number {
        n: i64,
    }
    let numbers = || {
        blog.find::<Post>()
            .sort(|p| p.id().desc())
            .pipeline([doc! { "$project": { "n": "$_id" } }])
    };
    let streamed: Vec<Number> = numbers().stream_as().try_collect().await.unwrap();
    assert_eq!(streamed.len(), 250);
    assert_eq!((streamed[0].n, streamed[249].n), (249, 0));
    // A row of a different type is an error at the position of the row.
    let strange =
        doc! { "$project": { "n": { "$cond": [{ "$eq": ["$_id", 1] }, "one", "$_id"] } } };
    let mut rows = blog
        .find::<Post>()
        .sort(|p| p.id().asc())
        .limit(3)
        .pipeline([strange.clone()])
        .stream_as::<Number>();
    assert_eq!(rows.next().await.unwrap().unwrap().n, 0);
    let error = rows.next().await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Decode, Some("Post"))
    );
    assert_eq!(rows.next().await.unwrap().unwrap().n, 2);
    assert!(rows.next().await.is_none());
    let error = blog
        .find::<Post>()
        .pipeline([strange])
        .all_as::<Number>()
        .await
        .unwrap_err();
    assert!(error.is_decode(), "{error}");
    let error = blog
        .find::<Post>()
        .pipeline([doc! { "$nonsense": 1 }])
        .all_as::<Number>()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Unsupported, Some("Post"))
    );
    let mut rows = blog
        .find::<Post>()
        .pipeline([doc! { "$nonsense": 1 }])
        .stream_as::<Number>();
    assert!(rows.next().await.unwrap().is_err());
    assert!(rows.next().await.is_none());
}

pub async fn writing_stages_are_rejected(fixture: Fixture) {
    let blog = Db::with_backend(fixture.backend());
    blog.insert(Post::new(1, "alex", &[])).await.unwrap();
    for stage in [
        doc! { "$out": "other" },
        doc! { "$merge": { "into": "posts" } },
        doc! { "$match": {}, "$out": "other" },
        doc! { "$changeStream": {} },
        doc! { "$facet": { "a": [{ "$out": "other" }] } },
        doc! { "$unionWith": { "coll": "posts", "pipeline": [{ "$out": "other" }] } },
        doc! { "$lookup": { "from": "posts", "as": "a", "pipeline": [{ "$merge": "other" }] } },
    ] {
        let error = blog
            .find::<Post>()
            .pipeline([stage.clone()])
            .all_as::<Tag>()
            .await;
        assert!(error.is_err(), "{stage}");
    }
    let collections = fixture.backend().list_collections().await.unwrap();
    assert_eq!(collections, ["posts"]);
}

pub async fn aggregates_in_a_transaction_see_its_writes(fixture: Fixture) {
    let db = insert_sales(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let in_transaction = db
        .transaction(async |tx| -> odm::Result<_> {
            tx.insert(sale(100)).await?;
            let sum = tx.find::<Sale>().sum(|s| s.bytes()).await?;
            let shops = tx.find::<Sale>().distinct(|s| s.shop()).await?.len();
            let groups = tx
                .find::<Sale>()
                .group_by(|s| s.shop())
                .select(|g| g.count())
                .all()
                .await?;
            let rows: Vec<bson::Document> = tx
                .find::<Sale>()
                .pipeline([doc! { "$count": "n" }])
                .all_as()
                .await?;
            Ok((
                sum,
                shops,
                groups.iter().map(|(_, count)| count).sum::<u64>(),
                rows,
            ))
        })
        .await
        .unwrap();
    assert_eq!(in_transaction, (115, 2, 7, vec![doc! { "n": 7 }]));
}

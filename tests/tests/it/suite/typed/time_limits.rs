//! Tests of time limits in the typed API.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use odm::{
    ErrorKind,
    backend::{Fault, Faults, Recorder, operation::Operation},
    bson::doc,
    prelude::*,
};

use crate::{
    Fixture,
    models::{Db, Maker, Part, Post, Product},
};

fn part(id: i64) -> Part {
    Part {
        id,
        name: format!("part {id}"),
        maker: Ref::new("acme"),
    }
}

async fn insert_posts_and_product(db: &Db) {
    let maker = Maker {
        id: "acme".into(),
        country: "de".into(),
    };
    db.insert(maker).await.unwrap();
    db.insert_many((1..=3).map(part)).await.unwrap();
    db.insert_many((1..=3).map(|id| Post::new(id, "alex", &["a"])))
        .await
        .unwrap();
    let product = Product {
        id: 1,
        name: "product".into(),
        catalog_number: 1,
        parts: vec![Ref::new(1), Ref::new(2)],
        main_part: None,
        spares: Vec::new(),
    };
    db.insert(product).await.unwrap();
}

/// Returns the time limit of a read at the backend, or `None` for a write.
fn limit_of(operation: &Operation) -> Option<Option<Duration>> {
    Some(match operation {
        Operation::Find(find) | Operation::Explain(find) => find.options.max_time,
        Operation::Aggregate(aggregate) => aggregate.options.max_time,
        Operation::FindEach(find) => find.options.max_time,
        Operation::FindSeveral(find) => find.max_time(),
        Operation::Count(count) => count.options.max_time,
        Operation::Distinct(distinct) => distinct.options.max_time,
        _ => return None,
    })
}

/// Runs every kind of read on a session.
async fn read_all(db: &odm::Session<crate::models::Shop>) {
    db.get::<Post>(1).await.unwrap();
    db.find_by_id::<Post>(9).await.unwrap();
    db.get_many::<Post>([1, 2]).await.unwrap();
    db.load((Ref::<Post>::new(1), vec![Ref::<Part>::new(1)]))
        .await
        .unwrap();
    db.edit::<Post>(1).await.unwrap();
    let posts = || db.find::<Post>().filter(|p| p.author().eq("alex"));
    assert_eq!(posts().all().await.unwrap().len(), 3);
    posts().first().await.unwrap();
    db.find::<Post>()
        .filter(|p| p.id().eq(1))
        .one()
        .await
        .unwrap();
    assert_eq!(posts().count().await.unwrap(), 3);
    assert!(posts().exists().await.unwrap());
    assert_eq!(posts().stream().count().await, 3);
    posts().explain().await.unwrap();
    posts().page(2).await.unwrap();
    posts().page(2).explain().await.unwrap();
    posts().sum(|p| p.votes()).await.unwrap();
    posts().distinct(|p| p.tags()).await.unwrap();
    let groups = posts().group_by(|p| p.author()).select(|g| g.count());
    groups.all().await.unwrap();
    let pipeline = || posts().pipeline([doc! { "$project": { "title": 1 } }]);
    pipeline().all_as::<bson::Document>().await.unwrap();
    assert_eq!(pipeline().stream_as::<bson::Document>().count().await, 3);
    let products = db
        .find::<Product>()
        .with(|p| p.parts().with(|part| part.maker()));
    products.all().await.unwrap();
    let makers = db.find::<Maker>().with_children(Part::by(|p| p.maker()));
    makers.all().await.unwrap();
    assert!(db.check().await.unwrap().is_clean());
}

pub async fn a_session_limits_every_read(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    insert_posts_and_product(&db).await;
    recorder.clear();
    let limit = Duration::from_secs(600);
    let limited = db.max_time(limit);
    read_all(&limited).await;
    let operations = recorder.operations();
    for operation in &operations {
        let query_limit = limit_of(operation).expect("a read").expect("a time limit");
        assert!(query_limit <= limit, "{operation:?}");
    }
    recorder.clear();
    read_all(&db).await;
    let unlimited = recorder.operations();
    assert_eq!(unlimited.len(), operations.len());
    assert!(
        unlimited
            .iter()
            .all(|operation| limit_of(operation) == Some(None))
    );

    // A transaction's session has the time limit too, and a limit of the query takes precedence.
    recorder.clear();
    let query_limit = Duration::from_secs(60);
    limited
        .find::<Post>()
        .max_time(query_limit)
        .all()
        .await
        .unwrap();
    if db.backend().capabilities().transactions {
        let all =
            db.transaction(|tx| async move { tx.max_time(query_limit).find::<Post>().all().await });
        all.await.unwrap();
    }
    let mut limits = recorder.operations();
    limits.retain(Operation::is_query);
    assert!(limits.iter().all(|find| {
        limit_of(find)
            .flatten()
            .is_some_and(|limit| limit <= query_limit)
    }));
}

/// A write runs to the end, including reads of the write.
pub async fn writes_are_not_limited(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    insert_posts_and_product(&db).await;
    recorder.clear();
    let limited = db.max_time(Duration::ZERO);
    limited.insert(Post::new(9, "jane", &[])).await.unwrap();
    limited
        .update::<Post>(1)
        .inc(|p| p.votes(), 1)
        .await
        .unwrap();
    limited
        .update_many::<Post>(|p| p.votes().gte(0))
        .inc(|p| p.votes(), 1)
        .await
        .unwrap();
    limited
        .modify::<Post>(1, |post| post.votes += 1)
        .await
        .unwrap();
    let bulk = limited
        .bulk()
        .add(db.update::<Post>(2).inc(|p| p.votes(), 1));
    assert_eq!(bulk.await.unwrap().matched, 1);
    let upsert = limited.update::<Post>(3).inc(|p| p.votes(), 1);
    let _updated = upsert.or_insert(Post::new(3, "alex", &[])).await.unwrap();
    let mut edited = db.edit::<Post>(1).await.unwrap();
    edited.votes += 1;
    limited.save(&mut edited).await.unwrap();
    limited.delete::<Post>(9).await.unwrap();
    assert!(
        !recorder
            .operations()
            .iter()
            .any(|operation| limit_of(operation).flatten().is_some())
    );
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 4);
}

/// The error names the operation, the model and the limit.
pub async fn a_timeout_names_the_operation(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_posts_and_product(&db).await;
    let error = db
        .max_time(Duration::ZERO)
        .get::<Post>(1)
        .await
        .unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(
        (error.operation(), error.limit()),
        (Some("get"), Some(Duration::ZERO))
    );
    assert_eq!(
        (error.model(), error.collection()),
        (Some("Post"), Some("posts"))
    );

    let posts: Vec<_> = (10..300)
        .map(|id| Post::new(id, "alex", &["a", "b"]))
        .collect();
    db.insert_many(posts).await.unwrap();
    let slow = doc! { "$addFields": { "sum": { "$reduce": {
        "input": { "$range": [0, 20_000] },
        "initialValue": 0,
        "in": { "$add": ["$$value", { "$mod": ["$$this", 7] }] },
    } } } };
    let limit = Duration::from_millis(15);
    let pipeline = db.find::<Post>().max_time(limit).pipeline([slow.clone()]);
    let error = pipeline.all_as::<bson::Document>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(
        (error.operation(), error.limit()),
        (Some("find"), Some(limit))
    );
    assert_eq!(error.collection(), Some("posts"));
    assert!(error.to_string().contains("limit 15ms"), "{error}");
    let pipeline = db.find::<Post>().max_time(limit).pipeline([slow]);
    let mut rows = pipeline.stream_as::<bson::Document>();
    let error = loop {
        match rows.next().await.expect("an error before the end") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(
        (error.kind(), error.limit()),
        (ErrorKind::Timeout, Some(limit))
    );
}

/// A query and all joins of the query share a time limit.
pub async fn joins_share_the_limit(fixture: Fixture) {
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(Arc::new(faults.clone()));
    insert_posts_and_product(&db).await;
    let limit = Duration::from_millis(2_000);
    let query = || {
        db.find::<Product>()
            .max_time(limit)
            .with(|p| p.parts().with(|part| part.maker()))
    };
    let delay = |nth| {
        let pause = Fault::Delay(Duration::from_millis(1_200));
        faults.inject(nth, Operation::is_query, pause);
    };
    delay(1);
    query().all().await.unwrap();
    delay(1);
    delay(2);
    let error = query().all().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!((error.model(), error.limit()), (Some("Maker"), Some(limit)));
    // A second query has a new time limit.
    query().all().await.unwrap();
}

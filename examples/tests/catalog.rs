//! The catalog says the same on every backend.

use odm::{
    backend::{self, Backend, Recorder},
    prelude::*,
};
use odm_examples::catalog::{
    Db,
    ask::{self, Requirements},
    load::{self, Source},
    model::Package,
};
use std::sync::Arc;

#[tokio::test]
async fn in_memory() {
    says_what_the_index_says(backend::open("memory:").await.unwrap()).await;
}

#[tokio::test]
async fn on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", directory.path().join("catalog.odm").display());
    says_what_the_index_says(backend::open(&url).await.unwrap()).await;
}

#[tokio::test]
async fn on_mongodb() {
    let fixture = odm_tests::Fixture::mongodb_standalone().await;
    let cleanup = fixture.cleanup();
    says_what_the_index_says(fixture.backend()).await;
    cleanup.await;
}

/// The numbers are those of `python3 examples/data/sample.py count examples/data/debian-12-sample.gz`.
async fn says_what_the_index_says(backend: Arc<dyn Backend>) {
    let recorder = Arc::new(Recorder::new(backend));
    let db = Db::with_backend(recorder.clone());
    load::load(&db, Source::Sample.open().unwrap())
        .await
        .unwrap();

    let requirements = Requirements::count(&db).await.unwrap();
    let totals = ask::totals(&db, &requirements).await.unwrap();
    assert_eq!(totals.packages, 7_163);
    assert_eq!(totals.maintainers, 840);
    assert_eq!(totals.sections, 48);
    assert_eq!(totals.dependencies, 34_109);
    assert_eq!(totals.missing, 400);
    assert_eq!(totals.most_required, Some(("libc6".into(), 3_375)));

    // What the application counted, the index on an array of references counts too.
    let on_libc = db
        .find::<Package>()
        .filter(|p| p.depends().contains(Ref::<Package>::new("libc6")))
        .count();
    assert_eq!(on_libc.await.unwrap(), 3_375);

    // A join is one query for each edge and level, whatever the number of documents.
    recorder.clear();
    let packages = db
        .find::<Package>()
        .sort(|p| p.id().asc())
        .with(|p| p.depends().with(|d| d.maintainer()))
        .limit(100)
        .all();
    assert_eq!(packages.await.unwrap().len(), 100);
    assert_eq!(recorder.queries(), 3);

    let exim = ask::package(&db, "exim4-base").await.unwrap();
    assert!(exim.contains("required by 5 packages"), "{exim}");
    assert!(exim.contains("debconf-2.0"), "{exim}");
    assert!(exim.contains("Debconf Developers"), "{exim}");

    // An index has several versions of some names.
    let versions = db
        .find::<Package>()
        .filter(|p| p.id().starts_with("linux-doc="));
    assert_eq!(versions.count().await.unwrap(), 1);

    load::clear(&db).await.unwrap();
    assert!(load::import(&db).await.unwrap().is_none());
    assert!(!db.find::<Package>().exists().await.unwrap());
}

//! What only the embedded engine has: files.

use std::fs;

use bson::rawdoc;
use odm::{
    ErrorKind,
    backend::{
        self,
        operation::{Count, Insert},
    },
};

fn count() -> Count {
    Count {
        collection: "things".into(),
        filter: rawdoc! {},
        limit: None,
    }
}

fn insert(id: i32) -> Insert {
    Insert {
        collection: "things".into(),
        documents: vec![rawdoc! { "_id": id }],
        ordered: true,
    }
}

#[tokio::test]
async fn what_was_written_is_there_again() {
    let files = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", files.path().join("shop.odm").display());
    for id in 0..3 {
        let backend = backend::open(&url).await.unwrap();
        backend.insert(insert(id)).await.unwrap();
        assert_eq!(
            backend.count(count()).await.unwrap(),
            u64::from(id.unsigned_abs()) + 1
        );
    }
}

#[tokio::test]
async fn files_have_one_user() {
    let files = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", files.path().join("shop.odm").display());
    let first = backend::open(&url).await.unwrap();
    let error = backend::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(error.to_string().contains("shop.odm"), "{error}");
    first.insert(insert(1)).await.unwrap();
}

#[tokio::test]
async fn foreign_and_truncated_files_are_left_alone() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("shop.odm");
    let url = format!("odm:{}", path.display());
    let text = "not a database, but dear to somebody".repeat(1_000);
    fs::write(&path, &text).unwrap();
    let error = backend::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert!(error.to_string().contains("shop.odm"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    fs::remove_file(&path).unwrap();
    backend::open(&url)
        .await
        .unwrap()
        .insert(insert(1))
        .await
        .unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = backend::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[tokio::test]
async fn a_url_without_a_file_is_told() {
    for url in ["odm:", "memory:shop"] {
        let error = backend::open(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
    }
}

#[tokio::test]
async fn every_memory_is_another() {
    let (a, b) = (
        backend::open("memory:").await.unwrap(),
        backend::open("memory:").await.unwrap(),
    );
    a.insert(insert(1)).await.unwrap();
    assert_eq!(b.count(count()).await.unwrap(), 0);
}

/// A program without Tokio can use the engine.
#[test]
fn it_works_without_a_runtime() {
    use futures_util::FutureExt;
    let opened = backend::open("memory:")
        .now_or_never()
        .expect("nothing to wait for");
    let backend = opened.unwrap();
    backend
        .insert(insert(1))
        .now_or_never()
        .expect("nothing to wait for")
        .unwrap();
    let counted = backend
        .count(count())
        .now_or_never()
        .expect("nothing to wait for");
    assert_eq!(counted.unwrap(), 1);
}

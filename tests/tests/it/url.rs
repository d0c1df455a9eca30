//! URLs without a known backend, and URLs of backends that cannot be reached.

use std::{error::Error as _, time::Instant};

use odm::{Error, ErrorKind, backend};

async fn open_error(url: &str) -> Error {
    backend::open(url).await.expect_err("it cannot be opened")
}

#[tokio::test]
async fn an_unknown_scheme_names_the_known_ones() {
    for (url, found) in [
        ("", "a URL without a scheme"),
        ("shop", "a URL without a scheme"),
        ("postgres://host/shop", "the scheme `postgres:`"),
        ("mongo://alex:secret@host/shop", "the scheme `mongo:`"),
        ("memory:shop", "a name after `memory:`"),
    ] {
        let error = open_error(url).await;
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
        assert!(error.to_string().contains(found), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(error.to_string().contains("mongodb://"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_database_is_an_error() {
    for url in [
        "mongodb://db.example:1234",
        "mongodb://alex:secret@db.example:1234/?w=1",
    ] {
        let error = open_error(url).await;
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
        assert!(
            error
                .to_string()
                .contains("`mongodb://db.example:1234/shop`"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_password_is_never_shown() {
    for url in [
        "mongodb://alex:sec:ret@127.0.0.1:1/shop",
        "mongodb://alex:sec?ret@127.0.0.1:1/shop",
        "mongodb://alex:sec@ret@127.0.0.1:1/shop",
        "mongodb://alex:secret@127.0.0.1:99999/shop",
        "mongodb://alex:secret@127.0.0.1:1",
        "mongodb://alex:secret@127.0.0.1:1/shop?authMechanism=nonsense",
        "mongodb://alex:secret@127.0.0.1:1/shop?serverSelectionTimeoutMS=200",
        "mongodb+srv://alex:secret@127.0.0.1:1/shop",
    ] {
        let error = open_error(url).await;
        let mut text = format!("{error} {error:?}");
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!(" {cause} {cause:?}"));
            source = cause.source();
        }
        for part in ["sec", "ret"] {
            assert!(!text.contains(part), "{url}: {text}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_server_fails_quickly() {
    let start = Instant::now();
    let error =
        open_error("mongodb://127.0.0.1:1,127.0.0.1:2/shop?serverSelectionTimeoutMS=300").await;
    assert_eq!(error.kind(), ErrorKind::Connection);
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1,127.0.0.1:2"), "{text}");
    assert!(text.contains("refused"), "{text}");
    assert!(start.elapsed().as_secs() < 3);

    let start = Instant::now();
    open_error("mongodb://127.0.0.1:1/shop").await;
    assert!((4..8).contains(&start.elapsed().as_secs()));
}

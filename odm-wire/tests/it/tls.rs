//! Encrypted connections. The certificates belong to this test only, and the key of their authority is lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::doc;
use mongodb::Client;
use mongodb::options::{ClientOptions, Tls, TlsOptions};
use odm_engine::Database;
use odm_wire::{Server, TlsIdentity};

use super::TestServer;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/tls")
        .join(name)
}

async fn is_answered(server: &TestServer, tls: Option<Tls>) -> bool {
    let mut options = ClientOptions::parse(&server.url).await.unwrap();
    options.server_selection_timeout = Some(Duration::from_secs(2));
    options.tls = tls;
    let client = Client::with_options(options).unwrap();
    let answer = client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await;
    answer.is_ok()
}

#[tokio::test]
async fn only_an_encrypted_client_that_trusts_the_certificate_is_answered() {
    let identity = TlsIdentity::from_pem_files(file("certificate.pem"), file("key.pem")).unwrap();
    let server = TestServer::start(Server::builder(Database::memory()).tls(identity)).await;
    let trusting = TlsOptions::builder()
        .ca_file_path(file("authority.pem"))
        .build();
    assert!(is_answered(&server, Some(Tls::Enabled(trusting))).await);
    assert!(!is_answered(&server, Some(Tls::Enabled(TlsOptions::default()))).await);
    assert!(!is_answered(&server, None).await);
}

#[test]
fn wrong_files_are_refused() {
    assert!(TlsIdentity::from_pem_files(file("missing.pem"), file("key.pem")).is_err());
    assert!(TlsIdentity::from_pem_files(file("key.pem"), file("key.pem")).is_err());
    assert!(TlsIdentity::from_pem_files(file("authority.pem"), file("key.pem")).is_err());
}

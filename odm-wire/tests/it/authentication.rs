//! Users and addresses.

use std::time::Duration;

use bson::doc;
use mongodb::Client;
use mongodb::error::ErrorKind;
use mongodb::options::{ClientOptions, Credential};
use odm_engine::Database;
use odm_wire::Server;

use super::TestServer;

async fn client(server: &TestServer, credential: Option<(&str, &str)>) -> Client {
    let mut options = ClientOptions::parse(&server.url).await.unwrap();
    options.server_selection_timeout = Some(Duration::from_secs(10));
    options.credential = credential.map(|(user, password)| {
        let (user, password) = (user.to_owned(), password.to_owned());
        Credential::builder()
            .username(user)
            .password(password)
            .build()
    });
    Client::with_options(options).unwrap()
}

#[tokio::test]
async fn a_user_needs_the_right_password() {
    let builder = Server::builder(Database::memory()).user("ada", "pass word ü");
    let server = TestServer::start(builder).await;
    let list = async |credential| {
        client(&server, credential)
            .await
            .list_database_names()
            .await
    };
    assert_eq!(
        list(Some(("ada", "pass word ü"))).await.unwrap(),
        Vec::<String>::new()
    );
    for wrong in [("ada", "password"), ("eve", "pass word ü")] {
        let error = list(Some(wrong)).await.unwrap_err();
        assert!(
            matches!(*error.kind, ErrorKind::Authentication { .. }),
            "{error}"
        );
    }
    let error = list(None).await.unwrap_err();
    let ErrorKind::Command(failure) = &*error.kind else {
        panic!("{error}");
    };
    assert_eq!(
        (failure.code, failure.code_name.as_str()),
        (13, "Unauthorized")
    );
    let status = client(&server, Some(("ada", "pass word ü"))).await;
    let admin = status.database("admin");
    let status = admin
        .run_command(doc! { "connectionStatus": 1 })
        .await
        .unwrap();
    let users = status
        .get_document("authInfo")
        .unwrap()
        .get_array("authenticatedUsers")
        .unwrap();
    assert_eq!(
        users[0].as_document().unwrap().get_str("user").unwrap(),
        "ada"
    );
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_user() {
    let open = Server::builder(Database::memory());
    let refused = TestServer::try_start(open.clone(), "0.0.0.0:0").await;
    let error = refused.err().expect("everyone could read the database");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("set a user"), "{error}");
    let server = TestServer::try_start(open.user("ada", "secret"), "0.0.0.0:0")
        .await
        .unwrap();
    let client = client(&server, Some(("ada", "secret"))).await;
    assert!(client.list_database_names().await.is_ok());
    let empty = Server::builder(Database::memory()).user("ada", "");
    assert!(TestServer::try_start(empty, "127.0.0.1:0").await.is_err());
}

//! The command `serve`: MongoDB's wire protocol on a file.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bson::{Document, RawDocumentBuf, rawdoc};
use odm_engine::{Count, Database};
use serde_json::Value;

use crate::{Shop, failure};

/// A running `odm serve`, which ends with the test.
struct Serving {
    program: Child,
    address: String,
    database: String,
}

impl Serving {
    fn start(shop: &Shop, arguments: &[&str]) -> Serving {
        let mut program = Command::new(env!("CARGO_BIN_EXE_odm"));
        let program = program.arg("serve").arg(shop.file());
        let program = program.args(["--listen", "127.0.0.1:0", "--json"]);
        let mut program = program
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = program.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let url = line["url"]
            .as_str()
            .unwrap()
            .strip_prefix("mongodb://")
            .unwrap();
        let (address, database) = url.split_once('/').unwrap();
        Serving {
            program,
            address: address.to_owned(),
            database: database.to_owned(),
        }
    }

    /// Sends a command as an `OP_MSG`, and returns the reply.
    fn run(&self, mut command: RawDocumentBuf) -> Document {
        command.append(bson::raw::cstr!("$db"), self.database.as_str());
        let length = i32::try_from(16 + 5 + command.as_bytes().len()).unwrap();
        let header = [length, 1, 0, 2013].map(i32::to_le_bytes).concat();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let message = [&header[..], &[0; 5], command.as_bytes()].concat();
        stream.write_all(&message).unwrap();
        let mut header = [0; 16 + 5];
        stream.read_exact(&mut header).unwrap();
        let length = i32::from_le_bytes(header[..4].try_into().unwrap());
        let mut reply = vec![0; usize::try_from(length).unwrap() - header.len()];
        stream.read_exact(&mut reply).unwrap();
        bson::deserialize_from_slice(&reply).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.program.kill();
        self.program.wait().unwrap();
    }
}

#[test]
fn a_served_file_is_read_only_by_default() {
    let shop = Shop::new();
    let before = fs::read(shop.file()).unwrap();
    let serving = Serving::start(&shop, &[]);
    assert_eq!(serving.database, "shop");
    let counted = serving.run(rawdoc! { "count": "orders" });
    assert_eq!(counted.get_i32("n").unwrap(), 2_500);
    let refused = serving.run(rawdoc! { "insert": "orders", "documents": [{ "_id": "new" }] });
    assert_eq!(refused.get_str("codeName").unwrap(), "IllegalOperation");
    drop(serving);
    assert_eq!(fs::read(shop.file()).unwrap(), before);
}

#[test]
fn writes_stay_after_a_kill_of_the_server() {
    let shop = Shop::new();
    let serving = Serving::start(&shop, &["--write", "--database", "other"]);
    assert_eq!(serving.database, "other");
    let inserted = serving.run(rawdoc! { "insert": "orders", "documents": [{ "_id": "new" }] });
    assert_eq!(inserted.get_i32("n").unwrap(), 1);
    drop(serving);
    let database = Database::open(shop.file()).unwrap();
    assert_eq!(database.count("orders", &Count::default()).unwrap(), 2_501);
}

/// A client connects without and with TLS.
#[cfg(feature = "mongodb")]
#[tokio::test]
async fn a_served_file_is_encrypted_with_a_certificate() {
    let shop = Shop::new();
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../odm-wire/tests/it/tls");
    let file = |name| tls.join(name).to_str().unwrap().to_owned();
    let [certificate, key, authority] = ["certificate.pem", "key.pem", "authority.pem"].map(file);
    let arguments = ["--tls-certificate", &certificate, "--tls-key", &key];
    let serving = Serving::start(&shop, &arguments);
    assert_eq!(serving.database, "shop?tls=true");
    let plain = format!(
        "mongodb://{}/shop?serverSelectionTimeoutMS=500",
        serving.address
    );
    let encrypted = format!(
        "{plain}&tls=true&tlsCAFile={}",
        authority.replace('/', "%2F")
    );
    let collections = |url: String| async move {
        let server = odm::backend::open(&url).await?;
        server.list_collections().await
    };
    assert!(collections(plain).await.is_err());
    assert_eq!(collections(encrypted).await.unwrap(), ["orders", "people"]);

    let arguments = ["--tls-certificate", &authority, "--tls-key", &key];
    let message = failure(&shop.run("serve", &arguments), 1);
    assert!(message.contains("authority.pem with the key"), "{message}");
    let without_key = shop.run("serve", &["--tls-certificate", &certificate]);
    assert_eq!(without_key.status.code(), Some(2));
}

#[test]
fn wrong_options_have_an_exit_code() {
    let shop = Shop::new();
    let message = failure(&shop.run("serve", &["--listen", "0.0.0.0:0"]), 2);
    assert!(message.contains("set a user"), "{message}");
    let message = failure(
        &shop.run("serve", &["--database", "a.b", "--listen", "127.0.0.1:0"]),
        2,
    );
    assert!(message.contains("Invalid database name"), "{message}");
    let without_password = shop.run("serve", &["--user", "ada"]);
    assert_eq!(without_password.status.code(), Some(2));
    let serving = Serving::start(&shop, &[]);
    let message = failure(&shop.run("serve", &["--listen", &serving.address]), 1);
    assert!(message.contains("cannot listen on"), "{message}");
    let message = failure(&shop.run("serve", &["--write"]), 3);
    assert!(message.contains("is open already"), "{message}");
}

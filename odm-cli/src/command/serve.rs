use std::net::SocketAddr;
use std::path::Path;

use odm_engine::Database;
use odm_wire::{Server, TlsIdentity};
use serde_json::json;

use super::open_read_only;
use crate::arguments::ServeArguments;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// The name of the main database, if the name of the file is no name of a database.
const FALLBACK_DATABASE: &str = "odm";

pub(super) fn run(arguments: &ServeArguments, output: &mut Output) -> Result<()> {
    let file = &arguments.file;
    let database = match arguments.write {
        true => Database::open(file).map_err(|error| Failure::open(file, &error))?,
        false => open_read_only(file)?,
    };
    let mut server = Server::builder(database.clone()).database_name(database_name(arguments));
    if arguments.write {
        server = server.allow_writes();
    }
    if let Some(user) = &arguments.user {
        let password = read_password(arguments)?;
        server = server.user(user, password);
    }
    if let (Some(certificate), Some(key)) = (&arguments.tls_certificate, &arguments.tls_key) {
        server = server.tls(read_identity(certificate, key)?);
    }
    if let Some(address) = &arguments.advertise {
        server = server.advertise(address);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::problem(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let server = server.bind(arguments.listen).await;
        let server = server.map_err(|error| bind_failure(arguments.listen, &error))?;
        match output.is_json() {
            true => output.json_line(&json!({ "url": server.url() }))?,
            false => {
                let mode = if arguments.write { "" } else { ", read-only" };
                output.line(format_args!(
                    "serving {}{mode}: {}",
                    file.display(),
                    server.url()
                ))?;
            }
        }
        output.finish()?;
        tokio::select! {
            () = server.run() => {}
            stopped = tokio::signal::ctrl_c() => {
                stopped.map_err(|error| Failure::problem(format!("cannot wait for Ctrl-C: {error}")))?;
            }
        }
        database.close();
        Ok(())
    })
}

/// Returns the name of the main database: the argument, or the name of the file without its extension.
fn database_name(arguments: &ServeArguments) -> String {
    if let Some(name) = &arguments.database {
        return name.clone();
    }
    let stem = arguments.file.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.filter(|stem| !stem.contains(['/', '\\', '.', ' ', '"', '$']));
    stem.unwrap_or(FALLBACK_DATABASE).to_owned()
}

/// Reads the password from the first line of a file. An argument would be visible to all users of the machine.
fn read_password(arguments: &ServeArguments) -> Result<String> {
    let missing = || Failure::Usage("--user needs --password-file".to_owned());
    let file: &Path = arguments.password_file.as_deref().ok_or_else(missing)?;
    let content = std::fs::read_to_string(file);
    let content = content.map_err(|error| Failure::io("cannot read", file, &error))?;
    Ok(content.lines().next().unwrap_or_default().to_owned())
}

fn read_identity(certificate: &Path, key: &Path) -> Result<TlsIdentity> {
    TlsIdentity::from_pem_files(certificate, key).map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        Failure::problem(format!(
            "cannot use the certificate {certificate} with the key {key}: {error}"
        ))
    })
}

fn bind_failure(address: SocketAddr, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => Failure::Usage(error.to_string()),
        _ => Failure::problem(format!("cannot listen on {address}: {error}")),
    }
}

//! The options of a MongoDB URL: passed to the driver, or rejected with the reason.
//!
//! `book/src/mongodb.md` has the table for readers; a test compares the two tables. An unlisted option is an error, so that a
//! new version of the driver cannot add an untested option.

use ::mongodb::{
    bson::{Bson, Document},
    options::{Acknowledgment, ClientOptions, WriteConcern},
};

use crate::{Error, ErrorKind, Result};

/// The treatment of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionPolicy {
    /// Passed to the driver: the option is about connections, names or credentials and changes no answer.
    Passed,
    /// Passed to the driver, which needs a feature that `odm` does not enable.
    PassedWith(&'static str),
    /// Applies to the reads of the application alone.
    ClientReadsOnly,
    /// Some values are rejected by [`ensure_supported_values`].
    Checked,
    /// Rejected, with the reason and a remedy.
    Refused(&'static str),
}

use OptionPolicy::{Checked, ClientReadsOnly, Passed, PassedWith, Refused};

const OPTIONS: &[(&str, OptionPolicy)] = &[
    ("adaptiveRetries", Refused("it is not tested with `odm`")),
    ("appName", Passed),
    ("authMechanism", Passed),
    ("authMechanismProperties", Passed),
    ("authSource", Passed),
    ("compressors", PassedWith("zstd-compression")),
    ("connectTimeoutMS", Passed),
    ("directConnection", Checked),
    (
        "enableOverloadRetargeting",
        Refused("it is not tested with `odm`"),
    ),
    ("heartbeatFrequencyMS", Passed),
    ("journal", Checked),
    ("loadBalanced", Checked),
    ("localThresholdMS", Passed),
    ("maxAdaptiveRetries", Refused("it is not tested with `odm`")),
    ("maxConnecting", Passed),
    ("maxIdleTimeMS", Passed),
    ("maxPoolSize", Passed),
    ("maxStalenessSeconds", ClientReadsOnly),
    ("minPoolSize", Passed),
    ("proxyHost", PassedWith("socks5-proxy")),
    ("proxyPassword", PassedWith("socks5-proxy")),
    ("proxyPort", PassedWith("socks5-proxy")),
    ("proxyUsername", PassedWith("socks5-proxy")),
    ("readConcernLevel", ClientReadsOnly),
    ("readPreference", ClientReadsOnly),
    ("readPreferenceTags", ClientReadsOnly),
    ("replicaSet", Passed),
    ("retryReads", Passed),
    ("retryWrites", Passed),
    ("serverMonitoringMode", Passed),
    ("serverSelectionTimeoutMS", Passed),
    (
        "socketTimeoutMS",
        Refused(
            "the driver has no time limit for a socket; limit the operation of the caller, for example with `tokio::time::timeout`",
        ),
    ),
    ("srvMaxHosts", Passed),
    ("srvServiceName", Passed),
    ("ssl", Passed),
    ("tls", Passed),
    ("tlsAllowInvalidCertificates", Passed),
    ("tlsAllowInvalidHostnames", PassedWith("openssl-tls")),
    ("tlsCAFile", Passed),
    ("tlsCertificateKeyFile", Passed),
    (
        "tlsCertificateKeyFilePassword",
        PassedWith("cert-key-password"),
    ),
    ("tlsInsecure", Passed),
    (
        "uuidRepresentation",
        Refused(
            "the types of the fields determine the stored form of UUIDs, and the option would have no effect",
        ),
    ),
    ("w", Checked),
    (
        "waitQueueTimeoutMS",
        Refused(
            "the driver has no such time limit; limit the operation of the caller, for example with `tokio::time::timeout`",
        ),
    ),
    ("wtimeoutMS", Passed),
    ("zlibCompressionLevel", PassedWith("zlib-compression")),
];

/// Rejects options by name before the driver parses the URL: the driver ignores some of these options silently.
///
/// The URL may be malformed, and any part may be the password. So the message contains only names of [`OPTIONS`].
pub(super) fn ensure_no_rejected_names(url: &str) -> Result<()> {
    for name in option_names(url) {
        if let Some((name, Refused(reason))) = find_policy(name) {
            let message = format!(
                "the option `{name}` in the URL is not supported: {reason}. Remove the option"
            );
            return Err(Error::new(ErrorKind::InvalidUrl, message));
        }
    }
    Ok(())
}

/// Returns the error for an option that needs a missing feature of the driver.
pub(super) fn missing_driver_feature(url: &str, driver_message: &str) -> Option<Error> {
    let mut candidates = option_names(url).filter_map(|name| match find_policy(name) {
        Some((name, PassedWith(feature))) => Some((name, feature)),
        _ => None,
    });
    let driver_message = driver_message.to_ascii_lowercase();
    let (name, feature) =
        candidates.find(|(name, _)| driver_message.contains(&name.to_ascii_lowercase()))?;
    let remedy = match FORWARDED_FEATURES.contains(&feature) {
        true => format!("enable the feature `{feature}` of `odm`"),
        false => format!(
            "add `mongodb = {{ version = \"3\", default-features = false, features = [\"{feature}\"] }}` to the application's \
             dependencies"
        ),
    };
    let message =
        format!("the option `{name}` in the URL needs a feature of the MongoDB driver: {remedy}");
    Some(Error::new(ErrorKind::InvalidUrl, message))
}

/// The features of the driver that are features of `odm`, too.
const FORWARDED_FEATURES: [&str; 4] = [
    "openssl-tls",
    "socks5-proxy",
    "zlib-compression",
    "zstd-compression",
];

/// Rejects unlisted options. The driver has parsed the URL before.
pub(super) fn ensure_supported_names(url: &str) -> Result<()> {
    match option_names(url).find(|name| find_policy(name).is_none()) {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "the option `{name}` in the URL is not supported: it is not tested with `odm`. Remove the option"
            );
            Err(Error::new(ErrorKind::InvalidUrl, message))
        }
    }
}

/// Rejects values that would break a guarantee.
pub(super) fn ensure_supported_values(options: &ClientOptions) -> Result<()> {
    let reject = |message: String| Err(Error::new(ErrorKind::InvalidUrl, message));
    let writes = options.write_concern.clone().unwrap_or_default();
    let w = match &writes.w {
        None | Some(Acknowledgment::Majority) => None,
        Some(Acknowledgment::Nodes(n)) => Some(n.to_string()),
        Some(Acknowledgment::Custom(tag)) => Some(tag.clone()),
        Some(other) => Some(format!("{other:?}")),
    };
    if let Some(w) = w {
        return reject(format!(
            "`w={w}` is not supported: a write without a majority can be lost, and its copies, links and counts would \
             stay. Remove `w`: every write waits for a majority"
        ));
    }
    if writes.journal == Some(false) {
        return reject(
            "`journal=false` is not supported: a crash can lose a write without a journal, and its copies, links and \
             counts would stay. Remove `journal`"
                .to_owned(),
        );
    }
    if options.load_balanced == Some(true) {
        return reject(
            "`loadBalanced=true` is not supported, also in a DNS record: transactions through a load balancer are not \
             tested with `odm`. List the routers (`mongos`) in the URL"
                .to_owned(),
        );
    }
    Ok(())
}

/// Rejects a direct connection to one member of a larger replica set.
///
/// After an election the driver would still read from this member, now a secondary. A stale answer could omit pending work.
pub(super) fn ensure_not_direct(options: &ClientOptions, hello: &Document) -> Result<()> {
    let hosts = ["hosts", "passives"].into_iter();
    let hosts: usize = hosts
        .map(|list| hello.get_array(list).map_or(0, Vec::len))
        .sum();
    if options.direct_connection != Some(true) || hosts <= 1 {
        return Ok(());
    }
    let set = hello.get("setName").and_then(Bson::as_str).unwrap_or("…");
    let message = format!(
        "`directConnection=true` connects to one member of a larger replica set, which may lose its role as primary \
         in the next election. Use `replicaSet={set}` instead, with the addresses of the members in the configuration of the \
         replica set"
    );
    Err(Error::new(ErrorKind::InvalidUrl, message))
}

/// Returns the write concern of every write: a majority with the journal, and the time limit that was asked for.
pub(super) fn write_concern(writes: Option<&WriteConcern>) -> WriteConcern {
    WriteConcern::builder()
        .w(Acknowledgment::Majority)
        .journal(true)
        .w_timeout(writes.and_then(|writes| writes.w_timeout))
        .build()
}

/// Returns the names of the options in a URL. User, password and hosts of a valid URL contain no question mark.
fn option_names(url: &str) -> impl Iterator<Item = &str> {
    let options = url.split_once('?').map_or("", |(_, options)| options);
    let pairs = options.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
}

/// Finds an option by its name in any case, and returns the option in the documented spelling.
fn find_policy(name: &str) -> Option<(&'static str, OptionPolicy)> {
    let mut options = OPTIONS.iter();
    let option = options.find(|(known, _)| known.eq_ignore_ascii_case(name));
    option.copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rows of the table of the book: the options of a row, and the policy.
    fn documented_rows() -> Vec<(Vec<&'static str>, &'static str)> {
        let page = include_str!("../../../../book/src/mongodb.md");
        let (_, options) = page
            .split_once("## Options of the URL")
            .expect("the page has the heading of the table");
        let (options, _) = options
            .split_once("\n## ")
            .expect("the page has a heading after the table");
        let rows = options.lines().filter(|line| line.starts_with("| `"));
        let rows = rows.map(|row| {
            let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
            let options = cells.next().unwrap_or_default().split(", ");
            let options = options.map(|option| option.trim_matches('`')).collect();
            (options, cells.next().unwrap_or_default())
        });
        rows.collect()
    }

    #[test]
    fn the_book_documents_each_option() {
        let documented = documented_rows();
        for (name, policy) in OPTIONS {
            let mut rows = documented.iter().filter(|(names, _)| names.contains(name));
            let (Some((_, documented_policy)), None) = (rows.next(), rows.next()) else {
                panic!("book/src/mongodb.md has no row, or two, for `{name}`");
            };
            let expected = match policy {
                Passed => "passed on",
                PassedWith(_) => "passed on, with a feature",
                ClientReadsOnly => "your reads only",
                Checked => "checked",
                Refused(_) => "refused",
            };
            assert_eq!(*documented_policy, expected, "`{name}`");
        }
        for (name, _) in documented.iter().flat_map(|(names, policy)| {
            let pairs = names.iter().map(move |name| (name, policy));
            pairs.collect::<Vec<_>>()
        }) {
            assert!(find_policy(name).is_some(), "`{name}` is only in the book");
        }
    }

    #[test]
    fn the_options_are_sorted() {
        let lower = |name: &str| name.to_ascii_lowercase();
        assert!(OPTIONS.is_sorted_by(|(a, _), (b, _)| lower(a) < lower(b)));
    }
}

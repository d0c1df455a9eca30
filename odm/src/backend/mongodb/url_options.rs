//! The options of a MongoDB URL: passed to the driver, or refused with the reason.
//!
//! `docs/guide/mongodb.md` has the table for readers; a test compares the two tables. An unlisted option is refused, so that a new version
//! of the driver cannot add an untested option.

use ::mongodb::{
    bson::{Bson, Document},
    options::{Acknowledgment, ClientOptions, WriteConcern},
};

use crate::{Error, ErrorKind, Result};

/// How an option is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Passed to the driver: the option is about connections, names or credentials and changes no answer.
    Passed,
    /// Passed to the driver, which needs a feature that `odm` does not enable.
    PassedWith(&'static str),
    /// Applies to the reads of the application alone.
    OwnReads,
    /// Some values are refused by [`refuse_values`].
    Checked,
    /// Refused, with the reason and a remedy.
    Refused(&'static str),
}

use Policy::{Checked, OwnReads, Passed, PassedWith, Refused};

const OPTIONS: &[(&str, Policy)] = &[
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
    ("maxStalenessSeconds", OwnReads),
    ("minPoolSize", Passed),
    ("proxyHost", PassedWith("socks5-proxy")),
    ("proxyPassword", PassedWith("socks5-proxy")),
    ("proxyPort", PassedWith("socks5-proxy")),
    ("proxyUsername", PassedWith("socks5-proxy")),
    ("readConcernLevel", OwnReads),
    ("readPreference", OwnReads),
    ("readPreferenceTags", OwnReads),
    ("replicaSet", Passed),
    ("retryReads", Passed),
    ("retryWrites", Passed),
    ("serverMonitoringMode", Passed),
    ("serverSelectionTimeoutMS", Passed),
    (
        "socketTimeoutMS",
        Refused(
            "the driver has no time limit for a socket; limit the waiting of the caller, as by `tokio::time::timeout`",
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
            "the types of the fields say how UUIDs are stored, and the option would change nothing",
        ),
    ),
    ("w", Checked),
    (
        "waitQueueTimeoutMS",
        Refused(
            "the driver has no such time limit; limit the waiting of the caller, as by `tokio::time::timeout`",
        ),
    ),
    ("wtimeoutMS", Passed),
    ("zlibCompressionLevel", PassedWith("zlib-compression")),
];

/// Refuses options by name before the driver parses the URL: the driver ignores some of these options silently.
///
/// The URL may be malformed, and any part may be the password. So the message contains names of [`OPTIONS`] alone.
pub(super) fn refuse_names(url: &str) -> Result<()> {
    for name in names(url) {
        if let Some((name, Refused(why))) = policy(name) {
            let message =
                format!("the option `{name}` in the URL is not supported: {why}. Leave it out");
            return Err(Error::new(ErrorKind::InvalidUrl, message));
        }
    }
    Ok(())
}

/// Returns the error for an option that needs a missing feature of the driver.
pub(super) fn missing_feature(url: &str, refusal: &str) -> Option<Error> {
    let mut needing = names(url).filter_map(|name| match policy(name) {
        Some((name, PassedWith(feature))) => Some((name, feature)),
        _ => None,
    });
    let refusal = refusal.to_ascii_lowercase();
    let (name, feature) = needing.find(|(name, _)| refusal.contains(&name.to_ascii_lowercase()))?;
    let message = format!(
        "the option `{name}` in the URL needs a feature of the MongoDB driver: add \
         `mongodb = {{ version = \"3\", default-features = false, features = [\"{feature}\"] }}` to the application's dependencies"
    );
    Some(Error::new(ErrorKind::InvalidUrl, message))
}

/// Refuses unlisted options, and values that would break a guarantee. The driver has parsed the URL by then.
pub(super) fn refuse_values(url: &str, options: &ClientOptions) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidUrl, message));
    if let Some(name) = names(url).find(|name| policy(name).is_none()) {
        return refuse(format!(
            "the option `{name}` in the URL is not supported: it is not tested with `odm`. Leave it out"
        ));
    }
    let writes = options.write_concern.clone().unwrap_or_default();
    let w = match &writes.w {
        None | Some(Acknowledgment::Majority) => None,
        Some(Acknowledgment::Nodes(n)) => Some(n.to_string()),
        Some(Acknowledgment::Custom(tag)) => Some(tag.clone()),
        Some(other) => Some(format!("{other:?}")),
    };
    if let Some(w) = w {
        return refuse(format!(
            "`w={w}` in the URL: a write that no majority has confirmed can be lost, and leave copies, links and counts of a document \
             that is not there. Leave `w` out: every write waits for a majority"
        ));
    }
    if writes.journal == Some(false) {
        return refuse(
            "`journal=false` in the URL: a write that is in no journal can be lost in a crash, and leave copies, links and counts of a \
             document that is not there. Leave `journal` out"
                .to_owned(),
        );
    }
    if options.load_balanced == Some(true) {
        return refuse(
            "`loadBalanced=true` in the URL or its DNS record: transactions through a load balancer are not tested with `odm`. Name the \
             routers (`mongos`) in the URL"
                .to_owned(),
        );
    }
    Ok(())
}

/// Refuses a direct connection to one member of a larger replica set. After an election the driver would read from the same member, now
/// a secondary, and pending work would be missing in a stale answer.
pub(super) fn refuse_direct(options: &ClientOptions, hello: &Document) -> Result<()> {
    let members = ["hosts", "passives"].into_iter();
    let members: usize = members
        .map(|list| hello.get_array(list).map_or(0, Vec::len))
        .sum();
    if options.direct_connection != Some(true) || members <= 1 {
        return Ok(());
    }
    let set = hello.get("setName").and_then(Bson::as_str).unwrap_or("…");
    let message = format!(
        "`directConnection=true` in the URL leads to one member of a replica set of several, which is the primary until the next election \
         at most. Write `replicaSet={set}` instead, with the addresses by which the members know each other"
    );
    Err(Error::new(ErrorKind::InvalidUrl, message))
}

/// The write concern of every write: a majority with the journal, and the time limit of the URL.
pub(super) fn write_concern(options: &ClientOptions) -> WriteConcern {
    let writes = options.write_concern.as_ref();
    WriteConcern::builder()
        .w(Acknowledgment::Majority)
        .journal(true)
        .w_timeout(writes.and_then(|writes| writes.w_timeout))
        .build()
}

/// The names of the options in a URL. User, password and hosts of a valid URL have no question mark.
fn names(url: &str) -> impl Iterator<Item = &str> {
    let options = url.split_once('?').map_or("", |(_, options)| options);
    let pairs = options.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
}

/// Returns an option with the documented spelling. Names in a URL may be in any case.
fn policy(name: &str) -> Option<(&'static str, Policy)> {
    let mut options = OPTIONS.iter();
    let found = options.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the guide's table: the options of a row, and the policy.
    fn documented() -> Vec<(Vec<&'static str>, &'static str)> {
        let page = include_str!("../../../../docs/guide/mongodb.md");
        let (_, options) = page
            .split_once("## Options of the URL")
            .expect("its heading");
        let (options, _) = options.split_once("\n## ").expect("the next heading");
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
    fn the_guide_says_of_each_option_what_becomes_of_it() {
        let documented = documented();
        for (name, policy) in OPTIONS {
            let mut rows = documented.iter().filter(|(names, _)| names.contains(name));
            let (Some((_, said)), None) = (rows.next(), rows.next()) else {
                panic!("docs/guide/mongodb.md has no row, or two, for `{name}`");
            };
            let expected = match policy {
                Passed => "passed on",
                PassedWith(_) => "passed on, with a feature",
                OwnReads => "your reads only",
                Checked => "checked",
                Refused(_) => "refused",
            };
            assert_eq!(*said, expected, "`{name}`");
        }
        for (name, _) in documented.iter().flat_map(|(names, said)| {
            let pairs = names.iter().map(move |name| (name, said));
            pairs.collect::<Vec<_>>()
        }) {
            assert!(policy(name).is_some(), "`{name}` is in the guide alone");
        }
    }

    #[test]
    fn the_options_are_sorted() {
        let lower = |name: &str| name.to_ascii_lowercase();
        assert!(OPTIONS.is_sorted_by(|(a, _), (b, _)| lower(a) < lower(b)));
    }
}

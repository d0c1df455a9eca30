//! Errors as clients see them.

pub(crate) mod code;

use std::fmt;

use bson::{Bson, RawArrayBuf, RawDocument, RawDocumentBuf, raw::cstr};
use odm_engine::{DuplicateKey, Error, ErrorKind};

use crate::namespace::Namespaces;

pub(crate) type Result<T, E = CommandError> = std::result::Result<T, E>;

/// The label of an error after which the client runs the transaction again.
pub(crate) const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";

/// The error of a command.
#[derive(Clone, Debug)]
pub(crate) struct CommandError {
    code: i32,
    message: String,
    /// The error of a unique index, with the duplicate key.
    duplicate: Option<Error>,
    labels: Vec<&'static str>,
}

impl CommandError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> CommandError {
        CommandError {
            code,
            message: message.into(),
            duplicate: None,
            labels: Vec::new(),
        }
    }

    /// Returns an error for an invalid value.
    pub(crate) fn bad_value(message: impl Into<String>) -> CommandError {
        CommandError::new(code::BAD_VALUE, message)
    }

    /// Returns an error for a feature that a MongoDB server has and this server lacks.
    pub(crate) fn not_supported(message: impl Into<String>) -> CommandError {
        CommandError::new(code::COMMAND_NOT_SUPPORTED, message)
    }

    /// Returns the error for a missing collection.
    pub(crate) fn namespace_not_found(namespace: impl fmt::Display) -> CommandError {
        let message = format!("ns does not exist: {namespace}");
        CommandError::new(code::NAMESPACE_NOT_FOUND, message)
    }

    /// Returns the error for a transaction that is not open.
    pub(crate) fn no_such_transaction(message: impl Into<String>) -> CommandError {
        CommandError::new(code::NO_SUCH_TRANSACTION, message)
    }

    /// Adds a label, which tells a driver how to react.
    pub(crate) fn with_label(mut self, label: &'static str) -> CommandError {
        if !self.labels.contains(&label) {
            self.labels.push(label);
        }
        self
    }

    pub(crate) fn code(&self) -> i32 {
        self.code
    }

    /// Returns the reply of the failed command.
    pub(crate) fn to_reply(&self, namespaces: &Namespaces) -> RawDocumentBuf {
        let mut reply = RawDocumentBuf::new();
        reply.append(cstr!("ok"), 0.0);
        reply.append(cstr!("errmsg"), self.message(namespaces));
        reply.append(cstr!("code"), self.code);
        reply.append(cstr!("codeName"), &*code::name(self.code));
        self.append_key(&mut reply);
        if !self.labels.is_empty() {
            let labels: RawArrayBuf = self.labels.iter().copied().collect();
            reply.append(cstr!("errorLabels"), labels);
        }
        reply
    }

    /// Returns the entry of a list of write errors.
    pub(crate) fn to_write_error(&self, index: usize, namespaces: &Namespaces) -> RawDocumentBuf {
        let mut entry = RawDocumentBuf::new();
        entry.append(cstr!("index"), i32::try_from(index).unwrap_or(i32::MAX));
        entry.append(cstr!("code"), self.code);
        self.append_key(&mut entry);
        entry.append(cstr!("errmsg"), self.message(namespaces));
        entry
    }

    fn duplicate_key(&self) -> Option<&DuplicateKey> {
        self.duplicate.as_ref()?.duplicate_key()
    }

    fn append_key(&self, reply: &mut RawDocumentBuf) {
        if let Some(duplicate) = self.duplicate_key() {
            reply.append(cstr!("keyPattern"), duplicate.key_pattern());
            reply.append(cstr!("keyValue"), duplicate.key_value());
            if let Some(collation) = duplicate.collation() {
                reply.append(cstr!("collation"), collation);
            }
        }
    }

    /// Returns the message. Programs parse the message of a duplicate key, so the message has MongoDB's form.
    fn message(&self, namespaces: &Namespaces) -> String {
        let Some(duplicate) = self.duplicate_key() else {
            return self.message.clone();
        };
        let namespace = namespaces.namespace_of(duplicate.collection());
        let collation = duplicate.collation().map(|collation| {
            let locale = collation.get_str("locale").unwrap_or_default();
            format!(" collation: {{ locale: \"{locale}\" }}")
        });
        format!(
            "E11000 duplicate key error collection: {namespace} index: {}{} dup key: {}",
            duplicate.index(),
            collation.unwrap_or_default(),
            shell_text(duplicate.key_value()),
        )
    }
}

/// Returns a document in the form of MongoDB's messages: names without quotes.
fn shell_text(document: &RawDocument) -> String {
    let fields = document.iter().filter_map(Result::ok).map(|(name, value)| {
        let value =
            Bson::try_from(value).map_or_else(|_| "…".to_owned(), |value| value.to_string());
        format!("{}: {value}", name.as_str())
    });
    format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> CommandError {
        let code = error.code().unwrap_or(match error.kind() {
            ErrorKind::ReadOnly => code::ILLEGAL_OPERATION,
            ErrorKind::Closed => code::SHUTDOWN_IN_PROGRESS,
            ErrorKind::BadValue => code::BAD_VALUE,
            _ => code::INTERNAL_ERROR,
        });
        CommandError {
            code,
            message: error.message().to_owned(),
            labels: Vec::new(),
            duplicate: error.is_duplicate_key().then_some(error),
        }
    }
}

impl From<bson::error::Error> for CommandError {
    fn from(error: bson::error::Error) -> CommandError {
        let message = format!("malformed BSON: {error}");
        CommandError::new(code::INVALID_BSON, message)
    }
}

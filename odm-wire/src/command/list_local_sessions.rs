//! The stage `{ $listLocalSessions: {} }` of `aggregate: 1`: the sessions of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::{Binary, DateTime, RawBsonRef, RawDocumentBuf, rawdoc, spec::BinarySubtype};
use sha2::{Digest, Sha256};

use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

/// The name of the stage.
pub(super) const NAME: &str = "$listLocalSessions";

/// Returns the documents of the stage. The server has at most one user, so every client sees all sessions.
pub(super) fn stage(operation: &Operation, options: RawBsonRef<'_>) -> Result<Vec<RawDocumentBuf>> {
    let RawBsonRef::Document(options) = options else {
        let message = "$listLocalSessions options must be specified in an object";
        return Err(CommandError::new(code::TYPE_MISMATCH, message));
    };
    let mut options = Arguments::nested(NAME, options)?;
    let all_users = options.flag("allUsers")?;
    let users = options.documents("users")?.unwrap_or_default();
    options.finish()?;
    if all_users && !users.is_empty() {
        let message = "$listLocalSessions is not allowed to specify both `allUsers` and `users`";
        return Err(CommandError::new(code::UNSUPPORTED_FORMAT, message));
    }
    if !users.is_empty() {
        let message = "`users` of $listLocalSessions is not supported: leave it out, the server has at most one user";
        return Err(CommandError::not_supported(message));
    }
    let mut sessions: BTreeMap<[u8; 16], Duration> = BTreeMap::new();
    let known = operation.server.sessions.list().into_iter();
    sessions.extend(known.map(|(id, unused)| (id.0, unused)));
    // The server keeps a session from its first transaction or retryable write on.
    if let Some(session) = operation.options.session {
        sessions.insert(session.0, Duration::ZERO);
    }
    let user = operation.server.credentials.as_ref();
    let user = user.map(|credentials| format!("{}@admin", credentials.user_name()));
    let digest = Sha256::digest(user.unwrap_or_default());
    let documents = sessions.into_iter().map(|(id, unused)| {
        let millis = i64::try_from(unused.as_millis()).unwrap_or(i64::MAX);
        let last_use = DateTime::now().timestamp_millis().saturating_sub(millis);
        let id = Binary {
            subtype: BinarySubtype::Uuid,
            bytes: id.to_vec(),
        };
        let uid = Binary {
            subtype: BinarySubtype::Generic,
            bytes: digest.to_vec(),
        };
        rawdoc! {
            "_id": { "id": id, "uid": uid },
            "lastUse": DateTime::from_millis(last_use),
        }
    });
    Ok(documents.collect())
}

//! The arguments that every command has.

use std::time::Duration;

use bson::{RawBson, RawBsonRef, RawDocument, Timestamp, spec::BinarySubtype};

use crate::arguments::{Arguments, to_number};
use crate::error::{CommandError, Result, code};
use crate::session::SessionId;

/// Arguments that change no result on this server. A driver sends most of them with each command.
const WITHOUT_EFFECT: &[&str] = &[
    "$audit",
    "$client",
    "$clusterTime",
    "$configServerState",
    "$oplogQueryData",
    "$queryOptions",
    "$readPreference",
    "$replData",
    "$tenant",
    "apiDeprecationErrors",
    "apiStrict",
    "comment",
    "maxTimeMSOpOnly",
    "mayBypassWriteBlocking",
];

/// The arguments that every command has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestOptions {
    pub(crate) database: String,
    pub(crate) session: Option<SessionId>,
    pub(crate) number: OperationNumber,
    pub(crate) max_time: Option<Duration>,
    pub(crate) write_concern: WriteConcern,
    pub(crate) read_concern: ReadConcern,
}

/// The state that the client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadConcern {
    /// The last durable state, or the state of the transaction.
    Current,
    /// The same, with a level that a change stream cannot have: `local` or `available`.
    Weak(&'static str),
    /// The same, with a level that a write and a change stream cannot have.
    Linearizable,
    /// A state outside of a transaction that later reads see again: a new state, or the state with this time.
    Snapshot(Option<Timestamp>),
}

/// The number of a write or of a transaction in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationNumber {
    /// An operation without a number.
    None,
    /// A write that the driver sends again after a failure of the network.
    RetryableWrite(i64),
    /// An operation of a transaction.
    Transaction {
        number: i64,
        /// Whether the operation begins the transaction.
        begins: bool,
    },
}

/// The acknowledgement that the client waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WriteConcern {
    /// The file is written. `journaled` also asks for a sync.
    Available { journaled: bool },
    /// More servers than the one of this replica set: the error of the reply.
    Unavailable(i32, String),
}

impl RequestOptions {
    /// Takes the arguments of every command.
    ///
    /// # Errors
    /// Wrong types; a concern or a combination that is not supported.
    pub(crate) fn take(arguments: &mut Arguments) -> Result<RequestOptions> {
        let database = arguments.required_text("$db")?;
        crate::namespace::check_database(&database)?;
        arguments.accept(WITHOUT_EFFECT);
        check_api_version(arguments)?;
        let session = match arguments.document("lsid")? {
            Some(id) => Some(parse_session_id(&id)?),
            None => None,
        };
        let number = parse_number(arguments, session)?;
        let read_concern = take_read_concern(arguments, number)?;
        Ok(RequestOptions {
            database,
            session,
            number,
            max_time: parse_max_time(arguments)?,
            write_concern: parse_write_concern(arguments)?,
            read_concern,
        })
    }
}

fn check_api_version(arguments: &mut Arguments) -> Result<()> {
    match arguments.text("apiVersion")?.as_deref() {
        None | Some("1") => Ok(()),
        Some(version) => {
            let message = format!("API version must be \"1\", and is \"{version}\"");
            Err(CommandError::new(322, message))
        }
    }
}

/// Reads `{ id: UUID }`.
pub(crate) fn parse_session_id(document: &RawDocument) -> Result<SessionId> {
    match document.get("id")? {
        Some(RawBsonRef::Binary(id)) if id.subtype == BinarySubtype::Uuid => id
            .bytes
            .try_into()
            .map(SessionId)
            .map_err(|_| CommandError::new(207, "a session id has 16 bytes")),
        _ => Err(CommandError::new(
            code::TYPE_MISMATCH,
            "a session id is `{ id: UUID }`",
        )),
    }
}

fn parse_number(arguments: &mut Arguments, session: Option<SessionId>) -> Result<OperationNumber> {
    let number = arguments.integer("txnNumber")?;
    let autocommit = arguments.optional_flag("autocommit")?;
    let begins = arguments.optional_flag("startTransaction")?;
    arguments.accept(&["stmtId", "stmtIds"]);
    let invalid = |message: &str| Err(CommandError::new(code::INVALID_OPTIONS, message));
    match (number, autocommit, begins) {
        (None, None, None) => Ok(OperationNumber::None),
        (None, _, _) => invalid("a transaction needs `txnNumber`"),
        (Some(_), _, _) if session.is_none() => invalid("`txnNumber` needs a session: `lsid`"),
        (Some(number), _, _) if number < 0 => invalid("`txnNumber` is negative"),
        (Some(number), None, None) => Ok(OperationNumber::RetryableWrite(number)),
        (Some(_), Some(true), _) => invalid("`autocommit` of a transaction is false"),
        (Some(_), None, Some(_)) => invalid("`startTransaction` needs `autocommit: false`"),
        (Some(number), Some(false), begins) => Ok(OperationNumber::Transaction {
            number,
            begins: begins.unwrap_or(false),
        }),
    }
}

/// Takes the read concern. Each read sees the last durable state, or the snapshot of its transaction, so it satisfies every level but
/// one: outside of a transaction, `snapshot` means that later reads of the session see the same state.
fn take_read_concern(arguments: &mut Arguments, number: OperationNumber) -> Result<ReadConcern> {
    let Some(concern) = arguments.document("readConcern")? else {
        return Ok(ReadConcern::Current);
    };
    let mut concern = Arguments::nested("readConcern", &concern)?;
    let level = concern.text("level")?;
    let levels = ["local", "available", "majority", "linearizable", "snapshot"];
    if let Some(level) = level.as_deref().filter(|level| !levels.contains(level)) {
        let message = format!("unknown read concern level '{level}'");
        return Err(CommandError::new(code::FAILED_TO_PARSE, message));
    }
    let is_in_transaction = matches!(number, OperationNumber::Transaction { .. });
    let read_concern = match level.as_deref() {
        Some("snapshot") if !is_in_transaction => {
            ReadConcern::Snapshot(match concern.value("atClusterTime") {
                None => None,
                Some(RawBson::Timestamp(time)) => Some(time),
                Some(other) => {
                    return Err(concern.wrong_type("atClusterTime", &other, "timestamp"));
                }
            })
        }
        Some("linearizable") => ReadConcern::Linearizable,
        Some("local") => ReadConcern::Weak("local"),
        Some("available") => ReadConcern::Weak("available"),
        _ => ReadConcern::Current,
    };
    concern.refuse(&["atClusterTime"])?;
    concern.accept(&["afterClusterTime", "provenance"]);
    concern.finish()?;
    Ok(read_concern)
}

fn parse_max_time(arguments: &mut Arguments) -> Result<Option<Duration>> {
    let Some(value) = arguments.value("maxTimeMS") else {
        return Ok(None);
    };
    let number = to_number(value.as_raw_bson_ref());
    let number = number.ok_or_else(|| CommandError::bad_value("maxTimeMS must be a number"))?;
    match number {
        0.0 => Ok(None),
        number if (0.0..=f64::from(i32::MAX)).contains(&number) => {
            Ok(Some(Duration::from_secs_f64(number / 1000.0)))
        }
        number => Err(CommandError::bad_value(format!(
            "{number} value for maxTimeMS is out of range [0, {}]",
            i32::MAX
        ))),
    }
}

fn parse_write_concern(arguments: &mut Arguments) -> Result<WriteConcern> {
    let Some(concern) = arguments.document("writeConcern")? else {
        return Ok(WriteConcern::Available { journaled: false });
    };
    let mut concern = Arguments::nested("writeConcern", &concern)?;
    concern.accept(&["wtimeout", "provenance", "fsync"]);
    let journaled = concern.flag("j")?;
    let acknowledged_by = concern.value("w");
    concern.finish()?;
    let available = WriteConcern::Available { journaled };
    Ok(match acknowledged_by {
        None => available,
        Some(RawBson::String(mode)) if mode == "majority" => available,
        Some(RawBson::String(mode)) => WriteConcern::Unavailable(
            code::UNKNOWN_REPL_WRITE_CONCERN,
            format!("No write concern mode named '{mode}' found in replica set configuration"),
        ),
        Some(number) => match to_number(number.as_raw_bson_ref()) {
            Some(number) if (0.0..=1.0).contains(&number) => available,
            Some(number) if (0.0..=50.0).contains(&number) => WriteConcern::Unavailable(
                code::UNSATISFIABLE_WRITE_CONCERN,
                "Not enough data-bearing nodes".to_owned(),
            ),
            _ => {
                let message =
                    "w has to be a non-negative number and not greater than 50; or a string";
                return Err(CommandError::new(code::FAILED_TO_PARSE, message));
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use bson::{Binary, rawdoc};

    use super::*;

    fn take(mut document: bson::RawDocumentBuf) -> Result<RequestOptions> {
        document.append(bson::raw::cstr!("$db"), "test");
        RequestOptions::take(&mut Arguments::from_document(&document)?)
    }

    fn session() -> bson::RawDocumentBuf {
        let bytes = vec![7; 16];
        let subtype = BinarySubtype::Uuid;
        rawdoc! { "id": Binary { bytes, subtype } }
    }

    #[test]
    fn numbers_tell_transactions_from_retryable_writes() {
        let number = |document| take(document).map(|options| options.number);
        let id = session();
        let write = rawdoc! { "insert": "c", "lsid": id.clone(), "txnNumber": 3_i64 };
        assert_eq!(number(write).unwrap(), OperationNumber::RetryableWrite(3));
        let first = rawdoc! {
            "insert": "c", "lsid": id.clone(), "txnNumber": 3_i64, "autocommit": false, "startTransaction": true
        };
        let begins = OperationNumber::Transaction {
            number: 3,
            begins: true,
        };
        assert_eq!(number(first).unwrap(), begins);
        for wrong in [
            rawdoc! { "insert": "c", "txnNumber": 3_i64 },
            rawdoc! { "insert": "c", "lsid": id.clone(), "txnNumber": -3_i64 },
            rawdoc! { "insert": "c", "lsid": id.clone(), "autocommit": false },
            rawdoc! { "insert": "c", "lsid": id.clone(), "txnNumber": 3_i64, "startTransaction": true },
            rawdoc! { "insert": "c", "lsid": id, "txnNumber": 3_i64, "autocommit": true },
        ] {
            assert_eq!(number(wrong).unwrap_err().code(), code::INVALID_OPTIONS);
        }
    }

    #[test]
    fn concerns_are_checked() {
        let concern = |concern| take(rawdoc! { "insert": "c", "writeConcern": concern });
        let journaled = concern(rawdoc! { "w": "majority", "j": true }).unwrap();
        let available = WriteConcern::Available { journaled: true };
        assert_eq!(journaled.write_concern, available);
        let two = concern(rawdoc! { "w": 2 }).unwrap().write_concern;
        assert!(matches!(two, WriteConcern::Unavailable(100, _)));
        assert!(concern(rawdoc! { "w": -1 }).is_err());
        assert!(concern(rawdoc! { "w": 1, "frob": 1 }).is_err());
        let read = |concern| take(rawdoc! { "find": "c", "readConcern": concern });
        assert!(read(rawdoc! { "level": "majority" }).is_ok());
        assert!(read(rawdoc! { "level": "newest" }).is_err());
        let time = Timestamp {
            time: 1,
            increment: 1,
        };
        let at = read(rawdoc! { "level": "snapshot", "atClusterTime": time }).unwrap();
        assert_eq!(at.read_concern, ReadConcern::Snapshot(Some(time)));
        let snapshot = rawdoc! { "level": "snapshot" };
        let outside = read(snapshot.clone()).unwrap();
        assert_eq!(outside.read_concern, ReadConcern::Snapshot(None));
        let majority = read(rawdoc! { "level": "majority", "atClusterTime": time });
        assert_eq!(majority.unwrap_err().code(), code::COMMAND_NOT_SUPPORTED);
        let inside = rawdoc! {
            "find": "c", "lsid": session(), "txnNumber": 1_i64, "autocommit": false, "startTransaction": true,
            "readConcern": snapshot
        };
        assert!(take(inside).is_ok());
    }

    #[test]
    fn a_time_limit_is_a_number_of_milliseconds() {
        let limit = |limit: RawBson| take(rawdoc! { "find": "c", "maxTimeMS": limit });
        let one = limit(RawBson::Int32(1500)).unwrap().max_time;
        assert_eq!(one, Some(Duration::from_millis(1500)));
        assert_eq!(limit(RawBson::Int32(0)).unwrap().max_time, None);
        assert!(limit(RawBson::Int32(-1)).is_err());
        assert!(limit(RawBson::Double(f64::NAN)).is_err());
        assert!(limit(RawBson::String("1".to_owned())).is_err());
    }
}

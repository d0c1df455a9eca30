//! Errors as answers of a web service.

use odm::{Error, ErrorKind};

const KINDS: [ErrorKind; 35] = [
    ErrorKind::NotFound,
    ErrorKind::NotUnique,
    ErrorKind::DuplicateKey,
    ErrorKind::Conflict,
    ErrorKind::Dangling,
    ErrorKind::AlreadyLinked,
    ErrorKind::Restricted,
    ErrorKind::NotApplied,
    ErrorKind::TooManyElements,
    ErrorKind::Decode,
    ErrorKind::MissingIndex,
    ErrorKind::Encode,
    ErrorKind::Validation,
    ErrorKind::Committed,
    ErrorKind::InvalidPageToken,
    ErrorKind::Invalid,
    ErrorKind::Unsupported,
    ErrorKind::InvalidUrl,
    ErrorKind::Connection,
    ErrorKind::InUse,
    ErrorKind::Damaged,
    ErrorKind::HistoryLost,
    ErrorKind::StillPending,
    ErrorKind::Timeout,
    ErrorKind::TransactionExpired,
    ErrorKind::TransactionOver,
    ErrorKind::OutsideTransaction,
    ErrorKind::WriteTooLarge,
    ErrorKind::StorageFull,
    ErrorKind::TargetNotEmpty,
    ErrorKind::CopyDiffers,
    ErrorKind::Io,
    ErrorKind::Closed,
    ErrorKind::Backend,
    ErrorKind::Other,
];

/// The tables of the book and of [`Error::status`] have the status of each kind.
#[test]
fn the_documents_list_each_status() {
    let page = include_str!("../../../book/src/errors.md");
    let source = include_str!("../../../odm/src/error/problem.rs");
    for kind in KINDS {
        let status = Error::new(kind, "").status();
        let row = format!("| `{kind:?}` |");
        let mut rows = page.lines().filter(|line| line.starts_with(&row));
        let line = rows.next().expect("a row of the book");
        let mut cells = line.trim_end_matches('|').rsplit('|');
        match cells
            .next()
            .and_then(|cell| cell.trim().parse::<u16>().ok())
        {
            Some(listed) => assert_eq!(status, listed, "{line}"),
            // The table of faults of the program names the statuses above the table.
            None => match kind {
                ErrorKind::Unsupported => assert_eq!(status, 501),
                ErrorKind::InUse => assert_eq!(status, 503),
                _ => assert_eq!(status, 500, "{line}"),
            },
        }
        let row = format!("/// | {status} |");
        let mut rows = source
            .lines()
            .filter(|line| line.trim_start().starts_with(&row));
        let line = rows.next().expect("a row of the documentation");
        assert!(line.contains(&format!("`{kind:?}`")), "{line}");
    }
}

/// The text, the ids and the values of an error can be secret. A path can be secret only in an error of the server.
#[test]
fn a_problem_contains_no_secrets() {
    for kind in KINDS {
        let error = Error::new(kind, "secret text")
            .with_collection("secret_collection")
            .with_id("secret id")
            .with_index("secret_index", "secret value")
            .with_path("field");
        let problem = error.to_problem();
        let json = serde_json::to_string(&problem).unwrap();
        assert!(!json.contains("secret"), "{json}");
        assert_eq!(problem.path.is_some(), problem.status < 500, "{json}");
        assert_eq!(problem.status, error.status());
    }
}

//! Events that come in fragments.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{Error, ErrorKind, Result};

/// What a fragment says of itself: `{fragment: 1, of: 3}`.
const SPLIT_EVENT: &str = "splitEvent";

/// The fragments of an event that have come, in their order.
#[derive(Debug, Default)]
pub(super) struct Fragments(Vec<RawDocumentBuf>);

impl Fragments {
    /// Adds an event or a fragment. Returns a whole event, with the token of its last fragment.
    pub(super) fn add(&mut self, event: RawDocumentBuf) -> Result<Option<RawDocumentBuf>> {
        let Some((fragment, of)) = position(&event)? else {
            self.0.clear();
            return Ok(Some(event));
        };
        // After the loss of a primary, the server may begin with the first one again.
        if fragment == 1 {
            self.0.clear();
        }
        if usize::try_from(fragment - 1) != Ok(self.0.len()) {
            return Err(malformed());
        }
        self.0.push(event);
        match fragment == of {
            true => whole(&std::mem::take(&mut self.0)).map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Which fragment it is, counted from 1, and how many there are; none if it is a whole event.
fn position(event: &RawDocument) -> Result<Option<(i32, i32)>> {
    let Some(split) = event.get(SPLIT_EVENT).map_err(crate::error::encode)? else {
        return Ok(None);
    };
    let split = split.as_document().ok_or_else(malformed)?;
    let number = |name| split.get_i32(name).map_err(|_| malformed());
    Ok(Some((number("fragment")?, number("of")?)))
}

/// The fields of all fragments; the token is that of the last one.
fn whole(fragments: &[RawDocumentBuf]) -> Result<RawDocumentBuf> {
    let last = fragments.last().ok_or_else(malformed)?;
    let token = last.get("_id").map_err(crate::error::encode)?;
    let mut event = RawDocumentBuf::new();
    event.append(bson::raw::cstr!("_id"), token.ok_or_else(malformed)?);
    for fragment in fragments {
        for field in fragment.iter() {
            let (name, value): (_, RawBsonRef<'_>) = field.map_err(crate::error::encode)?;
            if name != "_id" && name != SPLIT_EVENT {
                event.append(name, value);
            }
        }
    }
    Ok(event)
}

fn malformed() -> Error {
    Error::new(
        ErrorKind::Backend,
        "MongoDB sent the fragments of a large event in another order than it says",
    )
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn fragment(token: &str, number: i32, of: i32) -> RawDocumentBuf {
        rawdoc! { "_id": { "_data": token }, "splitEvent": { "fragment": number, "of": of } }
    }

    #[test]
    fn fragments_are_one_event_with_the_last_token() {
        let mut fragments = Fragments::default();
        let mut first = fragment("a", 1, 2);
        first.append(bson::raw::cstr!("operationType"), "update");
        first.append(
            bson::raw::cstr!("updateDescription"),
            rawdoc! { "updatedFields": { "a": 1 } },
        );
        let mut second = fragment("b", 2, 2);
        second.append(
            bson::raw::cstr!("fullDocument"),
            rawdoc! { "_id": 7, "a": 1 },
        );

        assert_eq!(fragments.add(first.clone()).unwrap(), None);
        assert!(!fragments.is_empty());
        // The server begins anew.
        assert_eq!(fragments.add(first).unwrap(), None);
        let event = fragments.add(second).unwrap();
        let wanted = rawdoc! {
            "_id": { "_data": "b" },
            "operationType": "update",
            "updateDescription": { "updatedFields": { "a": 1 } },
            "fullDocument": { "_id": 7, "a": 1 },
        };
        assert_eq!(event, Some(wanted));
        assert!(fragments.is_empty());

        let plain = rawdoc! { "_id": { "_data": "c" }, "operationType": "delete" };
        assert_eq!(fragments.add(plain.clone()).unwrap(), Some(plain));
        assert!(fragments.add(fragment("d", 2, 3)).is_err());
    }
}

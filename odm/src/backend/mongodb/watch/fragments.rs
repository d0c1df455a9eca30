//! Fragments of large change events.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{Error, ErrorKind, Result};

/// The field of a fragment with its number and the number of fragments: `{fragment: 1, of: 3}`.
const SPLIT_EVENT_FIELD: &str = "splitEvent";

/// The received fragments of an event, in order.
#[derive(Debug, Default)]
pub(super) struct EventFragments(Vec<RawDocumentBuf>);

impl EventFragments {
    /// Adds an event or a fragment. Returns a complete event, with the token of its last fragment.
    pub(super) fn push_event(&mut self, event: RawDocumentBuf) -> Result<Option<RawDocumentBuf>> {
        let Some((fragment, count)) = fragment_position(&event)? else {
            self.0.clear();
            return Ok(Some(event));
        };
        // After the loss of a primary, the server may send the fragments again from the first.
        if fragment == 1 {
            self.0.clear();
        }
        if usize::try_from(fragment - 1) != Ok(self.0.len()) {
            return Err(fragments_out_of_order());
        }
        self.0.push(event);
        match fragment == count {
            true => join_fragments(&std::mem::take(&mut self.0)).map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the number of a fragment, counted from 1, and the number of fragments. Returns `None` for a complete event.
fn fragment_position(event: &RawDocument) -> Result<Option<(i32, i32)>> {
    let Some(split) = event
        .get(SPLIT_EVENT_FIELD)
        .map_err(crate::error::from_bson)?
    else {
        return Ok(None);
    };
    let split = split.as_document().ok_or_else(fragments_out_of_order)?;
    let number = |name| split.get_i32(name).map_err(|_| fragments_out_of_order());
    Ok(Some((number("fragment")?, number("of")?)))
}

/// Joins the fields of all fragments. The event gets the token of the last fragment.
fn join_fragments(fragments: &[RawDocumentBuf]) -> Result<RawDocumentBuf> {
    let last = fragments.last().ok_or_else(fragments_out_of_order)?;
    let token = last.get("_id").map_err(crate::error::from_bson)?;
    let mut event = RawDocumentBuf::new();
    event.append(
        bson::raw::cstr!("_id"),
        token.ok_or_else(fragments_out_of_order)?,
    );
    for fragment in fragments {
        for field in fragment.iter() {
            let (name, value): (_, RawBsonRef<'_>) = field.map_err(crate::error::from_bson)?;
            if name != "_id" && name != SPLIT_EVENT_FIELD {
                event.append(name, value);
            }
        }
    }
    Ok(event)
}

fn fragments_out_of_order() -> Error {
    Error::new(
        ErrorKind::Backend,
        "MongoDB sent the fragments of a large change event out of order",
    )
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn fragment_event(token: &str, number: i32, count: i32) -> RawDocumentBuf {
        rawdoc! { "_id": { "_data": token }, "splitEvent": { "fragment": number, "of": count } }
    }

    #[test]
    fn fragments_are_one_event_with_the_last_token() {
        let mut fragments = EventFragments::default();
        let mut first = fragment_event("a", 1, 2);
        first.append(bson::raw::cstr!("operationType"), "update");
        first.append(
            bson::raw::cstr!("updateDescription"),
            rawdoc! { "updatedFields": { "a": 1 } },
        );
        let mut second = fragment_event("b", 2, 2);
        second.append(
            bson::raw::cstr!("fullDocument"),
            rawdoc! { "_id": 7, "a": 1 },
        );

        assert_eq!(fragments.push_event(first.clone()).unwrap(), None);
        assert!(!fragments.is_empty());
        // The server sends the fragments again.
        assert_eq!(fragments.push_event(first).unwrap(), None);
        let event = fragments.push_event(second).unwrap();
        let expected = rawdoc! {
            "_id": { "_data": "b" },
            "operationType": "update",
            "updateDescription": { "updatedFields": { "a": 1 } },
            "fullDocument": { "_id": 7, "a": 1 },
        };
        assert_eq!(event, Some(expected));
        assert!(fragments.is_empty());

        let plain = rawdoc! { "_id": { "_data": "c" }, "operationType": "delete" };
        assert_eq!(fragments.push_event(plain.clone()).unwrap(), Some(plain));
        assert!(fragments.push_event(fragment_event("d", 2, 3)).is_err());
    }
}

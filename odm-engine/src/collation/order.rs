use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use bson::RawBsonRef;

use super::{Collation, Collator};
use crate::error::Result;
use crate::value;

/// The order of values in an operation. Strings compare byte by byte, or by the collation of the operation.
#[derive(Clone, Default)]
pub(crate) struct ValueOrder(Option<Arc<CollatedOrder>>);

struct CollatedOrder {
    collation: Collation,
    collator: Collator,
}

impl ValueOrder {
    /// The order of an operation without a collation.
    pub(crate) const SIMPLE: &'static ValueOrder = &ValueOrder(None);

    /// Returns the order of an operation.
    ///
    /// # Errors
    /// Not supported, without the feature `collation`.
    pub(crate) fn new(collation: Option<&Collation>) -> Result<ValueOrder> {
        let Some(collation) = collation else {
            return Ok(ValueOrder::default());
        };
        Ok(ValueOrder(Some(Arc::new(CollatedOrder {
            collator: Collator::new(collation)?,
            collation: collation.clone(),
        }))))
    }

    /// Compares two values, as [`value::compare`] does.
    pub(crate) fn compare(&self, a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
        match &self.0 {
            None => value::compare(a, b),
            Some(order) => value::compare_by(a, b, &|a, b| order.collator.compare(a, b)),
        }
    }

    /// Returns whether two values are equal in this order.
    pub(crate) fn equal(&self, a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
        self.compare(a, b).is_eq()
    }

    /// The collation; `None` if strings compare byte by byte.
    pub(crate) fn collation(&self) -> Option<&Collation> {
        self.0.as_deref().map(|order| &order.collation)
    }

    /// The source of collation keys, which sort like the strings.
    pub(crate) fn collator(&self) -> Option<&Collator> {
        self.0.as_deref().map(|order| &order.collator)
    }

    /// Whether a comparison with the value depends on the collation.
    pub(crate) fn collates(&self, value: RawBsonRef<'_>) -> bool {
        let may_have_strings = matches!(
            value,
            RawBsonRef::String(_)
                | RawBsonRef::Symbol(_)
                | RawBsonRef::Document(_)
                | RawBsonRef::Array(_)
        );
        may_have_strings && self.0.is_some()
    }
}

impl fmt::Debug for ValueOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueOrder")
            .field(&self.collation())
            .finish()
    }
}

#[cfg(all(test, feature = "collation"))]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};
    use proptest::prelude::*;

    use super::*;

    fn order(specification: RawDocumentBuf) -> ValueOrder {
        let collation = Collation::from_document(&specification).unwrap();
        ValueOrder::new(collation.as_ref()).unwrap()
    }

    #[test]
    fn strings_at_any_depth_compare_by_the_collation() {
        let caseless = order(rawdoc! { "locale": "en", "strength": 2 });
        let lower = rawdoc! { "a": "x", "b": { "c": ["y", 1] } };
        let upper = rawdoc! { "a": "X", "b": { "c": ["Y", 1.0] } };
        let (lower, upper) = (RawBsonRef::Document(&lower), RawBsonRef::Document(&upper));
        assert!(caseless.equal(lower, upper) && !ValueOrder::SIMPLE.equal(lower, upper));
        // The names of fields compare byte by byte.
        let renamed = rawdoc! { "A": "x", "b": { "c": ["y", 1] } };
        assert!(!caseless.equal(lower, RawBsonRef::Document(&renamed)));
    }

    proptest! {
        /// An index compares by keys, and a filter compares by strings.
        #[test]
        fn strings_compare_like_their_keys(a in "[aAbBäÄß0-9 _-]{0,4}|\\PC{0,4}", b in "[aAbBäÄß0-9 _-]{0,4}|\\PC{0,4}") {
            for specification in [
                rawdoc! { "locale": "en", "strength": 1 },
                rawdoc! { "locale": "de", "strength": 2 },
                rawdoc! { "locale": "en" },
                rawdoc! { "locale": "fr_CA", "strength": 4 },
                rawdoc! { "locale": "en", "strength": 5 },
                rawdoc! { "locale": "en", "numericOrdering": true, "caseFirst": "upper" },
                rawdoc! { "locale": "en", "alternate": "shifted", "caseLevel": true },
            ] {
                let order = order(specification);
                let keys = [&a, &b].map(|text| order.collator().unwrap().key(text));
                let by_string = order.compare(RawBsonRef::String(&a), RawBsonRef::String(&b));
                prop_assert_eq!(by_string, keys[0].cmp(&keys[1]));
            }
        }
    }
}

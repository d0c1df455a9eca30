//! Type brackets: BSON's order of values of different types.

use bson::{
    Binary, DateTime, RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, Timestamp, oid::ObjectId,
    spec::BinarySubtype,
};

use super::filter::FilterNode;
use crate::{backend::operation::Direction, language::field::Path};

/// A set of type brackets in BSON's order.
///
/// A sort orders values of all types: null and missing before numbers, numbers before texts, and so on. A comparison (`$gt`,
/// `$lt`) only finds values in the bracket of its operand, and never finds NaN. A page that continues after a value in a sort
/// therefore needs a condition for each bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brackets(u16);

macro_rules! brackets {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Brackets {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
            /// The set of all brackets.
            pub const ANY: Self = Self(0 $(| 1 << $bit)*);
            /// All brackets in sort order.
            const EACH: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

brackets! {
    /// The bracket of the least value.
    MIN_KEY = 0;
    /// The bracket of null and missing values.
    NULL = 1;
    /// The bracket of not-a-number values.
    NAN = 2;
    /// The bracket of numbers of all types.
    NUMBER = 3;
    /// The bracket of strings.
    STRING = 4;
    /// The bracket of documents.
    OBJECT = 5;
    /// The bracket of binary data.
    BINARY = 6;
    /// The bracket of ObjectIds.
    OBJECT_ID = 7;
    /// The bracket of booleans.
    BOOL = 8;
    /// The bracket of dates.
    DATE = 9;
    /// The bracket of timestamps of the server.
    TIMESTAMP = 10;
    /// The bracket of the greatest value.
    MAX_KEY = 11;
}

impl Brackets {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the union of two sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the bracket of a value. Returns `None` for arrays, which sort by an element, and for types without comparison
    /// operators.
    pub(crate) fn of_value(value: RawBsonRef<'_>) -> Option<Self> {
        Some(match value {
            RawBsonRef::MinKey => Self::MIN_KEY,
            RawBsonRef::Null | RawBsonRef::Undefined => Self::NULL,
            RawBsonRef::Double(number) if number.is_nan() => Self::NAN,
            RawBsonRef::Decimal128(number) if number.to_string().ends_with("NaN") => Self::NAN,
            RawBsonRef::Double(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Decimal128(_) => Self::NUMBER,
            RawBsonRef::String(_) | RawBsonRef::Symbol(_) => Self::STRING,
            RawBsonRef::Document(_) => Self::OBJECT,
            RawBsonRef::Binary(_) => Self::BINARY,
            RawBsonRef::ObjectId(_) => Self::OBJECT_ID,
            RawBsonRef::Boolean(_) => Self::BOOL,
            RawBsonRef::DateTime(_) => Self::DATE,
            RawBsonRef::Timestamp(_) => Self::TIMESTAMP,
            RawBsonRef::MaxKey => Self::MAX_KEY,
            RawBsonRef::Array(_)
            | RawBsonRef::RegularExpression(_)
            | RawBsonRef::JavaScriptCode(_)
            | RawBsonRef::JavaScriptCodeWithScope(_)
            | RawBsonRef::DbPointer(_) => return None,
        })
    }

    /// Returns conditions for the values that sort after a value of the bracket `own_bracket`. Any of the conditions must hold.
    pub(super) fn conditions_after(
        self,
        path: &Path,
        direction: Direction,
        own_bracket: Self,
        value: &RawBson,
    ) -> Vec<FilterNode> {
        let test = |operator, value| FilterNode::Test(path.clone(), operator, value);
        let (operator, is_after): (_, fn(u16, u16) -> bool) = match direction {
            Direction::Ascending => ("$gt", |other, own_bracket| other > own_bracket),
            Direction::Descending => ("$lt", |other, own_bracket| other < own_bracket),
        };
        let mut conditions = Vec::new();
        if !own_bracket.is_single_value() {
            conditions.push(test(operator, value.clone()));
        }
        let mut points = Vec::new();
        for bracket in Self::EACH {
            if !self.contains(*bracket) || !is_after(bracket.0, own_bracket.0) {
                continue;
            }
            if bracket.is_single_value() {
                points.push(bracket.lowest_value());
            } else {
                conditions.push(test("$gte", bracket.lowest_value()));
            }
        }
        match points.as_slice() {
            [] => {}
            [only] => conditions.push(test("$eq", only.clone())),
            several => {
                let several = several.iter().cloned().collect::<RawArrayBuf>();
                conditions.push(test("$in", several.into()));
            }
        }
        conditions
    }

    /// Returns whether the bracket contains a single value.
    fn is_single_value(self) -> bool {
        [Self::MIN_KEY, Self::NULL, Self::NAN, Self::MAX_KEY].contains(&self)
    }

    /// Returns the least value of the bracket.
    fn lowest_value(self) -> RawBson {
        match self {
            Self::MIN_KEY => RawBson::MinKey,
            Self::NAN => RawBson::Double(f64::NAN),
            Self::NUMBER => RawBson::Double(f64::NEG_INFINITY),
            Self::STRING => RawBson::String(String::new()),
            Self::OBJECT => RawBson::Document(RawDocumentBuf::new()),
            Self::BINARY => RawBson::Binary(Binary {
                subtype: BinarySubtype::Generic,
                bytes: Vec::new(),
            }),
            Self::OBJECT_ID => RawBson::ObjectId(ObjectId::from_bytes([0; 12])),
            Self::BOOL => RawBson::Boolean(false),
            Self::DATE => RawBson::DateTime(DateTime::MIN),
            Self::TIMESTAMP => RawBson::Timestamp(Timestamp {
                time: 0,
                increment: 0,
            }),
            Self::MAX_KEY => RawBson::MaxKey,
            _ => RawBson::Null,
        }
    }
}

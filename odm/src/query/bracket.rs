//! How BSON orders values of different types.

use bson::{
    Binary, DateTime, RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, Timestamp, oid::ObjectId,
    spec::BinarySubtype,
};

use super::filter::Node;
use crate::{backend::operation::Direction, field::Path};

/// Among which values BSON sorts those of a type.
///
/// A sort has an order over all types: null and what is missing before numbers, these before texts, and so on. A comparison
/// (`$gt`, `$lt`) looks only at values of its own operand's bracket, and at NaN not at all. What goes on behind a
/// value in a sort therefore has to ask for each bracket by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brackets(u16);

macro_rules! brackets {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Brackets {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
            /// Any of them.
            pub const ANY: Self = Self(0 $(| 1 << $bit)*);
            /// Each by itself, in the order of a sort.
            const EACH: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

brackets! {
    /// What is before everything.
    MIN_KEY = 0;
    /// Null, and what is missing.
    NULL = 1;
    /// What is no number.
    NAN = 2;
    /// Numbers of all types.
    NUMBER = 3;
    /// Texts.
    STRING = 4;
    /// Documents.
    OBJECT = 5;
    /// Bytes.
    BINARY = 6;
    /// ObjectIds.
    OBJECT_ID = 7;
    /// False and true.
    BOOL = 8;
    /// Dates.
    DATE = 9;
    /// Timestamps of the server.
    TIMESTAMP = 10;
    /// What is behind everything.
    MAX_KEY = 11;
}

impl Brackets {
    /// No values.
    pub const NONE: Self = Self(0);

    /// Both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The one that a value is in; none for arrays, which are sorted by one of their elements, and for what has no order
    /// that can be asked for.
    pub(crate) fn of(value: RawBsonRef<'_>) -> Option<Self> {
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

    /// What comes behind a value of the bracket `own` in a sort, as conditions of which one holds.
    pub(super) fn behind(
        self,
        path: &Path,
        direction: Direction,
        own: Self,
        value: &RawBson,
    ) -> Vec<Node> {
        let test = |operator, value| Node::Test(path.clone(), operator, value);
        let (operator, is_behind): (_, fn(u16, u16) -> bool) = match direction {
            Direction::Ascending => ("$gt", |other, own| other > own),
            Direction::Descending => ("$lt", |other, own| other < own),
        };
        let mut conditions = Vec::new();
        if !own.is_point() {
            conditions.push(test(operator, value.clone()));
        }
        let mut points = Vec::new();
        for bracket in Self::EACH {
            if !self.contains(*bracket) || !is_behind(bracket.0, own.0) {
                continue;
            }
            if bracket.is_point() {
                points.push(bracket.lowest());
            } else {
                conditions.push(test("$gte", bracket.lowest()));
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

    /// Whether it is one value.
    fn is_point(self) -> bool {
        [Self::MIN_KEY, Self::NULL, Self::NAN, Self::MAX_KEY].contains(&self)
    }

    /// The least value.
    fn lowest(self) -> RawBson {
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

//! `$type`: a value of one of these types, by name or number.
//!
//! ```text
//! { "zip": { "$type": ["string", "int"] } }
//! in: { "zip": "3011" }
//! in: { "zip": 3011.0 }
//! in: { "zip": [3011] }
//! out: { "zip": "3011" }
//! out: { "zip": [3011] }
//! ```

use bson::RawBsonRef;
use bson::spec::ElementType;

use super::parse::Operand;
use super::{Operator, Predicate};
use crate::value::{self, Number};
use crate::{Error, Result};

/// The types that "number" stands for.
const NUMBERS: [ElementType; 4] = [
    ElementType::Double,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::Decimal128,
];

#[derive(Debug)]
struct TypeOf(Vec<ElementType>);

pub(super) fn parse(operand: &Operand<'_>) -> Result<Predicate> {
    let mut types = Vec::new();
    match operand.value {
        RawBsonRef::Array(array) => {
            for item in value::items(array) {
                types.extend_from_slice(&parse_one(item)?);
            }
        }
        value => types.extend_from_slice(&parse_one(value)?),
    }
    if types.is_empty() {
        return Err(Error::server(
            9,
            format!("$type of '{}' needs at least one type", operand.field),
        ));
    }
    Ok(Predicate::other(TypeOf(types)))
}

impl Operator for TypeOf {
    fn rank(&self) -> u8 {
        20
    }

    fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        value.is_some_and(|value| self.0.contains(&value.element_type()))
    }

    fn seeks_existing(&self) -> bool {
        true
    }
}

fn parse_one(value: RawBsonRef<'_>) -> Result<Vec<ElementType>> {
    match value {
        RawBsonRef::String("number") => Ok(NUMBERS.to_vec()),
        RawBsonRef::String(name) => all_types()
            .find(|candidate| value::element_type_name(*candidate) == name)
            .map(|found| vec![found])
            .ok_or_else(|| Error::bad_value(format!("unknown type name '{name}'"))),
        value => {
            let number = Number::from_bson(value)
                .ok_or_else(|| Error::server(14, "$type needs the name or number of a type"))?;
            let code = number.whole().and_then(|code| i8::try_from(code).ok());
            code.and_then(|code| ElementType::from(code as u8))
                .map(|found| vec![found])
                .ok_or_else(|| Error::bad_value("$type was given a number that is no type's"))
        }
    }
}

fn all_types() -> impl Iterator<Item = ElementType> {
    (0..=u8::MAX).filter_map(ElementType::from)
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{RawDocumentBuf, rawdoc};

    fn matches(filter: RawDocumentBuf, document: RawDocumentBuf) -> bool {
        Filter::parse(&filter).unwrap().matches(&document).unwrap()
    }

    #[test]
    fn types_have_names_and_numbers() {
        assert!(matches(
            rawdoc! { "a": { "$type": "number" } },
            rawdoc! { "a": 1.5 }
        ));
        assert!(matches(
            rawdoc! { "a": { "$type": [2, "bool"] } },
            rawdoc! { "a": "x" }
        ));
        assert!(matches(
            rawdoc! { "a": { "$type": "array" } },
            rawdoc! { "a": [1] }
        ));
        assert!(matches(
            rawdoc! { "a": { "$type": "int" } },
            rawdoc! { "a": [1] }
        ));
        assert!(!matches(rawdoc! { "a": { "$type": "null" } }, rawdoc! {}));
        assert!(Filter::parse(&rawdoc! { "a": { "$type": 99 } }).is_err());
    }
}

//! `$type`: values of the given types, by name or number.
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

use super::parse::FieldOperand;
use super::{OpaqueTest, ValuePredicate};
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

pub(super) fn parse_type(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    let mut types = Vec::new();
    match operand.value {
        RawBsonRef::Array(array) => {
            for item in value::items(array) {
                types.extend_from_slice(&parse_type_name(item)?);
            }
        }
        value => types.extend_from_slice(&parse_type_name(value)?),
    }
    if types.is_empty() {
        return Err(Error::with_server_code(
            9,
            format!("$type of '{}' needs at least one type", operand.field),
        ));
    }
    Ok(ValuePredicate::from_opaque(TypeOf(types)))
}

impl OpaqueTest for TypeOf {
    fn match_rank(&self) -> u8 {
        20
    }

    fn matches_value(&self, value: Option<RawBsonRef<'_>>) -> bool {
        value.is_some_and(|value| self.0.contains(&value.element_type()))
    }

    fn requires_existing(&self) -> bool {
        true
    }
}

fn parse_type_name(value: RawBsonRef<'_>) -> Result<Vec<ElementType>> {
    match value {
        RawBsonRef::String("number") => Ok(NUMBERS.to_vec()),
        RawBsonRef::String(name) => all_types()
            .find(|candidate| value::element_type_name(*candidate) == name)
            .map(|element_type| vec![element_type])
            .ok_or_else(|| Error::bad_value(format!("unknown type name '{name}'"))),
        value => {
            let number = Number::from_bson(value).ok_or_else(|| {
                Error::with_server_code(14, "$type needs the name or number of a type")
            })?;
            let code = number.whole_long().and_then(|code| i8::try_from(code).ok());
            code.and_then(|code| ElementType::from(code as u8))
                .map(|element_type| vec![element_type])
                .ok_or_else(|| Error::bad_value("unknown type number in $type"))
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

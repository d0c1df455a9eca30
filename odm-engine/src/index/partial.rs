//! What the filter of a partial index may say.

use bson::{RawBsonRef, RawDocument};

use crate::error::{Error, Result, code};
use crate::value;

/// Refuses the operators that MongoDB refuses here: whether a query implies them is hard to tell.
pub(super) fn check(filter: &RawDocument) -> Result<()> {
    refuse_special(filter)?;
    check_supported(filter)
}

/// Refuses what is no condition on a field, first and under numbers of its own.
fn refuse_special(filter: &RawDocument) -> Result<()> {
    for element in filter.iter_elements() {
        let element = element?;
        let code = match (element.key().as_str(), element.value()?) {
            ("$and" | "$or" | "$nor", RawBsonRef::Array(branches)) => {
                for branch in branches {
                    branch?.as_document().map_or(Ok(()), refuse_special)?;
                }
                continue;
            }
            ("$expr" | "$jsonSchema", _) => code::QUERY_FEATURE_NOT_ALLOWED,
            ("$text" | "$where", _) => code::BAD_VALUE,
            _ => continue,
        };
        let name = element.key().as_str();
        let message = format!("{name} is not allowed in the filter of a partial index");
        return Err(Error::server(code, message));
    }
    Ok(())
}

fn check_supported(filter: &RawDocument) -> Result<()> {
    for element in filter.iter_elements() {
        let element = element?;
        match (element.key().as_str(), element.value()?) {
            ("$and" | "$or", RawBsonRef::Array(branches)) => {
                for branch in branches {
                    branch?.as_document().map_or(Ok(()), check_supported)?;
                }
            }
            (name, _) if name.starts_with('$') => return Err(not_allowed(name)),
            (_, RawBsonRef::RegularExpression(_)) => return Err(not_allowed("$regex")),
            (_, RawBsonRef::Document(conditions)) => check_conditions(conditions)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_conditions(conditions: &RawDocument) -> Result<()> {
    for element in conditions.iter_elements() {
        let element = element?;
        match element.key().as_str() {
            "$eq" | "$gt" | "$gte" | "$in" | "$lt" | "$lte" | "$type" => {}
            "$exists" if value::is_truthy(element.value()?) => {}
            name if name.starts_with('$') => return Err(not_allowed(name)),
            // A document to compare with.
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn not_allowed(operator: &str) -> Error {
    let message = format!(
        "{operator} (or $exists: false) cannot be used in the filter of a partial index; \
         use $eq, $gt, $gte, $lt, $lte, $in, $type, $exists: true, $and, $or"
    );
    Error::server(code::CANNOT_CREATE_INDEX, message)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    #[test]
    fn what_is_refused_has_its_number() {
        let code = |filter: RawDocumentBuf| check(&filter).err().and_then(|error| error.code());
        assert_eq!(
            code(rawdoc! { "a": { "$gt": 1 }, "$or": [{ "b": 1 }] }),
            None
        );
        assert_eq!(code(rawdoc! { "a": { "$ne": 1 } }), Some(67));
        assert_eq!(code(rawdoc! { "$nor": [{ "a": 1 }] }), Some(67));
        let inner = rawdoc! { "a": { "$ne": 1 }, "$and": [{ "$expr": true }] };
        assert_eq!(code(inner), Some(224));
        assert_eq!(code(rawdoc! { "$where": "true" }), Some(2));
    }
}

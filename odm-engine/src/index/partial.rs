//! What the filter of a partial index may say.

use bson::{RawBsonRef, RawDocument};

use crate::error::{Error, Result, code};
use crate::value;

/// Refuses the operators that MongoDB refuses here: whether a query implies them is hard to tell.
pub(super) fn check(filter: &RawDocument) -> Result<()> {
    for element in filter.iter_elements() {
        let element = element?;
        match (element.key().as_str(), element.value()?) {
            ("$and" | "$or", RawBsonRef::Array(branches)) => {
                for branch in branches {
                    branch?.as_document().map_or(Ok(()), check)?;
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

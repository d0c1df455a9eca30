//! Array filters: the elements that `$[name]` in a path selects.

use std::collections::BTreeMap;

use bson::raw::CString;
use bson::{RawBsonRef, RawDocumentBuf};

use crate::collation::ValueOrder;
use crate::filter::{Filter, FilterExpression};
use crate::{Error, Result};

/// The array filters of an update by name.
#[derive(Debug, Default)]
pub(super) struct ArrayFilters(BTreeMap<String, ArrayFilter>);

#[derive(Debug)]
struct ArrayFilter {
    name: CString,
    filter: Filter,
}

impl ArrayFilters {
    /// Parses filters such as `{ "item.price": { $gt: 5 } }`.
    ///
    /// # Errors
    /// A filter is malformed or has no name or several names, or two filters share a name.
    pub(super) fn parse(filters: &[RawDocumentBuf], order: &ValueOrder) -> Result<ArrayFilters> {
        let mut all = BTreeMap::new();
        for document in filters {
            let filter = Filter::parse_in_order(document, order)?;
            let name = only_name(filter.parsed_conditions())?.ok_or_else(|| {
                Error::with_server_code(9, "an array filter needs conditions on a name, such as { 'item.price': { $gt: 5 } }")
            })?;
            check_name(&name)?;
            let key = CString::try_from(name.as_str()).map_err(|_| invalid_name(&name))?;
            if all
                .insert(name.clone(), ArrayFilter { name: key, filter })
                .is_some()
            {
                return Err(Error::with_server_code(
                    9,
                    format!("there are two array filters named '{name}'"),
                ));
            }
        }
        Ok(ArrayFilters(all))
    }

    pub(super) fn filter_names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns whether an element matches the filter with this name.
    pub(super) fn matches_element(&self, name: &str, element: RawBsonRef<'_>) -> bool {
        self.0.get(name).is_some_and(|filter| {
            let mut wrapped = RawDocumentBuf::new();
            wrapped.append(&filter.name, element);
            filter.filter.accepts(&wrapped)
        })
    }
}

/// Returns the first path component that all conditions of a filter share.
fn only_name(expression: &FilterExpression) -> Result<Option<String>> {
    match expression {
        FilterExpression::And(inner)
        | FilterExpression::Or(inner)
        | FilterExpression::Nor(inner) => {
            let mut name = None;
            for expression in inner {
                match (&name, only_name(expression)?) {
                    (Some(first_name), Some(other)) if *first_name != other => {
                        let message = format!(
                            "an array filter must use one name, not '{first_name}' and '{other}'"
                        );
                        return Err(Error::with_server_code(9, message));
                    }
                    (None, other) => name = other,
                    _ => {}
                }
            }
            Ok(name)
        }
        FilterExpression::Not(inner) => only_name(inner),
        // `$expr` is not allowed in array filters.
        FilterExpression::Expr(_) => Ok(None),
        FilterExpression::Field(path, _) => {
            Ok(path.parts().first().map(|part| part.name().to_owned()))
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let valid = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric());
    if valid {
        Ok(())
    } else {
        Err(invalid_name(name))
    }
}

fn invalid_name(name: &str) -> Error {
    Error::bad_value(format!(
        "invalid array filter name '{name}': a name has letters and digits and starts with a lower-case letter"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn filters_have_one_name() {
        let code = |filters: &[RawDocumentBuf]| {
            ArrayFilters::parse(filters, ValueOrder::SIMPLE)
                .unwrap_err()
                .code()
        };
        assert_eq!(code(&[rawdoc! { "a.x": 1, "b": 1 }]), Some(9));
        assert_eq!(code(&[rawdoc! {}]), Some(9));
        assert_eq!(code(&[rawdoc! { "a": 1 }, rawdoc! { "a": 2 }]), Some(9));
        assert_eq!(code(&[rawdoc! { "1a": 1 }]), Some(2));
        assert!(
            ArrayFilters::parse(
                &[rawdoc! { "$or": [{ "a.x": 1 }, { "a.y": 2 }] }],
                ValueOrder::SIMPLE
            )
            .is_ok()
        );
    }
}

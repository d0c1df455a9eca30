//! Array filters: what `$[name]` in a path stands for.

use std::collections::BTreeMap;

use bson::raw::CString;
use bson::{RawBsonRef, RawDocumentBuf};

use crate::filter::{Expression, Filter};
use crate::{Error, Result};

/// The array filters of an update by their names.
#[derive(Debug, Default)]
pub(super) struct ArrayFilters(BTreeMap<String, ArrayFilter>);

#[derive(Debug)]
struct ArrayFilter {
    name: CString,
    filter: Filter,
}

impl ArrayFilters {
    /// Reads filters such as `{ "item.price": { $gt: 5 } }`.
    ///
    /// # Errors
    /// Filters that are malformed, speak of no or of several names, or share one.
    pub(super) fn parse(filters: &[RawDocumentBuf]) -> Result<ArrayFilters> {
        let mut all = BTreeMap::new();
        for document in filters {
            let filter = Filter::parse(document)?;
            let name = only_name(filter.expression())?.ok_or_else(|| {
                Error::server(9, "an array filter must speak of the elements by a name")
            })?;
            check_name(&name)?;
            let key = CString::try_from(name.as_str()).map_err(|_| invalid_name(&name))?;
            if all
                .insert(name.clone(), ArrayFilter { name: key, filter })
                .is_some()
            {
                return Err(Error::server(
                    9,
                    format!("there are two array filters named '{name}'"),
                ));
            }
        }
        Ok(ArrayFilters(all))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether an element is one of those that the name stands for.
    pub(super) fn matches(&self, name: &str, element: RawBsonRef<'_>) -> bool {
        self.0.get(name).is_some_and(|filter| {
            let mut wrapped = RawDocumentBuf::new();
            wrapped.append(&filter.name, element);
            filter.filter.accepts(&wrapped)
        })
    }
}

/// The first component that all paths of a filter share.
fn only_name(expression: &Expression) -> Result<Option<String>> {
    match expression {
        Expression::And(inner) | Expression::Or(inner) | Expression::Nor(inner) => {
            let mut name = None;
            for expression in inner {
                match (&name, only_name(expression)?) {
                    (Some(one), Some(other)) if *one != other => {
                        let message =
                            format!("an array filter has one name, not '{one}' and '{other}'");
                        return Err(Error::server(9, message));
                    }
                    (None, other) => name = other,
                    _ => {}
                }
            }
            Ok(name)
        }
        Expression::Not(inner) => only_name(inner),
        // It has no place in here.
        Expression::Expr(_) => Ok(None),
        Expression::Field(path, _) => Ok(path.parts().first().map(|part| part.name().to_owned())),
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
        "the name '{name}' of an array filter must be letters and digits, a small letter first"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn filters_have_one_name() {
        let code = |filters: &[RawDocumentBuf]| ArrayFilters::parse(filters).unwrap_err().code();
        assert_eq!(code(&[rawdoc! { "a.x": 1, "b": 1 }]), Some(9));
        assert_eq!(code(&[rawdoc! {}]), Some(9));
        assert_eq!(code(&[rawdoc! { "a": 1 }, rawdoc! { "a": 2 }]), Some(9));
        assert_eq!(code(&[rawdoc! { "1a": 1 }]), Some(2));
        assert!(ArrayFilters::parse(&[rawdoc! { "$or": [{ "a.x": 1 }, { "a.y": 2 }] }]).is_ok());
    }
}

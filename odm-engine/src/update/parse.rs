//! From an update document to operations.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::array_filter::ArrayFilters;
use super::operation::Operations;
use super::{
    add_to_set, arithmetic, bit, current_date, min_max, pop, pull, pull_all, push, rename, set,
    unset,
};
use crate::{Error, Result, value};

/// How an operator reads what it does to one path.
type Parser = fn(operations: &mut Operations, path: &str, operand: RawBsonRef<'_>) -> Result<()>;

/// The operators by name.
const OPERATORS: &[(&str, Parser)] = &[
    ("$addToSet", add_to_set::parse),
    ("$bit", bit::parse),
    ("$currentDate", current_date::parse),
    ("$inc", arithmetic::parse_inc),
    ("$max", min_max::parse_max),
    ("$min", min_max::parse_min),
    ("$mul", arithmetic::parse_mul),
    ("$pop", pop::parse),
    ("$pull", pull::parse),
    ("$pullAll", pull_all::parse),
    ("$push", push::parse),
    ("$rename", rename::parse),
    ("$set", set::parse),
    ("$setOnInsert", set::parse_on_insert),
    ("$unset", unset::parse),
];

/// Reads an update that consists of operators.
pub(super) fn operators(
    update: &RawDocument,
    array_filters: &[RawDocumentBuf],
) -> Result<Operations> {
    let mut operations = Operations::new(ArrayFilters::parse(array_filters)?);
    for (name, operand) in value::fields(update) {
        let parse = match OPERATORS.binary_search_by_key(&name, |(known, _)| known) {
            Ok(at) => OPERATORS.get(at).map(|(_, parse)| *parse),
            Err(_) => None,
        };
        let parse = parse.ok_or_else(|| {
            let message = format!("unknown update operator: {name}");
            Error::unknown_operator(9, message)
        })?;
        let RawBsonRef::Document(fields) = operand else {
            return Err(Error::server(
                9,
                format!("{name} takes a document of paths and operands"),
            ));
        };
        for (path, operand) in value::fields(fields) {
            parse(&mut operations, path, operand)?;
        }
    }
    operations.finish()
}

#[cfg(test)]
mod tests {
    use bson::RawBson;

    use super::*;
    use crate::examples;
    use crate::filter::Filter;
    use crate::update::Update;

    #[test]
    fn the_registry_is_sorted() {
        assert!(OPERATORS.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn the_examples_hold() {
        // What time it is, no example can say.
        let operators = OPERATORS.iter().map(|(name, _)| *name);
        let operators = operators.filter(|name| *name != "$currentDate");
        let everything = Filter::parse(&RawDocumentBuf::new()).unwrap();
        examples::check("update", operators, |example| {
            let update = Update::parse(&example.asked, &[]).unwrap();
            let updated = example.documents.iter().map(|document| {
                let modified = update.apply(document, &everything).unwrap();
                modified.map_or_else(|| document.clone(), |modified| modified.document)
            });
            updated.map(RawBson::Document).collect()
        });
    }
}

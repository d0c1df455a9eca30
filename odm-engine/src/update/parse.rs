//! Parsing of an update document into operations.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::array_filter::ArrayFilters;
use super::operation::UpdateOperations;
use super::{
    add_to_set, arithmetic, bit, current_date, min_max, pop, pull, pull_all, push, rename, set,
    unset,
};
use crate::collation::ValueOrder;
use crate::{Error, Result, value};

/// The parser of an operator on one path.
type UpdateOperatorParser =
    fn(operations: &mut UpdateOperations, path: &str, operand: RawBsonRef<'_>) -> Result<()>;

/// The update operators, sorted by name.
const OPERATORS: &[(&str, UpdateOperatorParser)] = &[
    ("$addToSet", add_to_set::parse_add_to_set),
    ("$bit", bit::parse_bit),
    ("$currentDate", current_date::parse_current_date),
    ("$inc", arithmetic::parse_inc),
    ("$max", min_max::parse_max),
    ("$min", min_max::parse_min),
    ("$mul", arithmetic::parse_mul),
    ("$pop", pop::parse_pop),
    ("$pull", pull::parse_pull),
    ("$pullAll", pull_all::parse_pull_all),
    ("$push", push::parse_push),
    ("$rename", rename::parse_rename),
    ("$set", set::parse_set),
    ("$setOnInsert", set::parse_set_on_insert),
    ("$unset", unset::parse_unset),
];

/// Parses an update with operators.
pub(super) fn parse_operators(
    update: &RawDocument,
    array_filters: &[RawDocumentBuf],
    order: &ValueOrder,
) -> Result<UpdateOperations> {
    let array_filters = ArrayFilters::parse(array_filters, order)?;
    let mut operations = UpdateOperations::new(array_filters, order);
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
            return Err(Error::with_server_code(
                9,
                format!("{name} takes a document of paths and operands"),
            ));
        };
        for (path, operand) in value::fields(fields) {
            parse(&mut operations, path, operand)?;
        }
    }
    operations.into_sorted()
}

#[cfg(test)]
mod tests {
    use bson::RawBson;

    use super::*;
    use crate::examples;
    use crate::filter::Filter;
    use crate::update::ParsedUpdate;

    #[test]
    fn the_registry_is_sorted() {
        assert!(OPERATORS.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn the_examples_hold() {
        // The result of `$currentDate` changes with time, so no example can show a result.
        let operators = OPERATORS.iter().map(|(name, _)| *name);
        let operators = operators.filter(|name| *name != "$currentDate");
        let match_all = Filter::parse(&RawDocumentBuf::new()).unwrap();
        examples::check_examples("update", operators, |example| {
            let update = ParsedUpdate::parse(&example.request, &[], ValueOrder::SIMPLE).unwrap();
            let updated = example.documents.iter().map(|document| {
                let modified = update.apply(document, &match_all).unwrap();
                modified.map_or_else(|| document.clone(), |modified| modified.document)
            });
            updated.map(RawBson::Document).collect()
        });
    }
}

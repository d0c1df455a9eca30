//! Computing a field in the database, with the same result as the evaluation in this process.

use bson::{Bson, Document, bson, doc};

use crate::schema::{
    Computation, ComputedField, NumberKind, Term, computed::evaluate::OUT_OF_RANGE_MESSAGE,
};

/// Returns the expression for a computed field.
pub(super) fn field_expression(field: &ComputedField) -> Bson {
    let Computation { kind, term } = (field.computation)();
    let value = term_expression(kind, &term);
    if kind != NumberKind::Whole {
        return value;
    }
    // The server turns an integer overflow into a double. The type of the result shows an overflow in any part of the
    // computation.
    let is_whole = doc! { "$eq": [{ "$type": "$$value" }, "long"] };
    let error = error_expression(OUT_OF_RANGE_MESSAGE, "$$value");
    bson!({ "$let": {
        "vars": { "value": value },
        "in": { "$cond": [is_whole, "$$value", error] },
    } })
}

/// Returns an expression that fails with this message. The `place` only keeps the server from evaluating the expression before a
/// document is read.
pub(super) fn error_expression(message: &str, place: &str) -> Document {
    let message = format!(
        "{}{message}{}",
        super::ERROR_MESSAGE_START,
        super::ERROR_MESSAGE_END
    );
    doc! { "$toInt": { "$concat": [message, { "$type": place }] } }
}

fn term_expression(kind: NumberKind, term: &Term) -> Bson {
    let binary = |operator: &str, [a, b]: &[Term; 2]| bson!({ operator: [term_expression(kind, a), term_expression(kind, b)] });
    match term {
        Term::Whole(value) => convert_integer(kind, (*value).into()),
        Term::Float(value) => bson!({ "$literal": *value }),
        Term::Value(place) => number_expression(kind, &format!("${place}")),
        Term::ElementValue(place) if place.is_empty() => number_expression(kind, "$$this"),
        Term::ElementValue(place) => number_expression(kind, &format!("$$this.{place}")),
        Term::Len(place) => {
            let place = format!("${place}");
            let is_array = doc! { "$isArray": [&place] };
            let is_map = doc! { "$eq": [{ "$type": &place }, "object"] };
            let len = bson!({ "$switch": {
                "branches": [
                    { "case": is_array, "then": { "$size": &place } },
                    { "case": is_map, "then": { "$size": { "$objectToArray": &place } } },
                ],
                "default": 0,
            } });
            convert_integer(kind, len)
        }
        Term::Add(terms) => binary("$add", terms),
        Term::Subtract(terms) => binary("$subtract", terms),
        Term::Multiply(terms) => binary("$multiply", terms),
        Term::Sum(array, each) => {
            let array = format!("${array}");
            let input = doc! { "$cond": [{ "$isArray": [&array] }, &array, []] };
            bson!({ "$reduce": {
                "input": input,
                "initialValue": convert_integer(kind, 0.into()),
                "in": { "$add": ["$$value", term_expression(kind, each)] },
            } })
        }
    }
}

/// Converts an integer expression to the kind of the computation.
fn convert_integer(kind: NumberKind, value: Bson) -> Bson {
    let convert = match kind {
        NumberKind::Whole => "$toLong",
        NumberKind::Float => "$toDouble",
        #[cfg(feature = "engine")]
        NumberKind::Decimal => "$toDecimal",
    };
    bson!({ convert: value })
}

/// Returns the number at a path. Any value that is not a number of this kind counts as zero.
fn number_expression(kind: NumberKind, place: &str) -> Bson {
    let types = match kind {
        NumberKind::Whole => bson!(["int", "long"]),
        NumberKind::Float => bson!(["int", "long", "double"]),
        #[cfg(feature = "engine")]
        NumberKind::Decimal => bson!(["int", "long", "decimal"]),
    };
    let is_number = doc! { "$in": [{ "$type": place }, types] };
    convert_integer(kind, bson!({ "$cond": [is_number, place, 0] }))
}

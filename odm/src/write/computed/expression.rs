//! Computing a field in the database, with the same result as the evaluation in this process.

use bson::{Bson, Document, bson, doc};

use crate::schema::{
    Computation, ComputationKind, ComputedField, Term,
    computed::{WHITE_SPACE, evaluate::OUT_OF_RANGE_MESSAGE},
};

/// Returns the expression for a computed field.
pub(super) fn field_expression(field: &ComputedField) -> Bson {
    let Computation { kind, term } = (field.computation)();
    let value = term_expression(kind, &term);
    if kind != ComputationKind::Whole {
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

fn term_expression(kind: ComputationKind, term: &Term) -> Bson {
    let binary = |operator: &str, [a, b]: &[Term; 2]| bson!({ operator: [term_expression(kind, a), term_expression(kind, b)] });
    match term {
        Term::Whole(value) => convert_integer(kind, (*value).into()),
        Term::Float(value) => bson!({ "$literal": *value }),
        Term::Text(text) => bson!({ "$literal": text }),
        Term::Null => Bson::Null,
        Term::Value(place) => value_expression(kind, &format!("${place}")),
        Term::ElementValue(place) if place.is_empty() => value_expression(kind, "$$this"),
        Term::ElementValue(place) => value_expression(kind, &format!("$$this.{place}")),
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
        // Arithmetic with null is null, so a zero divisor anywhere makes the whole term null.
        Term::Divide(terms) => {
            let [a, b] = &**terms;
            let quotient = doc! { "$divide": [term_expression(kind, a), "$$divisor"] };
            bson!({ "$let": {
                "vars": { "divisor": term_expression(kind, b) },
                "in": { "$cond": [{ "$eq": ["$$divisor", 0] }, Bson::Null, quotient] },
            } })
        }
        Term::IfZeroDivisor(terms) => binary("$ifNull", terms),
        Term::Lower(term) => bson!({ "$toLower": term_expression(kind, term) }),
        Term::Trim(term) => {
            bson!({ "$trim": { "input": term_expression(kind, term), "chars": WHITE_SPACE } })
        }
        Term::Concat(terms) => {
            let terms: Vec<_> = terms
                .iter()
                .map(|term| term_expression(kind, term))
                .collect();
            bson!({ "$concat": terms })
        }
        Term::First(array, path) => {
            let array = format!("${array}");
            let input = doc! { "$cond": [{ "$isArray": [&array] }, &array, []] };
            bson!({ "$let": {
                "vars": { "first": { "$arrayElemAt": [input, 0] } },
                "in": { "$ifNull": [format!("$$first.{path}"), Bson::Null] },
            } })
        }
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
fn convert_integer(kind: ComputationKind, value: Bson) -> Bson {
    let convert = match kind {
        ComputationKind::Whole => "$toLong",
        ComputationKind::Float => "$toDouble",
        #[cfg(feature = "engine")]
        ComputationKind::Decimal => "$toDecimal",
        ComputationKind::Text | ComputationKind::Stored => return value,
    };
    bson!({ convert: value })
}

/// Returns the value at a path. Any value of another kind counts as zero, or as an empty text.
fn value_expression(kind: ComputationKind, place: &str) -> Bson {
    let types = match kind {
        ComputationKind::Whole => bson!(["int", "long"]),
        ComputationKind::Float => bson!(["int", "long", "double"]),
        #[cfg(feature = "engine")]
        ComputationKind::Decimal => bson!(["int", "long", "decimal"]),
        ComputationKind::Text => {
            return bson!({ "$cond": [{ "$eq": [{ "$type": place }, "string"] }, place, ""] });
        }
        ComputationKind::Stored => return place.into(),
    };
    let is_number = doc! { "$in": [{ "$type": place }, types] };
    convert_integer(kind, bson!({ "$cond": [is_number, place, 0] }))
}

//! What a field is, as an expression of the database: the same as what is [computed here](super::evaluate).

use bson::{Bson, Document, bson, doc};

use crate::schema::{Computation, ComputedField, Kind, Term};

/// The expression of a field.
pub(super) fn expression(field: &ComputedField) -> Bson {
    let Computation { kind, term } = (field.computation)();
    let value = compute(kind, &term);
    if kind != Kind::Whole {
        return value;
    }
    // Whole numbers that have become too large go on as doubles, and so does all that is computed with them.
    let is_whole = doc! { "$eq": [{ "$type": "$$value" }, "long"] };
    let refused = refusal(super::TOO_LARGE, "$$value");
    bson!({ "$let": {
        "vars": { "value": value },
        "in": { "$cond": [is_whole, "$$value", refused] },
    } })
}

/// An error of the server with this text. The place only keeps it from being found before there is a document.
pub(super) fn refusal(text: &str, place: &str) -> Document {
    let text = format!("{}{text}{}", super::SAID, super::TYPE);
    doc! { "$toInt": { "$concat": [text, { "$type": place }] } }
}

fn compute(kind: Kind, term: &Term) -> Bson {
    let both = |operator: &str, [a, b]: &[Term; 2]| bson!({ operator: [compute(kind, a), compute(kind, b)] });
    match term {
        Term::Whole(value) => whole(kind, (*value).into()),
        Term::Float(value) => bson!({ "$literal": *value }),
        Term::Value(place) => number(kind, &format!("${place}")),
        Term::Inside(place) if place.is_empty() => number(kind, "$$this"),
        Term::Inside(place) => number(kind, &format!("$$this.{place}")),
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
            whole(kind, len)
        }
        Term::Add(terms) => both("$add", terms),
        Term::Subtract(terms) => both("$subtract", terms),
        Term::Multiply(terms) => both("$multiply", terms),
        Term::Sum(array, each) => {
            let array = format!("${array}");
            let input = doc! { "$cond": [{ "$isArray": [&array] }, &array, []] };
            bson!({ "$reduce": {
                "input": input,
                "initialValue": whole(kind, 0.into()),
                "in": { "$add": ["$$value", compute(kind, each)] },
            } })
        }
    }
}

/// A whole number, in the kind of the computation.
fn whole(kind: Kind, value: Bson) -> Bson {
    let convert = match kind {
        Kind::Whole => "$toLong",
        Kind::Float => "$toDouble",
        #[cfg(feature = "engine")]
        Kind::Decimal => "$toDecimal",
    };
    bson!({ convert: value })
}

/// The number at a place; nothing if there is none of the kind.
fn number(kind: Kind, place: &str) -> Bson {
    let types = match kind {
        Kind::Whole => bson!(["int", "long"]),
        Kind::Float => bson!(["int", "long", "double"]),
        #[cfg(feature = "engine")]
        Kind::Decimal => bson!(["int", "long", "decimal"]),
    };
    let is_number = doc! { "$in": [{ "$type": place }, types] };
    whole(kind, bson!({ "$cond": [is_number, place, 0] }))
}

//! Random aggregation expressions.
//!
//! The comparison of results is exact. So the generator omits transcendental functions, because servers may differ in the last
//! bit.

use bson::{Bson, Document, doc};

use super::StepGenerator;

/// Operators with two operands. Some operators fail on some types.
const BINARY_OPERATORS: [&str; 17] = [
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$cmp",
    "$add",
    "$subtract",
    "$multiply",
    "$divide",
    "$mod",
    "$ifNull",
    "$setUnion",
    "$setIsSubset",
    "$concatArrays",
    "$arrayElemAt",
];
const UNARY_OPERATORS: [&str; 18] = [
    "$not",
    "$abs",
    "$ceil",
    "$floor",
    "$trunc",
    "$size",
    "$isArray",
    "$type",
    "$isNumber",
    "$toString",
    "$toInt",
    "$toLong",
    "$toDouble",
    "$toDecimal",
    "$toBool",
    "$toLower",
    "$strLenCP",
    "$reverseArray",
];
const VARIADIC_OPERATORS: [&str; 9] = [
    "$and",
    "$or",
    "$max",
    "$min",
    "$sum",
    "$avg",
    "$concat",
    "$mergeObjects",
    "$first",
];

/// Returns an expression that is usually true for some documents.
pub(super) fn predicate(world: &mut StepGenerator, documents: &[Document]) -> Bson {
    let (path, value) = world.existing_or_random_path(documents);
    let name = *world
        .dice
        .pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
    let operand = if world.dice.chance(50) {
        literal(world.operand(value.as_ref()))
    } else {
        any(world, documents, 2)
    };
    Bson::Document(doc! { name: [format!("${path}"), operand] })
}

/// Returns a random expression with at most `depth` levels of nesting.
pub(super) fn any(world: &mut StepGenerator, documents: &[Document], depth: usize) -> Bson {
    if depth == 0 || world.dice.chance(30) {
        if world.dice.chance(60) {
            return Bson::String(format!("${}", world.existing_or_random_path(documents).0));
        }
        return literal(world.value(1));
    }
    let inner = |world: &mut StepGenerator| any(world, documents, depth - 1);
    let expression = match world.dice.below(12) {
        0..4 => {
            let name = *world.dice.pick(&BINARY_OPERATORS);
            doc! { name: [inner(world), inner(world)] }
        }
        4..7 => {
            let name = *world.dice.pick(&UNARY_OPERATORS);
            doc! { name: inner(world) }
        }
        7 | 8 => {
            let name = *world.dice.pick(&VARIADIC_OPERATORS);
            let count = world.dice.between(1, 3);
            let operands: Vec<_> = (0..count).map(|_| inner(world)).collect();
            doc! { name: operands }
        }
        9 => doc! { "$cond": [inner(world), inner(world), inner(world)] },
        10 => {
            doc! { "$map": { "input": inner(world), "as": "v", "in": { "$ifNull": ["$$v.x", "$$v"] } } }
        }
        _ => {
            doc! { "$filter": { "input": inner(world), "cond": { "$gt": ["$$this", inner(world)] } } }
        }
    };
    expression.into()
}

fn literal(value: Bson) -> Bson {
    Bson::Document(doc! { "$literal": value })
}

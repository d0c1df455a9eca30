//! Aggregation expressions.
//!
//! They are compared to the last bit, so that those are left out in which servers may differ there: the transcendental
//! functions.

use bson::{Bson, Document, doc};

use super::World;

/// Operators that take any number of operands of any type, or fail on some.
const OF_TWO: [&str; 17] = [
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
const OF_ONE: [&str; 18] = [
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
const OF_MANY: [&str; 9] = [
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

/// An expression that is, as a rule, true of some documents.
pub(super) fn predicate(world: &mut World, documents: &[Document]) -> Bson {
    let (path, value) = world.path(documents);
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

/// Any expression; `depth` is how much it can be nested.
pub(super) fn any(world: &mut World, documents: &[Document], depth: usize) -> Bson {
    if depth == 0 || world.dice.chance(30) {
        if world.dice.chance(60) {
            return Bson::String(format!("${}", world.path(documents).0));
        }
        return literal(world.value(1));
    }
    let inner = |world: &mut World| any(world, documents, depth - 1);
    let expression = match world.dice.below(12) {
        0..4 => {
            let name = *world.dice.pick(&OF_TWO);
            doc! { name: [inner(world), inner(world)] }
        }
        4..7 => {
            let name = *world.dice.pick(&OF_ONE);
            doc! { name: inner(world) }
        }
        7 | 8 => {
            let name = *world.dice.pick(&OF_MANY);
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

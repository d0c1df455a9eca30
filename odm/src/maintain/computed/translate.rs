//! Translates an update by operators into a pipeline stage with the same result.

use std::collections::BTreeMap;

use bson::{Bson, Document, bson, doc};

use super::{condition::condition, expression::refusal};

/// How far from the beginning an element may be that is named by its position, as on MongoDB.
const FURTHEST: usize = 1_500_000;

/// The changes of an update, by the places that they are made at.
pub(super) struct Changes<'u>(Tree<'u>);

impl<'u> Changes<'u> {
    /// Reads an update. None if two of its operators change one place, which every backend refuses.
    pub(super) fn of(update: &'u Document) -> Option<Self> {
        let mut top = Tree::default();
        for (operator, fields) in update {
            for (path, operand) in fields.as_document()? {
                let change = Branch::Change(operator, operand);
                top.put(path, change)?;
            }
        }
        Some(Self(top))
    }

    /// The expression of each field at the top that the update changes. None if no expression has the same result.
    pub(super) fn stage(&self, array_filters: &[Document]) -> Option<Document> {
        let context = Context { array_filters };
        let mut stage = Document::new();
        for (name, branch) in &self.0.0 {
            let () = (!name.starts_with('$')).then_some(())?;
            stage.insert(*name, context.branch(branch, &format!("${name}"), 0)?);
        }
        Some(stage)
    }
}

/// What is changed inside of a value, in the order in which the server does it.
#[derive(Default)]
struct Tree<'u>(BTreeMap<&'u str, Branch<'u>>);

enum Branch<'u> {
    /// An operator and its operand.
    Change(&'u str, &'u Bson),
    Inside(Tree<'u>),
}

impl<'u> Tree<'u> {
    fn put(&mut self, path: &'u str, change: Branch<'u>) -> Option<()> {
        let Some((first, rest)) = path.split_once('.') else {
            return self.0.insert(path, change).is_none().then_some(());
        };
        let inside = self.0.entry(first);
        match inside.or_insert_with(|| Branch::Inside(Tree::default())) {
            Branch::Inside(inside) => inside.put(rest, change),
            Branch::Change(..) => None,
        }
    }
}

impl Branch<'_> {
    /// Whether something is there then that may not have been.
    fn is_making(&self) -> bool {
        match self {
            Self::Change(operator, _) => !matches!(
                *operator,
                "$unset" | "$pop" | "$pull" | "$pullAll" | "$setOnInsert"
            ),
            Self::Inside(tree) => tree.0.values().any(Branch::is_making),
        }
    }

    /// Whether it leaves what it cannot be applied to as it is.
    fn is_lenient(&self) -> bool {
        match self {
            Self::Change(operator, _) => matches!(*operator, "$unset" | "$setOnInsert"),
            Self::Inside(tree) => tree.0.values().all(Branch::is_lenient),
        }
    }
}

struct Context<'u> {
    array_filters: &'u [Document],
}

impl Context<'_> {
    /// What becomes of the value at a place.
    fn branch(&self, branch: &Branch<'_>, place: &str, depth: usize) -> Option<Bson> {
        match branch {
            Branch::Change(operator, operand) => change(operator, operand, place),
            Branch::Inside(tree) => {
                let mut names = tree.0.keys();
                if names.any(|name| name.starts_with('$')) {
                    return self.elements(tree, place, depth);
                }
                let mut names = tree.0.keys();
                match names.any(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
                    true => self.positions(tree, branch, place, depth),
                    false => self.fields(tree, branch, place, depth),
                }
            }
        }
    }

    /// Fields of a document, which is made where there is none.
    fn fields(
        &self,
        tree: &Tree<'_>,
        branch: &Branch<'_>,
        place: &str,
        depth: usize,
    ) -> Option<Bson> {
        let is_making = branch.is_making();
        let mut changed = match is_making {
            true => bson!({ "$cond": [is_missing(place), { "$literal": {} }, place] }),
            false => place.into(),
        };
        for (name, inside) in &tree.0 {
            let value = self.branch(inside, &format!("{place}.{name}"), depth)?;
            changed = bson!({ "$setField": { "field": *name, "input": changed, "value": value } });
        }
        let types = match is_making {
            true => vec!["object", "missing"],
            false => vec!["object"],
        };
        let mut branches =
            vec![doc! { "case": { "$in": [{ "$type": place }, types] }, "then": changed }];
        if !is_making {
            branches.push(doc! { "case": is_missing(place), "then": "$$REMOVE" });
        }
        let otherwise = match branch.is_lenient() {
            true => place.into(),
            false => Bson::from(refusal(
                "no field can be changed inside of a value that is no document",
                place,
            )),
        };
        Some(bson!({ "$switch": { "branches": branches, "default": otherwise } }))
    }

    /// All elements of an array, or those that meet a condition.
    fn elements(&self, tree: &Tree<'_>, place: &str, depth: usize) -> Option<Bson> {
        let mut all = tree.0.iter();
        let (Some((name, branch)), None) = (all.next(), all.next()) else {
            return None;
        };
        let variable = format!("element{depth}");
        let element = format!("$${variable}");
        let changed = self.branch(branch, &element, depth + 1)?;
        let changed = match name.strip_prefix("$[")?.strip_suffix(']')? {
            "" => changed,
            name => {
                let meets = self.filter(name, &element)?;
                bson!({ "$cond": [meets, changed, &element] })
            }
        };
        let changed = doc! { "$map": { "input": place, "as": variable, "in": changed } };
        let refused = refusal(
            "no elements can be changed of a value that is no array",
            place,
        );
        Some(bson!({ "$cond": [{ "$isArray": [place] }, changed, refused] }))
    }

    /// The condition behind a name of elements.
    fn filter(&self, name: &str, element: &str) -> Option<Bson> {
        let is_of_it = |filter: &&Document| {
            let mut keys = Vec::new();
            names(filter, &mut keys);
            keys.iter().any(|key| key.split('.').next() == Some(name))
        };
        let filter = self.array_filters.iter().find(is_of_it)?;
        condition(filter, Some(name), element)
    }

    /// Elements by their positions; what is no array has fields of these names.
    fn positions(
        &self,
        tree: &Tree<'_>,
        whole: &Branch<'_>,
        place: &str,
        depth: usize,
    ) -> Option<Bson> {
        let (position, variable) = (format!("position{depth}"), format!("element{depth}"));
        let (at, element) = (format!("$${position}"), format!("$${variable}"));
        let (mut branches, mut length) = (Vec::new(), 0);
        let otherwise = self.fields(tree, whole, place, depth)?;
        for (name, branch) in &tree.0 {
            let index = name.parse().ok();
            let index =
                index.filter(|index: &usize| *index <= FURTHEST && index.to_string() == *name);
            let Some(index) = index else {
                // No element has this name, though a document may have such a field.
                if branch.is_lenient() {
                    continue;
                }
                let refused = refusal("no element of an array has such a name", place);
                return Some(bson!({ "$cond": [{ "$isArray": [place] }, refused, otherwise] }));
            };
            if branch.is_making() {
                length = length.max(index + 1);
            }
            let index = i64::try_from(index).ok()?;
            let changed = self.branch(branch, &element, depth + 1)?;
            branches.push(doc! { "case": { "$eq": [&at, index] }, "then": changed });
        }
        if branches.is_empty() {
            return Some(bson!({ "$cond": [{ "$isArray": [place] }, place, otherwise] }));
        }
        let length = i64::try_from(length).ok()?;
        let length = doc! { "$max": [{ "$size": place }, length] };
        let element = doc! { "$arrayElemAt": [place, &at] };
        let changed = doc! { "$let": {
            "vars": { variable: element },
            "in": { "$switch": { "branches": branches, "default": format!("$$element{depth}") } },
        } };
        let changed =
            doc! { "$map": { "input": { "$range": [0, length] }, "as": position, "in": changed } };
        Some(bson!({ "$cond": [{ "$isArray": [place] }, changed, otherwise] }))
    }
}

/// The paths of a condition.
fn names<'d>(condition: &'d Document, found: &mut Vec<&'d str>) {
    for (key, value) in condition {
        match value.as_array() {
            Some(parts) if key.starts_with('$') => {
                let parts = parts.iter().filter_map(Bson::as_document);
                parts.for_each(|part| names(part, found));
            }
            _ => found.push(key),
        }
    }
}

/// What an operator makes of the value at a place.
fn change(operator: &str, operand: &Bson, place: &str) -> Option<Bson> {
    match operator {
        "$set" => Some(literal(operand)),
        "$unset" => Some("$$REMOVE".into()),
        // Nothing is inserted by an update.
        "$setOnInsert" => Some(place.into()),
        "$inc" => number("$add", operand, operand.clone(), place),
        "$mul" => {
            let zero = match operand {
                Bson::Int32(_) => Bson::Int32(0),
                Bson::Int64(_) => Bson::Int64(0),
                Bson::Double(_) => Bson::Double(0.0),
                Bson::Decimal128(_) => Bson::Decimal128("0".parse().ok()?),
                _ => return None,
            };
            number("$multiply", operand, zero, place)
        }
        "$min" => Some(limit("$lt", operand, place)),
        "$max" => Some(limit("$gt", operand, place)),
        "$currentDate" if *operand == Bson::Boolean(true) => Some("$$NOW".into()),
        "$push" => push(operand, place),
        "$addToSet" => {
            let values = match modifiers(operand) {
                Some(modifiers) => literal(modifiers.get("$each")?),
                None => literal(&Bson::Array(vec![operand.clone()])),
            };
            let added = doc! { "$concatArrays": ["$$value", ["$$this"]] };
            let all = bson!({ "$reduce": {
                "input": values,
                "initialValue": "$$array",
                "in": { "$cond": [{ "$in": ["$$this", "$$value"] }, "$$value", added] },
            } });
            Some(array(place, all, true))
        }
        "$pop" => {
            let is_first = operand.as_i32()? < 0;
            let left = match is_first {
                true => doc! { "$slice": ["$$array", 1, i32::MAX] },
                false => {
                    doc! { "$slice": ["$$array", { "$subtract": [{ "$size": "$$array" }, 1] }] }
                }
            };
            let several = doc! { "$gt": [{ "$size": "$$array" }, 1] };
            Some(array(place, bson!({ "$cond": [several, left, []] }), false))
        }
        "$pullAll" => {
            let goes = bson!({ "$in": ["$$pulled", literal(operand)] });
            Some(array(place, without(goes), false))
        }
        "$pull" => {
            let goes = match operand {
                Bson::Document(of) => {
                    let goes = condition(of, None, "$$pulled")?;
                    let is_of_element = of.keys().all(|key| key.starts_with('$'));
                    let is_document = doc! { "$eq": [{ "$type": "$$pulled" }, "object"] };
                    match is_of_element {
                        true => goes,
                        false => bson!({ "$and": [is_document, goes] }),
                    }
                }
                Bson::Null | Bson::Array(_) | Bson::RegularExpression(_) => return None,
                value => bson!({ "$eq": ["$$pulled", literal(value)] }),
            };
            Some(array(place, without(goes), false))
        }
        _ => None,
    }
}

fn literal(value: &Bson) -> Bson {
    bson!({ "$literal": value.clone() })
}

fn is_missing(place: &str) -> Document {
    doc! { "$eq": [{ "$type": place }, "missing"] }
}

/// `$inc` and `$mul`. Whole numbers that become too large are an error, not a double.
fn number(operator: &str, operand: &Bson, first: Bson, place: &str) -> Option<Bson> {
    let mut result = bson!({ operator: [place, literal(operand)] });
    match operand {
        Bson::Int32(_) | Bson::Int64(_) => {
            let is_double = doc! { "$eq": [{ "$type": "$$result" }, "double"] };
            let was_none = doc! { "$ne": [{ "$type": place }, "double"] };
            let refused = refusal("the number would be too large", place);
            let is_beyond = doc! { "$and": [is_double, was_none] };
            result = bson!({ "$let": {
                "vars": { "result": result },
                "in": { "$cond": [is_beyond, refused, "$$result"] },
            } });
        }
        Bson::Double(_) | Bson::Decimal128(_) => {}
        _ => return None,
    }
    Some(bson!({ "$switch": {
        "branches": [
            { "case": is_missing(place), "then": literal(&first) },
            { "case": { "$isNumber": place }, "then": result },
        ],
        "default": refusal("what is no number cannot be calculated with", place),
    } }))
}

/// `$min` and `$max`.
fn limit(compare: &str, operand: &Bson, place: &str) -> Bson {
    let is_it = doc! { compare: [literal(operand), place] };
    bson!({ "$cond": [{ "$or": [is_missing(place), is_it] }, literal(operand), place] })
}

/// What becomes of the array at a place, which `changed` knows as `$$array`; one that is missing is empty, or stays missing.
fn array(place: &str, changed: Bson, is_making: bool) -> Bson {
    let missing = match is_making {
        true => bson!([]),
        false => "$$REMOVE".into(),
    };
    let array = doc! { "$cond": [is_missing(place), missing, place] };
    let refused = refusal("what is no array has no elements to change", place);
    let refused = match is_making {
        true => Bson::from(refused),
        false => bson!({ "$cond": [is_missing(place), "$$REMOVE", refused] }),
    };
    bson!({ "$let": {
        "vars": { "array": array },
        "in": { "$cond": [{ "$isArray": ["$$array"] }, changed, refused] },
    } })
}

/// The array without what goes.
fn without(goes: Bson) -> Bson {
    let stays = doc! { "$not": [goes] };
    bson!({ "$filter": { "input": "$$array", "as": "pulled", "cond": stays } })
}

/// What a `$push` and an `$addToSet` say beside a value.
fn modifiers(operand: &Bson) -> Option<&Document> {
    let modifiers = operand.as_document();
    modifiers.filter(|modifiers| modifiers.contains_key("$each"))
}

fn push(operand: &Bson, place: &str) -> Option<Bson> {
    let Some(modifiers) = modifiers(operand) else {
        let all =
            bson!({ "$concatArrays": ["$$array", literal(&Bson::Array(vec![operand.clone()]))] });
        return Some(array(place, all, true));
    };
    let each = literal(modifiers.get("$each")?);
    let mut all = match whole(modifiers, "$position") {
        None => bson!({ "$concatArrays": ["$$array", each] }),
        Some(0) => bson!({ "$concatArrays": [each, "$$array"] }),
        Some(position) if position > 0 => {
            let before = doc! { "$slice": ["$$array", position] };
            let behind = doc! { "$slice": ["$$array", position, i32::MAX] };
            bson!({ "$concatArrays": [before, each, behind] })
        }
        Some(from_behind) => {
            let left = doc! { "$add": [{ "$size": "$$array" }, from_behind] };
            let before = doc! { "$slice": ["$$array", &left] };
            let before = doc! { "$cond": [{ "$gt": [left, 0] }, before, []] };
            let behind = doc! { "$slice": ["$$array", from_behind] };
            bson!({ "$concatArrays": [before, each, behind] })
        }
    };
    if let Some(order) = modifiers.get("$sort") {
        all = bson!({ "$sortArray": { "input": all, "sortBy": order.clone() } });
    }
    all = match whole(modifiers, "$slice") {
        None => all,
        Some(0) => bson!([]),
        Some(keeps) => bson!({ "$slice": [all, keeps] }),
    };
    let is_known =
        |name: &String| matches!(name.as_str(), "$each" | "$position" | "$sort" | "$slice");
    modifiers
        .keys()
        .all(is_known)
        .then(|| array(place, all, true))
}

/// A whole number; one beyond any array is as good as the last that an expression takes.
fn whole(modifiers: &Document, name: &str) -> Option<i32> {
    let value = modifiers.get(name)?;
    let value = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    let value = value.clamp(-i64::from(i32::MAX), i32::MAX.into());
    i32::try_from(value).ok()
}

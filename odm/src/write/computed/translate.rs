//! Translates an update with operators into a pipeline stage with the same result.

use std::collections::BTreeMap;

use bson::{Bson, Document, bson, doc};

use super::{condition::element_condition, expression::error_expression};
use crate::write::footprint::{AddedElements, Operator, PathChange, parsed_changes};

/// The maximum position of an array element in an update path, as on MongoDB.
const MAX_ARRAY_POSITION: usize = 1_500_000;

/// The changes of an update, as a tree of field names.
pub(super) struct UpdateTree<'u>(ChangeTree<'u>);

impl<'u> UpdateTree<'u> {
    /// Parses an update. Returns `None` if two operators change the same path, because every backend rejects such an update.
    pub(super) fn from_update(update: &'u Document) -> Option<Self> {
        let mut top = ChangeTree::default();
        for change in parsed_changes(update) {
            top.insert_change(change.path, ChangeNode::Change(change))?;
        }
        Some(Self(top))
    }

    /// Returns the expressions for the changed top-level fields. `None` if no expression has the same result.
    pub(super) fn to_stage(&self, array_filters: &[Document]) -> Option<Document> {
        let context = StageBuilder { array_filters };
        let mut stage = Document::new();
        for (name, branch) in &self.0.0 {
            let () = (!name.starts_with('$')).then_some(())?;
            let value = context.node_expression(branch, &format!("${name}"), 0)?;
            stage.insert(*name, value);
        }
        Some(stage)
    }
}

/// The changes inside a value, in the order of the server.
#[derive(Default)]
struct ChangeTree<'u>(BTreeMap<&'u str, ChangeNode<'u>>);

enum ChangeNode<'u> {
    Change(PathChange<'u, &'u Bson>),
    Nested(ChangeTree<'u>),
}

impl<'u> ChangeTree<'u> {
    fn insert_change(&mut self, path: &'u str, change: ChangeNode<'u>) -> Option<()> {
        let Some((first, suffix)) = path.split_once('.') else {
            return self.0.insert(path, change).is_none().then_some(());
        };
        let nested = self.0.entry(first);
        match nested.or_insert_with(|| ChangeNode::Nested(ChangeTree::default())) {
            ChangeNode::Nested(nested) => nested.insert_change(suffix, change),
            ChangeNode::Change(..) => None,
        }
    }
}

impl ChangeNode<'_> {
    /// Whether the change can create a missing field.
    fn creates_value(&self) -> bool {
        match self {
            Self::Change(change) => {
                !change.operator.only_removes() && change.operator != Operator::SetOnInsert
            }
            Self::Nested(tree) => tree.0.values().any(ChangeNode::creates_value),
        }
    }

    /// Whether the change ignores a value of the wrong type instead of failing.
    fn ignores_mismatch(&self) -> bool {
        match self {
            Self::Change(change) => {
                matches!(change.operator, Operator::Unset | Operator::SetOnInsert)
            }
            Self::Nested(tree) => tree.0.values().all(ChangeNode::ignores_mismatch),
        }
    }
}

struct StageBuilder<'u> {
    array_filters: &'u [Document],
}

impl StageBuilder<'_> {
    /// Returns the expression for the new value at a path.
    fn node_expression(&self, branch: &ChangeNode<'_>, place: &str, depth: usize) -> Option<Bson> {
        match branch {
            ChangeNode::Change(change) => operator_expression(*change, place),
            ChangeNode::Nested(tree) => {
                let mut names = tree.0.keys();
                if names.any(|name| name.starts_with('$')) {
                    return self.element_changes(tree, place, depth);
                }
                let mut names = tree.0.keys();
                match names.any(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
                    true => self.position_changes(tree, branch, place, depth),
                    false => self.field_changes(tree, branch, place, depth),
                }
            }
        }
    }

    /// Changes fields of a document. A missing document is created if the change creates a field.
    fn field_changes(
        &self,
        tree: &ChangeTree<'_>,
        branch: &ChangeNode<'_>,
        place: &str,
        depth: usize,
    ) -> Option<Bson> {
        let creates_value = branch.creates_value();
        let mut changed = match creates_value {
            true => bson!({ "$cond": [is_missing(place), { "$literal": {} }, place] }),
            false => place.into(),
        };
        for (name, node) in &tree.0 {
            let value = self.node_expression(node, &format!("{place}.{name}"), depth)?;
            changed = bson!({ "$setField": { "field": *name, "input": changed, "value": value } });
        }
        let types = match creates_value {
            true => vec!["object", "missing"],
            false => vec!["object"],
        };
        let mut branches =
            vec![doc! { "case": { "$in": [{ "$type": place }, types] }, "then": changed }];
        if !creates_value {
            branches.push(doc! { "case": is_missing(place), "then": "$$REMOVE" });
        }
        let error = "cannot change a field inside a value that is not a document";
        let fallback = match branch.ignores_mismatch() {
            true => place.into(),
            false => Bson::from(error_expression(error, place)),
        };
        Some(bson!({ "$switch": { "branches": branches, "default": fallback } }))
    }

    /// Changes all elements of an array, or the elements that match an array filter.
    fn element_changes(&self, tree: &ChangeTree<'_>, place: &str, depth: usize) -> Option<Bson> {
        let mut nodes = tree.0.iter();
        let (Some((name, branch)), None) = (nodes.next(), nodes.next()) else {
            return None;
        };
        let variable = format!("element{depth}");
        let element = format!("$${variable}");
        let changed = self.node_expression(branch, &element, depth + 1)?;
        let changed = match name.strip_prefix("$[")?.strip_suffix(']')? {
            "" => changed,
            name => {
                let is_matched = self.array_filter(name, &element)?;
                bson!({ "$cond": [is_matched, changed, &element] })
            }
        };
        let changed = doc! { "$map": { "input": place, "as": variable, "in": changed } };
        let error = not_an_array_error(place);
        Some(bson!({ "$cond": [{ "$isArray": [place] }, changed, error] }))
    }

    /// Translates the array filter with this identifier.
    fn array_filter(&self, name: &str, element: &str) -> Option<Bson> {
        let has_name = |filter: &&Document| {
            let mut keys = Vec::new();
            collect_paths(filter, &mut keys);
            keys.iter().any(|key| key.split('.').next() == Some(name))
        };
        let filter = self.array_filters.iter().find(has_name)?;
        element_condition(filter, Some(name), element)
    }

    /// Changes elements by position. In a document the positions are field names.
    fn position_changes(
        &self,
        tree: &ChangeTree<'_>,
        parent: &ChangeNode<'_>,
        place: &str,
        depth: usize,
    ) -> Option<Bson> {
        let (position, variable) = (format!("position{depth}"), format!("element{depth}"));
        let (at, element) = (format!("$${position}"), format!("$${variable}"));
        let (mut branches, mut length) = (Vec::new(), 0);
        let fallback = self.field_changes(tree, parent, place, depth)?;
        for (name, branch) in &tree.0 {
            let index = name.parse().ok();
            let index = index
                .filter(|index: &usize| *index <= MAX_ARRAY_POSITION && index.to_string() == *name);
            let Some(index) = index else {
                // An array has no such element, but a document can have such a field.
                if branch.ignores_mismatch() {
                    continue;
                }
                let error = error_expression("an array has no element at this position", place);
                return Some(bson!({ "$cond": [{ "$isArray": [place] }, error, fallback] }));
            };
            if branch.creates_value() {
                length = length.max(index + 1);
            }
            let index = i64::try_from(index).ok()?;
            let changed = self.node_expression(branch, &element, depth + 1)?;
            branches.push(doc! { "case": { "$eq": [&at, index] }, "then": changed });
        }
        if branches.is_empty() {
            return Some(bson!({ "$cond": [{ "$isArray": [place] }, place, fallback] }));
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
        Some(bson!({ "$cond": [{ "$isArray": [place] }, changed, fallback] }))
    }
}

/// Collects the paths of a condition.
fn collect_paths<'d>(condition: &'d Document, paths: &mut Vec<&'d str>) {
    for (key, value) in condition {
        match value.as_array() {
            Some(parts) if key.starts_with('$') => {
                let parts = parts.iter().filter_map(Bson::as_document);
                parts.for_each(|part| collect_paths(part, paths));
            }
            _ => paths.push(key),
        }
    }
}

/// Returns the expression for the new value at a path. `None` if no expression has the same result.
fn operator_expression(change: PathChange<'_, &Bson>, place: &str) -> Option<Bson> {
    let operand = change.operand;
    match change.operator {
        Operator::Set => Some(literal_expression(operand)),
        Operator::Unset => Some("$$REMOVE".into()),
        // An update does not insert, so `$setOnInsert` changes nothing.
        Operator::SetOnInsert => Some(place.into()),
        Operator::Inc => arithmetic_expression("$add", operand, operand.clone(), place),
        Operator::Mul => {
            let zero = match operand {
                Bson::Int32(_) => Bson::Int32(0),
                Bson::Int64(_) => Bson::Int64(0),
                Bson::Double(_) => Bson::Double(0.0),
                Bson::Decimal128(_) => Bson::Decimal128("0".parse().ok()?),
                _ => return None,
            };
            arithmetic_expression("$multiply", operand, zero, place)
        }
        Operator::Min => Some(min_max_expression("$lt", operand, place)),
        Operator::Max => Some(min_max_expression("$gt", operand, place)),
        Operator::CurrentDate => (*operand == Bson::Boolean(true)).then(|| "$$NOW".into()),
        Operator::Push => push_expression(change, place),
        Operator::AddToSet => {
            let values = match change.added_elements() {
                AddedElements::Each { elements, .. } => literal_expression(elements),
                AddedElements::One(element) => literal_expression(&bson!([element.clone()])),
            };
            let with_element = doc! { "$concatArrays": ["$$value", ["$$this"]] };
            let elements = bson!({ "$reduce": {
                "input": values,
                "initialValue": "$$array",
                "in": { "$cond": [{ "$in": ["$$this", "$$value"] }, "$$value", with_element] },
            } });
            Some(array_expression(place, elements, true))
        }
        Operator::Pop => {
            let is_first = operand.as_i32()? < 0;
            let remaining = match is_first {
                true => doc! { "$slice": ["$$array", 1, i32::MAX] },
                false => {
                    doc! { "$slice": ["$$array", { "$subtract": [{ "$size": "$$array" }, 1] }] }
                }
            };
            let has_several = doc! { "$gt": [{ "$size": "$$array" }, 1] };
            let remaining = bson!({ "$cond": [has_several, remaining, []] });
            Some(array_expression(place, remaining, false))
        }
        Operator::PullAll => {
            let is_removed = bson!({ "$in": ["$$pulled", literal_expression(operand)] });
            Some(filter_expression(place, is_removed))
        }
        Operator::Pull => {
            let is_removed = match operand {
                Bson::Document(condition_document) => {
                    let is_removed = element_condition(condition_document, None, "$$pulled")?;
                    let is_of_element = condition_document.keys().all(|key| key.starts_with('$'));
                    let is_document = doc! { "$eq": [{ "$type": "$$pulled" }, "object"] };
                    match is_of_element {
                        true => is_removed,
                        false => bson!({ "$and": [is_document, is_removed] }),
                    }
                }
                Bson::Null | Bson::Array(_) | Bson::RegularExpression(_) => return None,
                value => bson!({ "$eq": ["$$pulled", literal_expression(value)] }),
            };
            Some(filter_expression(place, is_removed))
        }
        Operator::Rename | Operator::Bit | Operator::Unknown => None,
    }
}

fn literal_expression(value: &Bson) -> Bson {
    bson!({ "$literal": value.clone() })
}

fn is_missing(place: &str) -> Document {
    doc! { "$eq": [{ "$type": place }, "missing"] }
}

/// `$inc` and `$mul`. An integer overflow is an error instead of a double.
fn arithmetic_expression(
    operator: &str,
    operand: &Bson,
    initial: Bson,
    place: &str,
) -> Option<Bson> {
    let mut result = bson!({ operator: [place, literal_expression(operand)] });
    match operand {
        Bson::Int32(_) | Bson::Int64(_) => {
            let is_double = doc! { "$eq": [{ "$type": "$$result" }, "double"] };
            let was_not_double = doc! { "$ne": [{ "$type": place }, "double"] };
            let error = error_expression("the result is outside the range of an int64", place);
            let has_overflowed = doc! { "$and": [is_double, was_not_double] };
            result = bson!({ "$let": {
                "vars": { "result": result },
                "in": { "$cond": [has_overflowed, error, "$$result"] },
            } });
        }
        Bson::Double(_) | Bson::Decimal128(_) => {}
        _ => return None,
    }
    Some(bson!({ "$switch": {
        "branches": [
            { "case": is_missing(place), "then": literal_expression(&initial) },
            { "case": { "$isNumber": place }, "then": result },
        ],
        "default": error_expression("cannot apply an arithmetic operator to a value that is not a number", place),
    } }))
}

/// `$min` and `$max`.
fn min_max_expression(compare: &str, operand: &Bson, place: &str) -> Bson {
    let replaces = doc! { compare: [literal_expression(operand), place] };
    bson!({ "$cond": [{ "$or": [is_missing(place), replaces] }, literal_expression(operand), place] })
}

/// Changes the array at a path. The expression `changed` refers to the array as `$$array`. A missing array is created or stays
/// missing.
fn array_expression(place: &str, changed: Bson, creates_array: bool) -> Bson {
    let missing = match creates_array {
        true => bson!([]),
        false => "$$REMOVE".into(),
    };
    let array = doc! { "$cond": [is_missing(place), missing, place] };
    let error = not_an_array_error(place);
    let error = match creates_array {
        true => Bson::from(error),
        false => bson!({ "$cond": [is_missing(place), "$$REMOVE", error] }),
    };
    bson!({ "$let": {
        "vars": { "array": array },
        "in": { "$cond": [{ "$isArray": ["$$array"] }, changed, error] },
    } })
}

/// Returns the array at a path without the elements that meet a condition.
fn filter_expression(place: &str, is_removed: Bson) -> Bson {
    let is_kept = doc! { "$not": [is_removed] };
    let kept = bson!({ "$filter": { "input": "$$array", "as": "pulled", "cond": is_kept } });
    array_expression(place, kept, false)
}

fn not_an_array_error(place: &str) -> Document {
    let error = "cannot change elements of a value that is not an array";
    error_expression(error, place)
}

fn push_expression(change: PathChange<'_, &Bson>, place: &str) -> Option<Bson> {
    let (each, modifiers) = match change.added_elements() {
        AddedElements::Each { elements, .. } => {
            (literal_expression(elements), change.operand.as_document()?)
        }
        AddedElements::One(element) => {
            let element = literal_expression(&bson!([element.clone()]));
            let elements = bson!({ "$concatArrays": ["$$array", element] });
            return Some(array_expression(place, elements, true));
        }
    };
    let mut elements = match integer_modifier(modifiers, "$position") {
        None => bson!({ "$concatArrays": ["$$array", each] }),
        Some(0) => bson!({ "$concatArrays": [each, "$$array"] }),
        Some(position) if position > 0 => {
            let before = doc! { "$slice": ["$$array", position] };
            let after = doc! { "$slice": ["$$array", position, i32::MAX] };
            bson!({ "$concatArrays": [before, each, after] })
        }
        Some(from_end) => {
            let first_length = doc! { "$add": [{ "$size": "$$array" }, from_end] };
            let before = doc! { "$slice": ["$$array", &first_length] };
            let before = doc! { "$cond": [{ "$gt": [first_length, 0] }, before, []] };
            let after = doc! { "$slice": ["$$array", from_end] };
            bson!({ "$concatArrays": [before, each, after] })
        }
    };
    if let Some(order) = modifiers.get("$sort") {
        elements = bson!({ "$sortArray": { "input": elements, "sortBy": order.clone() } });
    }
    elements = match integer_modifier(modifiers, "$slice") {
        None => elements,
        Some(0) => bson!([]),
        Some(length) => bson!({ "$slice": [elements, length] }),
    };
    let is_known =
        |name: &String| matches!(name.as_str(), "$each" | "$position" | "$sort" | "$slice");
    modifiers
        .keys()
        .all(is_known)
        .then(|| array_expression(place, elements, true))
}

/// Returns an integer modifier, limited to the range of positions in expressions.
fn integer_modifier(modifiers: &Document, name: &str) -> Option<i32> {
    let value = modifiers.get(name)?;
    let value = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    let value = value.clamp(-i64::from(i32::MAX), i32::MAX.into());
    i32::try_from(value).ok()
}

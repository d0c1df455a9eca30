//! The footprint of a write: what the write changes, read from the operation alone.
//!
//! This module is the only reader of update operators. A stage asks for the [`PathChange`]s of an update, and matches on the
//! [`Operator`]. A match without a catch-all arm makes a new operator a compile error in every stage that must decide about it.

use bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{
    Result,
    backend::operation::DocumentChange,
    error,
    language::query::append_field,
    model::stored::paths_overlap,
    schema::{ComputedInput, Model},
};

/// The kind of a write, with the data that determines the follow-up work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Footprint<'w> {
    /// An insert of documents.
    Inserts(&'w [RawDocumentBuf]),
    /// An update or a replacement.
    Changes(&'w DocumentChange),
    /// A delete.
    Removes,
}

/// An update operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Set,
    SetOnInsert,
    Unset,
    Rename,
    Inc,
    Mul,
    Min,
    Max,
    Bit,
    CurrentDate,
    Push,
    AddToSet,
    Pull,
    PullAll,
    Pop,
    /// An operator that this version does not know. Stages treat the operator as a write of an unknown value.
    Unknown,
}

impl Operator {
    const NAMED: [(Self, &'static str); 15] = [
        (Self::Set, "$set"),
        (Self::SetOnInsert, "$setOnInsert"),
        (Self::Unset, "$unset"),
        (Self::Rename, "$rename"),
        (Self::Inc, "$inc"),
        (Self::Mul, "$mul"),
        (Self::Min, "$min"),
        (Self::Max, "$max"),
        (Self::Bit, "$bit"),
        (Self::CurrentDate, "$currentDate"),
        (Self::Push, "$push"),
        (Self::AddToSet, "$addToSet"),
        (Self::Pull, "$pull"),
        (Self::PullAll, "$pullAll"),
        (Self::Pop, "$pop"),
    ];

    /// Returns the operator with a name such as `$set`.
    pub(crate) fn from_name(name: &str) -> Self {
        let mut named = Self::NAMED.into_iter();
        let found = named.find(|(_, other)| *other == name);
        found.map_or(Self::Unknown, |(operator, _)| operator)
    }

    /// Returns the name of the operator, such as `$set`.
    pub(crate) fn name(self) -> &'static str {
        let mut named = Self::NAMED.into_iter();
        let found = named.find(|(operator, _)| *operator == self);
        found.map_or("an unknown operator", |(_, name)| name)
    }

    /// Whether the operator can store the operand or a part of the operand. The other operators remove values, or write a number
    /// or a date.
    pub(crate) fn may_store_operand(self) -> bool {
        let is_number_or_date =
            matches!(self, Self::Inc | Self::Mul | Self::Bit | Self::CurrentDate);
        !is_number_or_date && !self.only_removes()
    }

    /// Whether the operator can only remove values: a field, or elements of an array.
    pub(crate) fn only_removes(self) -> bool {
        match self {
            Self::Unset | Self::Pull | Self::PullAll | Self::Pop => true,
            Self::Set
            | Self::SetOnInsert
            | Self::Rename
            | Self::Inc
            | Self::Mul
            | Self::Min
            | Self::Max
            | Self::Bit
            | Self::CurrentDate
            | Self::Push
            | Self::AddToSet
            | Self::Unknown => false,
        }
    }
}

/// One change of an update: an operator, the path, and the operand in raw or in parsed form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathChange<'u, V = RawBsonRef<'u>> {
    pub(crate) operator: Operator,
    /// The name of the operator in the update.
    pub(crate) operator_name: &'u str,
    /// The path with dots. May contain positions and placeholders of array elements.
    pub(crate) path: &'u str,
    pub(crate) operand: V,
}

/// The operand of a change, in raw or in parsed form.
pub(crate) trait ChangeOperand<'u>: Copy {
    /// Returns the value of a string.
    fn text(self) -> Option<&'u str>;

    /// Returns a field and the number of fields, if the operand is a document with this field.
    fn field_of(self, name: &str) -> Option<(Self, usize)>;
}

impl<'u> ChangeOperand<'u> for RawBsonRef<'u> {
    fn text(self) -> Option<&'u str> {
        self.as_str()
    }

    fn field_of(self, name: &str) -> Option<(Self, usize)> {
        let document = self.as_document()?;
        let value = document.get(name).ok()??;
        Some((value, document.iter().count()))
    }
}

impl<'u> ChangeOperand<'u> for &'u Bson {
    fn text(self) -> Option<&'u str> {
        self.as_str()
    }

    fn field_of(self, name: &str) -> Option<(Self, usize)> {
        let document = self.as_document()?;
        Some((document.get(name)?, document.len()))
    }
}

/// The elements that a `$push` or an `$addToSet` adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AddedElements<V> {
    /// A single element.
    One(V),
    /// The elements of an array.
    Each {
        elements: V,
        /// Whether the operand has a further modifier: `$position`, `$sort` or `$slice`.
        has_modifiers: bool,
    },
}

impl<V> AddedElements<V> {
    /// Returns the element, or the array of elements.
    pub(crate) fn value(self) -> V {
        match self {
            Self::One(value) => value,
            Self::Each { elements, .. } => elements,
        }
    }

    /// Whether the elements are appended to an array that otherwise stays as before.
    pub(crate) fn is_plain(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Each { has_modifiers, .. } => !has_modifiers,
        }
    }
}

impl<'u, V: ChangeOperand<'u>> PathChange<'u, V> {
    /// Returns the path that a `$rename` writes.
    pub(crate) fn rename_target(self) -> Option<&'u str> {
        match self.operator {
            Operator::Rename => self.operand.text(),
            _ => None,
        }
    }

    /// Returns the paths that the change writes: the path, and the target of a `$rename`.
    pub(crate) fn written_paths(self) -> impl Iterator<Item = &'u str> {
        std::iter::once(self.path).chain(self.rename_target())
    }

    /// Whether the change writes to a place, into the place, or to an enclosing place.
    pub(crate) fn touches(self, place: &str) -> bool {
        let mut paths = self.written_paths();
        paths.any(|path| paths_overlap(path, place))
    }

    /// Returns the elements that the operand of a `$push` or an `$addToSet` adds.
    pub(crate) fn added_elements(self) -> AddedElements<V> {
        match self.operand.field_of("$each") {
            Some((elements, fields)) => AddedElements::Each {
                elements,
                has_modifiers: fields > 1,
            },
            None => AddedElements::One(self.operand),
        }
    }
}

impl DocumentChange {
    /// Returns the update operators. `None` for a replacement or a pipeline.
    pub(crate) fn update(&self) -> Option<&RawDocument> {
        match self {
            Self::Operators { update, .. } => Some(update),
            Self::Replacement(_) | Self::Pipeline(_) => None,
        }
    }
}

/// Returns the changes of an update, in the order of the update.
pub(crate) fn path_changes(update: &RawDocument) -> impl Iterator<Item = PathChange<'_>> {
    let operators = update.iter().flatten();
    operators.flat_map(|(name, fields)| {
        let operator_name = name.as_str();
        let operator = Operator::from_name(operator_name);
        let fields = fields.as_document().into_iter().flatten().flatten();
        fields.map(move |(path, operand)| PathChange {
            operator,
            operator_name,
            path: path.as_str(),
            operand,
        })
    })
}

/// Returns the changes of a parsed update, in the order of the update.
pub(crate) fn parsed_changes(update: &Document) -> impl Iterator<Item = PathChange<'_, &'_ Bson>> {
    update.iter().flat_map(|(operator_name, fields)| {
        let operator = Operator::from_name(operator_name);
        let fields = fields.as_document().into_iter().flatten();
        fields.map(move |(path, operand)| PathChange {
            operator,
            operator_name,
            path,
            operand,
        })
    })
}

/// Returns the changes of a parsed update, with operands that can be edited.
pub(crate) fn parsed_changes_mut(
    update: &mut Document,
) -> impl Iterator<Item = PathChange<'_, &'_ mut Bson>> {
    update.iter_mut().flat_map(|(operator_name, fields)| {
        let operator = Operator::from_name(operator_name);
        let fields = fields.as_document_mut().into_iter();
        let fields = fields.flat_map(Document::iter_mut);
        fields.map(move |(path, operand)| PathChange {
            operator,
            operator_name,
            path,
            operand,
        })
    })
}

/// Returns the stored names of the computed fields with an input that an update changes.
pub(crate) fn recomputed_fields(model: &Model, update: &RawDocument) -> Vec<&'static str> {
    if model.computed.is_empty() {
        return Vec::new();
    }
    let changes = path_changes(update);
    let mut paths: Vec<_> = changes.flat_map(PathChange::written_paths).collect();
    let mut changed = Vec::new();
    // The schema lists each computed field after the computed fields that are inputs.
    for field in model.computed {
        let inputs = (field.computation)().list_inputs();
        let mut inputs = inputs.iter();
        if inputs.any(|input| paths.iter().any(|path| affects_input(path, input))) {
            paths.push(field.stored);
            changed.push(field.stored);
        }
    }
    changed
}

/// Whether a write at a path can change an input: one path contains the other.
fn affects_input(path: &str, input: &ComputedInput) -> bool {
    if let ComputedInput::Len(array) = input
        && path
            .strip_prefix(&**array)
            .is_some_and(|suffix| suffix.starts_with(".$"))
    {
        // An update of array elements does not change the length.
        return false;
    }
    paths_overlap(path, input.path())
}

/// Returns the values that a change writes: the operand, or the elements of a `$push` with `$each`.
pub(crate) fn written_values(operator: Operator, operand: &mut Bson) -> &mut Bson {
    let modifiers = operand.as_document();
    let has_each = modifiers.is_some_and(|modifiers| modifiers.contains_key("$each"));
    if operator != Operator::Push || !has_each {
        return operand;
    }
    match operand {
        Bson::Document(modifiers) => modifiers.entry("$each".to_owned()).or_insert(Bson::Null),
        value => value,
    }
}

/// Whether an update writes to a place, into the place, or to an enclosing place.
pub(crate) fn update_touches(update: &RawDocument, place: &str) -> bool {
    path_changes(update).any(|change| change.touches(place))
}

/// Returns the update with an operator for one more path.
pub(crate) fn with_operator(
    update: &RawDocument,
    operator: &str,
    path: &str,
    value: RawBson,
) -> Result<RawDocumentBuf> {
    let mut changed = RawDocumentBuf::new();
    let mut paths = RawDocumentBuf::new();
    for field in update.iter() {
        let (name, value) = field.map_err(error::from_bson)?;
        match value.as_document() {
            Some(operator_paths) if name == operator => paths = operator_paths.to_owned(),
            _ => append_field(&mut changed, name.as_str(), RawBson::from(value))?,
        }
    }
    append_field(&mut paths, path, value)?;
    append_field(&mut changed, operator, paths)?;
    Ok(changed)
}

/// Adds a path to an operator of a parsed update, or replaces the operand of the path.
pub(crate) fn put_operator(
    update: &mut Document,
    operator: &str,
    path: &str,
    value: impl Into<Bson>,
) {
    let fields = update.entry(operator.to_owned());
    if let Bson::Document(fields) = fields.or_insert_with(|| Bson::Document(Document::new())) {
        fields.insert(path, value);
    }
}

/// Adds all operators of another update, or replaces the operands of the same paths.
pub(crate) fn merge_update(update: &mut Document, other: &Document) {
    for change in parsed_changes(other) {
        let operand = change.operand.clone();
        put_operator(update, change.operator_name, change.path, operand);
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;
    use crate::model::stored::to_raw_document;

    fn raw(update: &Document) -> RawDocumentBuf {
        to_raw_document(update).unwrap()
    }

    #[test]
    fn every_operator_has_its_name() {
        for (operator, name) in Operator::NAMED {
            assert_eq!(Operator::from_name(name), operator);
            assert_eq!(operator.name(), name);
        }
        assert_eq!(Operator::from_name("$later"), Operator::Unknown);
        // The operand of an unknown operator may be stored.
        assert!(Operator::Unknown.may_store_operand() && Operator::Set.may_store_operand());
        assert!(!Operator::Inc.may_store_operand() && !Operator::Pull.may_store_operand());
    }

    #[test]
    fn both_forms_have_the_same_changes() {
        let mut update = doc! {
            "$set": { "a.0.b": 1, "c": [2] },
            "$rename": { "d": "e" },
            "$later": { "f": true },
        };
        let expected = [
            (Operator::Set, "a.0.b", bson!(1)),
            (Operator::Set, "c", bson!([2])),
            (Operator::Rename, "d", bson!("e")),
            (Operator::Unknown, "f", bson!(true)),
        ];
        let raw = raw(&update);
        let from_raw: Vec<_> = path_changes(&raw)
            .map(|change| {
                let operand = Bson::try_from(change.operand).unwrap();
                (change.operator, change.path, operand)
            })
            .collect();
        assert_eq!(from_raw, expected);
        let parsed: Vec<_> = parsed_changes(&update)
            .map(|change| (change.operator, change.path, change.operand.clone()))
            .collect();
        assert_eq!(parsed, expected);
        let mutable: Vec<_> = parsed_changes_mut(&mut update)
            .map(|change| (change.operator, change.path, change.operand.clone()))
            .collect();
        assert_eq!(mutable, expected);
    }

    #[test]
    fn a_change_touches_nested_and_enclosing_places_and_the_target_of_a_rename() {
        let update = raw(&doc! { "$set": { "a.$[].b": 1 }, "$rename": { "c": "d.e" } });
        for touched in ["a", "a.b", "a.b.c", "c", "c.x", "d", "d.e"] {
            assert!(update_touches(&update, touched), "{touched}");
        }
        for untouched in ["b", "a.c", "d.f", "ab"] {
            assert!(!update_touches(&update, untouched), "{untouched}");
        }
        // The operand of another operator is no path.
        assert!(!update_touches(&raw(&doc! { "$set": { "c": "d" } }), "d"));
    }

    #[test]
    fn added_elements_are_one_or_each() {
        let added = |operand: Bson| {
            let update = doc! { "$push": { "a": operand } };
            let change = parsed_changes(&update).next().unwrap();
            let added = change.added_elements();
            (added.value().clone(), added.is_plain())
        };
        assert_eq!(added(bson!([1])), (bson!([1]), true));
        assert_eq!(added(bson!({ "x": 1 })), (bson!({ "x": 1 }), true));
        assert_eq!(added(bson!({ "$each": [1, 2] })), (bson!([1, 2]), true));
        let sliced = bson!({ "$each": [1], "$slice": 3 });
        assert_eq!(added(sliced), (bson!([1]), false));
    }

    #[test]
    fn an_operator_is_added_or_extended() {
        let update = raw(&doc! { "$set": { "a": 1 }, "$inc": { "b": 2 } });
        let extended = with_operator(&update, "$set", "c", 3.into()).unwrap();
        let expected = doc! { "$inc": { "b": 2 }, "$set": { "a": 1, "c": 3 } };
        assert_eq!(Document::try_from(extended).unwrap(), expected);
        let added = with_operator(&update, "$unset", "c", "".into()).unwrap();
        let expected = doc! { "$set": { "a": 1 }, "$inc": { "b": 2 }, "$unset": { "c": "" } };
        assert_eq!(Document::try_from(added).unwrap(), expected);
    }
}

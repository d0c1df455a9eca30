//! Builds the update document from the operators of an update.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::{
    elements::{ElementConditions, Levels},
    operand_types::OutOfRange,
    push::PushModifiers,
    requirement::{RequirementReason, UpdateRequirement},
};
use crate::{
    Error, ErrorKind, Result,
    error::too_many_elements,
    language::{
        field::Path,
        query::{FilterNode, append_field, single_field_document},
    },
    model::document::Stored,
    write::footprint::{Operator, PathChange, path_changes},
};

/// The place that an operator changes, and whether null can stand there for a missing value.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperatorPlace<'p> {
    path: &'p Path,
    null: NullAt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NullAt {
    Never,
    Value,
    Array,
}

impl<'p> OperatorPlace<'p> {
    /// Makes the place of a field with values of type `V`.
    pub(super) fn for_value_type<V: Stored>(path: &'p Path) -> Self {
        let null = match (V::MAY_BE_NONE, V::IS_ARRAY) {
            (false, _) => NullAt::Never,
            (true, false) => NullAt::Value,
            (true, true) => NullAt::Array,
        };
        Self { path, null }
    }
}

/// The operators of an update, with their requirements.
#[derive(Debug, Clone, Default)]
pub(crate) struct UpdateOperators {
    operators: Vec<(Operator, Vec<(String, RawBson)>)>,
    /// The modifiers of `$push`, by path.
    modifiers: Vec<(String, RawDocumentBuf)>,
    elements: ElementConditions,
    requirements: Vec<UpdateRequirement>,
    /// The conditions that the parents of written places exist.
    parent_conditions: Vec<FilterNode>,
    /// The conditions that the enums around written places have the right variant.
    variant_conditions: Vec<FilterNode>,
    error: Option<Error>,
    /// Whether the changes may be empty: the values of a patch are optional.
    allows_no_changes: bool,
    /// The changes that a hook added: the new value of a path, or `None` to remove the field.
    hook_changes: Vec<(String, Option<RawBson>)>,
}

/// The finished update document with its conditions.
#[derive(Debug)]
pub(super) struct FinishedUpdate {
    pub(super) update: RawDocumentBuf,
    /// The array filters of the names in `$[name]`.
    pub(super) array_filters: Vec<RawDocumentBuf>,
    /// The condition of the paths: the element of `$`, existing parents, and enum variants.
    pub(super) place_condition: FilterNode,
    pub(super) requirements: Vec<UpdateRequirement>,
}

impl UpdateOperators {
    /// Adds an operator on a path.
    pub(super) fn add_operator(&mut self, operator: Operator, path: &Path, value: Result<RawBson>) {
        let added = Levels::split_at_arrays(path).and_then(|levels| {
            let place = self.resolve_place(&levels)?;
            self.operator_fields(operator).push((place, value?));
            Ok(())
        });
        self.require_variant(path);
        self.keep_first_error(added, path);
    }

    /// Adds an operator that fails on null.
    pub(super) fn add_null_safe(
        &mut self,
        operator: Operator,
        operand: OperatorPlace<'_>,
        value: Result<RawBson>,
    ) {
        self.require_no_null(operand);
        self.add_operator(operator, operand.path, value);
    }

    /// Adds an operator on a number, which must stay within its range.
    pub(super) fn add_to_number(
        &mut self,
        operator: Operator,
        operand: OperatorPlace<'_>,
        value: Result<RawBson>,
        out_of_range: Option<OutOfRange>,
    ) {
        self.require_no_null(operand);
        let path = operand.path;
        let added = Levels::split_at_arrays(path).and_then(|mut levels| {
            let amount = value?;
            if let Some(out_of_range) = out_of_range {
                let (requirement, in_range) =
                    UpdateRequirement::in_range((path, &levels), operator, &amount, out_of_range);
                self.requirements.push(requirement);
                // A concurrent write may change an element in a chunk document after the check. The element then stays unchanged.
                if levels.may_spill {
                    levels = levels.with_element_condition(&in_range);
                }
            }
            let place = self.resolve_place(&levels)?;
            self.operator_fields(operator).push((place, amount));
            Ok(())
        });
        self.require_variant(path);
        self.keep_first_error(added, path);
    }

    /// Returns the path with names for elements, and records the requirements of the path.
    fn resolve_place(&mut self, levels: &Levels) -> Result<String> {
        let place = self.elements.operator_path(levels)?;
        if !matches!(levels.required, FilterNode::All) {
            self.parent_conditions.push(levels.required.clone());
        }
        for map in levels.null_maps() {
            self.requirements
                .push(UpdateRequirement::not_null(&map, false)?);
        }
        Ok(place)
    }

    fn require_no_null(&mut self, OperatorPlace { path, null }: OperatorPlace<'_>) {
        if null == NullAt::Never {
            return;
        }
        let levels = Levels::split_at_arrays(path);
        match levels.and_then(|levels| UpdateRequirement::not_null(&levels, null == NullAt::Array))
        {
            Ok(requirement) => self.requirements.push(requirement),
            Err(error) => self.keep_first_error(Err(error), path),
        }
    }

    /// Adds `$set`. An array must not have more elements than its `max`.
    pub(super) fn add_set(&mut self, path: &Path, value: Result<RawBson>) {
        let value = value.and_then(|value| match (&value, path.max()) {
            (RawBson::Array(array), Some(max)) if array_len(array) > max => {
                Err(too_many_elements(max, array_len(array)))
            }
            _ => Ok(value),
        });
        // Remove a value that serde leaves out, as an insert of this value would leave the field out.
        match value {
            Ok(value) if path.is_omitted(&value) => {
                self.add_operator(Operator::Unset, path, Ok(true.into()))
            }
            value => self.add_operator(Operator::Set, path, value),
        }
    }

    /// Adds an operator with a list of values. Further lists for the same path are appended to the first list.
    pub(super) fn add_each(
        &mut self,
        operator: Operator,
        operand: OperatorPlace<'_>,
        list: Result<RawBson>,
    ) {
        self.require_no_null(operand);
        let path = operand.path;
        let added = self.try_add_each(operator, path, list);
        self.require_variant(path);
        self.keep_first_error(added, path);
    }

    fn try_add_each(
        &mut self,
        operator: Operator,
        path: &Path,
        list: Result<RawBson>,
    ) -> Result<()> {
        let dotted = self.resolve_place(&Levels::split_at_arrays(path)?)?;
        let RawBson::Array(list) = list? else {
            return Ok(());
        };
        if operator == Operator::Push && self.modifiers.iter().any(|(other, _)| *other == dotted) {
            return Err(pushed_twice_error());
        }
        let fields = self.operator_fields(operator);
        let all = match fields.iter_mut().find(|(other, _)| *other == dotted) {
            Some((_, RawBson::Array(before))) => {
                for value in list.into_iter().flatten() {
                    before.push(value);
                }
                before.clone()
            }
            _ => {
                fields.push((dotted, RawBson::Array(list.clone())));
                list
            }
        };
        if operator != Operator::PullAll
            && let Some(max) = path.max()
        {
            self.require_room(operator, path, &all, max)?;
        }
        Ok(())
    }

    /// Adds `$push` with modifiers.
    pub(super) fn add_push_with(
        &mut self,
        operand: OperatorPlace<'_>,
        list: Result<RawBson>,
        modifiers: Result<PushModifiers>,
    ) {
        self.require_no_null(operand);
        let path = operand.path;
        let added = self.try_add_push_with(path, list, modifiers);
        self.require_variant(path);
        self.keep_first_error(added, path);
    }

    fn try_add_push_with(
        &mut self,
        path: &Path,
        list: Result<RawBson>,
        modifiers: Result<PushModifiers>,
    ) -> Result<()> {
        let dotted = self.resolve_place(&Levels::split_at_arrays(path)?)?;
        let PushModifiers { raw, max_kept } = modifiers?;
        let list = list?;
        let fields = self.operator_fields(Operator::Push);
        if fields.iter().any(|(other, _)| *other == dotted) {
            return Err(pushed_twice_error());
        }
        fields.push((dotted.clone(), list.clone()));
        self.modifiers.push((dotted, raw));
        // A slice within `max` limits the array, regardless of the length before.
        if let (RawBson::Array(list), Some(max)) = (list, path.max())
            && max_kept.is_none_or(|max_kept| max_kept > max)
        {
            self.require_room(Operator::Push, path, &list, max)?;
        }
        Ok(())
    }

    fn require_room(
        &mut self,
        operator: Operator,
        path: &Path,
        elements: &RawArrayBuf,
        max: usize,
    ) -> Result<()> {
        let condition = room_condition(operator, path, elements, max)?;
        let (path, may_spill) = (path.to_string(), path.may_spill());
        self.requirements.push(UpdateRequirement {
            condition,
            may_spill,
            reason: RequirementReason::Room { path, max },
        });
        Ok(())
    }

    /// Makes the changes of a save, for hooks to read.
    pub(crate) fn from_save(update: &RawDocumentBuf) -> Self {
        let mut changes = Self::default();
        for change in path_changes(update) {
            let fields = changes.operator_fields(change.operator);
            fields.push((change.path.to_owned(), change.operand.into()));
        }
        changes
    }

    /// Adds `$set` in place of an earlier `$set` or `$unset` of the path.
    pub(crate) fn replace_with_set(&mut self, path: &Path, value: Result<RawBson>) {
        self.remove_earlier(path);
        if let Ok(value) = &value {
            self.hook_changes
                .push((path.to_string(), Some(value.clone())));
        }
        self.add_set(path, value);
    }

    /// Adds `$unset` in place of an earlier `$set` or `$unset` of the path.
    pub(crate) fn replace_with_unset(&mut self, path: &Path) {
        self.remove_earlier(path);
        self.hook_changes.push((path.to_string(), None));
        self.add_operator(Operator::Unset, path, Ok(true.into()));
    }

    /// Returns the changes that a hook added, or the error of an invalid change.
    pub(crate) fn hook_changes(&self) -> Result<&[(String, Option<RawBson>)]> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(&self.hook_changes),
        }
    }

    fn remove_earlier(&mut self, path: &Path) {
        let path = path.to_string();
        for (operator, fields) in &mut self.operators {
            if matches!(operator, Operator::Set | Operator::Unset) {
                fields.retain(|(other, _)| *other != path);
            }
        }
        self.operators.retain(|(_, fields)| !fields.is_empty());
    }

    pub(super) fn allow_no_changes(&mut self) {
        self.allows_no_changes = true;
    }

    pub(super) fn allows_no_changes(&self) -> bool {
        self.allows_no_changes
    }

    /// Whether no change was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.operators.is_empty() && self.error.is_none()
    }

    /// Iterates over the changes. The operand of an operator with a list of values is the list.
    pub(crate) fn path_changes(&self) -> impl DoubleEndedIterator<Item = PathChange<'_>> {
        self.operators.iter().flat_map(|(operator, fields)| {
            fields.iter().map(|(path, operand)| PathChange {
                operator: *operator,
                operator_name: operator.name(),
                path,
                operand: operand.as_raw_bson_ref(),
            })
        })
    }

    /// Builds the update document and its conditions.
    pub(super) fn into_finished(self) -> Result<FinishedUpdate> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.operators.is_empty() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the update has no changes: add `set`, `inc`, `push`, …, or use `apply` or `set_some`, which may have no values",
            ));
        }
        let mut update = RawDocumentBuf::new();
        for (operator, fields) in self.operators {
            let mut changes = RawDocumentBuf::new();
            for (path, value) in fields {
                let value = match operator {
                    Operator::Push | Operator::AddToSet => {
                        let mut push = single_field_document("$each", value)?;
                        let modifiers = self.modifiers.iter().find(|(other, _)| *other == path);
                        if let (Some((_, modifiers)), Operator::Push) = (modifiers, operator) {
                            for modifier in modifiers.iter() {
                                let (name, value) = modifier.map_err(crate::error::from_bson)?;
                                append_field(&mut push, name.as_str(), RawBson::from(value))?;
                            }
                        }
                        push.into()
                    }
                    _ => value,
                };
                append_field(&mut changes, &path, value)?;
            }
            append_field(&mut update, operator.name(), changes)?;
        }
        let only_where = self
            .variant_conditions
            .into_iter()
            .fold(FilterNode::All, FilterNode::and);
        self.elements.ensure_no_further_condition(&only_where)?;
        for UpdateRequirement { condition, .. } in &self.requirements {
            // An `$or` of several branches does not record the position of an element.
            if !matches!(condition, FilterNode::Or(branches) if branches.len() > 1) {
                self.elements.ensure_no_further_condition(condition)?;
            }
        }
        let required = self
            .parent_conditions
            .into_iter()
            .fold(FilterNode::All, FilterNode::and);
        Ok(FinishedUpdate {
            update,
            array_filters: self.elements.array_filters()?,
            place_condition: self
                .elements
                .selection_condition()
                .and(only_where)
                .and(required),
            requirements: self.requirements,
        })
    }

    /// Whether a changed place is inside an enum variant.
    pub(super) fn changes_inside_variant(&self) -> bool {
        !self.variant_conditions.is_empty()
    }

    /// Requires the variant of each enum around the path. In a document with a different variant, the write would create the
    /// field inside that variant.
    pub(super) fn require_variant(&mut self, path: &Path) {
        self.variant_conditions
            .extend(path.variant_condition().cloned());
    }

    /// Returns an error for a condition that cannot be combined with these changes.
    pub(super) fn ensure_compatible(&self, condition: &FilterNode) -> Result<()> {
        self.elements.ensure_no_further_condition(condition)
    }

    fn operator_fields(&mut self, operator: Operator) -> &mut Vec<(String, RawBson)> {
        let index = self
            .operators
            .iter()
            .position(|(other, _)| *other == operator)
            .unwrap_or_else(|| {
                self.operators.push((operator, Vec::new()));
                self.operators.len() - 1
            });
        &mut self.operators[index].1
    }

    /// Keeps the error if no earlier operator failed: the first error is reported.
    fn keep_first_error(&mut self, added: Result<()>, path: &Path) {
        if let Err(error) = added
            && self.error.is_none()
        {
            let error = match error.path() {
                Some(_) => error,
                None => error.with_path(path.to_string()),
            };
            self.error = Some(error);
        }
    }
}

/// Returns the condition that the array at `path` has room for the elements within `max`. For a path through arrays, each changed
/// element must have room.
fn room_condition(
    operator: Operator,
    path: &Path,
    elements: &RawArrayBuf,
    max: usize,
) -> Result<FilterNode> {
    let levels = Levels::split_at_arrays(path)?;
    match room_condition_at(operator, &levels.rest, elements, max)? {
        FilterNode::All => Ok(FilterNode::All),
        room => Ok(levels.no_place_condition(FilterNode::Not(Box::new(room)))),
    }
}

fn room_condition_at(
    operator: Operator,
    path: &Path,
    elements: &RawArrayBuf,
    max: usize,
) -> Result<FilterNode> {
    let place = |name: &str| path.append_name(name);
    let at_most = |len: usize| FilterNode::Test(place(&len.to_string()), "$exists", false.into());
    let count = array_len(elements);
    if operator == Operator::Push {
        let Some(free) = max.checked_sub(count) else {
            return Err(too_many_elements(max, count));
        };
        return Ok(at_most(free));
    }
    // In a set, only new elements need room. The number of new elements depends on the stored elements.
    let array = path.clone().holding_array();
    let present = |value: RawBson| FilterNode::Test(array.clone(), "$eq", value);
    let elements: Vec<RawBson> = elements.into_iter().flatten().map(RawBson::from).collect();
    match elements.as_slice() {
        [] => Ok(FilterNode::All),
        [value] => Ok(FilterNode::Or(match max.checked_sub(1) {
            Some(free) => vec![at_most(free), present(value.clone())],
            None => vec![present(value.clone())],
        })),
        values => {
            let all_present = FilterNode::And(values.iter().cloned().map(present).collect());
            match max.checked_sub(values.len()) {
                Some(free) => Ok(FilterNode::Or(vec![at_most(free), all_present])),
                None => Ok(all_present),
            }
        }
    }
}

fn pushed_twice_error() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "the update pushes to this array twice, and once by `push_with`: pass all values to one `push_with`",
    )
}

fn array_len(array: &RawArrayBuf) -> usize {
    array.into_iter().count()
}

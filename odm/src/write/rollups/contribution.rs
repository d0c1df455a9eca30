//! The layout of rollups: which children contribute to which parents, and what a child contributes.

use std::collections::BTreeSet;

use bson::{Bson, Document, RawDocument, doc};

use crate::{
    Result,
    language::field::Path,
    metadata::{
        self, ParsedMetadata,
        references::tombstone,
        rollup::{
            ENTRY_ID, ENTRY_SORT_VALUE, RecordedContribution, contribution_parents_path,
            contributions_path,
        },
    },
    model::{ids::OrderedId, stored::root_of},
    pending::record::PendingKind,
    schema::{ChildList, Model, Rollup, RollupCondition, RollupKind, SharedScope},
    write::{
        footprint::update_touches,
        metadata_update::{set_at, value_at},
    },
};

/// The rollups of a parent model that come from one reference of a child model.
#[derive(Debug)]
pub(super) struct RollupGroup {
    /// The stored path of the reference in the children.
    pub(super) reference: String,
    pub(super) child_model: &'static Model,
    pub(super) parent_model: &'static Model,
    /// The scope fields of both models, which must be equal for a child to contribute. `None` unless both models have a scope.
    pub(super) scope: Option<SharedScope>,
    pub(super) rollups: Vec<&'static Rollup>,
}

/// The contribution of a child to one parent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Contribution {
    /// The `_id` of the parent.
    pub(super) parent_id: Bson,
    /// The values that the child adds to counts, sums and averages, by stored name. Zero is left out, except in averages.
    pub(super) values: Document,
    /// The entries of the child in lists, by rollup of the group. `None` for a rollup that is not a list or that
    /// excludes the child.
    pub(super) excerpts: Vec<Option<Document>>,
}

impl Contribution {
    /// Returns the record that the child stores. Before the parent is updated, the record has no values.
    pub(super) fn to_record(&self, is_applied: bool) -> Document {
        let record = RecordedContribution {
            parent_id: self.parent_id.clone(),
            values: match is_applied {
                true => self.values.clone(),
                false => Document::new(),
            },
        };
        record.to_document()
    }
}

/// Whether a model has rollups.
pub(super) fn is_parent_model(model: &Model) -> bool {
    !model.rollups.is_empty()
}

/// Returns the rollup groups that a child model contributes to.
pub(super) fn rollup_groups(
    models: &[&'static Model],
    child_model: &'static Model,
) -> Vec<RollupGroup> {
    let mut groups: Vec<RollupGroup> = Vec::new();
    for parent_model in models {
        for rollup in parent_model.rollups {
            if rollup.collection != child_model.collection {
                continue;
            }
            let reference = (rollup.reference)().to_string();
            match groups.iter_mut().find(|group| group.reference == reference) {
                Some(group) => group.rollups.push(rollup),
                None => groups.push(RollupGroup {
                    reference,
                    child_model,
                    parent_model,
                    scope: SharedScope::of_models(child_model, parent_model),
                    rollups: vec![rollup],
                }),
            }
        }
    }
    groups
}

/// Returns the rollup groups of a parent model.
pub(super) fn rollup_groups_of_parent(
    models: &[&'static Model],
    parent_model: &'static Model,
) -> Vec<RollupGroup> {
    let mut child_models: Vec<&'static Model> = Vec::new();
    for rollup in parent_model.rollups {
        let mut known = child_models.iter();
        if !known.any(|model| model.collection == rollup.collection) {
            child_models.push((rollup.model)());
        }
    }
    let groups = child_models.into_iter();
    let groups = groups.flat_map(|child_model| rollup_groups(models, child_model));
    groups
        .filter(|group| group.parent_model.collection == parent_model.collection)
        .collect()
}

/// Returns the top-level fields of a child that all groups read: the `_id`, metadata, and the inputs of contributions.
pub(super) fn child_fields(groups: &[RollupGroup]) -> Vec<String> {
    let mut fields = vec!["_id".to_owned(), metadata::FIELD.to_owned()];
    for group in groups {
        fields.extend(group.input_fields());
    }
    fields.sort_unstable();
    fields.dedup();
    fields
}

impl RollupGroup {
    /// Returns the key of the group in the applied contributions of a parent.
    pub(super) fn group_key(&self) -> String {
        format!("{}.{}", self.child_model.collection, self.reference)
    }

    pub(super) fn has_list(&self) -> bool {
        self.rollups
            .iter()
            .any(|rollup| rollup.child_list().is_some())
    }

    /// Whether an update can change the contributions of the documents.
    pub(super) fn is_changed_by(&self, update: &RawDocument) -> bool {
        let is_written = |path: &str| update_touches(update, path);
        let depends_on_update = |rollup: &&Rollup| {
            let inputs = rollup.input_paths();
            inputs.iter().any(|path| is_written(path))
        };
        is_written(&self.reference)
            || self.child_model.soft_delete.is_some_and(is_written)
            || self.rollups.iter().any(depends_on_update)
    }

    /// Returns the top-level fields of a child on which the contributions depend, except metadata.
    fn input_fields(&self) -> Vec<String> {
        let scope = self.scope.map(|scope| scope.referrer);
        let whole_fields = self.child_model.soft_delete.into_iter().chain(scope);
        let mut paths: Vec<String> = whole_fields.map(ToOwned::to_owned).collect();
        paths.push(self.reference.clone());
        paths.extend(self.rollups.iter().flat_map(|rollup| rollup.input_paths()));
        let roots = paths.iter().map(|path| root_of(path).to_owned());
        roots.collect()
    }

    /// Returns the contributions of a document, one for each parent.
    pub(super) fn contributions_of(&self, document: &Document) -> Result<Vec<Contribution>> {
        if is_deleted(self.child_model, document) {
            return Ok(Vec::new());
        }
        let targets = match value_at(document, &self.reference) {
            None | Some(Bson::Null) => return Ok(Vec::new()),
            Some(Bson::Array(targets)) => targets.as_slice(),
            Some(target) => std::slice::from_ref(target),
        };
        let (mut values, mut excerpts) = (Document::new(), Vec::new());
        for rollup in &self.rollups {
            let is_included = matches_condition(rollup, document)?;
            let value = match rollup.kind {
                RollupKind::Count => Some(1),
                RollupKind::Sum(value) => integer_at(document, value).filter(|value| *value != 0),
                RollupKind::Average(value) => integer_at(document, value),
                RollupKind::Min(_) | RollupKind::Max(_) | RollupKind::Latest { .. } => None,
            };
            if let (true, Some(value)) = (is_included, value) {
                values.insert(rollup.stored, value);
            }
            let list = rollup.child_list().filter(|_| is_included);
            excerpts.push(list.and_then(|list| list_entry(document, &list)));
        }
        if let [parent] = targets {
            let parent_id = parent.clone();
            return Ok(vec![Contribution {
                parent_id,
                values,
                excerpts,
            }]);
        }
        let (mut known, mut contributions) = (BTreeSet::new(), Vec::new());
        for parent in targets {
            if known.insert(OrderedId::from_bson(parent)?) {
                contributions.push(Contribution {
                    parent_id: parent.clone(),
                    values: values.clone(),
                    excerpts: excerpts.clone(),
                });
            }
        }
        Ok(contributions)
    }

    /// Returns the contributions that a document has recorded, one for each parent.
    pub(super) fn recorded_contributions(&self, document: &Document) -> Vec<RecordedContribution> {
        ParsedMetadata::of(document).recorded_contributions(&self.reference)
    }

    /// Returns the filter for children that contribute to parents, or have a recorded contribution. `parents` is the condition on
    /// the parents.
    pub(super) fn children_condition(&self, parents: &Document) -> Document {
        // A child that refers to another parent by now and still has a recorded contribution here.
        let has_moved = doc! {
            PendingKind::ROLLUP.lease_path(): { "$exists": true },
            self.recorded_parents_path(): parents.clone(),
        };
        doc! { "$or": [{ &self.reference: parents.clone() }, has_moved] }
    }

    /// Returns the path at which a child records contributions.
    pub(super) fn record_path(&self) -> String {
        contributions_path(&self.reference)
    }

    /// Returns the path of the parents in the recorded contributions of a child.
    pub(super) fn recorded_parents_path(&self) -> String {
        contribution_parents_path(&self.reference)
    }

    /// Stores the recorded contributions in a new child.
    pub(super) fn write_record(&self, document: &mut Document, record: Vec<Document>) {
        if !record.is_empty() {
            let record = record.into_iter().map(Bson::Document).collect();
            set_at(document, &self.record_path(), Bson::Array(record));
        }
    }

    /// Returns the query for a list without the condition on the reference: the filter and the sort order.
    pub(super) fn list_query(
        &self,
        rollup: &Rollup,
        list: &ChildList,
    ) -> Result<(Document, Document)> {
        let mut filter = Document::new();
        let conditions = (rollup.when)();
        if !conditions.is_empty() {
            let conditions = conditions.iter().map(RollupCondition::to_filter);
            filter.insert("$and", conditions.collect::<Result<Vec<_>>>()?);
        }
        if list.needs_value {
            filter.insert(&list.by, doc! { "$nin": [Bson::Null, f64::NAN] });
        }
        if let Some(field) = self.child_model.soft_delete {
            filter.insert(field, Bson::Null);
        }
        // A child with a provisional tombstone still exists: the delete can be rolled back.
        filter.extend(tombstone::not_final());
        let mut sort = doc! { &list.by: list.direction.sign() };
        sort.insert("_id", list.direction.sign());
        Ok((filter, sort))
    }
}

/// Whether a document is deleted: by a soft delete or a final tombstone.
fn is_deleted(child_model: &Model, document: &Document) -> bool {
    let is_soft_deleted =
        |field: &str| value_at(document, field).is_some_and(|date| *date != Bson::Null);
    child_model.soft_delete.is_some_and(is_soft_deleted)
        || ParsedMetadata::of(document).has_final_tombstone()
}

/// Whether a document meets the condition of a rollup.
fn matches_condition(rollup: &Rollup, document: &Document) -> Result<bool> {
    for condition in (rollup.when)() {
        if !condition.matches(document)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the integer at a path.
fn integer_at(document: &Document, path: fn() -> Path) -> Option<i64> {
    match value_at(document, &path().to_string())? {
        Bson::Int32(value) => Some((*value).into()),
        Bson::Int64(value) => Some(*value),
        _ => None,
    }
}

/// Returns the list entry of a document: the listed fields, the `_id`, and the sort value. `None` if the list leaves out the
/// document.
fn list_entry(document: &Document, list: &ChildList) -> Option<Document> {
    let sort_value = value_at(document, &list.by).unwrap_or(&Bson::Null);
    if list.needs_value && !has_value(sort_value) {
        return None;
    }
    let mut entry = Document::new();
    for (_, stored) in list.fields {
        if let Some(value) = document.get(stored) {
            entry.insert(*stored, value.clone());
        }
    }
    let id = document.get("_id").cloned().unwrap_or(Bson::Null);
    set_at(&mut entry, ENTRY_ID, id);
    if sort_value_path(list) != list.by {
        set_at(&mut entry, ENTRY_SORT_VALUE, sort_value.clone());
    }
    Some(entry)
}

/// Whether a value can be a minimum or a maximum.
fn has_value(value: &Bson) -> bool {
    match value {
        Bson::Null | Bson::Undefined => false,
        Bson::Double(number) => !number.is_nan(),
        Bson::Decimal128(number) => !number.to_string().ends_with("NaN"),
        _ => true,
    }
}

/// Returns the path of the sort value in a list entry.
pub(super) fn sort_value_path(list: &ChildList) -> &str {
    match list.fields.iter().any(|(_, stored)| *stored == list.by) {
        true => &list.by,
        false => ENTRY_SORT_VALUE,
    }
}

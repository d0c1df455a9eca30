//! The layout of copies in a model: which fields are copied through which reference, and how filters and updates address these
//! fields.

use bson::{Bson, Document, doc};

use super::source::SourceState;
use crate::{
    metadata::{
        self, ParsedMetadata,
        copy::{copied_from, origin},
    },
    model::stored::root_of,
    schema::{CopiedField, CopiedValue, CopyMode, Model, OverflowField, SharedScope, TypeCopies},
    write::{
        footprint::PathChange,
        metadata_update::{is_position, value_at},
    },
};

/// The fields that are copied through one reference, with the path of the struct that contains the reference and the copies.
#[derive(Debug, Clone)]
pub(crate) struct CopyGroup {
    /// The model of the dependents.
    pub(super) model: &'static Model,
    /// The path of the struct.
    pub(super) steps: Vec<StructStep>,
    /// The stored name of the reference in the struct.
    pub(super) reference: &'static str,
    pub(super) is_optional: bool,
    pub(super) source_model: fn() -> &'static Model,
    /// The scope fields of both models, which must be equal for the reference to have a source. `None` unless both models have a
    /// scope.
    scope: Option<SharedScope>,
    pub(super) fields: Vec<CopyField>,
}

/// A field on the path of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StructStep {
    pub(super) stored: &'static str,
    pub(super) is_array: bool,
}

/// A copied field.
#[derive(Debug, Clone)]
pub(super) struct CopyField {
    pub(super) stored: &'static str,
    /// The dotted path of the source field.
    pub(super) source_path: String,
    value: CopiedValue,
    pub(super) mode: CopyMode,
    /// Whether a delete of the source sets the copy to null.
    pub(super) clears: bool,
    /// Whether the source and the time of the snapshot are recorded.
    pub(super) has_origin: bool,
    /// Whether `None` is stored as a missing field.
    pub(super) omits_none: bool,
}

impl CopyField {
    /// Whether a change of the source starts a fan-out to the copy.
    pub(super) fn has_fan_out(&self) -> bool {
        self.mode.has_fan_out()
    }

    /// Returns the value of the copy of a source.
    pub(super) fn value_of(&self, source: &SourceState) -> Bson {
        let value = source.field_value(&self.source_path);
        match (self.value, value) {
            (CopiedValue::Field, value) => value,
            (CopiedValue::Ancestors, Bson::Array(mut ancestors)) => {
                ancestors.push(source.field_value("_id"));
                Bson::Array(ancestors)
            }
            (CopiedValue::Ancestors, _) => Bson::Array(vec![source.field_value("_id")]),
        }
    }

    /// Returns the value of the copy beside a reference that is null.
    pub(super) fn value_without_source(&self) -> Bson {
        match self.value {
            CopiedValue::Field => Bson::Null,
            CopiedValue::Ancestors => Bson::Array(Vec::new()),
        }
    }

    /// Whether the copy is the list of ancestors in a tree.
    pub(super) fn is_ancestors(&self) -> bool {
        self.value == CopiedValue::Ancestors
    }

    /// Returns the stored form of a value; `None` for a null that is stored as a missing field.
    pub(super) fn stored_value(&self, value: Bson) -> Option<Bson> {
        (value != Bson::Null || !self.omits_none).then_some(value)
    }

    /// Sets or removes the field in a struct.
    pub(super) fn put_in_struct(&self, embedded: &mut Document, value: Bson) {
        match self.stored_value(value) {
            Some(value) => drop(embedded.insert(self.stored, value)),
            None => drop(embedded.remove(self.stored)),
        }
    }

    /// Returns the path at which a struct records the origin of the snapshot.
    pub(super) fn origin_path(&self) -> String {
        origin(self.stored)
    }
}

/// Returns the copy groups of a model.
pub(crate) fn copy_groups(model: &'static Model) -> Vec<CopyGroup> {
    let mut groups = Vec::new();
    collect_groups(model, model.copies, &mut Vec::new(), &mut groups);
    groups
}

/// Returns the copy groups of a model in two lists: groups outside and inside of overflow arrays.
pub(super) fn split_overflow_groups(model: &'static Model) -> (Vec<CopyGroup>, Vec<CopyGroup>) {
    let is_in_overflow = |group: &CopyGroup| {
        model
            .overflows
            .iter()
            .any(|field| group.is_in_overflow(field))
    };
    let (in_overflow, direct) = copy_groups(model).into_iter().partition(is_in_overflow);
    (direct, in_overflow)
}

/// Returns the paths that a save must not change: copies, snapshots, and fields that are set only once.
pub(super) fn managed_paths(model: &'static Model) -> Vec<String> {
    fn collect_set_once(copies: &TypeCopies, prefix: &str, paths: &mut Vec<String>) {
        paths.extend(
            copies
                .set_once
                .iter()
                .map(|field| format!("{prefix}{field}")),
        );
        for nested in copies.embedded {
            collect_set_once(nested.copies, &format!("{prefix}{}.", nested.stored), paths);
        }
    }
    let groups = copy_groups(model);
    let copies = groups.iter().flat_map(|group| {
        let fields = group.fields.iter();
        fields.map(|field| group.field_path(field.stored))
    });
    let mut paths = copies.collect();
    collect_set_once(model.copies, "", &mut paths);
    paths
}

/// Returns the copy groups that copy from a model with a fan-out.
pub(crate) fn dependent_groups(
    models: &[&'static Model],
    source: &Model,
) -> impl Iterator<Item = CopyGroup> {
    dependent_models(models, source)
        .flat_map(copy_groups)
        .filter(CopyGroup::has_fan_out)
        .filter(|group| (group.source_model)().collection == source.collection)
}

/// Returns the models with a copy from `source` that follows a change of the source.
pub(super) fn dependent_models(
    models: &[&'static Model],
    source: &Model,
) -> impl Iterator<Item = &'static Model> {
    let is_copied =
        |field: &CopiedField| field.mode.has_fan_out() && field.collection == source.collection;
    models
        .iter()
        .copied()
        .filter(move |model| model.copies.has_field(&is_copied))
}

/// Returns the top-level fields of a document that hold the references and copies of all groups, and metadata.
pub(super) fn dependent_fields(groups: &[CopyGroup]) -> Vec<&'static str> {
    let fields = groups.iter().flat_map(CopyGroup::dependent_fields);
    let mut fields: Vec<_> = fields.collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

fn collect_groups(
    model: &'static Model,
    copies: &TypeCopies,
    steps: &mut Vec<StructStep>,
    groups: &mut Vec<CopyGroup>,
) {
    for field in copies.fields {
        let copied = CopyField {
            stored: field.stored,
            source_path: (field.source_path)().to_string(),
            value: field.value,
            mode: field.mode,
            clears: field.clears_on_delete,
            has_origin: field.has_origin,
            omits_none: (field.omits_none)(),
        };
        let has_reference =
            |group: &&mut CopyGroup| group.steps == *steps && group.reference == field.reference;
        match groups.iter_mut().find(has_reference) {
            Some(group) => group.fields.push(copied),
            None => groups.push(CopyGroup::from_field(model, field, steps, copied)),
        }
    }
    for nested in copies.embedded {
        steps.push(StructStep {
            stored: nested.stored,
            is_array: nested.is_array,
        });
        collect_groups(model, nested.copies, steps, groups);
        steps.pop();
    }
}

impl CopyGroup {
    fn from_field(
        model: &'static Model,
        field: &CopiedField,
        steps: &[StructStep],
        copied: CopyField,
    ) -> Self {
        Self {
            model,
            steps: steps.to_vec(),
            reference: field.reference,
            is_optional: field.is_optional,
            source_model: field.model,
            scope: SharedScope::of_models(model, (field.model)()),
            fields: vec![copied],
        }
    }

    /// Returns the top-level fields of a dependent that hold the reference, the copies and their metadata.
    fn dependent_fields(&self) -> Vec<&'static str> {
        let scope = self.scope.map(|scope| root_of(scope.referrer));
        let mut fields: Vec<_> = scope.into_iter().chain([metadata::FIELD]).collect();
        fields.push(self.root());
        if self.steps.is_empty() {
            fields.extend(self.fields.iter().map(|field| field.stored));
        }
        fields
    }

    /// Returns the sources that the structs in some documents refer to.
    pub(super) fn sources_in(&self, documents: &[Document]) -> Vec<(&'static Model, Bson)> {
        let structs = documents
            .iter()
            .flat_map(|document| self.structs_in_document(document));
        let sources = structs.filter_map(|(_, embedded)| self.source_in(embedded));
        sources.collect()
    }

    /// Returns the source that a struct refers to; `None` for null.
    pub(super) fn source_in(&self, embedded: &Document) -> Option<(&'static Model, Bson)> {
        let id = self.reference_in(embedded)?;
        Some(((self.source_model)(), id.clone()))
    }

    /// Returns the top-level field of a dependent that holds the reference.
    pub(super) fn root(&self) -> &'static str {
        self.steps
            .first()
            .map_or(self.reference, |step| step.stored)
    }

    /// Returns the scope that the source of a dependent must have; `None` unless both models have a scope.
    pub(super) fn scope_of_dependent(&self, dependent: &Document) -> Option<Bson> {
        let scope = self.scope?;
        Some(
            value_at(dependent, scope.referrer)
                .cloned()
                .unwrap_or(Bson::Null),
        )
    }

    /// Returns the scope that the dependents of a source must have; `None` unless both models have a scope.
    pub(super) fn scope_of_source(&self, source: &SourceState) -> Option<Bson> {
        self.scope.map(|scope| source.field_value(scope.target))
    }

    /// Returns the condition that a dependent has a scope.
    pub(super) fn scope_condition(&self, value: Option<&Bson>) -> Document {
        match (self.scope, value) {
            (Some(scope), Some(value)) => doc! { scope.referrer: { "$eq": value.clone() } },
            _ => Document::new(),
        }
    }

    /// Whether a change of the source starts a fan-out to a copy of the group.
    pub(super) fn has_fan_out(&self) -> bool {
        self.fields.iter().any(CopyField::has_fan_out)
    }

    /// Returns the copies of the group with a fan-out, without snapshots.
    pub(super) fn fan_out_fields(&self) -> impl Iterator<Item = &CopyField> {
        self.fields.iter().filter(|field| field.has_fan_out())
    }

    /// Whether the group is in the elements of an overflow array.
    pub(super) fn is_in_overflow(&self, field: &OverflowField) -> bool {
        let first = self.steps.first();
        first.is_some_and(|first| first.stored == field.stored)
    }

    /// Whether a delete of the source sets copies of the group to null.
    pub(super) fn is_clearing(&self) -> bool {
        self.fields.iter().any(|field| field.clears)
    }

    /// Returns the snapshots of the group.
    pub(super) fn snapshot_fields(&self) -> impl Iterator<Item = &CopyField> {
        self.fields.iter().filter(|field| !field.has_fan_out())
    }

    /// Returns the path of a field of the struct, as a filter addresses the field through arrays.
    pub(super) fn field_path(&self, field: &str) -> String {
        let steps = self.steps.iter().map(|step| step.stored);
        steps.chain([field]).collect::<Vec<_>>().join(".")
    }

    pub(super) fn reference_path(&self) -> String {
        self.field_path(self.reference)
    }

    /// Returns the path at which a struct records the source version of the copies.
    pub(super) fn version_path(&self) -> String {
        copied_from(self.reference)
    }

    /// Returns the target of the reference in a struct; `None` for null.
    pub(super) fn reference_in<'d>(&self, embedded: &'d Document) -> Option<&'d Bson> {
        embedded.get(self.reference).filter(|id| **id != Bson::Null)
    }

    /// Returns the source version of the copies in a struct.
    pub(super) fn version_in(&self, embedded: &Document) -> Option<i64> {
        ParsedMetadata::of(embedded).copied_from(self.reference)
    }

    /// Whether the struct is inside an array.
    pub(super) fn is_in_array(&self) -> bool {
        self.steps.iter().any(|step| step.is_array)
    }

    /// Turns a condition on one of the structs into a condition on the document.
    pub(super) fn struct_condition(&self, condition: Document) -> Document {
        nest_condition(&self.steps, condition)
    }

    /// Returns the update paths of the structs that meet a condition. Array elements are addressed by the condition, never by
    /// position: a concurrent write can move elements.
    pub(super) fn element_paths(&self, condition: &Document) -> ElementPaths {
        let mut elements = ElementPaths {
            prefix: String::new(),
            array_filters: Vec::new(),
        };
        for (position, step) in self.steps.iter().enumerate() {
            elements.prefix.push_str(step.stored);
            elements.prefix.push('.');
            if step.is_array {
                // The server requires a lower-case letter at the beginning.
                let name = format!("e{position}");
                let remaining = self.steps.get(position + 1..).unwrap_or_default();
                // The condition on the rest of the path also ensures that the path exists.
                let nested = nest_condition(remaining, condition.clone());
                elements.prefix.push_str(&format!("$[{name}]."));
                elements.array_filters.push(prefix_paths(&name, nested));
            }
        }
        elements
    }

    /// Returns the structs in a document, each with the path prefix of its fields.
    pub(super) fn structs_in_document<'d>(
        &self,
        document: &'d Document,
    ) -> Vec<(String, &'d Document)> {
        let mut structs = Vec::new();
        self.collect_in_document(0, document, "", &mut structs);
        structs
    }

    /// Returns the structs in a value at `step` of the path.
    pub(super) fn structs_in<'d>(
        &self,
        step: usize,
        value: &'d Bson,
    ) -> Vec<(String, &'d Document)> {
        let mut structs = Vec::new();
        self.collect_in_value(step, value, "", &mut structs);
        structs
    }

    fn collect_in_document<'d>(
        &self,
        step: usize,
        embedded: &'d Document,
        path: &str,
        structs: &mut Vec<(String, &'d Document)>,
    ) {
        match self.steps.get(step) {
            None => structs.push((path.to_owned(), embedded)),
            Some(next) => {
                if let Some(value) = embedded.get(next.stored) {
                    let path = format!("{path}{}.", next.stored);
                    self.collect_in_value(step + 1, value, &path, structs);
                }
            }
        }
    }

    fn collect_in_value<'d>(
        &self,
        step: usize,
        value: &'d Bson,
        path: &str,
        structs: &mut Vec<(String, &'d Document)>,
    ) {
        match value {
            Bson::Document(embedded) => self.collect_in_document(step, embedded, path, structs),
            Bson::Array(values) => {
                for (position, value) in values.iter().enumerate() {
                    self.collect_in_value(step, value, &format!("{path}{position}."), structs);
                }
            }
            _ => {}
        }
    }

    /// Calls `change` for each struct in a document.
    pub(super) fn for_each_struct<E>(
        &self,
        document: &mut Document,
        change: &mut impl FnMut(&mut Document) -> Result<(), E>,
    ) -> Result<(), E> {
        self.visit_document(0, document, change)
    }

    fn visit_document<E>(
        &self,
        step: usize,
        value: &mut Document,
        visit: &mut impl FnMut(&mut Document) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.steps.get(step) {
            None => visit(value),
            Some(next) => match value.get_mut(next.stored) {
                Some(value) => self.for_each_struct_in(step + 1, value, visit),
                None => Ok(()),
            },
        }
    }

    /// Calls `visit` for each struct in a value at `step` of the path.
    pub(super) fn for_each_struct_in<E>(
        &self,
        step: usize,
        value: &mut Bson,
        visit: &mut impl FnMut(&mut Document) -> Result<(), E>,
    ) -> Result<(), E> {
        match value {
            Bson::Document(value) => self.visit_document(step, value, visit),
            Bson::Array(values) => values
                .iter_mut()
                .try_for_each(|value| self.for_each_struct_in(step, value, visit)),
            _ => Ok(()),
        }
    }

    /// Whether a change writes a reference of the group, or a value that contains one.
    pub(super) fn overlaps(&self, change: PathChange<'_>) -> bool {
        let mut paths = change.written_paths();
        paths.any(|path| self.relation_to(path) != PathRelation::Disjoint)
    }

    /// Returns how a path that an update writes relates to the group.
    pub(super) fn relation_to(&self, path: &str) -> PathRelation {
        let mut parts = path.split('.').peekable();
        let mut walked = Vec::new();
        for (position, step) in self.steps.iter().enumerate() {
            match parts.next() {
                None => return PathRelation::Contains(position),
                Some(part) if part == step.stored => walked.push(part),
                Some(_) => return PathRelation::Disjoint,
            }
            if step.is_array
                && let Some(part) = parts.next_if(|part| is_position(part))
            {
                walked.push(part);
            }
        }
        match (parts.next(), parts.next()) {
            (None, _) => PathRelation::Contains(self.steps.len()),
            (Some(part), None) if part == self.reference => {
                walked.push("");
                PathRelation::Reference(walked.join("."))
            }
            _ => PathRelation::Disjoint,
        }
    }
}

/// The update paths of structs.
pub(super) struct ElementPaths {
    /// The path prefix of the fields.
    pub(super) prefix: String,
    /// The array filters of the arrays on the path.
    pub(super) array_filters: Vec<Document>,
}

/// Nests a condition on a struct into conditions on the fields of the path.
fn nest_condition(steps: &[StructStep], mut condition: Document) -> Document {
    for step in steps.iter().rev() {
        condition = match step.is_array {
            true => doc! { step.stored: { "$elemMatch": condition } },
            false => prefix_paths(step.stored, condition),
        };
    }
    condition
}

/// Adds a field name to the paths of a condition.
fn prefix_paths(field: &str, condition: Document) -> Document {
    let fields = condition.into_iter();
    fields
        .map(|(path, test)| (format!("{field}.{path}"), test))
        .collect()
}

/// The relation of an update path to a copy group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathRelation {
    Disjoint,
    /// The path contains the structs. The number is the position in the path of the group.
    Contains(usize),
    /// The path is the reference. The text is the path prefix of the reference and the copies.
    Reference(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::EmbeddedCopies;

    const MODEL: Model = Model {
        copies: &TypeCopies {
            fields: &[CopiedField {
                field: "ip",
                stored: "ip",
                reference: "host",
                is_optional: false,
                collection: "hosts",
                model: || &Model::UNKNOWN,
                source_path: || crate::language::field::Path::ROOT.subfield("ipaddr"),
                source_field: "ipaddr",
                value: CopiedValue::Field,
                mode: CopyMode::Bounded,
                clears_on_delete: false,
                has_origin: false,
                omits_none: || false,
            }],
            set_once: &[],
            embedded: &[EmbeddedCopies {
                field: "lines",
                stored: "lines",
                is_array: true,
                copies: &TypeCopies {
                    fields: &[CopiedField {
                        field: "name",
                        stored: "name",
                        reference: "product",
                        is_optional: false,
                        collection: "products",
                        model: || &Model::UNKNOWN,
                        source_path: || crate::language::field::Path::ROOT.subfield("name"),
                        source_field: "name",
                        value: CopiedValue::Field,
                        mode: CopyMode::Bounded,
                        clears_on_delete: false,
                        has_origin: false,
                        omits_none: || false,
                    }],
                    ..TypeCopies::NONE
                },
            }],
            is_unmaintainable: false,
        },
        ..Model::UNKNOWN
    };

    #[test]
    fn a_path_is_related_to_copy_groups() {
        let groups = copy_groups(&MODEL);
        let [direct, lines] = groups.as_slice() else {
            panic!("two places, got {groups:?}");
        };
        let reference = |before: &str| PathRelation::Reference(before.to_owned());
        assert_eq!(direct.relation_to("host"), reference(""));
        assert_eq!(
            direct.relation_to("lines.0.product"),
            PathRelation::Disjoint
        );
        assert_eq!(lines.relation_to("lines"), PathRelation::Contains(1));
        assert_eq!(lines.relation_to("lines.3"), PathRelation::Contains(1));
        assert_eq!(
            lines.relation_to("lines.$[e0].product"),
            reference("lines.$[e0].")
        );
        assert_eq!(
            lines.relation_to("lines.0.quantity"),
            PathRelation::Disjoint
        );
        assert_eq!(lines.relation_to("host"), PathRelation::Disjoint);
        assert_eq!(lines.reference_path(), "lines.product");
    }
}

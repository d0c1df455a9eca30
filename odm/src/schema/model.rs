//! The description of a model that its derive generates, as plain data.

use std::any::TypeId;

use bson::{RawBsonRef, RawDocument};

use super::{
    ComputedField, EmbeddedLinks, InverseLink, OverflowField, ReferenceLink, Rollup, TypeCopies,
    UpgradeFn,
};
use crate::backend::operation::ShardKey;

/// A model: its names, its fields and its derived data.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// The name of the Rust type.
    pub name: &'static str,
    /// The collection of the documents.
    pub collection: &'static str,
    /// The Rust name and the stored name of each field.
    pub fields: &'static [(&'static str, &'static str)],
    /// Whether a stored document may lack a reference that its value has, or store the reference under another name.
    ///
    /// Serde's `default` and `alias` have this effect.
    pub has_serde_defaults: bool,
    /// Whether storing a value may round the value, as for dates of other crates.
    pub rounds_values: bool,
    /// The stored names of the managed fields, which the framework writes.
    pub managed: &'static [&'static str],
    /// The stored name of the version field: the number of writes.
    pub version: Option<&'static str>,
    /// The stored name of the field with the time of the last write.
    pub updated: Option<&'static str>,
    /// The stored name of the soft-delete field: the time of the deletion.
    pub soft_delete: Option<&'static str>,
    /// Whether a soft delete reaches the documents that refer to the document with the rule `cascade`.
    pub soft_delete_cascades: bool,
    /// The scope of the documents.
    pub scope: Option<ScopeField>,
    /// The stored name and value of the tag that separates the documents from other documents in the collection.
    pub tag: Option<(&'static str, &'static str)>,
    /// The template of an `_id` that consists of fields: `{user}/account`.
    pub id: Option<&'static str>,
    /// The stored names of the fields in the `_id`, in order.
    pub id_parts: &'static [&'static str],
    /// The stored name of the field in the `_id` that the framework numbers.
    pub numbered_id_part: Option<&'static str>,
    /// The fields that the framework numbers at the insert.
    pub sequences: &'static [SequenceField],
    /// The stored names of the fields in the shard key, in order. Empty without a shard key.
    pub shard_key: &'static [&'static str],
    /// The stored name of the hashed field in the shard key.
    pub shard_key_hashed: Option<&'static str>,
    /// The references with a delete rule in the model's own fields. [`links`](Self::links()) adds the references in embedded
    /// structs.
    pub links: &'static [ReferenceLink],
    /// A summary of the references with a delete rule in embedded structs.
    pub embedded_links: EmbeddedLinks,
    /// Returns all references with a delete rule.
    pub all_links: fn() -> &'static [ReferenceLink],
    /// The inverses.
    pub inverses: &'static [InverseLink],
    /// The copies and snapshots of other documents.
    pub copies: &'static TypeCopies,
    /// The tree of the documents, if the model declares a tree.
    pub tree: Option<TreeField>,
    /// The rollups over children.
    pub rollups: &'static [Rollup],
    /// The overflow arrays, which can spill elements into chunk documents.
    pub overflows: &'static [OverflowField],
    /// The computed fields, each after the computed fields that it uses.
    pub computed: &'static [ComputedField],
    /// The stored names of the texts with an index that ignores case.
    pub caseless: &'static [&'static str],
    /// The schema version of the model, 1 by default.
    pub schema_version: u32,
    /// The function that upgrades documents of older schema versions.
    pub upgrade: Option<UpgradeFn>,
}

/// The field of a model with the scope of a document: `#[document(scope = …)]`.
#[derive(Debug, Clone, Copy)]
pub struct ScopeField {
    /// The stored name of the field.
    pub stored: &'static str,
    /// The type of the field. A session of another type does not reach the model, even if the stored values are equal.
    pub type_id: fn() -> TypeId,
}

/// A field with the number of a document in a sequence: `#[sequence(per = …)]`.
#[derive(Debug, Clone, Copy)]
pub struct SequenceField {
    /// The stored name of the field.
    pub stored: &'static str,
    /// The stored name of the field that selects the sequence. `None` for one sequence of the model.
    pub per: Option<&'static str>,
}

/// The ancestors in a tree: `#[tree(parent = …)]`.
#[derive(Debug, Clone, Copy)]
pub struct TreeField {
    /// The stored name of the reference to the parent.
    pub parent: &'static str,
    /// The stored name of the list of ancestors.
    pub ancestors: &'static str,
    /// The maximum number of ancestors of a new or moved document.
    pub max: usize,
}

/// The scope fields of a referring model and of its target model, if both have a scope.
///
/// A reference between two scoped models only counts if both documents belong to the same scope. A reference to a document of
/// another scope has no effect on derived data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedScope {
    /// The stored name of the scope field in the referring model.
    pub(crate) referrer: &'static str,
    /// The stored name of the scope field in the target model.
    pub(crate) target: &'static str,
}

impl SharedScope {
    /// Returns the scope fields of two models, or `None` unless both models have a scope.
    pub(crate) fn of_models(referrer: &Model, target: &Model) -> Option<Self> {
        Some(Self {
            referrer: referrer.scope?.stored,
            target: target.scope?.stored,
        })
    }
}

impl Model {
    /// An empty model. This value replaces a model after a failed derive, and supplies the defaults of a generated description.
    #[doc(hidden)]
    pub const UNKNOWN: Self = Self {
        name: "",
        collection: "",
        fields: &[],
        has_serde_defaults: false,
        rounds_values: false,
        managed: &[],
        version: None,
        updated: None,
        soft_delete: None,
        soft_delete_cascades: false,
        scope: None,
        tag: None,
        id: None,
        id_parts: &[],
        numbered_id_part: None,
        sequences: &[],
        shard_key: &[],
        shard_key_hashed: None,
        links: &[],
        embedded_links: EmbeddedLinks::NONE,
        all_links: || &[],
        inverses: &[],
        copies: &TypeCopies::NONE,
        tree: None,
        rollups: &[],
        overflows: &[],
        computed: &[],
        caseless: &[],
        schema_version: 1,
        upgrade: None,
    };

    /// Whether an insert assigns a number, in the `_id` or in another field.
    pub(crate) fn is_numbered(&self) -> bool {
        self.numbered_id_part.is_some() || !self.sequences.is_empty()
    }

    /// Returns the stored names of the fields that select a sequence. The fields never change.
    pub(crate) fn sequence_keys(&self) -> impl Iterator<Item = &'static str> {
        self.sequences.iter().filter_map(|sequence| sequence.per)
    }

    /// Returns the references with a delete rule: first from the model's own fields, then from embedded structs.
    #[must_use]
    pub fn links(&self) -> &'static [ReferenceLink] {
        match self.embedded_links.any {
            true => (self.all_links)(),
            false => self.links,
        }
    }

    /// Returns the shard key of the collection on a cluster.
    #[must_use]
    pub fn shard_key(&self) -> Option<ShardKey> {
        let fields = self.shard_key.iter().map(|field| (*field).to_owned());
        (!self.shard_key.is_empty()).then(|| ShardKey {
            fields: fields.collect(),
            hashed: self.shard_key_hashed.map(ToOwned::to_owned),
        })
    }

    /// Returns the fields of the shard key in a stored document, without the `_id`. A missing field is null, as in MongoDB.
    pub(crate) fn shard_key_in<'d>(
        &self,
        raw: &'d RawDocument,
    ) -> impl Iterator<Item = (&'static str, RawBsonRef<'d>)> {
        let fields = self.shard_key.iter().filter(|field| **field != "_id");
        fields.map(|field| {
            let value = raw.get(*field).ok().flatten();
            (*field, value.unwrap_or(RawBsonRef::Null))
        })
    }
}

pub(crate) const fn str_eq(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Returns whether no earlier model has the same collection. Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn is_first_in_collection(models: &[&Model], position: usize) -> bool {
    let mut i = 0;
    while i < position {
        if share_collection(models[i], models[position]) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether two models are on one collection. The model of a variant cannot be in a schema, which another check reports.
const fn share_collection(a: &Model, b: &Model) -> bool {
    a.tag.is_none() && b.tag.is_none() && str_eq(a.collection, b.collection)
}

/// Whether no field of a model is stored under the name of a tag. Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn leaves_name_to_tag(tag: &str, model: &Model) -> bool {
    let mut i = 0;
    while i < model.fields.len() {
        if str_eq(model.fields[i].1, tag) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether both models store a field under the same name. A missing field is reported by another check.
#[doc(hidden)]
#[must_use]
pub const fn stores_field_alike(a: &Model, b: &Model, field: &str) -> bool {
    match (stored_name(a, field), stored_name(b, field)) {
        (Some(a), Some(b)) => str_eq(a, b),
        _ => true,
    }
}

/// Returns the stored name of a field. For a missing field, which another check reports, returns the Rust name.
#[doc(hidden)]
#[must_use]
pub const fn stored_or_rust_name(model: &Model, field: &'static str) -> &'static str {
    match stored_name(model, field) {
        Some(stored) => stored,
        None => field,
    }
}

const fn stored_name(model: &Model, field: &str) -> Option<&'static str> {
    let mut i = 0;
    while i < model.fields.len() {
        if str_eq(model.fields[i].0, field) {
            return Some(model.fields[i].1);
        }
        i += 1;
    }
    None
}

/// Whether the managed fields of a variant's model are exactly the given fields, as in the first variant's model.
#[doc(hidden)]
#[must_use]
pub const fn manages_same_fields(
    model: &Model,
    first: &Model,
    fields: &[&str],
    [version, updated]: [bool; 2],
) -> bool {
    let mut i = 0;
    while i < fields.len() {
        match stored_name(model, fields[i]) {
            Some(stored)
                if contains_name(stored, model.managed) && contains_name(stored, first.managed) => {
            }
            _ => return false,
        }
        i += 1;
    }
    model.managed.len() == fields.len()
        && model.version.is_some() == version
        && model.updated.is_some() == updated
        && option_str_eq(model.version, first.version)
        && option_str_eq(model.updated, first.updated)
}

const fn option_str_eq(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => str_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

const fn contains_name(name: &str, names: &[&str]) -> bool {
    let mut i = 0;
    while i < names.len() {
        if str_eq(names[i], name) {
            return true;
        }
        i += 1;
    }
    false
}

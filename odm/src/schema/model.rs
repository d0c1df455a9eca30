//! What a derive knows of its model, as plain data.

use std::any::TypeId;

use bson::{RawBsonRef, RawDocument};

use super::{
    ComputedField, Copies, InverseLink, LinksInside, OverflowField, OwnLink, Tally, Upgrade,
};
use crate::backend::operation::ShardKey;

/// A model: its names and its fields.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// The name of the type.
    pub name: &'static str,
    /// The collection of its documents.
    pub collection: &'static str,
    /// The name of each field in Rust and as it is stored.
    pub fields: &'static [(&'static str, &'static str)],
    /// Whether a stored document may lack a reference that the value read from it has, or hold it under another name:
    /// serde's `default` and `alias`.
    pub rewrites: bool,
    /// Whether a value may be stored less exactly than it is: dates of other crates.
    pub rounds: bool,
    /// The stored names of the fields that the framework writes.
    pub filled: &'static [&'static str],
    /// The stored name of the field in which the framework counts the writes.
    pub version: Option<&'static str>,
    /// The stored name of the field in which the framework keeps the time of the last write.
    pub updated: Option<&'static str>,
    /// The stored name of the field in which the framework keeps when a document was deleted, if that is a mark.
    pub soft_delete: Option<&'static str>,
    /// The scope that its documents belong to.
    pub scope: Option<ScopeField>,
    /// The stored field that tells its documents from others in the collection, and its value there.
    pub tag: Option<(&'static str, &'static str)>,
    /// How the `_id` is made, if of fields: `{user}/account`.
    pub id: Option<&'static str>,
    /// The stored names of the fields of which the `_id` is made, in order.
    pub id_parts: &'static [&'static str],
    /// The stored name of the one of them that the framework numbers.
    pub number: Option<&'static str>,
    /// The stored names of the fields of the shard key, in order; none without one.
    pub shard_key: &'static [&'static str],
    /// The stored name of the field of the shard key that is hashed, if one is.
    pub shard_key_hashed: Option<&'static str>,
    /// The references with rules in its own fields; [`links`](Self::links()) has those of embedded structs too.
    pub links: &'static [OwnLink],
    /// What is known of those of embedded structs.
    pub links_inside: LinksInside,
    /// All of them.
    pub all_links: fn() -> &'static [OwnLink],
    /// The fields that list what refers to a document.
    pub inverses: &'static [InverseLink],
    /// What it has of other documents.
    pub copies: &'static Copies,
    /// What it is made of by the documents that refer to it.
    pub tallies: &'static [Tally],
    /// The arrays of which only the first elements are in the document.
    pub overflows: &'static [OverflowField],
    /// What is computed from its other fields: each behind what it is computed from.
    pub computed: &'static [ComputedField],
    /// The version of the model; 1 unless it says otherwise.
    pub schema_version: u32,
    /// What makes documents of older versions documents of this one.
    pub upgrade: Option<Upgrade>,
}

/// The field of a model that says which scope a document belongs to: `#[document(scope = …)]`.
#[derive(Debug, Clone, Copy)]
pub struct ScopeField {
    /// The stored name of the field.
    pub stored: &'static str,
    /// The type of the field. A session of another type does not reach the model, even if the stored values are equal.
    pub type_id: fn() -> TypeId,
}

/// The scope fields of two models that both have one, of which the first one refers to the second one.
///
/// A reference between two scoped models only counts where both documents belong to the same scope: no derived data follows from a
/// reference to a document of another scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedScope {
    /// The stored name of the field in the model that refers.
    pub(crate) referrer: &'static str,
    /// The stored name of the field in the model that is referred to.
    pub(crate) target: &'static str,
}

impl SharedScope {
    /// The scope fields of two models; none unless both models have a scope.
    pub(crate) fn between(referrer: &Model, target: &Model) -> Option<Self> {
        Some(Self {
            referrer: referrer.scope?.stored,
            target: target.scope?.stored,
        })
    }
}

impl Model {
    /// A model of which nothing is known: it stands in for one whose derive failed, and for what a derive does not say.
    #[doc(hidden)]
    pub const UNKNOWN: Self = Self {
        name: "",
        collection: "",
        fields: &[],
        rewrites: false,
        rounds: false,
        filled: &[],
        version: None,
        updated: None,
        soft_delete: None,
        scope: None,
        tag: None,
        id: None,
        id_parts: &[],
        number: None,
        shard_key: &[],
        shard_key_hashed: None,
        links: &[],
        links_inside: LinksInside::NONE,
        all_links: || &[],
        inverses: &[],
        copies: &Copies::NONE,
        tallies: &[],
        overflows: &[],
        computed: &[],
        schema_version: 1,
        upgrade: None,
    };

    /// Its references with rules: those of its own fields, then those of embedded structs.
    #[must_use]
    pub fn links(&self) -> &'static [OwnLink] {
        match self.links_inside.any {
            true => (self.all_links)(),
            false => self.links,
        }
    }

    /// By what its collection is sharded on a cluster.
    #[must_use]
    pub fn shard_key(&self) -> Option<ShardKey> {
        let fields = self.shard_key.iter().map(|field| (*field).to_owned());
        (!self.shard_key.is_empty()).then(|| ShardKey {
            fields: fields.collect(),
            hashed: self.shard_key_hashed.map(ToOwned::to_owned),
        })
    }

    /// What a stored document has in the fields of the shard key but its `_id`; null stands for what is missing, as it does for
    /// MongoDB.
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

pub(crate) const fn same(a: &str, b: &str) -> bool {
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

/// Whether no model before this one has its collection; called by derived code, at compile time.
#[must_use]
pub const fn is_first_on_its_collection(models: &[&Model], position: usize) -> bool {
    let mut i = 0;
    while i < position {
        if is_same_place(models[i], models[position]) {
            return false;
        }
        i += 1;
    }
    true
}

/// The model of a variant is no model of a schema, which is another error.
const fn is_same_place(a: &Model, b: &Model) -> bool {
    a.tag.is_none() && b.tag.is_none() && same(a.collection, b.collection)
}

/// Whether no field of the model is stored under the name of a tag; called by derived code, at compile time.
#[doc(hidden)]
#[must_use]
pub const fn leaves_to(tag: &str, model: &Model) -> bool {
    let mut i = 0;
    while i < model.fields.len() {
        if same(model.fields[i].1, tag) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether both models store a field under the same name; true for one that is missing, which is another error.
#[doc(hidden)]
#[must_use]
pub const fn stores_alike(a: &Model, b: &Model, field: &str) -> bool {
    match (stored_name(a, field), stored_name(b, field)) {
        (Some(a), Some(b)) => same(a, b),
        _ => true,
    }
}

/// The stored name of a field; that in Rust for one that is missing, which is another error.
#[doc(hidden)]
#[must_use]
pub const fn stored_or_own(model: &Model, field: &'static str) -> &'static str {
    match stored_name(model, field) {
        Some(stored) => stored,
        None => field,
    }
}

const fn stored_name(model: &Model, field: &str) -> Option<&'static str> {
    let mut i = 0;
    while i < model.fields.len() {
        if same(model.fields[i].0, field) {
            return Some(model.fields[i].1);
        }
        i += 1;
    }
    None
}

/// Whether the framework fills these fields of a variant's model and no others, and the same as of the first one.
#[doc(hidden)]
#[must_use]
pub const fn is_filled_as(
    model: &Model,
    first: &Model,
    fields: &[&str],
    [version, updated]: [bool; 2],
) -> bool {
    let mut i = 0;
    while i < fields.len() {
        match stored_name(model, fields[i]) {
            Some(stored) if is_in(stored, model.filled) && is_in(stored, first.filled) => {}
            _ => return false,
        }
        i += 1;
    }
    model.filled.len() == fields.len()
        && model.version.is_some() == version
        && model.updated.is_some() == updated
        && same_option(model.version, first.version)
        && same_option(model.updated, first.updated)
}

const fn same_option(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b),
        (None, None) => true,
        _ => false,
    }
}

const fn is_in(name: &str, names: &[&str]) -> bool {
    let mut i = 0;
    while i < names.len() {
        if same(names[i], name) {
            return true;
        }
        i += 1;
    }
    false
}

//! References with a delete rule in embedded structs.
//!
//! A summary of each type serves the compile-time checks. A walk collects the paths of the references in a model.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{LazyLock, PoisonError, RwLock},
};

use super::{LinkField, LinkStep, OnDelete, ReferenceLink, RefersTo};
use crate::model::document::Document;

/// A summary of the references with a delete rule in a stored type.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedLinks {
    /// Whether the type has any reference with a delete rule.
    pub any: bool,
    /// Whether the deletion of a target writes to the referrer: `cascade`, `nullify`, `pull`.
    pub writes_on_delete: bool,
    /// Whether the deletion of a target removes an array element, but no array contains the type yet.
    pub needs_array: bool,
    /// Whether a reference is at a place that no path reaches, so that its delete rule cannot be enforced.
    pub unreachable: bool,
    is_array: bool,
}

impl EmbeddedLinks {
    pub const NONE: Self = Self {
        any: false,
        writes_on_delete: false,
        needs_array: false,
        unreachable: false,
        is_array: false,
    };

    /// Adds a reference with this rule. With `takes_element`, a deletion removes the array element that contains the reference.
    #[must_use]
    pub const fn with_rule(mut self, rule: OnDelete, takes_element: bool) -> Self {
        self.any = true;
        self.writes_on_delete |= rule.affects_referrers();
        self.needs_array |= takes_element;
        self
    }

    /// Adds the summary of a field.
    #[must_use]
    pub const fn with_field(mut self, field: Self) -> Self {
        self.any |= field.any;
        self.writes_on_delete |= field.writes_on_delete;
        self.needs_array |= field.needs_array;
        self.unreachable |= field.unreachable;
        self
    }

    /// Returns the summary of an array with this element type. No path reaches the references in an array of arrays.
    #[must_use]
    pub const fn in_array(mut self) -> Self {
        self.unreachable |= self.any && self.is_array;
        self.needs_array = false;
        self.is_array = true;
        self
    }

    /// Returns the summary for a place that no path reaches.
    #[must_use]
    pub const fn as_unreachable(mut self) -> Self {
        self.unreachable |= self.any;
        self.needs_array = false;
        self
    }

    /// Clears the error of unreachable references, because the derive has reported the error at the user's token.
    #[must_use]
    pub const fn without_unreachable(mut self) -> Self {
        self.unreachable = false;
        self
    }

    /// Returns the summary of a whole document.
    #[must_use]
    pub const fn in_document(mut self, has_hooks: bool) -> Self {
        self.unreachable |= self.needs_array || has_hooks && self.writes_on_delete;
        self
    }
}

/// Collects the references with a delete rule in the embedded structs of a model, with their paths.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct LinkCollector {
    steps: Vec<(&'static str, LinkStep)>,
    found: Vec<ReferenceLink>,
}

impl LinkCollector {
    /// Visits a field, given by its Rust name and its stored name.
    pub fn visit_field(
        &mut self,
        field: &'static str,
        stored: &'static str,
        visit: impl FnOnce(&mut Self),
    ) {
        let is_array = false;
        self.steps.push((field, LinkStep { stored, is_array }));
        visit(self);
        self.steps.pop();
    }

    /// Visits the elements of the current array.
    pub fn visit_elements(&mut self, visit: impl FnOnce(&mut Self)) {
        let Some((_, step)) = self.steps.last_mut() else {
            return;
        };
        step.is_array = true;
        visit(self);
    }

    /// Adds a reference with a delete rule.
    pub fn add_link<T: RefersTo>(
        &mut self,
        field: &'static str,
        stored: &'static str,
        on_delete: OnDelete,
        omits_none: fn() -> bool,
    ) {
        self.visit_field(field, stored, |collector| {
            if let Some((_, step)) = collector.steps.last_mut() {
                step.is_array = T::IS_MANY;
            }
            let fields: Vec<_> = collector.steps.iter().map(|(field, _)| *field).collect();
            let steps: Vec<_> = collector.steps.iter().map(|(_, step)| *step).collect();
            let stored: Vec<_> = steps.iter().map(|step| step.stored).collect();
            let side = LinkField {
                is_checked: true,
                field: fields.join(".").leak(),
                stored: stored.join(".").leak(),
                is_many: T::IS_MANY,
                steps: steps.leak(),
                collection: T::Target::COLLECTION,
                model: || &<T::Target as Document>::MODEL,
            };
            collector.found.push(ReferenceLink {
                link_field: side,
                inverse: None,
                on_delete,
                omits_none,
            });
        });
    }
}

/// Returns all references with a delete rule of a model: first its own fields, then its embedded structs. The list is built once
/// per model.
#[doc(hidden)]
#[must_use]
pub fn all_links<T: Document>() -> &'static [ReferenceLink] {
    static LINKS_BY_MODEL: LazyLock<RwLock<HashMap<TypeId, &'static [ReferenceLink]>>> =
        LazyLock::new(RwLock::default);
    let model = TypeId::of::<T>();
    let cache = LINKS_BY_MODEL
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(links) = cache.get(&model) {
        return links;
    }
    drop(cache);
    let mut cache = LINKS_BY_MODEL
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    cache.entry(model).or_insert_with(|| {
        let mut collector = LinkCollector {
            found: T::MODEL.links.to_vec(),
            ..LinkCollector::default()
        };
        T::links(&mut collector);
        collector.found.leak()
    })
}

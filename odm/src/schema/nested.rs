//! References with rules inside of embedded structs: what a type has of them, for the checks at compile time, and where they are in
//! the documents of a model.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{LazyLock, PoisonError, RwLock},
};

use super::{LinkSide, LinkStep, OnDelete, OwnLink, RefersTo};
use crate::document::Document;

/// What a stored type has of references with rules.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct LinksInside {
    /// There are some.
    pub any: bool,
    /// Of some a deletion of what they lead to makes a write of its own: `cascade`, `nullify`, `pull`.
    pub acts: bool,
    /// Some leave with the element of an array that they are in, and no array is around them yet.
    pub needs_array: bool,
    /// Some are where no path leads to all of them, so that no rule could be kept.
    pub misplaced: bool,
    is_array: bool,
}

impl LinksInside {
    pub const NONE: Self = Self {
        any: false,
        acts: false,
        needs_array: false,
        misplaced: false,
        is_array: false,
    };

    /// With a reference of this rule; `takes_element` says that it is none of several in an array, and leaves by its element.
    #[must_use]
    pub const fn with_rule(mut self, rule: OnDelete, takes_element: bool) -> Self {
        self.any = true;
        self.acts |= !matches!(rule, OnDelete::Restrict | OnDelete::Keep);
        self.needs_array |= takes_element;
        self
    }

    /// With those in a field.
    #[must_use]
    pub const fn with_field(mut self, field: Self) -> Self {
        self.any |= field.any;
        self.acts |= field.acts;
        self.needs_array |= field.needs_array;
        self.misplaced |= field.misplaced;
        self
    }

    /// Those of the elements of an array: in one that is in another, no path finds them.
    #[must_use]
    pub const fn in_array(mut self) -> Self {
        self.misplaced |= self.any && self.is_array;
        self.needs_array = false;
        self.is_array = true;
        self
    }

    /// Those where no path finds them.
    #[must_use]
    pub const fn out_of_reach(mut self) -> Self {
        self.misplaced |= self.any;
        self.needs_array = false;
        self
    }

    /// Nothing is misplaced that was not said at the user's token.
    #[must_use]
    pub const fn reported(mut self) -> Self {
        self.misplaced = false;
        self
    }

    /// Those of a whole document.
    #[must_use]
    pub const fn in_document(mut self, has_hooks: bool) -> Self {
        self.misplaced |= self.needs_array || has_hooks && self.acts;
        self
    }
}

/// Collects the references with rules of a model's embedded structs, with where they are.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct LinksWalk {
    way: Vec<(&'static str, LinkStep)>,
    found: Vec<OwnLink>,
}

impl LinksWalk {
    /// Looks into a field, by its names in Rust and as it is stored.
    pub fn field(
        &mut self,
        field: &'static str,
        stored: &'static str,
        look: impl FnOnce(&mut Self),
    ) {
        let is_array = false;
        self.way.push((field, LinkStep { stored, is_array }));
        look(self);
        self.way.pop();
    }

    /// Looks into the elements of the array that is here.
    pub fn elements(&mut self, look: impl FnOnce(&mut Self)) {
        let Some((_, here)) = self.way.last_mut() else {
            return;
        };
        here.is_array = true;
        look(self);
    }

    /// In this field is a reference with a rule.
    pub fn link<T: RefersTo>(
        &mut self,
        field: &'static str,
        stored: &'static str,
        on_delete: OnDelete,
        omits_none: fn() -> bool,
    ) {
        self.field(field, stored, |walk| {
            if let Some((_, here)) = walk.way.last_mut() {
                here.is_array = T::IS_MANY;
            }
            let names: Vec<_> = walk.way.iter().map(|(field, _)| *field).collect();
            let way: Vec<_> = walk.way.iter().map(|(_, step)| *step).collect();
            let stored: Vec<_> = way.iter().map(|step| step.stored).collect();
            let side = LinkSide {
                is_checked: true,
                field: names.join(".").leak(),
                stored: stored.join(".").leak(),
                is_many: T::IS_MANY,
                way: way.leak(),
                collection: T::Target::COLLECTION,
                model: || &<T::Target as Document>::MODEL,
            };
            walk.found.push(OwnLink {
                side,
                inverse: None,
                on_delete,
                omits_none,
            });
        });
    }
}

/// All references with rules of a model: those of its own fields, then those of embedded structs. They are made once for each model.
#[doc(hidden)]
#[must_use]
pub fn all_links<T: Document>() -> &'static [OwnLink] {
    static MADE: LazyLock<RwLock<HashMap<TypeId, &'static [OwnLink]>>> =
        LazyLock::new(RwLock::default);
    let model = TypeId::of::<T>();
    let made = MADE.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(links) = made.get(&model) {
        return links;
    }
    drop(made);
    let mut made = MADE.write().unwrap_or_else(PoisonError::into_inner);
    made.entry(model).or_insert_with(|| {
        let mut walk = LinksWalk {
            found: T::MODEL.links.to_vec(),
            ..LinksWalk::default()
        };
        T::links(&mut walk);
        walk.found.leak()
    })
}

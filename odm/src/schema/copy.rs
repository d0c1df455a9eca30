//! What a model has of other documents, as plain data: copies that follow, and snapshots.

use std::marker::PhantomData;

use super::{Model, same};
use crate::{
    document::{Document, Ref},
    field::{Path, Place, Single, role},
};

/// What a type has of other documents: in its own fields, and in what is embedded in them.
#[derive(Debug, Clone, Copy)]
pub struct Copies {
    /// In its own fields.
    pub own: &'static [CopiedField],
    /// Those of its own fields that the application says once, as they are stored.
    pub frozen: &'static [&'static str],
    /// In what is embedded.
    pub inside: &'static [InEmbedded],
    /// Whether there are some where nothing keeps them.
    pub is_lost: bool,
}

/// A field that is taken from another document.
#[derive(Debug, Clone, Copy)]
pub struct CopiedField {
    /// The field in Rust.
    pub field: &'static str,
    /// The field as it is stored.
    pub stored: &'static str,
    /// The reference beside it, as it is stored.
    pub reference: &'static str,
    /// Whether there may be no reference.
    pub is_optional: bool,
    /// The collection of the documents that the reference leads to.
    pub collection: &'static str,
    /// Their model.
    pub model: fn() -> &'static Model,
    /// What is taken of them.
    pub from: fn() -> Path,
    /// The field there that it is of or inside of, in Rust.
    pub first: &'static str,
    /// When it follows a change there.
    pub follows: Follows,
    /// Whether it becomes null when what it was taken from is deleted.
    pub clears: bool,
    /// Whether it is remembered of which document it was taken, and when.
    pub has_origin: bool,
    /// Whether `None` is stored as a missing field: serde's `skip_serializing_if`.
    pub omits_none: fn() -> bool,
}

/// An embedded field with copies inside.
#[derive(Debug, Clone, Copy)]
pub struct InEmbedded {
    /// The field in Rust.
    pub field: &'static str,
    /// The field as it is stored.
    pub stored: &'static str,
    /// Whether it is an array.
    pub is_array: bool,
    /// What is in it.
    pub copies: &'static Copies,
}

/// When a copy follows a change of what it was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// Before the write is answered if there are few, and otherwise behind it.
    Bounded,
    /// Before the write is answered.
    Sync,
    /// Behind the answer.
    Background,
    /// It does not: it was taken once.
    Never,
}

impl Copies {
    /// Nothing.
    pub const NONE: Self = Self {
        own: &[],
        frozen: &[],
        inside: &[],
        is_lost: false,
    };

    const LOST: Self = Self {
        is_lost: true,
        ..Self::NONE
    };

    /// Those of the values of a map.
    pub(crate) const fn in_a_map(values: &'static Self) -> &'static Self {
        match values.is_any() {
            true => &Self::LOST,
            false => &Self::NONE,
        }
    }

    /// Whether there are any that the framework fills.
    pub(crate) const fn is_filled(&self) -> bool {
        let mut i = 0;
        while i < self.inside.len() {
            if self.inside[i].copies.is_filled() {
                return true;
            }
            i += 1;
        }
        !self.own.is_empty() || self.is_lost
    }

    /// Whether there are any.
    pub(crate) const fn is_any(&self) -> bool {
        let mut i = 0;
        while i < self.inside.len() {
            if self.inside[i].copies.is_any() {
                return true;
            }
            i += 1;
        }
        !self.own.is_empty() || !self.frozen.is_empty() || self.is_lost
    }

    /// Whether there are any that follow what they are taken from.
    pub(crate) const fn is_following(&self) -> bool {
        let mut i = 0;
        while i < self.own.len() {
            if !matches!(self.own[i].follows, Follows::Never) {
                return true;
            }
            i += 1;
        }
        let mut i = 0;
        while i < self.inside.len() {
            if self.inside[i].copies.is_following() {
                return true;
            }
            i += 1;
        }
        false
    }

    const fn loses(&self) -> bool {
        let mut i = 0;
        while i < self.inside.len() {
            if self.inside[i].copies.loses() {
                return true;
            }
            i += 1;
        }
        self.is_lost
    }
}

/// How long a chain may be: the compiler does not follow one further by much.
const LONGEST: usize = 16;

/// What becomes of a copy that is followed to where its value is first.
enum Way {
    Ends,
    /// It comes back to itself, through models of which this is the first.
    Returns(usize),
    IsTooLong,
}

/// Refuses a copy of a model that is, through others, one of itself, which is said of the first model of these, and one that is of too
/// many others in a row; called by derived code, at compile time.
#[doc(hidden)]
#[track_caller]
pub const fn copies_end(models: &[&Model], position: usize) {
    let copies = models[position].copies;
    let mut i = 0;
    while i < copies.own.len() {
        Chain::of(models, position, copies.own[i].field).refuse();
        i += 1;
    }
    let mut i = 0;
    while i < copies.inside.len() {
        Chain::of(models, position, copies.inside[i].field).refuse();
        i += 1;
    }
}

/// The copies of which a field of a model is one.
struct Chain<'m> {
    models: &'m [&'m Model],
    /// The model, and its field.
    home: (usize, &'m str),
    /// Whether it begins at the end of another one, which was too long.
    is_rest: bool,
}

impl<'m> Chain<'m> {
    const fn of(models: &'m [&'m Model], position: usize, field: &'m str) -> Self {
        Self {
            models,
            home: (position, field),
            is_rest: false,
        }
    }

    #[track_caller]
    const fn refuse(&self) {
        let (position, field) = self.home;
        let what = match self.way(position, field, 0, position) {
            Way::Returns(first) if first == position => "comes back to itself through others",
            Way::IsTooLong => "is of more than 16 others in a row",
            Way::Ends | Way::Returns(_) => return,
        };
        let text = Text::of(&[
            "the copy `",
            field,
            "` of `",
            self.models[position].name,
            "` ",
            what,
            ": take it from where the value is first",
        ]);
        panic!("{}", text.as_str());
    }

    /// From a field on, so many steps away from home.
    const fn way(&self, position: usize, field: &'m str, steps: usize, first: usize) -> Way {
        if steps > LONGEST {
            let rest = Self {
                models: self.models,
                home: (position, field),
                is_rest: true,
            };
            // What leads to a circle is not told of it again.
            return match self.is_rest {
                false if matches!(rest.way(position, field, 0, position), Way::Returns(_)) => {
                    Way::Ends
                }
                _ => Way::IsTooLong,
            };
        }
        let copies = self.models[position].copies;
        let mut i = 0;
        while i < copies.own.len() {
            if same(copies.own[i].field, field) {
                return self.way_of(&copies.own[i], steps, first);
            }
            i += 1;
        }
        let mut i = 0;
        while i < copies.inside.len() {
            let inside = &copies.inside[i];
            // What is in an array cannot be copied from there.
            if same(inside.field, field) && (steps == 0 || !inside.is_array) {
                return self.way_of_all(inside.copies, steps, first);
            }
            i += 1;
        }
        Way::Ends
    }

    const fn way_of_all(&self, copies: &'m Copies, steps: usize, first: usize) -> Way {
        let mut i = 0;
        while i < copies.own.len() {
            match self.way_of(&copies.own[i], steps, first) {
                Way::Ends => i += 1,
                other => return other,
            }
        }
        let mut i = 0;
        while i < copies.inside.len() {
            match self.way_of_all(copies.inside[i].copies, steps, first) {
                Way::Ends => i += 1,
                other => return other,
            }
        }
        Way::Ends
    }

    const fn way_of(&self, copy: &'m CopiedField, steps: usize, first: usize) -> Way {
        if let Follows::Never = copy.follows {
            return Way::Ends;
        }
        let mut i = 0;
        while i < self.models.len() {
            if same(self.models[i].collection, copy.collection) {
                let first = if i < first { i } else { first };
                return match i == self.home.0 && same(copy.first, self.home.1) {
                    true => Way::Returns(first),
                    false => self.way(i, copy.first, steps + 1, first),
                };
            }
            i += 1;
        }
        Way::Ends
    }
}

/// A text that is put together at compile time; what is too long is cut off.
struct Text {
    bytes: [u8; 256],
    len: usize,
}

impl Text {
    const fn of(parts: &[&str]) -> Self {
        let mut text = Self {
            bytes: [0; 256],
            len: 0,
        };
        let mut i = 0;
        while i < parts.len() {
            let part = parts[i].as_bytes();
            let mut j = 0;
            while j < part.len() && text.len < text.bytes.len() {
                text.bytes[text.len] = part[j];
                text.len += 1;
                j += 1;
            }
            i += 1;
        }
        text
    }

    const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "a copy comes back to itself through others, or is of more than 16 in a row",
        }
    }
}

/// Refuses a field whose values have copies where nothing is filled; called by derived code, at compile time.
#[doc(hidden)]
#[track_caller]
pub const fn has_companion(is_drafted: bool, copies: &Copies, message: &str) {
    assert!(is_drafted || !copies.is_filled(), "{}", message);
}

/// Refuses copies where nothing keeps them; called by derived code, at compile time.
#[doc(hidden)]
#[track_caller]
pub const fn is_kept(copies: &Copies, message: &str) {
    assert!(!copies.loses(), "{}", message);
}

/// What is copied of a place that an `R` leads to; called by derived code.
#[doc(hidden)]
#[must_use]
pub fn copied<R, P>(_: impl FnOnce(<R::Target as Document>::Fields) -> P) -> Source<R, P::Value>
where
    R: LeadsToOne,
    P: Place<Shape: Single, Role: Copied>,
{
    Source(PhantomData)
}

/// A `V` that is copied through an `R`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Source<R, V>(PhantomData<fn() -> (R, V)>);

impl<R, V> Source<R, V> {
    /// Checks that a `C` can hold it.
    pub fn fits<C: CopyOf<R, V>>(self) {}

    /// Checks that a `C` can hold it, and nothing when the source is deleted.
    pub fn fits_cleared<C: ClearedCopyOf<V>>(self) {}
}

/// A reference to one document.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a copy is taken through one reference, not through a `{Self}`",
    label = "not a `Ref` or an `Option<Ref>`",
    note = "of several documents, embed a struct with the reference and its copies: `#[embed(max = N)] parts: Vec<PartLink>`"
)]
pub trait LeadsToOne {
    /// The model that it leads to.
    type Target: Document;
}
#[diagnostic::do_not_recommend]
impl<T: Document> LeadsToOne for Ref<T> {
    type Target = T;
}
#[diagnostic::do_not_recommend]
impl<T: Document> LeadsToOne for Option<Ref<T>> {
    type Target = T;
}

/// The roles of what can be copied.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a field with the role `{Self}` cannot be copied",
    label = "the framework writes it without telling",
    note = "a version, a timestamp, a count and the inverse of a link change with other writes than those to the field: read them where they are, by a join"
)]
pub trait Copied {}
#[diagnostic::do_not_recommend]
impl Copied for role::Own {}
#[diagnostic::do_not_recommend]
impl Copied for role::Id {}
#[diagnostic::do_not_recommend]
impl Copied for role::IdPart {}
#[diagnostic::do_not_recommend]
impl Copied for role::ShardKey {}
#[diagnostic::do_not_recommend]
impl Copied for role::Snapshot {}
#[diagnostic::do_not_recommend]
impl Copied for role::Denormalized {}
#[diagnostic::do_not_recommend]
impl Copied for role::Computed {}

/// What can hold a copy of a `V` that is reached through an `R`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be the copy of a `{V}` that a `{R}` leads to",
    label = "has another type",
    note = "a copy has the type of the field that it is taken from; through an `Option<Ref<…>>` it is an `Option` of that"
)]
pub trait CopyOf<R, V> {}
#[diagnostic::do_not_recommend]
impl<T: Document, V> CopyOf<Ref<T>, V> for V {}
#[diagnostic::do_not_recommend]
impl<T: Document, V> CopyOf<Option<Ref<T>>, V> for Option<V> {}
#[diagnostic::do_not_recommend]
impl<T: Document, V> CopyOf<Option<Ref<T>>, Option<V>> for Option<V> {}

/// What can hold a copy of a `V` that becomes null.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be a copy of a `{V}` that becomes null when its source is deleted",
    label = "cannot be null, or has another type",
    note = "with `on_delete = clear` it is an `Option` of what it is taken from"
)]
pub trait ClearedCopyOf<V> {}
#[diagnostic::do_not_recommend]
impl<V> ClearedCopyOf<V> for Option<V> {}
#[diagnostic::do_not_recommend]
impl<V> ClearedCopyOf<Option<V>> for Option<V> {}

//! Copies and snapshots of other documents, as plain data.

use std::marker::PhantomData;

use super::{Model, str_eq};
use crate::{
    language::field::{Path, Place, Single, role},
    model::document::{Document, Ref},
};

/// The copies and snapshots in a stored type: in its own fields and in its embedded fields.
#[derive(Debug, Clone, Copy)]
pub struct TypeCopies {
    /// The copies and snapshots in the type's own fields.
    pub fields: &'static [CopiedField],
    /// The stored names of the type's own fields that the application sets once, at the insert.
    pub set_once: &'static [&'static str],
    /// The embedded fields that contain copies or snapshots.
    pub embedded: &'static [EmbeddedCopies],
    /// Whether copies exist at a place where the framework cannot maintain them, such as the values of a map.
    pub is_unmaintainable: bool,
}

/// A copy or a snapshot of a field in another document.
#[derive(Debug, Clone, Copy)]
pub struct CopiedField {
    /// The Rust name of the field.
    pub field: &'static str,
    /// The stored name of the field.
    pub stored: &'static str,
    /// The stored name of the reference in the same struct.
    pub reference: &'static str,
    /// Whether the reference is optional.
    pub is_optional: bool,
    /// The collection of the source documents.
    pub collection: &'static str,
    /// The model of the source documents.
    pub model: fn() -> &'static Model,
    /// Returns the path of the copied value in the source document.
    pub source_path: fn() -> Path,
    /// The Rust name of the source field that contains the copied value.
    pub source_field: &'static str,
    /// How the copy follows from the source.
    pub value: CopiedValue,
    /// When a fan-out writes a changed source value into the copy.
    pub mode: CopyMode,
    /// Whether the copy becomes null when the source document is deleted.
    pub clears_on_delete: bool,
    /// Whether the framework stores the origin of the snapshot: the source document, and the time.
    pub has_origin: bool,
    /// Whether `None` is stored as a missing field: serde's `skip_serializing_if`.
    pub omits_none: fn() -> bool,
}

/// An embedded field that contains copies or snapshots.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedCopies {
    /// The Rust name of the field.
    pub field: &'static str,
    /// The stored name of the field.
    pub stored: &'static str,
    /// Whether the field is an array.
    pub is_array: bool,
    /// The copies and snapshots in the embedded type.
    pub copies: &'static TypeCopies,
}

/// How a copy follows from the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedValue {
    /// The copy is the value of the source field.
    Field,
    /// The copy is the list of ancestors in a tree: the ancestors of the source, and the source. Without a source, the list is
    /// empty.
    Ancestors,
}

/// When a fan-out writes a changed source value into a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMode {
    /// Within the write if the fan-out is small, otherwise in the background.
    Bounded,
    /// Within the write.
    Sync,
    /// In the background, after the write has returned.
    Background,
    /// Never: the value is a snapshot.
    Snapshot,
}

impl CopyMode {
    /// Whether a fan-out maintains the copy.
    pub(crate) const fn has_fan_out(self) -> bool {
        match self {
            Self::Bounded | Self::Sync | Self::Background => true,
            Self::Snapshot => false,
        }
    }
}

impl TypeCopies {
    /// A type without copies.
    pub const NONE: Self = Self {
        fields: &[],
        set_once: &[],
        embedded: &[],
        is_unmaintainable: false,
    };

    const UNMAINTAINABLE: Self = Self {
        is_unmaintainable: true,
        ..Self::NONE
    };

    /// The copies in the values of a map, which the framework cannot maintain.
    pub(crate) const fn in_map(values: &'static Self) -> &'static Self {
        match values.has_any() {
            true => &Self::UNMAINTAINABLE,
            false => &Self::NONE,
        }
    }

    /// Whether a field of the type, or of an embedded type, meets a condition.
    pub(crate) fn has_field(&self, condition: &dyn Fn(&CopiedField) -> bool) -> bool {
        let mut embedded = self.embedded.iter();
        self.fields.iter().any(condition)
            || embedded.any(|nested| nested.copies.has_field(condition))
    }

    /// Whether the framework fills any field.
    pub(crate) const fn has_filled(&self) -> bool {
        let mut i = 0;
        while i < self.embedded.len() {
            if self.embedded[i].copies.has_filled() {
                return true;
            }
            i += 1;
        }
        !self.fields.is_empty() || self.is_unmaintainable
    }

    /// Whether the type has any copies, snapshots or fields that are set once.
    pub(crate) const fn has_any(&self) -> bool {
        let mut i = 0;
        while i < self.embedded.len() {
            if self.embedded[i].copies.has_any() {
                return true;
            }
            i += 1;
        }
        !self.fields.is_empty() || !self.set_once.is_empty() || self.is_unmaintainable
    }

    /// Whether a fan-out maintains any copy.
    pub(crate) const fn has_fan_out(&self) -> bool {
        let mut i = 0;
        while i < self.fields.len() {
            if self.fields[i].mode.has_fan_out() {
                return true;
            }
            i += 1;
        }
        let mut i = 0;
        while i < self.embedded.len() {
            if self.embedded[i].copies.has_fan_out() {
                return true;
            }
            i += 1;
        }
        false
    }

    const fn has_unmaintainable(&self) -> bool {
        let mut i = 0;
        while i < self.embedded.len() {
            if self.embedded[i].copies.has_unmaintainable() {
                return true;
            }
            i += 1;
        }
        self.is_unmaintainable
    }
}

/// The copies beside one reference that a fan-out maintains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReferenceCopies {
    copies: &'static TypeCopies,
    /// The stored name of the reference.
    reference: &'static str,
}

impl ReferenceCopies {
    /// Returns the copies beside the reference at a dotted path, which may pass through arrays. `None` without copies.
    pub(crate) fn of_reference(copies: &'static TypeCopies, path: &str) -> Option<Self> {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        if !rest.is_empty() {
            let nested = copies
                .embedded
                .iter()
                .find(|nested| nested.stored == name)?;
            return Self::of_reference(nested.copies, rest);
        }
        let mut fields = copies.fields.iter();
        let beside = fields.find(|field| field.reference == name && field.mode.has_fan_out())?;
        Some(Self {
            copies,
            reference: beside.reference,
        })
    }

    /// Returns the copy of a dotted path in the source, with the rest of the path inside of the copied value.
    pub(crate) fn copy_of(self, source: &str) -> Option<(&'static CopiedField, &str)> {
        let fields = self.copies.fields.iter();
        let mut beside =
            fields.filter(|field| field.reference == self.reference && field.mode.has_fan_out());
        beside.find_map(|field| {
            if field.value != CopiedValue::Field {
                return None;
            }
            let path = (field.source_path)();
            let rest = source.strip_prefix(path.dotted().ok()?)?;
            (rest.is_empty() || rest.starts_with('.')).then_some((field, rest))
        })
    }
}

/// The maximum length of a chain of copies. The recursion limit of const evaluation does not allow much more.
const MAX_CHAIN_COPIES: usize = 16;

/// The end of a chain of copies.
enum ChainEnd {
    Source,
    /// The chain returns to its first field. The number is the lowest position of a model in the chain.
    Cycle(usize),
    TooLong,
}

/// Checks that every chain of copies in a model ends. Derived code calls this function at compile time.
///
/// A copy must not depend on itself through other copies, and a chain must not be longer than the limit. A circle of models is
/// reported once, at the model with the lowest position.
#[doc(hidden)]
#[track_caller]
pub const fn ensure_copy_chains_end(models: &[&Model], position: usize) {
    let copies = models[position].copies;
    let mut i = 0;
    while i < copies.fields.len() {
        CopyChain::from_field(models, position, copies.fields[i].field).ensure_ends();
        i += 1;
    }
    let mut i = 0;
    while i < copies.embedded.len() {
        CopyChain::from_field(models, position, copies.embedded[i].field).ensure_ends();
        i += 1;
    }
}

/// The chain of copies that begins at a field of a model.
struct CopyChain<'m> {
    models: &'m [&'m Model],
    /// The position of the model, and the Rust name of the field.
    start: (usize, &'m str),
    /// Whether the chain begins at the end of another chain that was too long.
    is_remainder: bool,
}

impl<'m> CopyChain<'m> {
    const fn from_field(models: &'m [&'m Model], position: usize, field: &'m str) -> Self {
        Self {
            models,
            start: (position, field),
            is_remainder: false,
        }
    }

    #[track_caller]
    const fn ensure_ends(&self) {
        let (position, field) = self.start;
        let problem = match self.follow_field(position, field, 0, position) {
            ChainEnd::Cycle(first) if first == position => "depends on itself through other copies",
            ChainEnd::TooLong => "ends a chain of more than 16 copies",
            ChainEnd::Source | ChainEnd::Cycle(_) => return,
        };
        let text = ConstText::join_parts(&[
            "the copy `",
            field,
            "` of `",
            self.models[position].name,
            "` ",
            problem,
            ": copy the value from its original field",
        ]);
        panic!("{}", text.as_str());
    }

    /// Follows the chain from a field that is `steps` copies away from the first field.
    const fn follow_field(
        &self,
        position: usize,
        field: &'m str,
        steps: usize,
        first: usize,
    ) -> ChainEnd {
        if steps > MAX_CHAIN_COPIES {
            let remainder = Self {
                models: self.models,
                start: (position, field),
                is_remainder: true,
            };
            // A chain that runs into a circle of other fields is no error here: the circle itself is reported.
            return match self.is_remainder {
                false
                    if matches!(
                        remainder.follow_field(position, field, 0, position),
                        ChainEnd::Cycle(_)
                    ) =>
                {
                    ChainEnd::Source
                }
                _ => ChainEnd::TooLong,
            };
        }
        let copies = self.models[position].copies;
        let mut i = 0;
        while i < copies.fields.len() {
            if str_eq(copies.fields[i].field, field) {
                return self.follow_copy(&copies.fields[i], steps, first);
            }
            i += 1;
        }
        let mut i = 0;
        while i < copies.embedded.len() {
            let nested = &copies.embedded[i];
            // The elements of an array cannot be copied, so the chain ends there.
            if str_eq(nested.field, field) && (steps == 0 || !nested.is_array) {
                return self.follow_all(nested.copies, steps, first);
            }
            i += 1;
        }
        ChainEnd::Source
    }

    const fn follow_all(&self, copies: &'m TypeCopies, steps: usize, first: usize) -> ChainEnd {
        let mut i = 0;
        while i < copies.fields.len() {
            match self.follow_copy(&copies.fields[i], steps, first) {
                ChainEnd::Source => i += 1,
                end => return end,
            }
        }
        let mut i = 0;
        while i < copies.embedded.len() {
            match self.follow_all(copies.embedded[i].copies, steps, first) {
                ChainEnd::Source => i += 1,
                end => return end,
            }
        }
        ChainEnd::Source
    }

    const fn follow_copy(&self, copy: &'m CopiedField, steps: usize, first: usize) -> ChainEnd {
        // A chain of parents ends at the root of the tree.
        if !copy.mode.has_fan_out() || matches!(copy.value, CopiedValue::Ancestors) {
            return ChainEnd::Source;
        }
        let mut i = 0;
        while i < self.models.len() {
            if str_eq(self.models[i].collection, copy.collection) {
                let first = if i < first { i } else { first };
                return match i == self.start.0 && str_eq(copy.source_field, self.start.1) {
                    true => ChainEnd::Cycle(first),
                    false => self.follow_field(i, copy.source_field, steps + 1, first),
                };
            }
            i += 1;
        }
        ChainEnd::Source
    }
}

/// A text that is built at compile time. The text is cut off after 256 bytes.
struct ConstText {
    bytes: [u8; 256],
    len: usize,
}

impl ConstText {
    const fn join_parts(parts: &[&str]) -> Self {
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
            Err(_) => {
                "a copy depends on itself through other copies, or ends a chain of more than 16 copies"
            }
        }
    }
}

/// Checks that a model with filled copies has an insert struct. Derived code calls this function at compile time.
#[doc(hidden)]
#[track_caller]
pub const fn ensure_insert_struct(has_insert_struct: bool, copies: &TypeCopies, message: &str) {
    assert!(has_insert_struct || !copies.has_filled(), "{}", message);
}

/// Checks that the framework can maintain all copies. Derived code calls this function at compile time.
#[doc(hidden)]
#[track_caller]
pub const fn ensure_maintainable(copies: &TypeCopies, message: &str) {
    assert!(!copies.has_unmaintainable(), "{}", message);
}

/// Returns the source of a copy: a place in the target of an `R`. Derived code calls this function.
#[doc(hidden)]
#[must_use]
pub fn copy_source<R, P>(
    _: impl FnOnce(<R::Target as Document>::Fields) -> P,
) -> CopySource<R, P::Value>
where
    R: SingleReference,
    P: Place<Shape: Single, Role: CopyableRole>,
{
    CopySource(PhantomData)
}

/// The source of a copy: a `V` in the target of an `R`.
#[doc(hidden)]
#[derive(Debug)]
pub struct CopySource<R, V>(PhantomData<fn() -> (R, V)>);

impl<R, V> CopySource<R, V> {
    /// Checks that a field of type `C` can hold the copy.
    pub fn ensure_fits<C: CopyOf<R, V>>(self) {}

    /// Checks that a field of type `C` can hold the copy, and null after the source was deleted.
    pub fn ensure_fits_cleared<C: ClearedCopyOf<V>>(self) {}
}

/// A type that refers to at most one document.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a copy needs a reference to one document, not a `{Self}`",
    label = "not a `Ref` or an `Option<Ref>`",
    note = "for copies from several documents, embed a struct with the reference and its copies: `#[embed(max = N)] parts: Vec<PartLink>`"
)]
pub trait SingleReference {
    /// The model of the referenced document.
    type Target: Document;
}
#[diagnostic::do_not_recommend]
impl<T: Document> SingleReference for Ref<T> {
    type Target = T;
}
#[diagnostic::do_not_recommend]
impl<T: Document> SingleReference for Option<Ref<T>> {
    type Target = T;
}

/// The roles of fields that can be copied.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a field with the role `{Self}` cannot be copied",
    label = "changes without a typed write to the field",
    note = "versions, timestamps, rollups and inverses change without a typed write to the field: read them with a join"
)]
pub trait CopyableRole {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::Own {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::Id {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::IdPartField {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::ShardKeyField {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::SequenceKey {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::SequenceNumber {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::Snapshot {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::Denormalized {}
#[diagnostic::do_not_recommend]
impl CopyableRole for role::Computed {}

/// A type that can hold a copy of a `V` through a reference of type `R`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be the copy of a `{V}` through a `{R}`",
    label = "wrong type",
    note = "a copy has the type of its source field; through an `Option<Ref<…>>` the copy is an `Option` of that type"
)]
pub trait CopyOf<R, V> {}
#[diagnostic::do_not_recommend]
impl<T: Document, V> CopyOf<Ref<T>, V> for V {}
#[diagnostic::do_not_recommend]
impl<T: Document, V> CopyOf<Option<Ref<T>>, V> for Option<V> {}
#[diagnostic::do_not_recommend]
impl<T: Document, V> CopyOf<Option<Ref<T>>, Option<V>> for Option<V> {}

/// A type that can hold a copy of a `V`, or null after the source was deleted.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be a copy of a `{V}` that becomes null when its source is deleted",
    label = "cannot be null, or has the wrong type",
    note = "with `on_delete = clear` the copy is an `Option` of the type of its source field"
)]
pub trait ClearedCopyOf<V> {}
#[diagnostic::do_not_recommend]
impl<V> ClearedCopyOf<V> for Option<V> {}
#[diagnostic::do_not_recommend]
impl<V> ClearedCopyOf<Option<V>> for Option<V> {}

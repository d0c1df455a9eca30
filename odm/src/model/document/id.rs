//! Ids that the framework generates, `#[document(id = auto)]`, and ids that are composed of fields:
//! `#[document(id = "{user}/account")]`.
//!
//! A composed id is a list of segments with slashes between them. All ids of a model have the same number of segments, so the template is
//! enough to split an id. A text is one segment, with slashes escaped. A reference to a model with composed ids has the segments
//! of that id.

use std::{borrow::Cow, fmt};

use bson::{Uuid, oid::ObjectId};

use super::{Document, Ref};
use crate::{Error, ErrorKind, Result, error, language::query::IntoKey, schema::Model};

/// A type of `_id` that the framework can generate, for `#[document(id = auto)]`: an `ObjectId` or a random `Uuid`.
///
/// The insert struct has no `_id`. Each insert generates a new value, without a query.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "notes", id = auto)]
/// struct Note {
///     #[serde(rename = "_id")]
///     id: ObjectId,
///     text: String,
/// }
/// # #[derive(Schema)] #[schema(models(Note))] struct Notes;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Notes>::open("memory:").await?;
/// let note = db.insert(NewNote { text: "buy nails".into() }).await?;
/// assert_eq!(db.get::<Note>(note.id).await?.text, "buy nails");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
///
/// A newtype implements the trait by the type inside:
///
/// ```
/// # use odm::{document::AutoId, prelude::*};
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
/// struct NoteId(ObjectId);
///
/// impl AutoId for NoteId {
///     fn generate() -> Self {
///         Self(AutoId::generate())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`id = auto` cannot generate a `{Self}`",
    label = "neither an `ObjectId` nor a `Uuid`",
    note = "implement `odm::document::AutoId` for a newtype of these; for other types, remove `id = auto` and set the `_id` in \
         the application"
)]
pub trait AutoId {
    /// Returns a value that no other call returns.
    #[must_use]
    fn generate() -> Self;
}

impl AutoId for ObjectId {
    fn generate() -> Self {
        Self::new()
    }
}

impl AutoId for Uuid {
    fn generate() -> Self {
        Self::new()
    }
}

#[cfg(feature = "uuid")]
impl AutoId for uuid::Uuid {
    fn generate() -> Self {
        Self::from_bytes(Uuid::new().bytes())
    }
}

/// A type that can be part of an `_id`: a text, an integer, an `ObjectId`, a `Uuid`, or a [`Ref`] to a document with such an
/// `_id`.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "users", id = "users/{name}")]
/// struct User {
///     #[serde(rename = "_id")]
///     id: String,
///     name: String,
/// }
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "payments", id = "{user}/payments/{#number:06}")]
/// struct Payment {
///     #[serde(rename = "_id")]
///     id: String,
///     #[reference]
///     user: Ref<User>,
/// // The framework assigns the next number for the user.
///     number: i64,
///     amount: i64,
/// }
/// # #[derive(Schema)] #[schema(models(User, Payment))] struct Bank;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Bank>::open("memory:").await?;
/// let user = db.insert(NewUser { name: "jane/doe".into() }).await?;
/// assert_eq!(user.id, "users/jane%2Fdoe");
///
/// let payment = db.insert(NewPayment { user: user.to_ref(), amount: 50 }).await?;
/// assert_eq!(payment.id, "users/jane%2Fdoe/payments/000001");
///
/// // Without a query: build the id from its parts, and split the id.
/// let payment = db.get(Payment::id_for(&user, 1)?).await?;
/// let owner = Payment::parts_of(&payment.id)?.user;
/// assert_eq!(User::parts_of(&owner)?.name, "jane/doe");
///
/// // The payments of one user, in the order of ids. The index of the `_id` is enough.
/// let payments = db.find::<Payment>().under(&user).page(20).await?;
/// assert_eq!(payments.items.len(), 1);
///
/// // Documents of several models in one round trip.
/// let (user, payment) = db.load((owner, Payment::id_for(&user, 1)?)).await?;
/// assert_eq!((user.name.as_str(), payment.amount), ("jane/doe", 50));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be part of an `_id`",
    label = "not a part of an `_id`",
    note = "the parts of an `_id` are a `String`, an `i32`, `i64`, `u32` or `u64`, an `ObjectId`, a `Uuid`, or a `Ref` to a \
         document with such an `_id`"
)]
pub trait IdPart: Sized {
    /// The number of segments.
    #[doc(hidden)]
    const SEGMENTS: usize;

    /// Appends the text of the value. Returns an error for a value that an id cannot contain.
    #[doc(hidden)]
    fn write(&self, output: &mut String) -> Result<()>;

    /// Parses the text of a value. The caller verifies the result by writing the value again.
    #[doc(hidden)]
    fn read(text: &str) -> Option<Self>;
}

/// A value with one segment, which may be an `_id` by itself.
#[doc(hidden)]
pub trait OneSegment: Sized {
    /// Returns the unescaped text.
    fn segment_text(&self) -> Cow<'_, str>;

    /// Parses the unescaped text.
    fn of_text(text: &str) -> Option<Self>;
}

macro_rules! one_segment {
    ($($type:ty: $parse:expr;)*) => {$(
        impl OneSegment for $type {
            fn segment_text(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
            fn of_text(text: &str) -> Option<Self> {
                $parse(text).ok()
            }
        }
    )*};
}
one_segment! {
    i32: str::parse;
    i64: str::parse;
    u32: str::parse;
    u64: str::parse;
    ObjectId: ObjectId::parse_str;
    Uuid: Uuid::parse_str;
}
#[cfg(feature = "uuid")]
one_segment!(uuid::Uuid: uuid::Uuid::parse_str;);

impl OneSegment for String {
    fn segment_text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
    fn of_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

#[diagnostic::do_not_recommend]
impl<T: OneSegment> IdPart for T {
    const SEGMENTS: usize = 1;
    fn write(&self, output: &mut String) -> Result<()> {
        let text = self.segment_text();
        if text.is_empty() {
            let message = "the field is part of the `_id` and is empty: set a text";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        escape_text(&text, output);
        Ok(())
    }
    fn read(text: &str) -> Option<Self> {
        Self::of_text(&unescape_text(text)?)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document<Id: OneSegment>> IdPart for Ref<T> {
    const SEGMENTS: usize = match T::ID_SEGMENTS {
        0 => 1,
        segments => segments,
    };
    fn write(&self, output: &mut String) -> Result<()> {
        if T::ID_SEGMENTS == 0 {
            return self.id().write(output);
        }
        // A composed id is not escaped, and has as many slashes as its template.
        T::check_id(self.id())?;
        output.push_str(&self.id().segment_text());
        Ok(())
    }
    fn read(text: &str) -> Option<Self> {
        let id = match T::ID_SEGMENTS {
            0 => T::Id::read(text)?,
            _ => T::Id::of_text(text)?,
        };
        Some(Self::of_id(id))
    }
}

/// A value for a part of an `_id` of the type `T`: the value, or a value with an obvious conversion, such as a `&str` for a
/// `String` or a document for a `Ref`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `{T}`, which is part of the `_id`",
    label = "expected a `{T}`",
    note = "pass the value or a reference to it; for a text also a `&str`, for a `Ref` also the document or its `_id`"
)]
pub trait IntoIdPart<T> {
    /// Returns the part.
    fn into_id_part(self) -> T;
}

#[diagnostic::do_not_recommend]
impl<T: Document, K: IntoKey<T>> IntoIdPart<Ref<T>> for K {
    fn into_id_part(self) -> Ref<T> {
        Ref::new(self)
    }
}

macro_rules! parts {
    ($($source:ty => $part:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoIdPart<$part> for $source {
            fn into_id_part(self) -> $part {
                self.to_owned().into()
            }
        }
    )*};
}
parts! {
    ObjectId => ObjectId, &ObjectId => ObjectId,
    Uuid => Uuid, &Uuid => Uuid,
    i32 => i32, &i32 => i32,
    i64 => i64, &i64 => i64,
    u32 => u32, &u32 => u32,
    u64 => u64, &u64 => u64,
    String => String, &String => String, &str => String,
}
#[cfg(feature = "uuid")]
parts!(uuid::Uuid => uuid::Uuid, &uuid::Uuid => uuid::Uuid);

/// A number that the framework assigns: `{#number}`.
#[diagnostic::on_unimplemented(
    message = "the number in an `_id` must be an integer, not a `{Self}`",
    label = "not an integer",
    note = "use an `i64`, an `i32`, a `u32` or a `u64`"
)]
#[doc(hidden)]
pub trait AssignedNumber: PaddedInteger {
    /// The value before a number is assigned.
    const NONE: Self;

    /// Converts the number, if the type can hold the number.
    fn from_i64(number: i64) -> Option<Self>;
}

/// A number that the framework assigns to a field: `#[sequence]`.
#[diagnostic::on_unimplemented(
    message = "a sequence number must be an integer, not a `{Self}`",
    label = "not an integer",
    note = "use an `i64`, an `i32`, a `u32` or a `u64`"
)]
#[doc(hidden)]
pub trait SequenceInteger: Sized {
    /// The value before a number is assigned.
    const NONE: Self;

    /// Converts the number, if the type can hold the number.
    fn from_i64(number: i64) -> Option<Self>;
}

#[diagnostic::do_not_recommend]
impl<T: AssignedNumber> SequenceInteger for T {
    const NONE: Self = T::NONE;
    fn from_i64(number: i64) -> Option<Self> {
        T::from_i64(number)
    }
}

/// A number with a minimum number of digits: `{number:06}`.
#[diagnostic::on_unimplemented(
    message = "only an integer can have a minimum number of digits, not a `{Self}`",
    label = "not an integer",
    note = "remove the `:0…`"
)]
#[doc(hidden)]
pub trait PaddedInteger: IdPart + fmt::Display {}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl PaddedInteger for $integer {}
        #[diagnostic::do_not_recommend]
        impl AssignedNumber for $integer {
            const NONE: Self = 0;
            fn from_i64(number: i64) -> Option<Self> {
                number.try_into().ok()
            }
        }
    )*};
}
integers!(i32 i64 u32 u64);

/// A model with ids that begin with a value of the type `First`.
#[diagnostic::on_unimplemented(
    message = "the ids of `{Self}` do not begin with the id of a parent",
    label = "has no `_id` with a prefix",
    note = "`under` needs ids that begin with a parent's, `#[document(id = \"{{user}}/account\")]`; use `filter` for other \
         documents"
)]
#[doc(hidden)]
pub trait IdPrefix<First>: Document {
    /// Returns the common prefix of the ids, with the slash.
    fn prefix(first: &First) -> Result<String>;
}

/// Returns the least text after all ids with this prefix, which ends with a slash. Returns `None` if every id has the prefix.
pub(crate) fn upper_bound(prefix: &str) -> Option<String> {
    // `0` is the character after the slash.
    Some(format!("{}0", prefix.strip_suffix('/')?))
}

/// Builder of an id. Used by derived code.
#[doc(hidden)]
#[derive(Debug)]
pub struct IdText {
    model: &'static Model,
    text: String,
}

impl IdText {
    #[must_use]
    pub fn new(model: &'static Model) -> Self {
        Self {
            model,
            text: String::new(),
        }
    }

    /// Appends a constant segment.
    #[must_use]
    pub fn constant_segment(mut self, text: &str) -> Self {
        self.begin_segment();
        self.text.push_str(text);
        self
    }

    /// Appends the field that is stored as `field`. The function `write` is a parameter, so that a missing implementation is a
    /// single compile error.
    pub fn part<T>(
        mut self,
        field: &'static str,
        value: &T,
        write: fn(&T, &mut String) -> Result<()>,
    ) -> Result<Self> {
        self.begin_segment();
        write(value, &mut self.text).map_err(|error| {
            // An error with a model concerns the target of a reference.
            match error.model() {
                None => error::naming_model(self.model)(error.with_path(field)),
                Some(_) => error,
            }
        })?;
        Ok(self)
    }

    /// Appends an integer, padded with zeros.
    pub fn padded<T: PaddedInteger>(
        mut self,
        field: &'static str,
        width: usize,
        value: &T,
    ) -> Result<Self> {
        self.begin_segment();
        let text = value.to_string();
        if text.starts_with('-') || text.len() > width {
            let message = format!(
                "the value {text} of `{field}` does not fit into the {width} digits of the `_id`, and ids with more digits or a minus sign would not sort: use a smaller number, or, while the collection is empty, more digits, `{{{field}:0{}}}`",
                text.len().max(width + 1),
            );
            let error = Error::new(ErrorKind::Invalid, message).with_path(field);
            return Err(error::naming_model(self.model)(error));
        }
        self.text.push_str(&format!("{text:0>width$}"));
        Ok(self)
    }

    fn begin_segment(&mut self) {
        if !self.text.is_empty() {
            self.text.push('/');
        }
    }

    /// Returns the id.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }

    /// Returns the common prefix of all ids with these parts. Empty without parts.
    #[must_use]
    pub fn prefix(mut self) -> String {
        self.begin_segment();
        self.text
    }
}

/// Parser of an id. Used by derived code.
#[doc(hidden)]
#[derive(Debug)]
pub struct IdReader<'i> {
    model: &'static Model,
    id: &'i str,
    /// The rest of the id.
    rest: Option<&'i str>,
}

impl<'i> IdReader<'i> {
    #[must_use]
    pub fn new(model: &'static Model, id: &'i str) -> Self {
        Self {
            model,
            id,
            rest: Some(id),
        }
    }

    /// Skips a constant segment. `finish` verifies the text.
    pub fn skip_constant_segment(&mut self, _: &str) {
        self.take_segments(1);
    }

    /// Parses a field with this number of segments.
    pub fn part<T>(&mut self, segments: usize, parse: fn(&str) -> Option<T>) -> Result<T> {
        let text = self.take_segments(segments);
        text.and_then(parse).ok_or_else(|| self.invalid_id())
    }

    /// Verifies the id by comparing it with `again`, the id that the parsed parts would have.
    pub fn finish(self, again: Result<String>) -> Result<()> {
        match again {
            Ok(again) if self.id == again => Ok(()),
            // Parts that cannot form an id belong to no document.
            _ => Err(self.invalid_id()),
        }
    }

    fn take_segments(&mut self, segments: usize) -> Option<&'i str> {
        let rest = self.rest?;
        let slash = rest.match_indices('/').nth(segments - 1);
        let (text, rest) = match slash {
            Some((at, _)) => (rest.get(..at)?, rest.get(at + 1..)),
            None => (rest, None),
        };
        self.rest = rest;
        Some(text)
    }

    fn invalid_id(&self) -> Error {
        let pattern = self.model.id.unwrap_or_default();
        let message = format!("invalid `_id`: the ids of the model have the form `{pattern}`");
        error::naming_model(self.model)(Error::new(ErrorKind::Invalid, message).with_id(self.id))
    }
}

/// Returns an assigned number in the type of the field, or an error if the type is too small. Used by derived code.
#[doc(hidden)]
pub fn assigned_number<N>(
    model: &'static Model,
    field: &'static str,
    number: i64,
    converted: Option<N>,
) -> Result<N> {
    converted.ok_or_else(|| {
        let message = format!("the number {number} is out of range for the field: use an `i64`");
        error::naming_model(model)(Error::new(ErrorKind::Invalid, message).with_path(field))
    })
}

/// Escapes slashes, which separate segments, `%`, which begins an escape, and control characters.
fn escape_text(text: &str, output: &mut String) {
    for char in text.chars() {
        if matches!(char, '/' | '%') || char.is_control() {
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                output.push_str(&format!("%{byte:02X}"));
            }
        } else {
            output.push(char);
        }
    }
}

fn unescape_text(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip_as_one_segment() {
        for (text, written) in [
            ("jane", "jane"),
            ("a/b", "a%2Fb"),
            ("100%", "100%25"),
            ("%2F", "%252F"),
            ("Jürgen Müller", "Jürgen Müller"),
            ("a\nb\u{85}", "a%0Ab%C2%85"),
            ("{name}", "{name}"),
        ] {
            let mut escaped = String::new();
            escape_text(text, &mut escaped);
            assert_eq!(escaped, written);
            assert_eq!(unescape_text(written).as_deref(), Some(text));
        }
    }

    #[test]
    fn invalid_escapes_are_rejected() {
        for broken in ["%", "%2", "a%zz", "%ü", "%FF"] {
            assert_eq!(unescape_text(broken), None, "{broken}");
        }
    }
}

//! Ids that are made of fields: `#[document(id = "{user}/account")]`.
//!
//! An id is a list of segments with slashes between them, always as many for one model, so that nothing but the model is
//! needed to find its parts again. A text is one segment, in which a slash is escaped; a reference to a model whose ids are
//! made of fields too is as many as those.

use std::{borrow::Cow, fmt};

use bson::{Uuid, oid::ObjectId};

use super::{Document, Ref};
use crate::{Error, ErrorKind, Result, error, query::IntoKey, schema::Model};

/// A value of which an `_id` can be made: a text, an integer, an `ObjectId`, a `Uuid`, a [`Ref`] to a document with such
/// an `_id`.
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
///     /// The framework gives the next one of the user.
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
/// // Without a query: made of its parts, and taken apart.
/// let payment = db.get(Payment::id_for(&user, 1)?).await?;
/// let owner = Payment::parts_of(&payment.id)?.user;
/// assert_eq!(User::parts_of(&owner)?.name, "jane/doe");
///
/// // Those of one user, in the order of their ids; no index is needed but that of the `_id`.
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
    message = "no `_id` can be made of a `{Self}`",
    label = "not a part of an `_id`",
    note = "an `_id` is made of a `String`, an `i32`, `i64`, `u32` or `u64`, an `ObjectId`, a `Uuid`, or a `Ref` to a document with such an `_id`"
)]
pub trait IdPart: Sized {
    /// How many segments it is.
    #[doc(hidden)]
    const SEGMENTS: usize;

    /// Writes it; what it cannot be is the error.
    #[doc(hidden)]
    fn write(&self, to: &mut String) -> Result<()>;

    /// Reads what was written so. Whether it was is told by writing it again.
    #[doc(hidden)]
    fn read(text: &str) -> Option<Self>;
}

/// A value of one segment, which may be an `_id` by itself.
#[doc(hidden)]
pub trait OneSegment: Sized {
    /// As it is.
    fn text(&self) -> Cow<'_, str>;

    /// From what it is.
    fn of_text(text: &str) -> Option<Self>;
}

macro_rules! one_segment {
    ($($type:ty: $parse:expr;)*) => {$(
        impl OneSegment for $type {
            fn text(&self) -> Cow<'_, str> {
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

impl OneSegment for String {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
    fn of_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

#[diagnostic::do_not_recommend]
impl<T: OneSegment> IdPart for T {
    const SEGMENTS: usize = 1;
    fn write(&self, to: &mut String) -> Result<()> {
        let text = self.text();
        if text.is_empty() {
            let message = "the `_id` is made of this field, and it is empty: give it a text";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        escape(&text, to);
        Ok(())
    }
    fn read(text: &str) -> Option<Self> {
        Self::of_text(&unescape(text)?)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document<Id: OneSegment>> IdPart for Ref<T> {
    const SEGMENTS: usize = match T::ID_SEGMENTS {
        0 => 1,
        segments => segments,
    };
    fn write(&self, to: &mut String) -> Result<()> {
        if T::ID_SEGMENTS == 0 {
            return self.id().write(to);
        }
        // It has slashes of its own, and as many as its model says.
        T::check_id(self.id())?;
        to.push_str(&self.id().text());
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

/// What may stand for a part of an `_id`, a `T`: the value, or what obviously means it, such as a `&str` for a `String` or a document for a
/// `Ref` to it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no `{T}`, of which the `_id` is made",
    label = "expected a `{T}`",
    note = "give the value or a reference to it; a text may be a `&str`, a `Ref` the document or its `_id`"
)]
pub trait IntoIdPart<T> {
    /// The value.
    fn into_id_part(self) -> T;
}

#[diagnostic::do_not_recommend]
impl<T: Document, K: IntoKey<T>> IntoIdPart<Ref<T>> for K {
    fn into_id_part(self) -> Ref<T> {
        Ref::new(self)
    }
}

macro_rules! parts {
    ($($given:ty => $part:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoIdPart<$part> for $given {
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

/// A number that the framework gives: `{#number}`.
#[diagnostic::on_unimplemented(
    message = "the number in an `_id` is an integer, not a `{Self}`",
    label = "no type of numbers",
    note = "let it be an `i64`, an `i32`, a `u32` or a `u64`"
)]
#[doc(hidden)]
pub trait Number: Integer {
    /// That of a document which has none yet.
    const NONE: Self;

    /// This number, if there is room for it.
    fn of(number: i64) -> Option<Self>;
}

/// A number of digits: `{number:06}`.
#[diagnostic::on_unimplemented(
    message = "only an integer has digits, not a `{Self}`",
    label = "not an integer",
    note = "leave the `:0…` out"
)]
#[doc(hidden)]
pub trait Integer: IdPart + fmt::Display {}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Integer for $integer {}
        #[diagnostic::do_not_recommend]
        impl Number for $integer {
            const NONE: Self = 0;
            fn of(number: i64) -> Option<Self> {
                number.try_into().ok()
            }
        }
    )*};
}
integers!(i32 i64 u32 u64);

/// The documents of the model have the same beginning of their ids as others of the same `First`.
#[diagnostic::on_unimplemented(
    message = "the documents of `{Self}` are under nothing: no part of their ids has another one behind it",
    label = "has no `_id` that begins with something",
    note = "`under` is for ids that begin with a parent's, `#[document(id = \"{{user}}/account\")]`; others are found by `filter`"
)]
#[doc(hidden)]
pub trait IdPrefix<First>: Document {
    /// How the ids begin, with the slash.
    fn prefix(first: &First) -> Result<String>;
}

/// What comes behind all ids that begin so, up to a slash; nothing if every id does.
pub(crate) fn behind(prefix: &str) -> Option<String> {
    // `0` is the character behind the slash.
    Some(format!("{}0", prefix.strip_suffix('/')?))
}

/// An id as it is made; for derived code.
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

    /// A segment that is always the same.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.begin();
        self.text.push_str(text);
        self
    }

    /// A field, stored as `field`, by the function that writes it: that its type has none is said once of all its uses.
    pub fn part<T>(
        mut self,
        field: &'static str,
        value: &T,
        write: fn(&T, &mut String) -> Result<()>,
    ) -> Result<Self> {
        self.begin();
        write(value, &mut self.text).map_err(|error| {
            // That of a reference is about another model.
            match error.model() {
                None => error::of(self.model)(error.with_path(field)),
                Some(_) => error,
            }
        })?;
        Ok(self)
    }

    /// An integer, with zeros in front.
    pub fn padded<T: Integer>(
        mut self,
        field: &'static str,
        width: usize,
        value: &T,
    ) -> Result<Self> {
        self.begin();
        let text = value.to_string();
        if text.starts_with('-') || text.len() > width {
            let message = format!(
                "the `_id` has room for {width} digits of `{field}`, and this is {text}: with more, or below zero, the ids would not sort any \
                 more; give it room, `{{{field}:0{}}}`, where there are no documents yet",
                text.len().max(width + 1),
            );
            let error = Error::new(ErrorKind::Invalid, message).with_path(field);
            return Err(error::of(self.model)(error));
        }
        self.text.push_str(&format!("{text:0>width$}"));
        Ok(self)
    }

    fn begin(&mut self) {
        if !self.text.is_empty() {
            self.text.push('/');
        }
    }

    /// The id.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }

    /// What the ids of all documents with these parts begin with; nothing without any.
    #[must_use]
    pub fn prefix(mut self) -> String {
        self.begin();
        self.text
    }
}

/// An id as it is taken apart; for derived code.
#[doc(hidden)]
#[derive(Debug)]
pub struct IdReader<'i> {
    model: &'static Model,
    id: &'i str,
    /// What has not been read yet.
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

    /// A segment that is always the same; whether it is, is told in the end.
    pub fn text(&mut self, _: &str) {
        self.take(1);
    }

    /// A field of so many segments, by the function that reads it.
    pub fn part<T>(&mut self, segments: usize, read: fn(&str) -> Option<T>) -> Result<T> {
        let text = self.take(segments);
        text.and_then(read).ok_or_else(|| self.refuse())
    }

    /// It is right if it is what would be made of the parts that were read.
    pub fn finish(self, again: Result<String>) -> Result<()> {
        match again {
            Ok(again) if self.id == again => Ok(()),
            // What none can be made of is of no document.
            _ => Err(self.refuse()),
        }
    }

    fn take(&mut self, segments: usize) -> Option<&'i str> {
        let rest = self.rest?;
        let slash = rest.match_indices('/').nth(segments - 1);
        let (taken, rest) = match slash {
            Some((at, _)) => (rest.get(..at)?, rest.get(at + 1..)),
            None => (rest, None),
        };
        self.rest = rest;
        Some(taken)
    }

    fn refuse(&self) -> Error {
        let pattern = self.model.id.unwrap_or_default();
        let message = format!("this is no `_id` of the model, whose ids are made as `{pattern}`");
        error::of(self.model)(Error::new(ErrorKind::Invalid, message).with_id(self.id))
    }
}

/// A number that the framework has given, as the field holds it; for derived code.
#[doc(hidden)]
pub fn numbered<N>(
    model: &'static Model,
    field: &'static str,
    number: i64,
    held: Option<N>,
) -> Result<N> {
    held.ok_or_else(|| {
        let message =
            format!("there is no room for the number {number}: let the field be an `i64`");
        error::of(model)(Error::new(ErrorKind::Invalid, message).with_path(field))
    })
}

/// The slash parts segments, and `%` begins what is escaped.
fn escape(text: &str, to: &mut String) {
    for char in text.chars() {
        if matches!(char, '/' | '%') || char.is_control() {
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                to.push_str(&format!("%{byte:02X}"));
            }
        } else {
            to.push(char);
        }
    }
}

fn unescape(text: &str) -> Option<Cow<'_, str>> {
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
    fn texts_are_one_segment_and_come_back() {
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
            escape(text, &mut escaped);
            assert_eq!(escaped, written);
            assert_eq!(unescape(written).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_nobody_escapes_so_is_no_text() {
        for broken in ["%", "%2", "a%zz", "%ü", "%FF"] {
            assert_eq!(unescape(broken), None, "{broken}");
        }
    }
}

//! Reading documents of several models at once, by their ids.

use std::{pin::Pin, time::Duration, vec};

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use crate::{
    Result,
    access::Access,
    backend::operation::Find,
    batches::{HasId, id_batches},
    decode::decode_all,
    document::{Document, Ref},
    error,
    query::{by_id, document, encode},
    relation::{self, Links},
    schema::{Contains, Model},
};

/// Reads documents of several models by their ids, in one round trip; made by [`Session::load`](crate::Session::load).
#[must_use = "a read happens when it is awaited"]
pub struct Load<L> {
    access: Access,
    wanted: L,
}

impl<L: Parts> Load<L> {
    pub(crate) fn new(access: Access, wanted: L) -> Self {
        Self { access, wanted }
    }

    /// A time limit for the read: an error of kind [`Timeout`](crate::ErrorKind::Timeout) if it takes longer, see
    /// [`Find::max_time`](super::Find::max_time).
    pub fn max_time(self, limit: Duration) -> Self {
        let access = self.access.limited(limit);
        Self { access, ..self }
    }

    async fn run(self) -> Result<L::Loaded> {
        let mut asked = Vec::new();
        self.wanted.ask(&mut asked)?;
        let mut found: Vec<_> = asked.iter().map(|_| Vec::new()).collect();
        for several in round_trips(&asked)? {
            let (parts, finds): (Vec<_>, Vec<_>) = several.into_iter().unzip();
            for (part, documents) in parts
                .into_iter()
                .zip(self.access.find_several(finds).await?)
            {
                if let Some(found) = found.get_mut(part) {
                    found.extend(documents);
                }
            }
        }
        let found = asked.into_iter().zip(found);
        let found = found.map(|(asked, documents)| Found {
            ids: asked.ids,
            documents,
        });
        self.wanted.take(&mut found.collect::<Vec<_>>().into_iter())
    }
}

impl<L: Parts> IntoFuture for Load<L> {
    type Output = Result<L::Loaded>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// What can be loaded at once, through a session of `C` on the schema `S`: a tuple of up to eight parts.
///
/// | part | gives |
/// |---|---|
/// | a `Ref<User>` | the `User`; that it is not there is an error, as of [`get`](crate::Session::get) |
/// | an array, a `Vec` or a slice of `Ref<User>` | [`Links`] with one for each, in order and with what is missing told, as of [`get_many`](crate::Session::get_many) |
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be loaded",
    label = "no tuple of references",
    note = "several documents at once stand in a tuple, `db.load((Ref::<User>::new(\"users/1\"), Account::id_for(\"users/1\")?))`; one document is read by `get`, several of one model by `get_many`"
)]
pub trait Loads<S, C> {
    #[doc(hidden)]
    type Parts: Parts;
    #[doc(hidden)]
    fn into_parts(self) -> Self::Parts;
}

/// What a part of a [`Load`] can be: see [`Loads`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which documents to load",
    label = "neither a `Ref` nor an array of them",
    note = "a reference names the model with the id: `Ref::<User>::new(\"users/1\")`, `user.to_ref()`, `Account::id_for(\"users/1\")?`"
)]
pub trait Wanted<S, C> {
    #[doc(hidden)]
    type Part: Part;
    #[doc(hidden)]
    fn into_part(self) -> Self::Part;
}

impl<S: Contains<T, C>, C, T: Document> Wanted<S, C> for Ref<T> {
    type Part = Self;
    fn into_part(self) -> Self {
        self
    }
}

impl<S: Contains<T, C>, C, T: Document> Wanted<S, C> for &Ref<T> {
    type Part = Ref<T>;
    fn into_part(self) -> Ref<T> {
        self.clone()
    }
}

impl<S: Contains<T, C>, C, T: Document> Wanted<S, C> for Vec<Ref<T>> {
    type Part = Self;
    fn into_part(self) -> Self {
        self
    }
}

impl<S: Contains<T, C>, C, T: Document> Wanted<S, C> for &Vec<Ref<T>> {
    type Part = Vec<Ref<T>>;
    fn into_part(self) -> Vec<Ref<T>> {
        self.clone()
    }
}

impl<S: Contains<T, C>, C, T: Document> Wanted<S, C> for &[Ref<T>] {
    type Part = Vec<Ref<T>>;
    fn into_part(self) -> Vec<Ref<T>> {
        self.to_vec()
    }
}

impl<S: Contains<T, C>, C, T: Document, const N: usize> Wanted<S, C> for [Ref<T>; N] {
    type Part = Vec<Ref<T>>;
    fn into_part(self) -> Vec<Ref<T>> {
        self.into()
    }
}

/// The documents of one model that a [`Load`] is about.
#[doc(hidden)]
pub trait Part: Send + Sync + 'static {
    type Loaded: Send;
    fn ask(&self) -> Result<Asked>;
    fn take(self, found: Found) -> Result<Self::Loaded>;
}

impl<T: Document> Part for Ref<T> {
    type Loaded = T;
    fn ask(&self) -> Result<Asked> {
        Asked::new::<T>([self])
    }
    fn take(self, found: Found) -> Result<T> {
        let document = decode_all(found.documents).0.pop().transpose()?;
        document.ok_or_else(|| error::not_found::<T>(self.id()))
    }
}

impl<T: Document> Part for Vec<Ref<T>> {
    type Loaded = Links<T>;
    fn ask(&self) -> Result<Asked> {
        Asked::new(self)
    }
    fn take(self, found: Found) -> Result<Links<T>> {
        relation::found_by_ids(&found.ids, found.documents)
    }
}

/// All that a [`Load`] is about.
#[doc(hidden)]
pub trait Parts: Send + Sync + 'static {
    type Loaded: Send;
    fn ask(&self, asked: &mut Vec<Asked>) -> Result<()>;
    fn take(self, found: &mut vec::IntoIter<Found>) -> Result<Self::Loaded>;
}

macro_rules! tuples {
    ($($($part:ident)*;)*) => {$(
        impl<S, C, $($part: Wanted<S, C>),*> Loads<S, C> for ($($part,)*) {
            type Parts = ($($part::Part,)*);
            fn into_parts(self) -> Self::Parts {
                #[expect(non_snake_case, reason = "a value is called as its type")]
                let ($($part,)*) = self;
                ($($part.into_part(),)*)
            }
        }

        impl<$($part: Part),*> Parts for ($($part,)*) {
            type Loaded = ($($part::Loaded,)*);
            fn ask(&self, asked: &mut Vec<Asked>) -> Result<()> {
                #[expect(non_snake_case, reason = "a value is called as its type")]
                let ($($part,)*) = self;
                $(asked.push($part.ask()?);)*
                Ok(())
            }
            fn take(self, found: &mut vec::IntoIter<Found>) -> Result<Self::Loaded> {
                #[expect(non_snake_case, reason = "a value is called as its type")]
                let ($($part,)*) = self;
                Ok(($($part.take(found.next().unwrap_or_default())?,)*))
            }
        }
    )*};
}
tuples! {
    A1;
    A1 A2;
    A1 A2 A3;
    A1 A2 A3 A4;
    A1 A2 A3 A4 A5;
    A1 A2 A3 A4 A5 A6;
    A1 A2 A3 A4 A5 A6 A7;
    A1 A2 A3 A4 A5 A6 A7 A8;
}

/// The ids that are asked for, of one model.
#[doc(hidden)]
pub struct Asked {
    model: &'static Model,
    ids: Vec<RawBson>,
}

impl Asked {
    fn new<'r, T: Document>(references: impl IntoIterator<Item = &'r Ref<T>>) -> Result<Self> {
        let references = references.into_iter();
        let ids = references.map(|reference| encode(reference.id()));
        Ok(Self {
            model: &T::MODEL,
            ids: ids.collect::<Result<_>>().map_err(error::of_model::<T>)?,
        })
    }
}

/// What was found of them.
#[doc(hidden)]
#[derive(Default)]
pub struct Found {
    ids: Vec<RawBson>,
    documents: Vec<RawDocumentBuf>,
}

/// A query of a part, with its position.
type Query = (usize, (&'static Model, Find));

/// The queries, put together so that each round trip asks for as many ids as [one query may](id_batches): usually one.
fn round_trips(asked: &[Asked]) -> Result<Vec<Vec<Query>>> {
    let each = asked.iter().enumerate();
    let each = each.flat_map(|(part, asked)| asked.ids.iter().map(move |id| Wants { part, id }));
    let each: Vec<_> = each.collect();
    let mut trips = Vec::new();
    for trip in id_batches(&each, relation::MAX_KEYS) {
        let mut queries = Vec::new();
        for some in trip.chunk_by(|one, other| one.part == other.part) {
            let Some((part, asked)) = some
                .first()
                .and_then(|one| Some((one.part, asked.get(one.part)?)))
            else {
                continue;
            };
            let ids: Vec<_> = some.iter().map(|one| one.id).collect();
            let find = Find {
                collection: asked.model.collection.into(),
                filter: by_ids(&ids)?,
                projection: None,
                sort: None,
                limit: None,
                max_time: None,
            };
            queries.push((part, (asked.model, find)));
        }
        trips.push(queries);
    }
    Ok(trips)
}

/// An id that a part asks for.
struct Wants<'a> {
    part: usize,
    id: &'a RawBson,
}

impl HasId for Wants<'_> {
    fn id_bytes(&self) -> usize {
        self.id.id_bytes()
    }
}

fn by_ids(ids: &[&RawBson]) -> Result<RawDocumentBuf> {
    if let [id] = ids {
        return by_id(id);
    }
    let mut all = RawArrayBuf::new();
    for id in ids {
        all.push(id.as_raw_bson_ref());
    }
    document("_id", document("$in", all)?)
}

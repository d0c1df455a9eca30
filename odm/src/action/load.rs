//! Reads documents of several models by their ids, in one round trip.

use std::{pin::Pin, time::Duration, vec};

use bson::{RawBson, RawDocumentBuf};

use crate::{
    Result,
    backend::operation::FindOperation,
    error,
    language::query::{encode_value, id_filter},
    model::{
        decode::decode_all,
        document::{Document, Ref},
        ids::{HasId, id_batches, ids_filter},
    },
    relation::{self, Links},
    schema::{Contains, Model},
    session::access::Access,
};

/// A read of documents of several models by their ids, in one round trip; made by [`Session::load`](crate::Session::load).
#[must_use = "a read runs when awaited"]
pub struct Load<L> {
    access: Access,
    wanted: L,
}

impl<L: LoadParts> Load<L> {
    pub(crate) fn new(access: Access, parts: L) -> Self {
        Self {
            access,
            wanted: parts,
        }
    }

    /// Sets a time limit for the read, which fails with [`Timeout`](crate::ErrorKind::Timeout) after the limit: see
    /// [`Find::max_time`](super::Find::max_time).
    pub fn max_time(self, limit: Duration) -> Self {
        let access = self.access.with_time_limit(limit);
        Self { access, ..self }
    }

    async fn load_parts(self) -> Result<L::Loaded> {
        let mut requested = Vec::new();
        self.wanted.collect_requests(&mut requested)?;
        let mut results: Vec<_> = requested.iter().map(|_| Vec::new()).collect();
        for batch in group_round_trips(&requested)? {
            let (parts, finds): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            for (part, documents) in parts
                .into_iter()
                .zip(self.access.find_several(finds).await?)
            {
                if let Some(results) = results.get_mut(part) {
                    results.extend(documents);
                }
            }
        }
        let results = requested.into_iter().zip(results);
        let results = results.map(|(requested, documents)| FoundDocuments {
            ids: requested.ids,
            documents,
        });
        self.wanted
            .decode_parts(&mut results.collect::<Vec<_>>().into_iter())
    }
}

impl<L: LoadParts> IntoFuture for Load<L> {
    type Output = Result<L::Loaded>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.load_parts())
    }
}

/// A tuple of up to eight parts to load through a session with the scope `C` on the schema `S`.
///
/// | part | result |
/// |---|---|
/// | a `Ref<User>` | the `User`; a missing document is an error, as for [`get`](crate::Session::get) |
/// | an array, a `Vec` or a slice of `Ref<User>` | [`Links`] with a link for each reference, in order, missing documents included, as for [`get_many`](crate::Session::get_many) |
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be loaded",
    label = "expected a tuple of references",
    note = "`load` takes a tuple, `db.load((Ref::<User>::new(\"users/1\"), Account::id_for(\"users/1\")?))`; use `get` for a single document, and `get_many` for several documents of a model"
)]
pub trait LoadTuple<S, C> {
    #[doc(hidden)]
    type Parts: LoadParts;
    #[doc(hidden)]
    fn into_parts(self) -> Self::Parts;
}

/// One part of a [`Load`]: see [`LoadTuple`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which documents to load",
    label = "expected a `Ref`, or an array of `Ref`",
    note = "a reference contains the model and the id: `Ref::<User>::new(\"users/1\")`, `user.to_ref()`, `Account::id_for(\"users/1\")?`"
)]
pub trait LoadTarget<S, C> {
    #[doc(hidden)]
    type Part: LoadPart;
    #[doc(hidden)]
    fn into_part(self) -> Self::Part;
}

impl<S: Contains<T, C>, C, T: Document> LoadTarget<S, C> for Ref<T> {
    type Part = Self;
    fn into_part(self) -> Self {
        self
    }
}

impl<S: Contains<T, C>, C, T: Document> LoadTarget<S, C> for &Ref<T> {
    type Part = Ref<T>;
    fn into_part(self) -> Ref<T> {
        self.clone()
    }
}

impl<S: Contains<T, C>, C, T: Document> LoadTarget<S, C> for Vec<Ref<T>> {
    type Part = Self;
    fn into_part(self) -> Self {
        self
    }
}

impl<S: Contains<T, C>, C, T: Document> LoadTarget<S, C> for &Vec<Ref<T>> {
    type Part = Vec<Ref<T>>;
    fn into_part(self) -> Vec<Ref<T>> {
        self.clone()
    }
}

impl<S: Contains<T, C>, C, T: Document> LoadTarget<S, C> for &[Ref<T>] {
    type Part = Vec<Ref<T>>;
    fn into_part(self) -> Vec<Ref<T>> {
        self.to_vec()
    }
}

impl<S: Contains<T, C>, C, T: Document, const N: usize> LoadTarget<S, C> for [Ref<T>; N] {
    type Part = Vec<Ref<T>>;
    fn into_part(self) -> Vec<Ref<T>> {
        self.into()
    }
}

/// A part of a [`Load`]: documents of one model.
#[doc(hidden)]
pub trait LoadPart: Send + Sync + 'static {
    type Loaded: Send;
    fn requested_ids(&self) -> Result<RequestedIds>;
    fn decode_found(self, results: FoundDocuments) -> Result<Self::Loaded>;
}

impl<T: Document> LoadPart for Ref<T> {
    type Loaded = T;
    fn requested_ids(&self) -> Result<RequestedIds> {
        RequestedIds::new::<T>([self])
    }
    fn decode_found(self, results: FoundDocuments) -> Result<T> {
        let document = decode_all(results.documents).0.pop().transpose()?;
        document.ok_or_else(|| error::not_found::<T>(self.id()))
    }
}

impl<T: Document> LoadPart for Vec<Ref<T>> {
    type Loaded = Links<T>;
    fn requested_ids(&self) -> Result<RequestedIds> {
        RequestedIds::new(self)
    }
    fn decode_found(self, results: FoundDocuments) -> Result<Links<T>> {
        relation::links_of_found(&results.ids, results.documents)
    }
}

/// All parts of a [`Load`].
#[doc(hidden)]
pub trait LoadParts: Send + Sync + 'static {
    type Loaded: Send;
    fn collect_requests(&self, requested: &mut Vec<RequestedIds>) -> Result<()>;
    fn decode_parts(self, results: &mut vec::IntoIter<FoundDocuments>) -> Result<Self::Loaded>;
}

macro_rules! tuples {
    ($($($part:ident)*;)*) => {$(
        impl<S, C, $($part: LoadTarget<S, C>),*> LoadTuple<S, C> for ($($part,)*) {
            type Parts = ($($part::Part,)*);
            fn into_parts(self) -> Self::Parts {
                #[expect(non_snake_case, reason = "a value is called as its type")]
                let ($($part,)*) = self;
                ($($part.into_part(),)*)
            }
        }

        impl<$($part: LoadPart),*> LoadParts for ($($part,)*) {
            type Loaded = ($($part::Loaded,)*);
            fn collect_requests(&self, requested: &mut Vec<RequestedIds>) -> Result<()> {
                #[expect(non_snake_case, reason = "a value is called as its type")]
                let ($($part,)*) = self;
                $(requested.push($part.requested_ids()?);)*
                Ok(())
            }
            fn decode_parts(self, found: &mut vec::IntoIter<FoundDocuments>) -> Result<Self::Loaded> {
                #[expect(non_snake_case, reason = "a value is called as its type")]
                let ($($part,)*) = self;
                Ok(($($part.decode_found(found.next().unwrap_or_default())?,)*))
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

/// The ids that a part requests, with their model.
#[doc(hidden)]
pub struct RequestedIds {
    model: &'static Model,
    ids: Vec<RawBson>,
}

impl RequestedIds {
    fn new<'r, T: Document>(references: impl IntoIterator<Item = &'r Ref<T>>) -> Result<Self> {
        let references = references.into_iter();
        let ids = references.map(|reference| encode_value(reference.id()));
        Ok(Self {
            model: &T::MODEL,
            ids: ids.collect::<Result<_>>().map_err(error::of_model::<T>)?,
        })
    }
}

/// The documents that a query found for the requested ids.
#[doc(hidden)]
#[derive(Default)]
pub struct FoundDocuments {
    ids: Vec<RawBson>,
    documents: Vec<RawDocumentBuf>,
}

/// The query of a part, with the position of the part.
type PartQuery = (usize, (&'static Model, FindOperation));

/// Groups the requested ids into round trips of as many ids as [one query holds](id_batches): usually a single round trip.
fn group_round_trips(requested: &[RequestedIds]) -> Result<Vec<Vec<PartQuery>>> {
    let requests = requested.iter().enumerate();
    let requests = requests
        .flat_map(|(part, requested)| requested.ids.iter().map(move |id| RequestedId { part, id }));
    let requests: Vec<_> = requests.collect();
    let mut trips = Vec::new();
    for batch in id_batches(&requests, relation::MAX_IDS_PER_QUERY) {
        let mut queries = Vec::new();
        for group in batch.chunk_by(|request, next| request.part == next.part) {
            let Some((part, requested)) = group
                .first()
                .and_then(|request| Some((request.part, requested.get(request.part)?)))
            else {
                continue;
            };
            let ids: Vec<_> = group.iter().map(|request| request.id).collect();
            let find = FindOperation {
                collection: requested.model.collection.into(),
                filter: filter_for_ids(&ids),
                projection: None,
                sort: None,
                limit: None,
                options: Default::default(),
            };
            queries.push((part, (requested.model, find)));
        }
        trips.push(queries);
    }
    Ok(trips)
}

/// A requested id, with the position of its part.
struct RequestedId<'a> {
    part: usize,
    id: &'a RawBson,
}

impl HasId for RequestedId<'_> {
    fn id_bytes(&self) -> usize {
        self.id.id_bytes()
    }
}

/// Returns the condition that a document has one of these ids: a single id is compared for equality.
fn filter_for_ids(ids: &[&RawBson]) -> RawDocumentBuf {
    match ids {
        [id] => id_filter(id),
        ids => ids_filter(ids.iter().copied()),
    }
}

//! How joins are carried out: one query for each relation and level, whatever the number of documents.

mod outlier;

use std::{collections::HashMap, sync::Arc};

use bson::{Bson, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    edge::Edge,
    join::{Gather, Joins, Parents, Reference},
    link::{Item, Link, Links},
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, also},
    backend::operation::{Find, FindEach},
    batches::id_batches,
    decode::{self, decode_all},
    document::Document,
    error,
    projection::{self, Projection},
    query::{document, encode},
};

/// How many ids one query asks for at most, if they are short: see [`id_batches`].
pub(crate) const MAX_KEYS: usize = 10_000;

/// Loads what the references of each parent lead to, every document once, and gives it to the parents in the order of their
/// references or, if the edge has one, in its own.
pub(super) async fn targets<P, R, J>(
    access: Access,
    parents: Parents,
    edge: Edge,
    joins: J,
) -> Result<Vec<Result<P::Out<J::Item>>>>
where
    P: Reference,
    R: Projection<Of = P::Target>,
    J: Joins<R, Item: Item<Of = P::Target>>,
{
    let outside = match P::overflows_in() {
        Some(model) => outlier::references::<P::Target>(&access, model, &parents, &edge).await?,
        None => HashMap::new(),
    };
    let mut ids = Ids::default();
    let mut references: Vec<Option<Vec<To<'_>>>> = parents
        .iter()
        .enumerate()
        .map(|(position, parent)| {
            let found = match outside.get(&position) {
                Some(all) => all.iter().map(RawBson::as_raw_bson_ref).collect(),
                None => edge.way.references(parent)?,
            };
            Some(ids.place_all(found))
        })
        .collect();
    let leaves_out = !edge.filter.is_empty() || edge.limit.is_some();
    let leaves_out = leaves_out && <P::Out<J::Item> as Gather<J::Item>>::IS_MANY;
    let asked = Asked {
        filter: edge.filter,
        sort: edge.sort,
    };
    let is_sorted = asked.sort.is_some();
    let targets = Targets::load::<R, J>(access, ids, asked, joins).await?;
    Ok(references
        .iter_mut()
        .zip(parents.iter())
        .map(|(references, parent)| {
            let no_reference = || no_reference(parent, edge.way.dotted());
            let Some(references) = references else {
                return P::Out::gather(Vec::new()).ok_or_else(no_reference);
            };
            if P::IS_REQUIRED && references.is_empty() {
                return Err(no_reference());
            }
            if leaves_out {
                references.retain(|reference| targets.rank(reference).is_some());
            }
            if is_sorted {
                references.sort_by_key(|reference| targets.rank(reference).unwrap_or(usize::MAX));
            }
            references.truncate(edge.limit.unwrap_or(usize::MAX));
            P::Out::gather(targets.links(references)?).ok_or_else(no_reference)
        })
        .collect())
}

/// Loads documents by their ids, in the order of the ids.
pub(crate) async fn by_ids<T: Document>(access: Access, ids: &[T::Id]) -> Result<Links<T>> {
    let raw = ids.iter().map(encode).collect::<Result<Vec<_>>>()?;
    let mut ids = Ids::default();
    let wanted = ids.place_all(raw.iter().map(RawBson::as_raw_bson_ref));
    let targets = Targets::load::<T, ()>(access, ids, Asked::default(), ()).await?;
    Ok(targets.links(&wanted)?.into_iter().collect())
}

/// What was found of the documents with these ids, in the order of the ids.
pub(crate) fn found_by_ids<T: Document>(
    raw: &[RawBson],
    found: Vec<RawDocumentBuf>,
) -> Result<Links<T>> {
    let (items, found) = decode_all::<T>(found);
    let mut ids = Ids::default();
    let wanted = ids.place_all(raw.iter().map(RawBson::as_raw_bson_ref));
    let targets = Targets::new(&ids.places, &found, items);
    Ok(targets.links(&wanted)?.into_iter().collect())
}

/// Ids as they are referred to, which lead to documents: each has a place, that of all ids which are the same one.
#[derive(Default)]
struct Ids<'r> {
    places: HashMap<Key<'r>, usize>,
    /// One for each place.
    each: Vec<RawBsonRef<'r>>,
}

/// A reference to the document of a place.
#[derive(Clone, Copy)]
struct To<'r> {
    id: RawBsonRef<'r>,
    place: usize,
}

impl<'r> Ids<'r> {
    fn place_all(&mut self, ids: impl IntoIterator<Item = RawBsonRef<'r>>) -> Vec<To<'r>> {
        ids.into_iter().map(|id| self.place(id)).collect()
    }

    fn place(&mut self, id: RawBsonRef<'r>) -> To<'r> {
        let place = *self.places.entry(Key::of(id)).or_insert_with(|| {
            self.each.push(id);
            self.each.len() - 1
        });
        To { id, place }
    }
}

/// What is asked of the documents that references lead to.
#[derive(Default)]
struct Asked {
    filter: RawDocumentBuf,
    sort: Option<RawDocumentBuf>,
}

/// The documents that a set of references leads to, each loaded once, by its place: none where it was not found.
struct Targets<X>(Vec<Option<Target<X>>>);

struct Target<X> {
    /// Its place in the order of the query.
    rank: usize,
    item: Result<Arc<X>>,
}

impl<X: Item> Targets<X> {
    async fn load<R, J>(access: Access, ids: Ids<'_>, asked: Asked, joins: J) -> Result<Self>
    where
        R: Projection<Of = X::Of>,
        J: Joins<R, Item = X>,
    {
        let batches: Vec<_> = id_batches(&ids.each, MAX_KEYS).collect();
        if asked.sort.is_some() && batches.len() > 1 {
            let message = format!(
                "a join in an order is one query, for {MAX_KEYS} documents and 6 MB of ids at most, and these are {} documents: leave \
                 its `sort` out, or read fewer at once, by `stream` or `page`",
                ids.each.len()
            );
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error::of_model::<X::Of>(error));
        }
        let mut needs = joins.needs()?;
        needs.push("_id".to_owned());
        let projection = projection::to_raw::<R>(&needs)?;
        let mut found = Vec::new();
        for some in batches {
            let mut keys = RawArrayBuf::new();
            for id in some {
                keys.push(*id);
            }
            let mut filter = asked.filter.clone();
            also(&mut filter, "_id", document("$in", keys)?)?;
            let find = Find {
                collection: X::Of::COLLECTION.into(),
                filter,
                projection: projection.clone(),
                sort: asked.sort.clone(),
                limit: None,
                max_time: None,
            };
            found.extend(access.find_all(&X::Of::MODEL, find).await?);
        }
        let (roots, found) = decode_all::<R>(found);
        let items = joins.load(access, Arc::clone(&found), roots).await?;
        Ok(Self::new(&ids.places, &found, items))
    }

    /// Puts what was found in its place.
    fn new(
        places: &HashMap<Key<'_>, usize>,
        found: &[RawDocumentBuf],
        items: Vec<Result<X>>,
    ) -> Self {
        let mut targets: Vec<Option<Target<X>>> = Vec::new();
        targets.resize_with(places.len(), || None);
        for (rank, (raw, item)) in found.iter().zip(items).enumerate() {
            let place = decode::id(raw).and_then(|id| places.get(&Key::of(id)));
            if let Some(target) = place.and_then(|place| targets.get_mut(*place)) {
                let item = item.map(Arc::new);
                *target = Some(Target { rank, item });
            }
        }
        Self(targets)
    }

    fn get(&self, reference: &To<'_>) -> Option<&Target<X>> {
        self.0.get(reference.place)?.as_ref()
    }

    /// The place in the order of the query, if the document was found.
    fn rank(&self, reference: &To<'_>) -> Option<usize> {
        self.get(reference).map(|target| target.rank)
    }

    fn links(&self, references: &[To<'_>]) -> Result<Vec<Link<X>>> {
        let mut links = Vec::with_capacity(references.len());
        for reference in references {
            links.push(match self.get(reference) {
                Some(target) => target.item.clone().map(Link::loaded_from),
                None => decode::value(&RawBson::from(reference.id)).map(Link::missing),
            }?);
        }
        Ok(links)
    }
}

/// What is asked of the children of each parent.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) path: String,
    pub(super) filter: RawDocumentBuf,
    pub(super) sort: Option<RawDocumentBuf>,
    pub(super) limit: Option<u64>,
}

/// Loads the documents that refer to each of the parents.
pub(super) async fn children<R, J>(
    access: Access,
    parents: Parents,
    ask: Ask,
    joins: J,
) -> Result<Vec<Result<Vec<J::Item>>>>
where
    R: Projection<Of: Document>,
    J: Joins<R>,
{
    let keys = parents
        .iter()
        .map(|parent| decode::id(parent).map(RawBson::from))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::new(ErrorKind::Decode, "a document came back without its `_id`"))?;

    let projection = projection::to_raw::<R>(&joins.needs()?)?;
    let mut owners = Vec::new();
    let mut found = Vec::new();
    let mut before = 0;
    for some in id_batches(&keys, MAX_KEYS) {
        let each = FindEach {
            collection: R::Of::COLLECTION.into(),
            path: ask.path.clone(),
            keys: some.to_vec(),
            filter: ask.filter.clone(),
            projection: projection.clone(),
            sort: ask.sort.clone(),
            limit: ask.limit,
            max_time: None,
        };
        for row in access.find_each(&R::Of::MODEL, each).await? {
            let (owner, child) = row_of(&row).ok_or_else(short)?;
            owners.push(before + owner);
            found.push(child);
        }
        before += some.len();
    }
    let (children, found) = decode_all::<R>(found);
    let items = joins.load(access, found, children).await?;

    let mut each: Vec<Result<Vec<J::Item>>> = Vec::new();
    each.resize_with(keys.len(), || Ok(Vec::new()));
    for (owner, item) in owners.into_iter().zip(items) {
        let slot = each.get_mut(owner).ok_or_else(short)?;
        match (slot, item) {
            (Ok(items), Ok(item)) => items.push(item),
            (slot, Err(error)) => *slot = Err(error),
            (Err(_), Ok(_)) => {}
        }
    }
    Ok(each)
}

fn row_of(row: &RawDocument) -> Option<(usize, RawDocumentBuf)> {
    let owner = row.get_i32("key").ok()?;
    let child = row.get_document("document").ok()?;
    Some((usize::try_from(owner).ok()?, child.to_owned()))
}

/// The backend broke its contract.
pub(super) fn short() -> Error {
    Error::new(
        ErrorKind::Backend,
        "the backend's answer does not fit the question",
    )
}

fn no_reference(parent: &RawDocument, path: &str) -> Error {
    let error = Error::new(
        ErrorKind::Decode,
        "the document has no reference where its model has one: repair the document, or make the reference optional",
    )
    .with_path(path);
    match decode::id(parent).and_then(|id| Bson::try_from(id).ok()) {
        Some(id) => error.with_id(id),
        None => error,
    }
}

/// An id for comparing: integers of either width are one number, as they are to the server.
#[derive(PartialEq, Eq, Hash)]
enum Key<'r> {
    Integer(i64),
    Text(&'r str),
    ObjectId(ObjectId),
    Other(Vec<u8>),
}

impl<'r> Key<'r> {
    fn of(value: RawBsonRef<'r>) -> Self {
        match value {
            RawBsonRef::Int32(number) => Self::Integer(number.into()),
            RawBsonRef::Int64(number) => Self::Integer(number),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::float_cmp,
                reason = "taken only where the way there and back gives the same number"
            )]
            RawBsonRef::Double(number) if number as i64 as f64 == number => {
                Self::Integer(number as i64)
            }
            RawBsonRef::String(text) => Self::Text(text),
            RawBsonRef::ObjectId(id) => Self::ObjectId(id),
            other => {
                let mut bytes = RawDocumentBuf::new();
                bytes.append(bson::raw::cstr!(""), other);
                Self::Other(bytes.into_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_either_width_are_one_id() {
        assert!(Key::of(RawBsonRef::Int32(5)) == Key::of(RawBsonRef::Int64(5)));
        assert!(Key::of(RawBsonRef::Double(5.0)) == Key::of(RawBsonRef::Int64(5)));
        assert!(Key::of(RawBsonRef::String("5")) != Key::of(RawBsonRef::Int64(5)));
    }
}

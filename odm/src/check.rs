//! Whether what is stored is as the schema says: [`Session::check`](crate::Session::check).

mod blocked;
mod computed;
pub(crate) mod declared;
mod derived;
mod finding;
mod link;
mod overflow;
mod repair;
mod token;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    marker::PhantomData,
    pin::Pin,
};

use bson::{Bson, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

pub use declared::Backfill;
pub use finding::{CheckReport, Fault, Finding};
pub use repair::{Remedy, Repair, RepairOutcome, RepairReport, RepairStep, Repairs};
pub use token::{CheckToken, IntoCheckToken};

use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    backend::{Cursor, operation::Find},
    batches::id_batches,
    decode,
    document::Document,
    error,
    field::{Referring, Variants},
    query::{append, document},
    schema::{Contains, Model, OnDelete, Schema, upgrade},
    scope::AllScopes,
};

/// How many ids are looked up by one query at most.
const MAX_KEYS: usize = 10_000;

/// Looks at every document of the models; made by [`Session::check`](crate::Session::check).
///
/// It finds documents that do not fit their model, arrays beyond their `max`, references to documents that are not there (but for those
/// with `on_delete = keep`), links of which one side does not know, copies that are not as what they were taken from, counts, sums and
/// latest that are not what the documents that refer to theirs make of them, computed fields that are not what they are computed
/// to be, and elements of arrays that overflow which are not where their documents say.
/// Documents of all scopes are looked at, and those that are deleted by a mark, which count as being there.
///
/// It only reads, and may run while the application writes: whatever looks wrong is looked at again, so that a link that is taken
/// away meanwhile is no finding. It reads each collection once, in the order of the ids, and asks for each batch and each model that
/// is referred to once; in memory there is one batch.
#[must_use = "nothing is checked until it is awaited or streamed"]
pub struct Check<S> {
    access: Access,
    models: Vec<ModelCheck>,
    after: Option<CheckToken>,
    of: PhantomData<fn() -> S>,
}

impl<S: Schema> Check<S> {
    pub(crate) fn new(access: &Access) -> Self {
        Self::of_operation(access, "check")
    }

    fn of_operation(access: &Access, name: &'static str) -> Self {
        Self {
            access: access.operation(name, None).to_everything(),
            models: S::checks(),
            after: None,
            of: PhantomData,
        }
    }

    /// Only the documents of this model.
    pub fn only<T: Document>(mut self) -> Self
    where
        S: Contains<T, AllScopes>,
    {
        self.models
            .retain(|check| check.model.collection == T::COLLECTION);
        self
    }

    /// Goes on behind the documents that were checked before this [token](Findings::token) was taken. With `None` it begins.
    ///
    /// It fails with [`Invalid`](ErrorKind::Invalid) if the schema has no such collection.
    pub fn after(mut self, token: impl IntoCheckToken) -> Self {
        self.after = token.into_check_token();
        self
    }

    /// The findings, one after the other, as they are found.
    pub fn stream(self) -> Findings {
        Findings {
            access: self.access,
            models: self.models.into(),
            resume: self.after,
            open: None,
            batch: Vec::new(),
            ready: VecDeque::new(),
            before: None,
            documents: 0,
            references: 0,
        }
    }
}

/// All findings.
impl<S: Schema> IntoFuture for Check<S> {
    type Output = Result<CheckReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let mut found = self.stream();
        Box::pin(async move {
            let mut findings = Vec::new();
            while let Some(finding) = found.next().await {
                findings.push(finding?);
            }
            Ok(CheckReport {
                documents: found.documents,
                references: found.references,
                findings,
            })
        })
    }
}

/// How the documents of a model are checked; derived with a schema.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct ModelCheck {
    model: &'static Model,
    look: fn(&RawDocument) -> Result<Vec<Referring>>,
}

impl ModelCheck {
    #[must_use]
    pub fn of<T: Document>() -> Self {
        Self {
            model: &T::MODEL,
            look: look::<T>,
        }
    }
}

/// The references of a document that fits its model.
fn look<T: Document>(raw: &RawDocument) -> Result<Vec<Referring>> {
    let current = upgrade::current(&T::MODEL, raw)?;
    let document = T::from_stored(&current)?;
    document.check_bounds()?;
    Ok(Variants::references(&document))
}

/// What a [`Check`] finds, one after the other.
#[must_use = "nothing is checked until `next` is called"]
pub struct Findings {
    access: Access,
    models: VecDeque<ModelCheck>,
    /// Where to begin.
    resume: Option<CheckToken>,
    open: Option<Open>,
    /// The documents that were read last.
    batch: Vec<CheckToken>,
    /// What was found in them, in their order: each with the position of its document.
    ready: VecDeque<(usize, Finding)>,
    /// Behind the documents before them.
    before: Option<CheckToken>,
    documents: u64,
    references: u64,
}

/// The collection that is being read.
struct Open {
    check: ModelCheck,
    cursor: Box<dyn Cursor>,
    /// What was read and not looked at yet.
    batch: Vec<RawDocumentBuf>,
}

/// A reference in a document.
struct Candidate {
    /// Where the document is in its batch.
    document: usize,
    referring: Referring,
}

impl Findings {
    /// The next finding; none when everything has been looked at.
    ///
    /// # Errors
    ///
    /// Those of the backend, behind which it does not go on: begin again with [`Check::after`] the [token](Self::token).
    pub async fn next(&mut self) -> Option<Result<Finding>> {
        loop {
            if let Some((_, finding)) = self.ready.pop_front() {
                return Some(Ok(finding));
            }
            match self.read_on().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.models.clear();
                    (self.open, self.resume) = (None, None);
                    return Some(Err(error));
                }
            }
        }
    }

    /// Where this is, for [`Check::after`], in another process too: behind the last document of which all findings have been
    /// given. None before the first.
    #[must_use]
    pub fn token(&self) -> Option<&CheckToken> {
        let looked_at = match self.ready.front() {
            Some((position, _)) => self.batch.get(..*position).unwrap_or_default(),
            None => &self.batch,
        };
        looked_at.last().or(self.before.as_ref())
    }

    /// How many documents have been looked at.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Reads a batch, or opens the next collection; false behind the last one.
    async fn read_on(&mut self) -> Result<bool> {
        let Some(open) = &mut self.open else {
            return self.open_next().await;
        };
        let check = open.check;
        if open.batch.is_empty() {
            let batch = open.cursor.next_batch().await;
            open.batch = batch.map_err(error::of(check.model))?;
        }
        if open.batch.is_empty() {
            // They are told behind the documents before them, whose findings have been given.
            let orphans = overflow::orphans(&self.access, check.model).await?;
            self.open = None;
            let behind = self.batch.len();
            self.ready = orphans.into_iter().map(|orphan| (behind, orphan)).collect();
            return Ok(true);
        }
        let (references, mut found) = look_at(&self.access, check, &open.batch).await?;
        found.extend(link::look_at(&self.access, check.model, &open.batch).await?);
        found.extend(derived::look_at(&self.access, check.model, &open.batch).await?);
        found.extend(blocked::look_at(&self.access, check.model, &open.batch)?);
        found.extend(computed::look_at(check.model, &open.batch)?);
        found.extend(overflow::look_at(&self.access, check.model, &open.batch).await?);
        found.sort_by_key(|(position, _)| *position);
        let tokens = open
            .batch
            .iter()
            .map(|raw| CheckToken::new(check.model, raw));
        let tokens = tokens.collect::<Result<Vec<_>>>()?;
        // From here on nothing is waited for: who gives up before begins with this batch again.
        open.batch.clear();
        self.documents += tokens.len() as u64;
        self.references += references;
        self.ready = found.into();
        if let Some(last) = std::mem::replace(&mut self.batch, tokens).pop() {
            self.before = Some(last);
        }
        Ok(true)
    }

    async fn open_next(&mut self) -> Result<bool> {
        if let Some(token) = &self.resume {
            let Some(at) = self
                .models
                .iter()
                .position(|check| token.is_of(check.model))
            else {
                let message = "the token is of a collection that is not checked here";
                return Err(Error::new(ErrorKind::Invalid, message));
            };
            self.models.drain(..at);
        }
        let Some(check) = self.models.front() else {
            return Ok(false);
        };
        let open = open(&self.access, *check, self.resume.as_ref()).await?;
        self.open = Some(open);
        self.models.pop_front();
        self.before = self.before.take().or(self.resume.take());
        Ok(true)
    }
}

/// How many references there are in some documents, and what is wrong with these, each with the position of its document.
async fn look_at(
    access: &Access,
    check: ModelCheck,
    batch: &[RawDocumentBuf],
) -> Result<(u64, Vec<(usize, Finding)>)> {
    let (mut candidates, mut found) = (Vec::new(), Vec::new());
    let mut count = 0;
    for (position, raw) in batch.iter().enumerate() {
        match references(access, check, raw).await? {
            Err(error) => {
                let finding = Finding::of_error(check.model, raw, error);
                found.push((position, finding));
            }
            Ok(references) => {
                count += references.len() as u64;
                let references = references.into_iter();
                let references = references.filter(|own| must_lead(check.model, raw, own));
                candidates.extend(references.map(|referring| Candidate {
                    document: position,
                    referring,
                }));
            }
        }
    }
    let candidates = missing(access, candidates).await?;
    if candidates.is_empty() {
        return Ok((count, found));
    }
    // Somebody may have taken the reference away, or put the document there: only what is so still is a fault.
    let mut asked: HashMap<Key, (usize, HashSet<(String, Key)>)> = HashMap::new();
    for Candidate {
        document,
        referring,
    } in candidates
    {
        let Some(id) = decode::id(&batch[document]) else {
            continue;
        };
        let place = (referring.path, key(referring.id.as_raw_bson_ref()));
        let (_, places) = asked
            .entry(key(id))
            .or_insert_with(|| (document, HashSet::new()));
        places.insert(place);
    }
    let ids = asked.values().map(|(document, _)| &batch[*document]);
    let ids: Vec<_> = ids.filter_map(|raw| decode::id(raw)).collect();
    let mut again = Vec::new();
    for now in by_ids(access, check.model, &ids, None).await? {
        let places = decode::id(&now).and_then(|id| asked.get(&key(id)));
        let Some((document, places)) = places else {
            continue;
        };
        let references = references(access, check, &now).await?;
        let references = references.unwrap_or_default().into_iter();
        let still = references.filter(|referring| {
            let place = (referring.path.clone(), key(referring.id.as_raw_bson_ref()));
            places.contains(&place) && must_lead(check.model, &now, referring)
        });
        again.extend(still.map(|referring| Candidate {
            document: *document,
            referring,
        }));
    }
    for candidate in missing(access, again).await? {
        let raw = &batch[candidate.document];
        let finding = Finding::dangling(check.model, raw, candidate.referring);
        found.push((candidate.document, finding));
    }
    Ok((count, found))
}

/// The references of a document, those too that are outside of it; an error if it cannot be read as its model says.
async fn references(
    access: &Access,
    check: ModelCheck,
    raw: &RawDocument,
) -> Result<Result<Vec<Referring>>> {
    let mut found = match (check.look)(raw) {
        Ok(found) => found,
        wrong => return Ok(wrong),
    };
    for field in check.model.overflows {
        let Some(mut parts) = overflow::Parts::open(access, check.model, field, raw).await? else {
            continue;
        };
        loop {
            let mut outside = Vec::new();
            while let Some((first, part)) = parts.next().await? {
                let more = match (check.look)(&part) {
                    Ok(more) => more,
                    wrong => return Ok(wrong),
                };
                outside.extend(more.into_iter().filter_map(|mut one| {
                    one.path = in_array(&one.path, field.stored, first)?;
                    Some(one)
                }));
            }
            if !parts.begin_anew().await? {
                found.append(&mut outside);
                break;
            }
        }
    }
    Ok(Ok(found))
}

/// A path into a part of an array, as one into the array, of which the part begins with this element; none if it leads elsewhere.
fn in_array(path: &str, array: &str, first: usize) -> Option<String> {
    let element = path.strip_prefix(array)?.strip_prefix('.')?;
    let (position, behind) = element.split_at(element.find('.').unwrap_or(element.len()));
    let position: usize = position.parse().ok()?;
    Some(format!("{array}.{}{behind}", first + position))
}

/// Whether a reference must lead to a document. One with `keep` need not, and a write to a document that is not
/// finished sees to what that refers to.
fn must_lead(model: &Model, raw: &RawDocument, referring: &Referring) -> bool {
    let mut links = model.links().iter();
    let link = links.find(|link| link.side.is_at(&referring.path));
    link.is_none_or(|link| link.on_delete != OnDelete::Keep && !link::is_unfinished(raw))
}

/// Those that lead nowhere.
async fn missing(access: &Access, candidates: Vec<Candidate>) -> Result<Vec<Candidate>> {
    let mut targets: HashMap<&str, (&Model, HashMap<Key, RawBson>)> = HashMap::new();
    for Candidate { referring, .. } in &candidates {
        let (_, ids) = targets
            .entry(referring.to.collection)
            .or_insert_with(|| (referring.to, HashMap::new()));
        ids.insert(key(referring.id.as_raw_bson_ref()), referring.id.clone());
    }
    let mut there: HashMap<&str, HashSet<Key>> = HashMap::new();
    for (collection, (model, ids)) in targets {
        let ids: Vec<_> = ids.values().map(RawBson::as_raw_bson_ref).collect();
        let found = by_ids(access, model, &ids, Some(document("_id", 1)?)).await?;
        let keys = found.iter().filter_map(|raw| decode::id(raw)).map(key);
        there.insert(collection, keys.collect());
    }
    Ok(candidates
        .into_iter()
        .filter(|Candidate { referring, .. }| {
            let there = there.get(referring.to.collection);
            !there.is_some_and(|there| there.contains(&key(referring.id.as_raw_bson_ref())))
        })
        .collect())
}

async fn by_ids(
    access: &Access,
    model: &Model,
    ids: &[RawBsonRef<'_>],
    projection: Option<RawDocumentBuf>,
) -> Result<Vec<RawDocumentBuf>> {
    let mut found = Vec::new();
    for some in id_batches(ids, MAX_KEYS) {
        let mut keys = RawArrayBuf::new();
        for id in some {
            keys.push(*id);
        }
        let filter = document("_id", document("$in", keys)?)?;
        let find = Find {
            projection: projection.clone(),
            ..found_by(&model.collection.into(), &filter)
        };
        found.extend(access.find_all(model, find).await?);
    }
    Ok(found)
}

async fn open(access: &Access, check: ModelCheck, after: Option<&CheckToken>) -> Result<Open> {
    let mut filter = RawDocumentBuf::new();
    if let Some(token) = after {
        // As an expression it compares values of all types, whatever ids there are.
        let mut sides = RawArrayBuf::new();
        sides.push("$_id");
        sides.push(document("$literal", token.id().clone())?);
        append(&mut filter, "$expr", document("$gt", sides)?)?;
    }
    let find = Find {
        sort: Some(document("_id", 1)?),
        ..found_by(&check.model.collection.into(), &filter)
    };
    let cursor = access.find(check.model, find).await?;
    Ok(Open {
        check,
        cursor,
        batch: Vec::new(),
    })
}

/// An id for comparing: numbers of any width are one, as they are to the server.
type Key = Vec<u8>;

fn key(id: RawBsonRef<'_>) -> Key {
    let number = match id {
        RawBsonRef::Int32(number) => Some(i64::from(number)),
        RawBsonRef::Int64(number) => Some(number),
        _ => None,
    };
    let mut bytes = RawDocumentBuf::new();
    match number {
        Some(number) => bytes.append(bson::raw::cstr!(""), number),
        None => bytes.append(bson::raw::cstr!(""), id),
    }
    bytes.into_bytes()
}

/// The `_id` of a document, for people.
fn id_of(raw: &RawDocument) -> Bson {
    let id = decode::id(raw).map(Bson::try_from);
    id.and_then(Result::ok).unwrap_or(Bson::Null)
}

#[cfg(test)]
mod tests {
    use super::in_array;

    #[test]
    fn a_position_in_a_part_is_one_in_the_array() {
        let behind_50 = |path| in_array(path, "lines", 50);
        assert_eq!(behind_50("lines.0").as_deref(), Some("lines.50"));
        let nested = behind_50("lines.3.items.1.item");
        assert_eq!(nested.as_deref(), Some("lines.53.items.1.item"));
        for elsewhere in ["maker", "lines_of_others.0", "lines", "lines.first"] {
            assert_eq!(behind_50(elsewhere), None);
        }
    }
}

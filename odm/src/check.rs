//! Integrity checks and repairs: stored documents compared with the schema. See [`Session::check`](crate::Session::check).

mod blocked;
mod computed;
pub(crate) mod declared;
mod derived_data;
mod finding;
mod link;
mod overflow;
mod repair;
mod sequence;
mod token;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
};

use bson::{Bson, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use tracing::Instrument;

pub use declared::Backfill;
pub use finding::{CheckReport, Finding, FindingKind};
pub use repair::{Remedy, Repair, RepairOutcome, RepairReport, RepairStep, Repairs};
pub use token::{CheckToken, IntoCheckToken};

use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, Cursor, operation::Stage},
    error,
    language::{
        field::{FoundReference, VariantMap},
        query::{append_field, single_field_document},
    },
    model::{decode, document::Document, ids::id_batches},
    schema::{Contains, Model, Schema, upgrade},
    session::{
        access::{Access, ModelAccess, find_matching},
        scope::AllScopes,
        task,
    },
};

/// The maximum number of ids in one query.
const MAX_CHECK_IDS_PER_QUERY: usize = 10_000;

/// An integrity check of all documents of the models; made by [`Session::check`](crate::Session::check).
///
/// The check finds:
///
/// - documents that do not fit the model, and arrays longer than `max`
/// - references to documents that do not exist, except for references with `on_delete = keep`
/// - links with an inverse that does not match the reference
/// - copies that differ from the source
/// - counts, sums and latest-N lists that differ from the children
/// - computed fields with a wrong value
/// - documents without a sequence number
/// - overflow arrays with elements in a wrong place
///
/// The check reads documents of all scopes. Soft-deleted documents count as existing.
///
/// The check only reads, and can run while the application writes. Suspicious documents are read again, so a link that is removed
/// meanwhile is not a finding. Each collection is read once, in the order of the ids, with one query for each batch and each
/// referenced model. Only one batch is in memory.
#[must_use = "the check starts when this value is awaited or streamed"]
pub struct Check<S> {
    access: Access,
    models: Vec<ModelCheck>,
    after: Option<CheckToken>,
    of: PhantomData<fn() -> S>,
}

impl<S: Schema> Check<S> {
    pub(crate) fn new(access: &Access) -> Self {
        Self::for_operation(access, "check")
    }

    fn for_operation(access: &Access, name: &'static str) -> Self {
        Self {
            access: access.for_operation(name, None).with_full_visibility(),
            models: S::model_checks(),
            after: None,
            of: PhantomData,
        }
    }

    /// Checks only the documents of this model.
    pub fn only<T: Document>(mut self) -> Self
    where
        S: Contains<T, AllScopes>,
    {
        self.models
            .retain(|check| check.model.collection == T::COLLECTION);
        self
    }

    /// Continues after the documents that were checked before this [token](Findings::token) was taken. `None` starts at the
    /// beginning.
    ///
    /// The check fails with [`Invalid`](ErrorKind::Invalid) if the schema does not have the collection of the token.
    pub fn after(mut self, token: impl IntoCheckToken) -> Self {
        self.after = token.into_check_token();
        self
    }

    /// Returns the findings one by one, as the check proceeds.
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

/// Returns all findings in a report.
impl<S: Schema> IntoFuture for Check<S> {
    type Output = Result<CheckReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let mut stream = self.stream();
        Box::pin(async move {
            let mut findings = Vec::new();
            while let Some(finding) = stream.next().await {
                findings.push(finding?);
            }
            Ok(CheckReport {
                documents: stream.documents,
                references: stream.references,
                findings,
            })
        })
    }
}

/// The check of one model; derived with a schema.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct ModelCheck {
    model: &'static Model,
    read_references: fn(&RawDocument) -> Result<Vec<FoundReference>>,
}

impl ModelCheck {
    #[must_use]
    pub fn of<T: Document>() -> Self {
        Self {
            model: &T::MODEL,
            read_references: references_of::<T>,
        }
    }
}

/// Decodes a document and returns the references in the document.
fn references_of<T: Document>(raw: &RawDocument) -> Result<Vec<FoundReference>> {
    let current = upgrade::upgrade_for_read(&T::MODEL, raw)?;
    let document = T::from_stored(&current)?;
    document.check_bounds()?;
    Ok(VariantMap::references_in(&document))
}

/// The findings of a [`Check`], one by one.
#[must_use = "the check reads documents only when `next` is called"]
pub struct Findings {
    access: Access,
    models: VecDeque<ModelCheck>,
    /// The token to start after.
    resume: Option<CheckToken>,
    open: Option<OpenCollection>,
    /// The documents that were read last.
    batch: Vec<CheckToken>,
    /// The findings in these documents, in order, each with the position of the document.
    ready: VecDeque<(usize, Finding)>,
    /// The position before these documents.
    before: Option<CheckToken>,
    documents: u64,
    references: u64,
}

/// The collection that is being read.
struct OpenCollection {
    check: ModelCheck,
    cursor: Box<dyn Cursor>,
    /// Documents that were read and not checked yet.
    batch: Arc<Vec<RawDocumentBuf>>,
    spilled: link::SpilledInverses,
}

impl Findings {
    /// Returns the next finding, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Errors of the backend. The check does not continue after an error: start another check with [`Check::after`] and the
    /// [token](Self::token).
    pub async fn next(&mut self) -> Option<Result<Finding>> {
        loop {
            if let Some((_, finding)) = self.ready.pop_front() {
                return Some(Ok(finding));
            }
            match self.read_batch().await {
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

    /// Returns the position of the check for [`Check::after`], also in another process. The position is after the last document
    /// whose findings were all returned. `None` before the first document.
    #[must_use]
    pub fn token(&self) -> Option<&CheckToken> {
        let returned = match self.ready.front() {
            Some((position, _)) => self.batch.get(..*position).unwrap_or_default(),
            None => &self.batch,
        };
        returned.last().or(self.before.as_ref())
    }

    /// Returns the number of checked documents.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Reads a batch or opens the next collection. Returns `false` after the last collection.
    async fn read_batch(&mut self) -> Result<bool> {
        let Some(open) = &mut self.open else {
            return self.open_next().await;
        };
        let check = open.check;
        if open.batch.is_empty() {
            let batch = open.cursor.next_batch().await;
            open.batch = Arc::new(batch.map_err(error::naming_model(check.model))?);
        }
        if open.batch.is_empty() {
            // Report orphaned chunks after all documents of the collection.
            let orphans = overflow::find_orphans(self.access.to(check.model)).await?;
            self.open = None;
            let position_after = self.batch.len();
            let orphans = orphans.into_iter();
            self.ready = orphans.map(|orphan| (position_after, orphan)).collect();
            return Ok(true);
        }
        let access = self.access.to(check.model);
        let links = start_link_check(access, open);
        let (references, mut findings) = check_references(&access, check, &open.batch).await?;
        findings.extend(derived_data::check_batch(access, &open.batch).await?);
        findings.extend(blocked::check_batch(access, &open.batch)?);
        findings.extend(computed::check_batch(check.model, &open.batch)?);
        findings.extend(sequence::check_batch(check.model, &open.batch));
        findings.extend(overflow::check_batch(access, &open.batch).await?);
        let (broken_links, spilled) = links.await?;
        findings.extend(broken_links);
        open.spilled = spilled;
        findings.sort_by_key(|(position, _)| *position);
        let tokens = open.batch.iter();
        let tokens = tokens.map(|raw| CheckToken::new(check.model, raw));
        let tokens = tokens.collect::<Result<Vec<_>>>()?;
        // No await point follows: if the future is dropped before this line, the next call checks the same batch again.
        open.batch = Arc::default();
        self.documents += tokens.len() as u64;
        self.references += references;
        self.ready = findings.into();
        if let Some(last) = std::mem::replace(&mut self.batch, tokens).pop() {
            self.before = Some(last);
        }
        Ok(true)
    }

    async fn open_next(&mut self) -> Result<bool> {
        if let Some(token) = &self.resume {
            let Some(position) = self
                .models
                .iter()
                .position(|check| token.is_of(check.model))
            else {
                let message = "the token belongs to a collection that this check does not include: check the model of the token, or start without a token";
                return Err(Error::new(ErrorKind::Invalid, message));
            };
            self.models.drain(..position);
        }
        let Some(check) = self.models.front() else {
            return Ok(false);
        };
        let open = open_collection(&self.access, *check, self.resume.as_ref()).await?;
        self.open = Some(open);
        self.models.pop_front();
        self.before = self.before.take().or(self.resume.take());
        Ok(true)
    }
}

/// The positions in a batch of documents with findings.
type BatchFindings = Vec<(usize, Finding)>;

/// The positions in a batch of documents with references.
type BatchReferences = Vec<(usize, FoundReference)>;

/// Starts the check of the links in a batch, which takes about as long as all other checks of the batch together. Returns the
/// findings and the spilled inverses that were read.
fn start_link_check(
    access: ModelAccess<'_>,
    open: &mut OpenCollection,
) -> BoxFuture<'static, Result<(BatchFindings, link::SpilledInverses)>> {
    let model = access.model;
    let (access, batch) = (Access::clone(&access), Arc::clone(&open.batch));
    let mut spilled = std::mem::take(&mut open.spilled);
    let is_in_transaction = access.transaction_scope().is_some();
    let check = async move {
        let findings = link::check_batch(access.to(model), &batch, &mut spilled).await?;
        Ok((findings, spilled))
    };
    match is_in_transaction {
        // The operations of a transaction run one after another.
        true => Box::pin(check),
        false => Box::pin(task::run_to_end(check.in_current_span())),
    }
}

/// Checks the references of some documents. Returns the number of references, and the findings with the position of the document.
async fn check_references(
    access: &Access,
    check: ModelCheck,
    batch: &[RawDocumentBuf],
) -> Result<(u64, BatchFindings)> {
    let (mut candidates, mut findings) = (Vec::new(), Vec::new());
    let mut count = 0;
    for (position, raw) in batch.iter().enumerate() {
        match all_references(access, check, raw).await? {
            Err(error) => {
                let finding = Finding::of_error(check.model, raw, error);
                findings.push((position, finding));
            }
            Ok(references) => {
                count += references.len() as u64;
                let references = references.into_iter();
                let references =
                    references.filter(|reference| requires_target(check.model, raw, reference));
                candidates.extend(references.map(|reference| (position, reference)));
            }
        }
    }
    let candidates = dangling_references(access, candidates).await?;
    if candidates.is_empty() {
        return Ok((count, findings));
    }
    // A concurrent write may have removed the reference or inserted the target: read the documents again.
    let mut suspects: HashMap<ComparableId, (usize, HashSet<(String, ComparableId)>)> =
        HashMap::new();
    for (position, reference) in candidates {
        let Some(id) = decode::stored_id(&batch[position]) else {
            continue;
        };
        let target_id = comparable_id(reference.id.as_raw_bson_ref());
        let (_, references) = suspects
            .entry(comparable_id(id))
            .or_insert_with(|| (position, HashSet::new()));
        references.insert((reference.path, target_id));
    }
    let ids = suspects.values().map(|(position, _)| &batch[*position]);
    let ids: Vec<_> = ids.filter_map(|raw| decode::stored_id(raw)).collect();
    let mut recheck = Vec::new();
    for current in find_by_ids(access.to(check.model), &ids, None).await? {
        let suspect = decode::stored_id(&current).and_then(|id| suspects.get(&comparable_id(id)));
        let Some((position, suspect_references)) = suspect else {
            continue;
        };
        let references = all_references(access, check, &current).await?;
        let references = references.unwrap_or_default().into_iter();
        let remaining = references.filter(|reference| {
            let target_id = comparable_id(reference.id.as_raw_bson_ref());
            suspect_references.contains(&(reference.path.clone(), target_id))
                && requires_target(check.model, &current, reference)
        });
        recheck.extend(remaining.map(|reference| (*position, reference)));
    }
    for (position, reference) in dangling_references(access, recheck).await? {
        let finding = Finding::of_dangling(check.model, &batch[position], reference);
        findings.push((position, finding));
    }
    Ok((count, findings))
}

/// Returns all references of a document, including references in spilled elements. Returns an error if the document does not fit
/// the model.
async fn all_references(
    access: &Access,
    check: ModelCheck,
    raw: &RawDocument,
) -> Result<Result<Vec<FoundReference>>> {
    let mut findings = match (check.read_references)(raw) {
        Ok(findings) => findings,
        unreadable => return Ok(unreadable),
    };
    for field in check.model.overflows {
        let Some(mut parts) =
            overflow::SpilledParts::open_array(access.to(check.model), field, raw).await?
        else {
            continue;
        };
        loop {
            let mut spilled = Vec::new();
            while let Some((first, part)) = parts.next_part().await? {
                let references = match (check.read_references)(&part) {
                    Ok(references) => references,
                    unreadable => return Ok(unreadable),
                };
                spilled.extend(references.into_iter().filter_map(|mut reference| {
                    reference.path = path_in_array(&reference.path, field.stored, first)?;
                    Some(reference)
                }));
            }
            if !parts.restart_if_replaced().await? {
                findings.append(&mut spilled);
                break;
            }
        }
    }
    Ok(Ok(findings))
}

/// Converts a path in a part of an array to a path in the whole array. `first` is the position of the part. `None` for a path
/// outside the array.
fn path_in_array(path: &str, array: &str, first: usize) -> Option<String> {
    let element = path.strip_prefix(array)?.strip_prefix('.')?;
    let (position, suffix) = element.split_at(element.find('.').unwrap_or(element.len()));
    let position: usize = position.parse().ok()?;
    Some(format!("{array}.{}{suffix}", first + position))
}

/// Whether a reference must have an existing target. A reference with `keep` need not, and neither does a document with an
/// unfinished write.
fn requires_target(model: &Model, raw: &RawDocument, reference: &FoundReference) -> bool {
    let mut links = model.links().iter();
    let link = links.find(|link| link.link_field.is_path_of_reference(&reference.path));
    link.is_none_or(|link| link.on_delete.requires_target() && !link::has_unfinished_write(raw))
}

/// Returns the references without an existing target.
async fn dangling_references(
    access: &Access,
    candidates: BatchReferences,
) -> Result<BatchReferences> {
    let mut targets: HashMap<&str, (&Model, HashMap<ComparableId, RawBson>)> = HashMap::new();
    for (_, reference) in &candidates {
        let (_, ids) = targets
            .entry(reference.to.collection)
            .or_insert_with(|| (reference.to, HashMap::new()));
        let id = comparable_id(reference.id.as_raw_bson_ref());
        ids.insert(id, reference.id.clone());
    }
    let mut existing: HashMap<&str, HashSet<ComparableId>> = HashMap::new();
    for (collection, (model, ids)) in targets {
        let ids: Vec<_> = ids.values().map(RawBson::as_raw_bson_ref).collect();
        let projection = single_field_document("_id", 1)?;
        let findings = find_by_ids(access.to(model), &ids, Some(projection)).await?;
        let keys = findings.iter().filter_map(|raw| decode::stored_id(raw));
        let keys = keys.map(comparable_id);
        existing.insert(collection, keys.collect());
    }
    let dangling = candidates.into_iter().filter(|(_, reference)| {
        let existing = existing.get(reference.to.collection);
        let id = comparable_id(reference.id.as_raw_bson_ref());
        !existing.is_some_and(|existing| existing.contains(&id))
    });
    Ok(dangling.collect())
}

/// Returns the findings that are still there when the documents are read again. A concurrent write may have changed the values.
async fn confirm_findings<F>(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
    findings: BatchFindings,
    find: impl FnOnce(Vec<RawDocumentBuf>) -> F,
) -> Result<BatchFindings>
where
    F: Future<Output = Result<(Vec<RawDocumentBuf>, BatchFindings)>>,
{
    if findings.is_empty() {
        return Ok(findings);
    }
    let mut positions: HashMap<ComparableId, usize> = HashMap::new();
    let mut ids = Vec::new();
    for (position, _) in &findings {
        if let Some(id) = batch.get(*position).and_then(|raw| decode::stored_id(raw))
            && positions.insert(comparable_id(id), *position).is_none()
        {
            ids.push(id);
        }
    }
    let (current, mut confirmed) = find(find_by_ids(access, &ids, None).await?).await?;
    for (position, _) in &mut confirmed {
        let id = current
            .get(*position)
            .and_then(|raw| decode::stored_id(raw));
        let position_before = id.and_then(|id| positions.get(&comparable_id(id)));
        *position = position_before.copied().unwrap_or(usize::MAX);
    }
    let mut results = findings;
    results.retain(|finding| confirmed.contains(finding));
    Ok(results)
}

async fn find_by_ids(
    access: ModelAccess<'_>,
    ids: &[RawBsonRef<'_>],
    projection: Option<RawDocumentBuf>,
) -> Result<Vec<RawDocumentBuf>> {
    let mut findings = Vec::new();
    for batch in id_batches(ids, MAX_CHECK_IDS_PER_QUERY) {
        let mut keys = RawArrayBuf::new();
        for id in batch {
            keys.push(*id);
        }
        let filter = single_field_document("_id", single_field_document("$in", keys)?)?;
        let find = access
            .find_matching(&filter)
            .with_origin(Stage::CHECKS.step("read the documents"))
            .with_projection(projection.clone());
        findings.extend(access.find_all(find).await?);
    }
    Ok(findings)
}

async fn open_collection(
    access: &Access,
    check: ModelCheck,
    after: Option<&CheckToken>,
) -> Result<OpenCollection> {
    let mut filter = RawDocumentBuf::new();
    if let Some(token) = after {
        // An expression compares values of all types, so ids of different types are in one order.
        let mut operands = RawArrayBuf::new();
        operands.push("$_id");
        operands.push(single_field_document("$literal", token.id().clone())?);
        append_field(
            &mut filter,
            "$expr",
            single_field_document("$gt", operands)?,
        )?;
    }
    let find = find_matching(check.model.collection, &filter)
        .with_origin(Stage::CHECKS.step("read the documents"))
        .with_sort(single_field_document("_id", 1)?);
    let cursor = access.find(check.model, find).await?;
    Ok(OpenCollection {
        check,
        cursor,
        batch: Arc::default(),
        spilled: link::SpilledInverses::default(),
    })
}

/// The comparable form of an id. Integers of different widths are equal, as on the server.
type ComparableId = Vec<u8>;

fn comparable_id(id: RawBsonRef<'_>) -> ComparableId {
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

/// Returns the `_id` of a document for a message.
fn display_id(raw: &RawDocument) -> Bson {
    let id = decode::stored_id(raw).map(Bson::try_from);
    id.and_then(Result::ok).unwrap_or(Bson::Null)
}

#[cfg(test)]
mod tests {
    use super::path_in_array;

    #[test]
    fn a_position_in_a_part_becomes_a_position_in_the_array() {
        let from_50 = |path| path_in_array(path, "lines", 50);
        assert_eq!(from_50("lines.0").as_deref(), Some("lines.50"));
        let nested = from_50("lines.3.items.1.item");
        assert_eq!(nested.as_deref(), Some("lines.53.items.1.item"));
        for other_path in ["maker", "lines_of_others.0", "lines", "lines.first"] {
            assert_eq!(from_50(other_path), None);
        }
    }
}

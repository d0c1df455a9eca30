//! Whether the elements outside of documents are where these say.

use std::collections::{HashMap, VecDeque};

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use super::{Fault, Finding, Key, by_ids, id_of, key};
use crate::{
    Result,
    access::Access,
    decode, error,
    maintain::{self, Misplaced, Wrong},
    overflow::{ATTEMPTS, Reading, Walk},
    retry,
    schema::{Model, OverflowField},
};

/// How many elements are looked at as if they were in their document.
const PART: usize = 500;

/// A document with others of its elements in an array that overflows, as if these were in it: some at a time, however many there are.
pub(super) struct Parts {
    document: Document,
    reading: Reading,
    walk: Walk,
    attempt: u32,
    /// How many elements are before the next ones.
    position: usize,
}

impl Parts {
    /// None if all elements are in the document.
    pub(super) async fn open(
        access: &Access,
        model: &'static Model,
        field: &'static OverflowField,
        raw: &RawDocument,
    ) -> Result<Option<Self>> {
        let Some((reading, owner)) = Reading::of(access, model, field, raw)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            document: Document::try_from(raw).map_err(error::encode)?,
            position: owner.resident.len(),
            walk: Walk::begin(reading.clone(), owner).await?,
            attempt: 1,
            reading,
        }))
    }

    /// The next ones, and the position of the first of them.
    pub(super) async fn next(&mut self) -> Result<Option<(usize, RawDocumentBuf)>> {
        let elements = self.walk.next(PART).await?;
        if elements.is_empty() {
            return Ok(None);
        }
        let first = self.position;
        self.position += elements.len();
        self.document.insert(self.reading.field.stored, elements);
        let part = RawDocumentBuf::try_from(&self.document).map_err(error::encode)?;
        Ok(Some((first, part)))
    }

    /// At the end, begins with the first again if the array was replaced by another one meanwhile; tells whether it does.
    pub(super) async fn begin_anew(&mut self) -> Result<bool> {
        if self.attempt == ATTEMPTS || self.walk.is_whole().await? {
            return Ok(false);
        }
        retry::pause(self.attempt).await;
        self.attempt += 1;
        let Some(owner) = self.reading.owner().await? else {
            return Ok(false);
        };
        self.position = owner.resident.len();
        self.walk = Walk::begin(self.reading.clone(), owner).await?;
        Ok(true)
    }
}

/// What is wrong in a batch with arrays that overflow.
pub(super) async fn look_at(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let suspect = findings(access, model, batch).await?;
    if suspect.is_empty() {
        return Ok(suspect);
    }
    // Somebody may be writing: only what is so still is a fault.
    let mut positions: HashMap<Key, usize> = HashMap::new();
    let mut ids = Vec::new();
    for (position, _) in &suspect {
        if let Some(id) = batch.get(*position).and_then(|raw| decode::id(raw))
            && positions.insert(key(id), *position).is_none()
        {
            ids.push(id);
        }
    }
    let again = by_ids(access, model, &ids, None).await?;
    let mut still = findings(access, model, &again).await?;
    for (position, _) in &mut still {
        let id = again.get(*position).and_then(|raw| decode::id(raw));
        let before = id.and_then(|id| positions.get(&key(id)));
        *position = before.copied().unwrap_or(usize::MAX);
    }
    let mut found = suspect;
    found.retain(|finding| still.contains(finding));
    Ok(found)
}

async fn findings(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let mut found = Vec::new();
    for misplaced in maintain::misplaced(access, model, batch).await? {
        if let Some(raw) = batch.get(misplaced.document) {
            let finding = Finding {
                model: model.name,
                collection: model.collection,
                id: id_of(raw),
                path: misplaced.field.stored.to_owned(),
                fault: fault(&misplaced),
            };
            found.push((misplaced.document, finding));
        }
    }
    Ok(found)
}

fn fault(misplaced: &Misplaced) -> Fault {
    let of = misplaced.field.extras.collection;
    match &misplaced.what {
        &Wrong::Flag(holds) => Fault::Misflagged {
            flag: misplaced.field.flag,
            holds,
        },
        &Wrong::Inside(holds) => Fault::TooManyInside {
            holds,
            after: misplaced.field.after,
        },
        &Wrong::Count(holds, is) => Fault::Miscounted {
            of,
            holds: Box::new(Bson::Int64(holds)),
            is: Box::new(Bson::Int64(is)),
        },
        Wrong::Seq(numbers, times) => Fault::OutOfSequence {
            of,
            seq: *numbers.start(),
            to: *numbers.end(),
            times: *times,
        },
        Wrong::Order => Fault::OutOfOrder,
    }
}

/// The documents with elements of a model's documents that none of these reads.
pub(super) async fn orphans(access: &Access, model: &'static Model) -> Result<VecDeque<Finding>> {
    let mut found = VecDeque::new();
    for field in model.overflows {
        let orphans = maintain::look_for_orphans(access, model, field).await?;
        found.extend(orphans.into_iter().map(|(id, owner, seq)| Finding {
            model: field.extras.name,
            collection: field.extras.collection,
            id,
            path: field.owner.to_owned(),
            fault: Fault::Orphaned {
                of: model.collection,
                owner,
                seq,
            },
        }));
    }
    Ok(found)
}

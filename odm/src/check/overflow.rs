//! The check of overflow arrays: spilled elements, chunk documents and manifests.

use std::collections::VecDeque;

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use super::{BatchFindings, Finding, FindingKind, confirm_findings};
use crate::{
    Result, error,
    overflow::{ArrayReader, MAX_READ_ATTEMPTS, SpilledCursor},
    schema::OverflowField,
    session::{access::ModelAccess, retry},
    write::{self, ArrayFinding, ArrayProblem},
};

/// The number of spilled elements that are checked at a time.
const MAX_SPILLED_ELEMENTS_PER_PART: usize = 500;

/// The spilled elements of an array, in parts. Each part is a copy of the owner document with some spilled elements in place of
/// the resident elements.
pub(super) struct SpilledParts {
    document: Document,
    reading: ArrayReader,
    walk: SpilledCursor,
    attempt: u32,
    /// The position of the next element.
    position: usize,
}

impl SpilledParts {
    /// Returns `None` if the array has no spilled elements.
    pub(super) async fn open_array(
        access: ModelAccess<'_>,
        field: &'static OverflowField,
        raw: &RawDocument,
    ) -> Result<Option<Self>> {
        let Some((reading, array)) = ArrayReader::from_document(access, field, raw)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            document: Document::try_from(raw).map_err(error::from_bson)?,
            position: array.resident.len(),
            walk: SpilledCursor::from_state(reading.clone(), array).await?,
            attempt: 1,
            reading,
        }))
    }

    /// Returns the next part with the position of the first element.
    pub(super) async fn next_part(&mut self) -> Result<Option<(usize, RawDocumentBuf)>> {
        let elements = self
            .walk
            .next_elements(MAX_SPILLED_ELEMENTS_PER_PART)
            .await?;
        if elements.is_empty() {
            return Ok(None);
        }
        let first = self.position;
        self.position += elements.len();
        self.document.insert(self.reading.field.stored, elements);
        let part = RawDocumentBuf::try_from(&self.document).map_err(error::from_bson)?;
        Ok(Some((first, part)))
    }

    /// Starts again from the first element if the array was replaced during the read. Returns whether the read starts again.
    pub(super) async fn restart_if_replaced(&mut self) -> Result<bool> {
        if self.attempt == MAX_READ_ATTEMPTS || self.walk.is_complete().await? {
            return Ok(false);
        }
        retry::pause_before_retry("the array was replaced during the read", self.attempt).await;
        self.attempt += 1;
        let Some(array) = self.reading.read_state().await? else {
            return Ok(false);
        };
        self.position = array.resident.len();
        self.walk = SpilledCursor::from_state(self.reading.clone(), array).await?;
        Ok(true)
    }
}

/// Returns the findings about overflow arrays in a batch.
pub(super) async fn check_batch(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<BatchFindings> {
    let findings = find_misplaced(access, batch).await?;
    let find = async |current: Vec<RawDocumentBuf>| {
        let findings = find_misplaced(access, &current).await?;
        Ok((current, findings))
    };
    confirm_findings(access, batch, findings, find).await
}

async fn find_misplaced(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<BatchFindings> {
    let mut problems = Vec::new();
    for array_finding in write::check_arrays(access, batch).await? {
        if let Some(raw) = batch.get(array_finding.document) {
            let (path, kind) = (array_finding.field.stored, fault_of(&array_finding));
            let finding = Finding::new(access.model, raw, path, kind);
            problems.push((array_finding.document, finding));
        }
    }
    Ok(problems)
}

fn fault_of(array_finding: &ArrayFinding) -> FindingKind {
    let collection = array_finding.field.chunks.collection;
    match &array_finding.problem {
        &ArrayProblem::Flag(actual) => FindingKind::WrongFlag {
            flag: array_finding.field.flag,
            actual,
        },
        &ArrayProblem::Resident(actual) => FindingKind::TooManyResident {
            actual,
            max: array_finding.field.max_resident,
        },
        &ArrayProblem::Count(actual, expected) => FindingKind::WrongCount {
            of: collection,
            actual: Box::new(Bson::Int64(actual)),
            expected: Box::new(Bson::Int64(expected)),
        },
        ArrayProblem::ChunkNumbers(numbers, times) => FindingKind::OutOfSequence {
            of: collection,
            seq: *numbers.start(),
            to: *numbers.end(),
            times: *times,
        },
        ArrayProblem::Order => FindingKind::OutOfOrder,
    }
}

/// Returns the chunk documents that no owner document uses.
pub(super) async fn find_orphans(access: ModelAccess<'_>) -> Result<VecDeque<Finding>> {
    let mut problems = VecDeque::new();
    for field in access.model.overflows {
        let orphans = write::find_orphan_chunks(access, field).await?;
        problems.extend(orphans.into_iter().map(|(id, owner, seq)| Finding {
            model: field.chunks.name,
            collection: field.chunks.collection,
            id,
            path: field.owner.to_owned(),
            kind: FindingKind::Orphaned {
                of: access.model.collection,
                owner,
                seq,
            },
        }));
    }
    Ok(problems)
}

//! A write operation of any kind. The write path handles this enum instead of a type parameter, so the code is compiled once in
//! this crate and not in each application.

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::{Footprint, HardOrSoftDelete, WriteOperation};
use crate::{
    Result,
    access::Access,
    backend::operation::{
        DeleteResult, DocumentChange, FindAndModify, FindAndModifyKind, InsertOperation,
        UpdateOperation, UpdateResult,
    },
    schema::Model,
};

/// A write operation of any kind.
#[derive(Debug, Clone)]
pub(crate) enum AnyWrite {
    Insert(InsertOperation),
    Update(UpdateOperation),
    FindAndModify(FindAndModify),
    Delete(HardOrSoftDelete),
}

/// The result of a write operation of any kind.
#[derive(Debug, Default)]
pub(crate) struct WriteOutcome {
    documents: u64,
    modified: u64,
    upserted_id: Option<RawBson>,
    found: Option<RawDocumentBuf>,
}

/// Runs the same expression for the operation of each variant.
macro_rules! with_operation {
    ($write:expr, $operation:pat => $expression:expr) => {
        match $write {
            AnyWrite::Insert($operation) => $expression,
            AnyWrite::Update($operation) => $expression,
            AnyWrite::FindAndModify($operation) => $expression,
            AnyWrite::Delete($operation) => $expression,
        }
    };
}

impl AnyWrite {
    /// Whether the operation can insert a document: an insert or an upsert.
    pub(super) fn may_insert(&self) -> bool {
        match self {
            Self::Insert(_) => true,
            Self::Update(update) => update.upsert,
            Self::FindAndModify(modify) => {
                matches!(
                    modify.modification,
                    FindAndModifyKind::Update { upsert: true, .. }
                )
            }
            Self::Delete(_) => false,
        }
    }
}

impl WriteOperation for AnyWrite {
    type Outcome = WriteOutcome;

    fn with_managed_fields(self, model: &Model) -> Result<Self> {
        with_operation!(self, operation => operation.with_managed_fields(model).map(Into::into))
    }

    fn matched_count(outcome: &WriteOutcome) -> u64 {
        outcome.documents
    }

    fn affects_at_most_one(&self) -> bool {
        with_operation!(self, operation => operation.affects_at_most_one())
    }

    fn filter_mut(&mut self) -> Option<&mut RawDocumentBuf> {
        with_operation!(self, operation => operation.filter_mut())
    }

    fn sort_order(&self) -> Option<&RawDocument> {
        with_operation!(self, operation => operation.sort_order())
    }

    fn footprint(&self) -> Footprint<'_> {
        with_operation!(self, operation => operation.footprint())
    }

    fn documents_to_insert(&mut self) -> Option<&mut [RawDocumentBuf]> {
        with_operation!(self, operation => operation.documents_to_insert())
    }

    fn change_mut(&mut self) -> Option<&mut DocumentChange> {
        with_operation!(self, operation => operation.change_mut())
    }

    fn as_find_and_modify(&self) -> Option<FindAndModify> {
        with_operation!(self, operation => operation.as_find_and_modify())
    }

    fn updated_document_mut<'d>(
        &self,
        outcome: &'d mut WriteOutcome,
    ) -> Option<&'d mut RawDocumentBuf> {
        match self {
            Self::FindAndModify(operation) => operation.updated_document_mut(&mut outcome.found),
            _ => None,
        }
    }

    fn outcome_of_one(is_modified: bool) -> WriteOutcome {
        UpdateOperation::outcome_of_one(is_modified).into()
    }

    fn outcome_of(documents: u64) -> WriteOutcome {
        UpdateOperation::outcome_of(documents).into()
    }

    fn add_outcome(total: &mut WriteOutcome, outcome: WriteOutcome) {
        total.documents += outcome.documents;
        total.modified += outcome.modified;
        total.found = total.found.take().or(outcome.found);
    }

    async fn run_on(self, access: &Access, model: &Model) -> Result<WriteOutcome> {
        with_operation!(self, operation => operation.run_on(access, model).await.map(Into::into))
    }

    async fn run_followed_by(
        self,
        access: &Access,
        model: &Model,
        second: UpdateOperation,
    ) -> Result<WriteOutcome> {
        with_operation!(self, operation => operation.run_followed_by(access, model, second).await.map(Into::into))
    }
}

/// Implements the conversions from an operation to its variant of [`AnyWrite`], and between the result and [`WriteOutcome`].
macro_rules! conversions {
    ($variant:ident($operation:ty), $result_type:ty, |$result:ident| $from_result:expr, |$outcome:ident| $into_result:expr) => {
        impl From<$operation> for AnyWrite {
            fn from(operation: $operation) -> Self {
                Self::$variant(operation)
            }
        }

        impl From<$result_type> for WriteOutcome {
            fn from($result: $result_type) -> Self {
                $from_result
            }
        }

        impl From<WriteOutcome> for $result_type {
            fn from($outcome: WriteOutcome) -> Self {
                $into_result
            }
        }
    };
}

conversions!(
    Insert(InsertOperation),
    u64,
    |documents| Self {
        documents,
        ..Self::default()
    },
    |outcome| outcome.documents
);
conversions!(
    Update(UpdateOperation),
    UpdateResult,
    |result| Self {
        documents: result.matched,
        modified: result.modified,
        upserted_id: result.upserted_id,
        found: None,
    },
    |outcome| Self {
        matched: outcome.documents,
        modified: outcome.modified,
        upserted_id: outcome.upserted_id,
    }
);
conversions!(
    FindAndModify(FindAndModify),
    Option<RawDocumentBuf>,
    |found| Self {
        documents: found.is_some().into(),
        found,
        ..Self::default()
    },
    |outcome| outcome.found
);
conversions!(
    Delete(HardOrSoftDelete),
    DeleteResult,
    |result| Self {
        documents: result.deleted,
        ..Self::default()
    },
    |outcome| Self {
        deleted: outcome.documents,
    }
);

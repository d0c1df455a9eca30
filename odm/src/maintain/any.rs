//! A write of any kind: the write path is compiled once for all of them, and here, not for each of them by whoever has models.

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::{Effect, Removal, Write};
use crate::{
    Result,
    backend::{
        Executor,
        operation::{Change, Deleted, FindAndModify, Insert, Update, Updated},
    },
    schema::Model,
};

#[derive(Debug, Clone)]
pub(crate) enum Any {
    Insert(Insert),
    Update(Update),
    FindAndModify(FindAndModify),
    Removal(Removal),
}

/// What a backend tells of a write.
#[derive(Debug, Default)]
pub(crate) struct Done {
    documents: u64,
    modified: u64,
    upserted_id: Option<RawBson>,
    found: Option<RawDocumentBuf>,
}

/// Does the same with the write, whatever it is.
macro_rules! whichever {
    ($any:expr, $write:pat => $do:expr) => {
        match $any {
            Any::Insert($write) => $do,
            Any::Update($write) => $do,
            Any::FindAndModify($write) => $do,
            Any::Removal($write) => $do,
        }
    };
}

impl Write for Any {
    type Done = Done;

    fn filled(self, model: &Model) -> Result<Self> {
        whichever!(self, write => write.filled(model).map(Into::into))
    }

    fn documents(done: &Done) -> u64 {
        done.documents
    }

    fn is_of_one(&self) -> bool {
        whichever!(self, write => write.is_of_one())
    }

    fn filter(&mut self) -> Option<&mut RawDocumentBuf> {
        whichever!(self, write => write.filter())
    }

    fn order(&self) -> Option<&RawDocument> {
        whichever!(self, write => write.order())
    }

    fn effect(&self) -> Effect<'_> {
        whichever!(self, write => write.effect())
    }

    fn documents_to_insert(&mut self) -> Option<&mut [RawDocumentBuf]> {
        whichever!(self, write => write.documents_to_insert())
    }

    fn change(&mut self) -> Option<&mut Change> {
        whichever!(self, write => write.change())
    }

    fn giving_back(&self) -> Option<FindAndModify> {
        whichever!(self, write => write.giving_back())
    }

    fn found_behind<'d>(&self, done: &'d mut Done) -> Option<&'d mut RawDocumentBuf> {
        match self {
            Self::FindAndModify(write) => write.found_behind(&mut done.found),
            _ => None,
        }
    }

    fn done_to_one(is_modified: bool) -> Done {
        Update::done_to_one(is_modified).into()
    }

    fn done(documents: u64) -> Done {
        Update::done(documents).into()
    }

    fn add(sum: &mut Done, done: Done) {
        sum.documents += done.documents;
        sum.modified += done.modified;
        sum.found = sum.found.take().or(done.found);
    }

    async fn run(self, executor: &dyn Executor) -> Result<Done> {
        whichever!(self, write => write.run(executor).await.map(Into::into))
    }

    async fn run_before(self, executor: &dyn Executor, then: Update) -> Result<Done> {
        whichever!(self, write => write.run_before(executor, then).await.map(Into::into))
    }
}

/// A kind of write, and what is told of it.
macro_rules! kind {
    ($kind:ident, $of:ty, |$told:ident| $done:expr, |$back:ident| $into:expr) => {
        impl From<$kind> for Any {
            fn from(write: $kind) -> Self {
                Self::$kind(write)
            }
        }

        impl From<$of> for Done {
            fn from($told: $of) -> Self {
                $done
            }
        }

        impl From<Done> for $of {
            fn from($back: Done) -> Self {
                $into
            }
        }
    };
}

kind!(
    Insert,
    u64,
    |documents| Self {
        documents,
        ..Self::default()
    },
    |done| done.documents
);
kind!(
    Update,
    Updated,
    |told| Self {
        documents: told.matched,
        modified: told.modified,
        upserted_id: told.upserted_id,
        found: None,
    },
    |done| Self {
        matched: done.documents,
        modified: done.modified,
        upserted_id: done.upserted_id,
    }
);
kind!(
    FindAndModify,
    Option<RawDocumentBuf>,
    |found| Self {
        documents: found.is_some().into(),
        found,
        ..Self::default()
    },
    |done| done.found
);
kind!(
    Removal,
    Deleted,
    |told| Self {
        documents: told.deleted,
        ..Self::default()
    },
    |done| Self {
        deleted: done.documents,
    }
);

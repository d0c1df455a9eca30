//! Deletes: for good, or by a mark where the model says so.

use bson::{DateTime, RawDocumentBuf};

use super::{Effect, Write};
use crate::{
    Result,
    backend::{
        Executor,
        operation::{self, Change, Delete, Deleted, FindAndModify, Modification, Update},
    },
    query::document,
    schema::Model,
};

/// A delete as it is carried out. There is no other way from a delete to a backend, so none forgets the mark.
#[derive(Debug, Clone)]
pub(crate) enum Removal {
    ForGood(Delete),
    Mark(Update),
}

/// What a delete does in a model whose documents are deleted by a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Means {
    /// As the model says.
    #[default]
    OfModel,
    /// The document is gone.
    ForGood,
}

impl Removal {
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode), which no model's field gives cause for.
    pub(crate) fn new(model: &Model, delete: Delete, means: Means) -> Result<Self> {
        Ok(match mark(model, means)? {
            None => Self::ForGood(delete),
            Some(change) => Self::Mark(update(delete, change)),
        })
    }
}

impl Write for Removal {
    type Done = Deleted;

    fn filled(self, model: &Model) -> Result<Self> {
        Ok(match self {
            Self::ForGood(_) => self,
            Self::Mark(update) => Self::Mark(update.filled(model)?),
        })
    }

    fn documents(done: &Deleted) -> u64 {
        done.deleted
    }

    fn is_of_one(&self) -> bool {
        match self {
            Self::ForGood(delete) => !delete.multi,
            Self::Mark(update) => !update.multi,
        }
    }

    fn filter(&mut self) -> Option<&mut RawDocumentBuf> {
        Some(match self {
            Self::ForGood(delete) => &mut delete.filter,
            Self::Mark(update) => &mut update.filter,
        })
    }

    fn effect(&self) -> Effect<'_> {
        match self {
            Self::ForGood(_) => Effect::Removes,
            Self::Mark(update) => Effect::Changes(&update.change),
        }
    }

    fn change(&mut self) -> Option<&mut Change> {
        match self {
            Self::ForGood(_) => None,
            Self::Mark(update) => Some(&mut update.change),
        }
    }

    fn done(deleted: u64) -> Deleted {
        Deleted { deleted }
    }

    fn add(sum: &mut Deleted, done: Deleted) {
        sum.deleted += done.deleted;
    }

    async fn run(self, executor: &dyn Executor) -> Result<Deleted> {
        match self {
            Self::ForGood(delete) => executor.delete(delete).await,
            Self::Mark(update) => {
                let marked = executor.update(update).await?;
                Ok(Deleted {
                    deleted: marked.matched,
                })
            }
        }
    }
}

impl From<Removal> for operation::Write {
    fn from(removal: Removal) -> Self {
        match removal {
            Removal::ForGood(delete) => Self::Delete(delete),
            Removal::Mark(update) => Self::Update(update),
        }
    }
}

/// Makes a delete that gives the document back one that sets the mark.
///
/// # Errors
///
/// As [`Removal::new`].
pub(crate) fn of_one(model: &Model, write: &mut FindAndModify, means: Means) -> Result<()> {
    if let Some(change) = mark(model, means)? {
        write.modification = Modification::Update {
            change,
            upsert: false,
            return_new: false,
        };
    }
    Ok(())
}

/// What is written into a document that is deleted by a mark, if it is.
fn mark(model: &Model, means: Means) -> Result<Option<Change>> {
    let (Some(field), Means::OfModel) = (model.soft_delete, means) else {
        return Ok(None);
    };
    let set = document("$set", document(field, DateTime::now())?)?;
    Ok(Some(Change::operators(set)))
}

fn update(delete: Delete, change: Change) -> Update {
    Update {
        collection: delete.collection,
        filter: delete.filter,
        change,
        multi: delete.multi,
        upsert: false,
    }
}

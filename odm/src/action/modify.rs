//! Reading, changing and saving a document, until nobody else comes in between.

use std::{pin::Pin, time::Duration};

use super::save::{edit, save};
use crate::{ErrorKind, Result, access::Access, document::Document, query::Key, retry};

/// Changes a document by a function; made by [`Session::modify`](crate::Session::modify) and
/// [`Session::try_modify`](crate::Session::try_modify).
#[must_use = "a write happens when it is awaited"]
pub struct Modify<'c, T: Document> {
    access: Access,
    key: Key<T>,
    change: Change<'c, T>,
    attempts: u32,
}

type Change<'c, T> = Box<dyn FnMut(&mut T) -> Result<()> + Send + 'c>;

/// How often a document is read and saved before a conflict is reported, unless told otherwise.
const ATTEMPTS: u32 = 100;

/// How long to wait in the line of those who modify the document.
const LINE_PATIENCE: Duration = Duration::from_secs(30);

impl<'c, T: Document> Modify<'c, T> {
    pub(crate) fn new(
        access: Access,
        key: Key<T>,
        change: impl FnMut(&mut T) -> Result<()> + Send + 'c,
    ) -> Self {
        Self {
            access,
            key,
            change: Box::new(change),
            attempts: ATTEMPTS,
        }
    }

    /// How often to try at most, at least once; 100 times unless told otherwise.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    async fn run(mut self) -> Result<T> {
        let mut attempt = 1;
        let mut conflict = None;
        let mut turn = None;
        loop {
            let mut edited = match edit::<T>(&self.access, &self.key).await {
                Ok(edited) => edited,
                // A conflict that the backend found has ended the transaction, and only that one has it run again.
                Err(error) if error.kind() == ErrorKind::TransactionOver => {
                    return Err(conflict.unwrap_or(error));
                }
                Err(error) => return Err(error),
            };
            (self.change)(&mut edited)?;
            match save(self.access.clone(), &mut edited).await {
                // What is waited for was waited for, or is seen as long as a transaction looks.
                Err(error)
                    if error.is_passing() && (self.access.unit().is_some() || !T::HAS_HOOKS) =>
                {
                    return Err(error);
                }
                Err(error) if error.is_conflict() && attempt < self.attempts => {
                    conflict = Some(error);
                    // Inside a transaction others may wait for what it has written already.
                    if turn.is_none() && self.access.unit().is_none() {
                        let document = (T::COLLECTION, self.key.to_raw()?.into_bytes());
                        turn = retry::OF_DOCUMENTS.turn(document, LINE_PATIENCE).await;
                    } else {
                        retry::pause(attempt).await;
                    }
                    attempt += 1;
                }
                done => return done.map(|()| edited.into_inner()),
            }
        }
    }
}

impl<'c, T: Document> IntoFuture for Modify<'c, T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

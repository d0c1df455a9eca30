//! Going through the elements outside of a document, some at a time, however many there are.

use std::collections::VecDeque;

use bson::Bson;

use super::{Owner, Reading};
use crate::{Result, backend::Cursor, error, stored::open};

/// Where one is among them.
pub(crate) struct Walk {
    reading: Reading,
    owner: Owner,
    /// The documents of the extras that are still to be read.
    cursor: Option<Box<dyn Cursor>>,
    /// The elements that are in none: they come behind the others, or among them if they are in an order.
    late: VecDeque<Bson>,
    /// How many were in documents.
    read: usize,
}

impl Walk {
    pub(crate) async fn begin(reading: Reading, owner: Owner) -> Result<Self> {
        Ok(Self {
            cursor: reading.open(&owner).await?,
            late: reading.late(&owner),
            read: 0,
            reading,
            owner,
        })
    }

    /// The next ones in order, so many at least as long as there are as many; none at the end.
    pub(crate) async fn next(&mut self, least: usize) -> Result<Vec<Bson>> {
        let mut found = Vec::new();
        while found.len() < least {
            let Some(cursor) = &mut self.cursor else {
                found.extend(self.late.drain(..));
                break;
            };
            let batch = cursor.next_batch().await;
            let batch = batch.map_err(error::of(self.reading.model))?;
            if batch.is_empty() {
                self.cursor = None;
            }
            for raw in &batch {
                for element in self.reading.elements_of(&open(raw)?) {
                    self.read += 1;
                    found.extend(self.reading.before(&element, &mut self.late));
                    found.push(element);
                }
            }
        }
        Ok(found)
    }

    /// Whether none follow.
    pub(crate) fn is_over(&self) -> bool {
        self.cursor.is_none() && self.late.is_empty()
    }

    /// At the end, an error if the array was replaced by another one meanwhile.
    pub(crate) async fn end(&mut self) -> Result<()> {
        match self.reading.is_whole(&self.owner, self.read).await? {
            true => Ok(()),
            false => Err(self.reading.replaced()),
        }
    }
}

//! Going through the elements outside of a document, some at a time, however many there are.

use std::collections::VecDeque;

use bson::{Bson, Document};

use super::{Owner, Reading, order};
use crate::{Result, backend::Cursor, error, query::Node, stored::open};

/// Where one is among them.
pub(crate) struct Walk {
    reading: Reading,
    owner: Owner,
    /// The documents of the extras that are still to be read, or rows of an element each.
    cursor: Option<Box<dyn Cursor>>,
    /// The elements that are in none: they come behind the others, or among them if they are in an order.
    late: VecDeque<Bson>,
    /// How many were in documents; none of which only some are looked for.
    read: Option<usize>,
}

impl Walk {
    pub(crate) async fn begin(reading: Reading, owner: Owner) -> Result<Self> {
        Ok(Self {
            cursor: reading.open(&owner, None).await?,
            late: reading.late(&owner),
            read: Some(0),
            reading,
            owner,
        })
    }

    /// The elements in the document that come before the others, and the way through these: all, or those that meet a condition. None
    /// without a document.
    pub(crate) async fn whole(
        reading: Reading,
        condition: Option<&Node>,
    ) -> Result<Option<(Vec<Bson>, Self)>> {
        let Some(condition) = condition else {
            let Some(owner) = reading.owner().await? else {
                return Ok(None);
            };
            let resident = owner.resident.clone();
            return Ok(Some((resident, Self::begin(reading, owner).await?)));
        };
        let Some((owner, inside, mut late)) = reading.matching_inside(condition).await? else {
            return Ok(None);
        };
        order::in_order(reading.field, &mut late);
        let walk = Self {
            cursor: reading.open(&owner, Some(condition)).await?,
            late: late.into(),
            read: None,
            reading,
            owner,
        };
        Ok(Some((inside, walk)))
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
                for element in self.elements_of(open(raw)?) {
                    found.extend(self.reading.before(&element, &mut self.late));
                    found.push(element);
                }
            }
        }
        Ok(found)
    }

    fn elements_of(&mut self, mut document: Document) -> Vec<Bson> {
        let Some(read) = &mut self.read else {
            let element = document.remove(self.reading.field.elements);
            return element.into_iter().collect();
        };
        let elements = self.reading.elements_of(&document);
        *read += elements.len();
        elements
    }

    /// Whether none follow.
    pub(crate) fn is_over(&self) -> bool {
        self.cursor.is_none() && self.late.is_empty()
    }

    /// At the end, whether they were all: the array may have been replaced by another one meanwhile.
    pub(crate) async fn is_whole(&mut self) -> Result<bool> {
        match self.read {
            Some(read) => self.reading.is_whole(&self.owner, read).await,
            None => self.reading.is_same(&self.owner).await,
        }
    }
}

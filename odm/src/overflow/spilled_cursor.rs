//! Reads the spilled elements of an array in batches, for arrays of any size.

use std::collections::VecDeque;

use bson::{Bson, Document};

use super::{ArrayReader, ArrayState, order};
use crate::{
    Result, backend::Cursor, error, language::query::FilterNode, model::stored::parse_document,
};

/// A cursor over the spilled elements of an array.
pub(crate) struct SpilledCursor {
    reader: ArrayReader,
    owner: ArrayState,
    /// The remaining chunks. With a sort order or a condition, each row of the cursor has a single element.
    cursor: Option<Box<dyn Cursor>>,
    /// The block and the tail. They follow the chunks, or are merged with the chunks in a sorted array.
    buffered: VecDeque<Bson>,
    /// The number of elements read from chunks. `None` if only the elements that match a condition are read.
    read_count: Option<usize>,
}

impl SpilledCursor {
    /// Returns a cursor over all spilled elements of an array in this state.
    pub(crate) async fn from_state(reader: ArrayReader, owner: ArrayState) -> Result<Self> {
        Ok(Self {
            cursor: reader.open_chunks(&owner, None).await?,
            buffered: reader.sorted_buffer(&owner),
            read_count: Some(0),
            reader,
            owner,
        })
    }

    /// Returns the first resident elements, and a cursor over the rest. With a condition, both return only matching elements.
    /// Returns `None` without a document.
    pub(crate) async fn open_array(
        reader: ArrayReader,
        condition: Option<&FilterNode>,
    ) -> Result<Option<(Vec<Bson>, Self)>> {
        let Some(condition) = condition else {
            let Some(owner) = reader.read_state().await? else {
                return Ok(None);
            };
            let resident = owner.resident.clone();
            return Ok(Some((resident, Self::from_state(reader, owner).await?)));
        };
        let Some((owner, resident, mut buffered)) =
            reader.read_matching_in_owner(condition).await?
        else {
            return Ok(None);
        };
        order::sort_if_ordered(reader.field, &mut buffered);
        let spilled = Self {
            cursor: reader.open_chunks(&owner, Some(condition)).await?,
            buffered: buffered.into(),
            read_count: None,
            reader,
            owner,
        };
        Ok(Some((resident, spilled)))
    }

    /// Returns the next elements in order: at least `min_count` while enough remain, and none at the end.
    pub(crate) async fn next_elements(&mut self, min_count: usize) -> Result<Vec<Bson>> {
        let mut elements = Vec::new();
        while elements.len() < min_count {
            let Some(cursor) = &mut self.cursor else {
                elements.extend(self.buffered.drain(..));
                break;
            };
            let batch = cursor.next_batch().await;
            let batch = batch.map_err(error::naming_model(self.reader.model))?;
            if batch.is_empty() {
                self.cursor = None;
            }
            for raw in &batch {
                for element in self.elements_of_row(parse_document(raw)?) {
                    elements.extend(self.reader.take_before(&element, &mut self.buffered));
                    elements.push(element);
                }
            }
        }
        Ok(elements)
    }

    /// Removes the elements from a row of the cursor.
    fn elements_of_row(&mut self, mut document: Document) -> Vec<Bson> {
        let Some(read_count) = &mut self.read_count else {
            let element = document.remove(self.reader.field.elements);
            return element.into_iter().collect();
        };
        let elements = self.reader.chunk_elements(&document);
        *read_count += elements.len();
        elements
    }

    /// Returns whether no elements remain.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.cursor.is_none() && self.buffered.is_empty()
    }

    /// At the end, returns whether every element was read. A concurrent write may have replaced the array meanwhile.
    pub(crate) async fn is_complete(&mut self) -> Result<bool> {
        match self.read_count {
            Some(read_count) => self.reader.is_complete(&self.owner, read_count).await,
            None => self.reader.has_same_chunks(&self.owner).await,
        }
    }
}

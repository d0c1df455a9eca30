//! The references in overflow arrays that have spilled elements: only as many as a join can use.

use std::collections::{HashMap, HashSet};

use bson::{Bson, RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

use super::{IdKey, MAX_IDS_PER_QUERY};
use crate::{
    Result,
    backend::operation::{FindOperation, Stage},
    error,
    language::query::{single_field_document, to_raw},
    model::{decode, document::Document, ids::id_batches},
    overflow::ArrayReader,
    relation::target_join::JoinEdge,
    schema::Model,
    session::access::{Access, add_condition},
};

/// The number of references that are read first, if the join has a limit.
const FIRST_READ_REFERENCES: usize = 100;

/// Returns the references of the parents with spilled elements, by the position of the parent.
///
/// With a limit, the result contains only the first references with a matching target, in the order of the join.
pub(super) async fn load_references<T: Document>(
    access: &Access,
    model: &'static Model,
    parents: &[RawDocumentBuf],
    edge: &JoinEdge,
) -> Result<HashMap<usize, Vec<RawBson>>> {
    let mut documents = HashMap::new();
    let mut fields = model.overflows.iter();
    let Some(field) = fields.find(|field| field.stored == edge.path.dotted()) else {
        return Ok(documents);
    };
    // The query has already decided which parents are visible, so read the chunks without a visibility filter.
    let unfiltered = access.with_full_visibility();
    for (position, parent) in parents.iter().enumerate() {
        if let Some((reading, _)) = ArrayReader::from_document(unfiltered.to(model), field, parent)?
        {
            let selection = ReferenceSelection { access, edge };
            documents.insert(position, selection.select_from::<T>(&reading).await?);
        }
    }
    Ok(documents)
}

/// The references of one parent that a join uses.
struct ReferenceSelection<'j> {
    access: &'j Access,
    edge: &'j JoinEdge,
}

impl ReferenceSelection<'_> {
    async fn select_from<T: Document>(&self, reading: &ArrayReader) -> Result<Vec<RawBson>> {
        let Some(limit) = self.edge.limit else {
            return to_stored_elements(reading.read_all().await?);
        };
        if self.edge.sort.is_some() {
            return self
                .first_in_order::<T>(to_stored_elements(reading.read_all().await?)?, limit)
                .await;
        }
        let count = limit.clamp(FIRST_READ_REFERENCES, MAX_IDS_PER_QUERY);
        let first_references = to_stored_elements(reading.read_range(0, count).await?)?;
        let matching = self.first_matching::<T>(&first_references, limit).await?;
        // Fewer references than requested are all references of the array.
        if matching.len() == limit || first_references.len() < count {
            return Ok(matching);
        }
        let all = to_stored_elements(reading.read_all().await?)?;
        self.first_matching::<T>(&all, limit).await
    }

    /// Returns the first references with a matching target, in the order of the references.
    async fn first_matching<T: Document>(
        &self,
        references: &[RawBson],
        limit: usize,
    ) -> Result<Vec<RawBson>> {
        let mut matching = Vec::new();
        for chunk in id_batches(references, MAX_IDS_PER_QUERY) {
            matching.extend(
                self.matching_references::<T>(chunk, limit - matching.len())
                    .await?,
            );
            if matching.len() >= limit {
                break;
            }
        }
        Ok(matching)
    }

    /// Returns the references to the first targets in the order of the join. Each query combines a batch with the first targets
    /// so far.
    async fn first_in_order<T: Document>(
        &self,
        references: Vec<RawBson>,
        limit: usize,
    ) -> Result<Vec<RawBson>> {
        let batch_size = MAX_IDS_PER_QUERY.saturating_sub(limit);
        if batch_size == 0 {
            // Return all references: the query of the join then reports that there are too many.
            return Ok(references);
        }
        let mut first = Vec::new();
        for chunk in id_batches(&references, batch_size) {
            first.extend_from_slice(chunk);
            first = self.matching_references::<T>(&first, limit).await?;
        }
        Ok(first)
    }

    /// Returns the references with a matching target. For a join with an order, returns only the references to the first targets.
    async fn matching_references<T: Document>(
        &self,
        references: &[RawBson],
        limit: usize,
    ) -> Result<Vec<RawBson>> {
        let mut keys = RawArrayBuf::new();
        for reference in references {
            keys.push(reference.as_raw_bson_ref());
        }
        let mut filter = to_raw(&self.edge.filter)?;
        add_condition(&mut filter, "_id", single_field_document("$in", keys)?)?;
        let sort = self.edge.sort.clone();
        let find = FindOperation {
            collection: T::COLLECTION.into(),
            filter,
            projection: Some(rawdoc! { "_id": 1 }),
            limit: sort.as_ref().map(|_| limit as u64),
            sort,
            options: Stage::JOINS.step("read the matching targets").into(),
        };
        let documents = self.access.find_all(&T::MODEL, find).await?;
        let matching_ids: HashSet<IdKey<'_>> = documents
            .iter()
            .filter_map(|raw| decode::stored_id(raw))
            .map(IdKey::from_raw)
            .collect();
        let matches = |reference: &&RawBson| {
            matching_ids.contains(&IdKey::from_raw(reference.as_raw_bson_ref()))
        };
        let matching = references.iter().filter(matches).cloned();
        Ok(match self.edge.sort {
            None => matching.take(limit).collect(),
            Some(_) => matching.collect(),
        })
    }
}

/// Converts elements to their stored form. A deleted document has no elements.
fn to_stored_elements(elements: Option<Vec<Bson>>) -> Result<Vec<RawBson>> {
    let elements = elements.unwrap_or_default().into_iter();
    elements
        .map(RawBson::try_from)
        .collect::<Result<_, _>>()
        .map_err(error::from_bson)
}

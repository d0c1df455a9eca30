//! The references of documents whose array has overflowed: no more of them than a join can have use for.

use std::collections::{HashMap, HashSet};

use bson::{Bson, RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

use super::{Key, MAX_KEYS};
use crate::{
    Result,
    access::{Access, also},
    backend::operation::Find,
    batches::id_batches,
    decode,
    document::Document,
    error,
    overflow::Reading,
    query::document,
    relation::edge::Edge,
    schema::Model,
};

/// How many references are looked at first where only some of those that lead to documents are wanted.
const AT_FIRST: usize = 100;

/// The references of those parents, by position, that have some outside of their document: all of them, or so many of those that meet
/// the join's condition, and are the first in its order, as it wants of each.
pub(super) async fn references<T: Document>(
    access: &Access,
    model: &'static Model,
    parents: &[RawDocumentBuf],
    edge: &Edge,
) -> Result<HashMap<usize, Vec<RawBson>>> {
    let mut found = HashMap::new();
    let mut fields = model.overflows.iter();
    let Some(field) = fields.find(|field| field.stored == edge.way.dotted()) else {
        return Ok(found);
    };
    // Whether the parents are seen was decided as they were found.
    let all = access.to_everything();
    for (position, parent) in parents.iter().enumerate() {
        if let Some((reading, _)) = Reading::of(&all, model, field, parent)? {
            let wanted = Wanted { access, edge };
            found.insert(position, wanted.of::<T>(&reading).await?);
        }
    }
    Ok(found)
}

/// What a join wants of one document.
struct Wanted<'j> {
    access: &'j Access,
    edge: &'j Edge,
}

impl Wanted<'_> {
    async fn of<T: Document>(&self, reading: &Reading) -> Result<Vec<RawBson>> {
        let Some(limit) = self.edge.limit else {
            return raw(reading.all().await?);
        };
        if self.edge.sort.is_some() {
            return self.in_order::<T>(raw(reading.all().await?)?, limit).await;
        }
        let count = limit.clamp(AT_FIRST, MAX_KEYS);
        let first = raw(reading.range(0, count).await?)?;
        let some = self.first_met_by::<T>(&first, limit).await?;
        // Fewer than were asked for are all.
        if some.len() == limit || first.len() < count {
            return Ok(some);
        }
        let all = raw(reading.all().await?)?;
        self.first_met_by::<T>(&all, limit).await
    }

    /// Of references in their order, the first ones that lead to documents which meet the condition.
    async fn first_met_by<T: Document>(
        &self,
        all: &[RawBson],
        limit: usize,
    ) -> Result<Vec<RawBson>> {
        let mut some = Vec::new();
        for chunk in id_batches(all, MAX_KEYS) {
            some.extend(self.met_by::<T>(chunk, limit - some.len()).await?);
            if some.len() >= limit {
                break;
            }
        }
        Ok(some)
    }

    /// Those to the first documents in the order: of some at a time, and those that were the first before.
    async fn in_order<T: Document>(&self, all: Vec<RawBson>, limit: usize) -> Result<Vec<RawBson>> {
        let room = MAX_KEYS.saturating_sub(limit);
        if room == 0 {
            // The query itself says that these are too many.
            return Ok(all);
        }
        let mut first = Vec::new();
        for chunk in id_batches(&all, room) {
            first.extend_from_slice(chunk);
            first = self.met_by::<T>(&first, limit).await?;
        }
        Ok(first)
    }

    /// Of some references, the first ones that lead to documents which meet the condition, or those to the first of these in the order.
    async fn met_by<T: Document>(&self, some: &[RawBson], limit: usize) -> Result<Vec<RawBson>> {
        let mut keys = RawArrayBuf::new();
        for reference in some {
            keys.push(reference.as_raw_bson_ref());
        }
        let mut filter = self.edge.filter.clone();
        also(&mut filter, "_id", document("$in", keys)?)?;
        let sort = self.edge.sort.clone();
        let find = Find {
            collection: T::COLLECTION.into(),
            filter,
            projection: Some(rawdoc! { "_id": 1 }),
            limit: sort.as_ref().map(|_| limit as u64),
            sort,
            max_time: None,
        };
        let found = self.access.find_all(&T::MODEL, find).await?;
        let met: HashSet<Key<'_>> = found
            .iter()
            .filter_map(|raw| decode::id(raw))
            .map(Key::of)
            .collect();
        let is_met = |reference: &&RawBson| met.contains(&Key::of(reference.as_raw_bson_ref()));
        let wanted = some.iter().filter(is_met).cloned();
        Ok(match self.edge.sort {
            None => wanted.take(limit).collect(),
            Some(_) => wanted.collect(),
        })
    }
}

/// Elements as they are stored; none of a document that is gone.
fn raw(elements: Option<Vec<Bson>>) -> Result<Vec<RawBson>> {
    let elements = elements.unwrap_or_default().into_iter();
    elements
        .map(RawBson::try_from)
        .collect::<Result<_, _>>()
        .map_err(error::encode)
}

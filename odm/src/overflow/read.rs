//! Reading all elements of an array: those in the document, and those outside of it where there are some.

use std::collections::VecDeque;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    extras::{self, in_order, of_owner},
    header::{Owner, integer},
    order::{self, Order},
    same::ElementSet,
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::{Cursor, operation::Aggregate},
    decode, error,
    query::{Node, array_filter, by_id},
    retry,
    schema::{Model, OverflowField},
    stored::{close, open, raw, set},
};

/// How often it is read again that was replaced meanwhile.
pub(crate) const ATTEMPTS: u32 = 10;

/// An array of the document that a filter finds.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) access: Access,
    pub(crate) model: &'static Model,
    pub(crate) field: &'static OverflowField,
    pub(crate) filter: RawDocumentBuf,
}

impl Reading {
    /// The array of a document, with what this knows of it; none if all elements are in it.
    pub(crate) fn of(
        access: &Access,
        model: &'static Model,
        field: &'static OverflowField,
        document: &RawDocument,
    ) -> Result<Option<(Self, Owner)>> {
        let owner = Owner::of(field, document)?;
        if owner.header.is_none() {
            return Ok(None);
        }
        let reading = Self {
            access: access.clone(),
            model,
            field,
            filter: by_id(&raw(&owner.id)?)?,
        };
        Ok(Some((reading, owner)))
    }

    /// What the document knows; none if there is none.
    pub(crate) async fn owner(&self) -> Result<Option<Owner>> {
        Owner::find(&self.access, self.model, self.field, &self.filter).await
    }

    /// Whether the documents are others now than those that were read.
    pub(crate) async fn was_replaced(&self, owner: &Owner) -> Result<bool> {
        let generation = |owner: &Owner| owner.header.as_ref()?.generation;
        let now = self.owner().await?;
        Ok(now.is_none_or(|now| generation(&now) != generation(owner)))
    }

    /// All elements, in order; none without a document.
    pub(crate) async fn all(&self) -> Result<Option<Vec<Bson>>> {
        for attempt in 1..=ATTEMPTS {
            let Some(owner) = self.owner().await? else {
                return Ok(None);
            };
            let mut all = owner.resident.clone();
            let before = all.len();
            if let Some(those) = of_owner(self.field, &owner) {
                let find = in_order(self.field, &those)?;
                for raw in self.access.find_all(self.field.extras, find).await? {
                    all.extend(self.elements_of(&open(&raw)?));
                }
            }
            if self.is_whole(&owner, all.len() - before).await? {
                all.extend(behind(&owner).cloned());
                order::in_order(self.field, &mut all);
                return Ok(Some(all));
            }
            retry::pause(attempt).await;
        }
        Err(self.replaced())
    }

    /// Whether what is outside of a document is still what it was when that was read.
    pub(super) async fn is_same(&self, owner: &Owner) -> Result<bool> {
        Ok(of_owner(self.field, owner).is_none() || !self.was_replaced(owner).await?)
    }

    /// Whether so many elements outside are all of them, or it is still the same array.
    pub(crate) async fn is_whole(&self, owner: &Owner, outside: usize) -> Result<bool> {
        let count = owner.header.as_ref().map_or(0, |header| header.count);
        Ok(i64::try_from(outside) == Ok(count) || !self.was_replaced(owner).await?)
    }

    /// The documents with elements of an owner; of an array in an order, and of those that meet a condition, rows of one each.
    pub(super) async fn open(
        &self,
        owner: &Owner,
        condition: Option<&Node>,
    ) -> Result<Option<Box<dyn Cursor>>> {
        let Some(those) = of_owner(self.field, owner) else {
            return Ok(None);
        };
        let extras = self.field.extras;
        let order = Order::of(self.field);
        if order.is_some() || condition.is_some() {
            let pipeline = rows(self.field, those, order.as_ref(), condition)?;
            let cursor = self.access.aggregate(extras, aggregation(extras, pipeline));
            return cursor.await.map(Some);
        }
        let find = in_order(self.field, &those)?;
        self.access.find(extras, find).await.map(Some)
    }

    /// The elements of a document outside, or the one that a row of sorted ones is.
    pub(crate) fn elements_of(&self, document: &Document) -> Vec<Bson> {
        match document.get(self.field.elements) {
            Some(Bson::Array(elements)) => elements.clone(),
            Some(element) if self.field.order.is_some() => vec![element.clone()],
            _ => Vec::new(),
        }
    }

    /// Of some elements in order, those that come before one: they are taken out.
    pub(crate) fn before(&self, element: &Bson, sorted: &mut VecDeque<Bson>) -> Vec<Bson> {
        let Some(order) = Order::of(self.field) else {
            return Vec::new();
        };
        let key = order.key(element);
        let count = sorted
            .iter()
            .take_while(|other| order.is_before(other, &key));
        let count = count.count();
        sorted.drain(..count).collect()
    }

    /// The elements of an owner behind those that are in documents of the extras, or in order, to be read among these.
    pub(crate) fn late(&self, owner: &Owner) -> VecDeque<Bson> {
        let mut late: Vec<_> = behind(owner).cloned().collect();
        order::in_order(self.field, &mut late);
        late.into()
    }

    /// The elements from one position on, so many of them.
    pub(crate) async fn range(&self, from: u64, len: usize) -> Result<Option<Vec<Bson>>> {
        for attempt in 1..=ATTEMPTS {
            let Some(owner) = self.owner().await? else {
                return Ok(None);
            };
            if let Some(found) = self.range_of(&owner, from, len).await? {
                return Ok(Some(found));
            }
            retry::pause(attempt).await;
        }
        Err(self.replaced())
    }

    /// None if the array was replaced meanwhile.
    async fn range_of(&self, owner: &Owner, from: u64, len: usize) -> Result<Option<Vec<Bson>>> {
        if let Some(order) = Order::of(self.field) {
            return self.range_in_order(owner, &order, from, len).await;
        }
        let mut left = usize::try_from(from).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut take = |some: &[Bson], left: &mut usize| {
            let own = some.iter().skip(*left).take(len - found.len());
            found.extend(own.cloned());
            *left = left.saturating_sub(some.len());
            found.len() == len
        };
        if take(&owner.resident, &mut left) {
            return Ok(Some(found));
        }
        if let Some(those) = of_owner(self.field, owner) {
            let mut wanted = Vec::new();
            let (mut skipped, mut reached) = (left, 0);
            let mut all = 0;
            for (seq, count) in self.lengths(&those).await? {
                all += count;
                if wanted.is_empty() && skipped >= count {
                    skipped -= count;
                } else if reached < skipped.saturating_add(len) {
                    wanted.push(Bson::Int64(seq));
                    reached += count;
                }
            }
            if !self.is_whole(owner, all).await? {
                return Ok(None);
            }
            if wanted.is_empty() {
                left = skipped;
            } else {
                let mut those = those;
                let count = wanted.len();
                those.insert(self.field.seq, doc! { "$in": wanted });
                let find = in_order(self.field, &those)?;
                let documents = self.access.find_all(self.field.extras, find).await?;
                if documents.len() < count {
                    return Ok(None);
                }
                let mut some = Vec::new();
                for raw in documents {
                    some.extend(self.elements_of(&open(&raw)?));
                }
                left = skipped;
                if take(&some, &mut left) {
                    return Ok(Some(found));
                }
            }
        }
        let behind: Vec<_> = behind(owner).cloned().collect();
        take(&behind, &mut left);
        Ok(Some(found))
    }

    /// The same where the elements outside are sorted as they are read.
    async fn range_in_order(
        &self,
        owner: &Owner,
        order: &Order,
        from: u64,
        len: usize,
    ) -> Result<Option<Vec<Bson>>> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let inside = owner.resident.iter().skip(from).take(len);
        let mut found: Vec<_> = inside.cloned().collect();
        let left = len - found.len();
        let from = from.saturating_sub(owner.resident.len());
        if left == 0 {
            return Ok(Some(found));
        }
        let mut outside: Vec<_> = self.late(owner).into();
        // So many of those in documents come before it at least.
        let skipped = from.saturating_sub(outside.len());
        if let Some(those) = of_owner(self.field, owner) {
            let mut pipeline = rows(self.field, those, Some(order), None)?;
            if skipped > 0 {
                pipeline.push(close(
                    &doc! { "$skip": i64::try_from(skipped).unwrap_or(i64::MAX) },
                )?);
            }
            let wanted = (from - skipped).saturating_add(left);
            let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
            pipeline.push(close(&doc! { "$limit": wanted })?);
            for row in self.aggregate(self.field.extras, pipeline).await? {
                outside.extend(self.elements_of(&row));
            }
            if self.was_replaced(owner).await? {
                return Ok(None);
            }
        }
        order.sort(&mut outside);
        let outside = outside.into_iter().skip(from - skipped).take(left);
        found.extend(outside);
        Ok(Some(found))
    }

    /// How many elements each document has, in order.
    async fn lengths(&self, those: &Document) -> Result<Vec<(i64, usize)>> {
        let size = doc! { "$size": format!("${}", self.field.elements) };
        let pipeline = vec![
            close(&doc! { "$match": those.clone() })?,
            close(&doc! { "$sort": { self.field.seq: 1 } })?,
            close(
                &doc! { "$project": { "_id": 0, "seq": format!("${}", self.field.seq), "count": size } },
            )?,
        ];
        let rows = self.aggregate(self.field.extras, pipeline).await?;
        let rows = rows.iter().map(|row| {
            let count = usize::try_from(integer(row.get("count"))).unwrap_or(0);
            (integer(row.get("seq")), count)
        });
        Ok(rows.collect())
    }

    /// What the document knows, and those of its elements that meet a condition: the first ones, and those behind all that are in
    /// documents of the extras. All of it is of one moment, so that nothing that goes from one place to another is missed or there twice.
    pub(super) async fn matching_inside(
        &self,
        condition: &Node,
    ) -> Result<Option<(Owner, Vec<Bson>, Vec<Bson>)>> {
        let matches = document_of(array_filter(condition, "e")?)?;
        let at = |name: &str| format!("${}.{name}", self.field.header);
        let array = |path: String| doc! { "$cond": [{ "$isArray": &path }, &path, []] };
        // It stands between the elements, and is found whatever these are.
        let mark = ObjectId::new();
        let header = doc! {
            "generation": at("generation"),
            "next": at("next"),
            "work": { "key": at("work.key"), "due": at("work.due"), "kind": at("work.kind") },
        };
        let between = doc! { "mark": mark, "_id": "$_id", "header": header };
        let parts = vec![
            Bson::from(array(format!("${}", self.field.stored))),
            Bson::from(vec![Bson::from(between)]),
            Bson::from(array(at("work.block"))),
            Bson::from(array(at("tail"))),
        ];
        let stages = vec![
            close(&doc! { "$match": document_of(self.filter.clone())? })?,
            close(&doc! { "$limit": 1 })?,
            close(&doc! { "$project": { "_id": 0, "e": { "$concatArrays": parts } } })?,
            close(&doc! { "$unwind": "$e" })?,
            close(&doc! { "$match": { "$or": [matches, { "e.mark": mark }] } })?,
        ];
        let rows = self.aggregate(self.model, stages).await?;
        let mut found: Vec<_> = rows
            .into_iter()
            .filter_map(|mut row| row.remove("e"))
            .collect();
        let is_mark = |element: &Bson| {
            let element = element.as_document();
            element.is_some_and(|element| element.get_object_id("mark").is_ok_and(|id| id == mark))
        };
        let Some(position) = found.iter().position(is_mark) else {
            return Ok(None);
        };
        let behind = found.split_off(position + 1);
        let Some(Bson::Document(mut between)) = found.pop() else {
            return Ok(None);
        };
        let mut owner = Document::new();
        owner.insert("_id", between.remove("_id"));
        if let Some(header) = between.remove("header") {
            set(&mut owner, self.field.header, header);
        }
        Ok(Some((
            Owner::of(self.field, &close(&owner)?)?,
            found,
            behind,
        )))
    }

    async fn aggregate(
        &self,
        model: &'static Model,
        pipeline: Vec<RawDocumentBuf>,
    ) -> Result<Vec<Document>> {
        let rows = self
            .access
            .aggregate_all(model, aggregation(model, pipeline));
        let rows = rows.await?;
        rows.iter().map(|row| open(row)).collect()
    }

    /// Whether one of the elements equals a value; none without a document.
    pub(crate) async fn contains(&self, value: &Bson) -> Result<Option<bool>> {
        for attempt in 1..=ATTEMPTS {
            let Some(owner) = self.owner().await? else {
                return Ok(None);
            };
            let inside = owner.resident.iter().chain(behind(&owner));
            if ElementSet::of(inside)?.has(value)? {
                return Ok(Some(true));
            }
            let Some(mut those) = of_owner(self.field, &owner) else {
                return Ok(Some(false));
            };
            those.insert(self.field.elements, doc! { "$in": [value.clone()] });
            let count = crate::backend::operation::Count {
                collection: self.field.extras.collection.into(),
                filter: close(&those)?,
                limit: Some(1),
                max_time: None,
            };
            if self.access.count(self.field.extras, count).await? > 0 {
                return Ok(Some(true));
            }
            if !self.was_replaced(&owner).await? {
                return Ok(Some(false));
            }
            retry::pause(attempt).await;
        }
        Err(self.replaced())
    }

    /// Those of some values that elements equal; none without a document.
    pub(crate) async fn among(&self, values: &[Bson]) -> Result<Vec<Bson>> {
        for attempt in 1..=ATTEMPTS {
            let Some(owner) = self.owner().await? else {
                return Ok(Vec::new());
            };
            let mut found = ElementSet::of(owner.resident.iter().chain(behind(&owner)))?;
            let missing = found.missing(values.to_vec())?;
            let outside = of_owner(self.field, &owner).filter(|_| !missing.is_empty());
            let is_any_outside = outside.is_some();
            if let Some(mut those) = outside {
                those.insert(self.field.elements, doc! { "$in": missing });
                let find = in_order(self.field, &those)?;
                for raw in self.access.find_all(self.field.extras, find).await? {
                    for element in self.elements_of(&open(&raw)?) {
                        found.insert(&element)?;
                    }
                }
            }
            if !is_any_outside || !self.was_replaced(&owner).await? {
                let mut among = Vec::new();
                for value in values {
                    if found.has(value)? {
                        among.push(value.clone());
                    }
                }
                return Ok(among);
            }
            retry::pause(attempt).await;
        }
        Err(self.replaced())
    }

    pub(crate) fn replaced(&self) -> Error {
        let message = format!(
            "`{}` was replaced again and again while it was read: read it again",
            self.field.field
        );
        error::of(self.model)(Error::new(ErrorKind::Conflict, message))
    }
}

/// The elements behind those of the documents.
pub(crate) fn behind(owner: &Owner) -> impl Iterator<Item = &Bson> {
    let header = owner.header.as_ref();
    let block = header.and_then(|header| header.work.as_ref());
    let block = block.into_iter().flat_map(|work| &work.block);
    block.chain(header.into_iter().flat_map(|header| &header.tail))
}

/// The stages that give the elements of documents one by one, in order: all, or those that meet a condition.
fn rows(
    field: &OverflowField,
    those: Document,
    order: Option<&Order>,
    condition: Option<&Node>,
) -> Result<Vec<RawDocumentBuf>> {
    let mut stages = vec![doc! { "$match": those }];
    if order.is_none() {
        stages.push(doc! { "$sort": { field.seq: 1 } });
    }
    stages.push(doc! { "$project": { "_id": 0, field.elements: 1 } });
    stages.push(doc! { "$unwind": format!("${}", field.elements) });
    if let Some(condition) = condition {
        let matches = document_of(array_filter(condition, field.elements)?)?;
        stages.push(doc! { "$match": matches });
    }
    if let Some(order) = order {
        stages.push(doc! { "$sort": order.sort_by(&format!("{}.", field.elements)) });
    }
    stages.iter().map(close).collect()
}

/// The first of the elements in documents of an owner.
pub(crate) async fn first_outside(
    access: &Access,
    field: &'static OverflowField,
    owner: &Owner,
    order: &Order,
) -> Result<Option<Bson>> {
    let Some(those) = of_owner(field, owner) else {
        return Ok(None);
    };
    let mut pipeline = rows(field, those, Some(order), None)?;
    pipeline.push(close(&doc! { "$limit": 1 })?);
    let rows = access.aggregate_all(field.extras, aggregation(field.extras, pipeline));
    let rows = rows.await?;
    let first = rows.first().map(|row| open(row)).transpose()?;
    Ok(first.and_then(|mut row| row.remove(field.elements)))
}

fn aggregation(model: &'static Model, pipeline: Vec<RawDocumentBuf>) -> Aggregate {
    Aggregate {
        collection: model.collection.into(),
        pipeline,
        variables: RawDocumentBuf::new(),
        max_time: None,
    }
}

fn document_of(raw: RawDocumentBuf) -> Result<Document> {
    open(&raw)
}

/// A stored document with all elements of an array in it, as it would be inserted.
pub(crate) async fn with_all(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    document: &RawDocument,
) -> Result<RawDocumentBuf> {
    let Some((reading, _)) = Reading::of(access, model, field, document)? else {
        return Ok(document.to_owned());
    };
    let all = reading.all().await?.unwrap_or_default();
    let mut whole = open(document)?;
    set(&mut whole, field.stored, all);
    set(&mut whole, field.header, Document::new());
    set(&mut whole, decode::NEW, true);
    close(&whole)
}

/// How many elements documents have that a filter finds.
pub(crate) async fn count(access: &Access, field: &OverflowField, owner: &Owner) -> Result<i64> {
    match of_owner(field, owner) {
        Some(those) => extras::count(access, field, &those).await,
        None => Ok(0),
    }
}

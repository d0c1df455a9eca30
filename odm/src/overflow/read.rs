//! Reads all elements of an overflow array: the resident elements, and the spilled elements if there are any.

use std::collections::VecDeque;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    chunks::{Chunks, elements_of_chunk, find_in_order, live_chunks_filter},
    element_set::ElementSet,
    manifest::{ArrayState, integer_or_zero},
    order::{self, ArrayOrder},
};
use crate::{
    Error, ErrorKind, Result,
    backend::{Cursor, operation::AggregateOperation},
    error,
    language::query::{FilterNode, id_filter, render_array_filter},
    metadata::{
        self,
        overflow::{BLOCK, GENERATION, NEXT, TAIL, WORK, WORK_HEAD},
    },
    model::stored::{parse_document, set_at, to_raw_document, to_raw_value},
    schema::{Model, OverflowField},
    session::{
        access::{Access, ModelAccess},
        retry,
    },
};

/// The number of attempts to read an array that concurrent writes replace.
pub(crate) const MAX_READ_ATTEMPTS: u32 = 10;

/// A reader of one overflow array, in the document that a filter matches.
#[derive(Debug, Clone)]
pub(crate) struct ArrayReader {
    pub(crate) access: Access,
    pub(crate) model: &'static Model,
    pub(crate) field: &'static OverflowField,
    pub(crate) filter: RawDocumentBuf,
}

impl ArrayReader {
    /// Returns a reader of the array in the document that the filter matches.
    pub(crate) fn new(
        access: &Access,
        model: &'static Model,
        field: &'static OverflowField,
        filter: RawDocumentBuf,
    ) -> Self {
        Self {
            access: access.clone(),
            model,
            field,
            filter,
        }
    }

    /// Returns a reader and the state of the array in a document. Returns `None` if all elements are resident.
    pub(crate) fn from_document(
        access: ModelAccess<'_>,
        field: &'static OverflowField,
        document: &RawDocument,
    ) -> Result<Option<(Self, ArrayState)>> {
        let model = access.model;
        if !ArrayState::has_manifest(field, document) {
            return Ok(None);
        }
        let owner = ArrayState::from_document(field, document)?;
        let reader = Self {
            access: Access::clone(&access),
            model,
            field,
            filter: id_filter(&to_raw_value(&owner.id)?),
        };
        Ok(Some((reader, owner)))
    }

    /// Reads the state of the array, or `None` if there is no document.
    pub(crate) async fn read_state(&self) -> Result<Option<ArrayState>> {
        ArrayState::read_matching(self.access.to(self.model), self.field, &self.filter).await
    }

    /// Returns the chunks of the field.
    fn chunks(&self) -> Chunks<'_> {
        Chunks::new(&self.access, self.field)
    }

    /// Returns whether the array has other chunks now than in `owner`.
    pub(crate) async fn was_replaced(&self, owner: &ArrayState) -> Result<bool> {
        let generation = |owner: &ArrayState| owner.manifest.as_ref()?.generation;
        let current = self.read_state().await?;
        Ok(current.is_none_or(|current| generation(&current) != generation(owner)))
    }

    /// Reads all elements in order. Returns `None` if there is no document.
    pub(crate) async fn read_all(&self) -> Result<Option<Vec<Bson>>> {
        for attempt in 1..=MAX_READ_ATTEMPTS {
            let Some(owner) = self.read_state().await? else {
                return Ok(None);
            };
            let mut elements = owner.resident.clone();
            let resident_count = elements.len();
            if let Some(filter) = live_chunks_filter(self.field, &owner) {
                elements.extend(self.chunks().read_elements(&filter).await?);
            }
            let chunk_elements = elements.len() - resident_count;
            if self.is_complete(&owner, chunk_elements).await? {
                elements.extend(buffered_elements(&owner).cloned());
                order::sort_if_ordered(self.field, &mut elements);
                return Ok(Some(elements));
            }
            retry::pause_before_retry("the array was replaced during the read", attempt).await;
        }
        Err(self.contention_error())
    }

    /// Returns whether `owner` still has the same chunks.
    pub(super) async fn has_same_chunks(&self, owner: &ArrayState) -> Result<bool> {
        Ok(live_chunks_filter(self.field, owner).is_none() || !self.was_replaced(owner).await?)
    }

    /// Returns whether `chunk_elements` is the number of all elements in chunks, or `owner` still has the same chunks.
    pub(crate) async fn is_complete(
        &self,
        owner: &ArrayState,
        chunk_elements: usize,
    ) -> Result<bool> {
        let count = owner.manifest.as_ref().map_or(0, |manifest| manifest.count);
        Ok(i64::try_from(chunk_elements) == Ok(count) || !self.was_replaced(owner).await?)
    }

    /// Opens a cursor over the chunks of `owner`. With a sort order or a condition, each row has a single element.
    pub(super) async fn open_chunks(
        &self,
        owner: &ArrayState,
        condition: Option<&FilterNode>,
    ) -> Result<Option<Box<dyn Cursor>>> {
        let Some(filter) = live_chunks_filter(self.field, owner) else {
            return Ok(None);
        };
        let chunk_model = self.field.chunks;
        let order = ArrayOrder::from_field(self.field);
        if order.is_some() || condition.is_some() {
            let pipeline = element_pipeline(self.field, filter, order.as_ref(), condition)?;
            let cursor = self
                .access
                .aggregate(chunk_model, pipeline_operation(chunk_model, pipeline));
            return cursor.await.map(Some);
        }
        let find = find_in_order(self.field, &filter)?;
        self.access.find(chunk_model, find).await.map(Some)
    }

    /// Returns the elements of a chunk, or the single element of a sorted row.
    pub(crate) fn chunk_elements(&self, document: &Document) -> Vec<Bson> {
        elements_of_chunk(self.field, document.get(self.field.elements).cloned())
    }

    /// Removes and returns the elements of `sorted` that come before `element`.
    pub(crate) fn take_before(&self, element: &Bson, sorted: &mut VecDeque<Bson>) -> Vec<Bson> {
        let Some(order) = ArrayOrder::from_field(self.field) else {
            return Vec::new();
        };
        let key = order.sort_key(element);
        let before = sorted
            .iter()
            .take_while(|other| order.is_before(other, &key));
        let count = before.count();
        sorted.drain(..count).collect()
    }

    /// Returns the block and the tail of an array, sorted if the array has an order. Reads merge them with the chunks.
    pub(crate) fn sorted_buffer(&self, owner: &ArrayState) -> VecDeque<Bson> {
        let mut buffer: Vec<_> = buffered_elements(owner).cloned().collect();
        order::sort_if_ordered(self.field, &mut buffer);
        buffer.into()
    }

    /// Reads `len` elements from position `from` on.
    pub(crate) async fn read_range(&self, from: u64, len: usize) -> Result<Option<Vec<Bson>>> {
        for attempt in 1..=MAX_READ_ATTEMPTS {
            let Some(owner) = self.read_state().await? else {
                return Ok(None);
            };
            if let Some(found) = self.try_read_range(&owner, from, len).await? {
                return Ok(Some(found));
            }
            retry::pause_before_retry("the array was replaced during the read", attempt).await;
        }
        Err(self.contention_error())
    }

    /// Reads a range of an unsorted array, or returns `None` if the array was replaced meanwhile.
    async fn try_read_range(
        &self,
        owner: &ArrayState,
        from: u64,
        len: usize,
    ) -> Result<Option<Vec<Bson>>> {
        if let Some(order) = ArrayOrder::from_field(self.field) {
            return self.try_read_ordered_range(owner, &order, from, len).await;
        }
        let mut remaining_skip = usize::try_from(from).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut take = |elements: &[Bson], remaining_skip: &mut usize| {
            let selected = elements.iter().skip(*remaining_skip);
            let selected = selected.take(len - found.len());
            found.extend(selected.cloned());
            *remaining_skip = remaining_skip.saturating_sub(elements.len());
            found.len() == len
        };
        if take(&owner.resident, &mut remaining_skip) {
            return Ok(Some(found));
        }
        if let Some(filter) = live_chunks_filter(self.field, owner) {
            // The numbers of the chunks with elements of the range, and the number of elements in these chunks.
            let (mut numbers, mut selected_elements) = (Vec::new(), 0);
            let mut chunk_elements = 0;
            for (seq, count) in self.chunk_lengths(&filter).await? {
                chunk_elements += count;
                if numbers.is_empty() && remaining_skip >= count {
                    remaining_skip -= count;
                } else if selected_elements < remaining_skip.saturating_add(len) {
                    numbers.push(Bson::Int64(seq));
                    selected_elements += count;
                }
            }
            if !self.is_complete(owner, chunk_elements).await? {
                return Ok(None);
            }
            if !numbers.is_empty() {
                let mut filter = filter;
                let count = numbers.len();
                filter.insert(self.field.seq, doc! { "$in": numbers });
                let chunks = self.chunks().read_all(&filter).await?;
                if chunks.len() < count {
                    return Ok(None);
                }
                let elements = chunks.iter().flat_map(|chunk| self.chunk_elements(chunk));
                let elements: Vec<_> = elements.collect();
                if take(&elements, &mut remaining_skip) {
                    return Ok(Some(found));
                }
            }
        }
        let buffered: Vec<_> = buffered_elements(owner).cloned().collect();
        take(&buffered, &mut remaining_skip);
        Ok(Some(found))
    }

    /// Reads a range of a sorted array. The server sorts the spilled elements.
    async fn try_read_ordered_range(
        &self,
        owner: &ArrayState,
        order: &ArrayOrder,
        from: u64,
        len: usize,
    ) -> Result<Option<Vec<Bson>>> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let resident = owner.resident.iter().skip(from).take(len);
        let mut range: Vec<_> = resident.cloned().collect();
        let remaining = len - range.len();
        let from = from.saturating_sub(owner.resident.len());
        if remaining == 0 {
            return Ok(Some(range));
        }
        let mut spilled: Vec<_> = self.sorted_buffer(owner).into();
        // At least this many elements of chunks come before the range.
        let skipped = from.saturating_sub(spilled.len());
        if let Some(filter) = live_chunks_filter(self.field, owner) {
            let mut pipeline = element_pipeline(self.field, filter, Some(order), None)?;
            if skipped > 0 {
                pipeline.push(to_raw_document(
                    &doc! { "$skip": i64::try_from(skipped).unwrap_or(i64::MAX) },
                )?);
            }
            let limit = (from - skipped).saturating_add(remaining);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            pipeline.push(to_raw_document(&doc! { "$limit": limit })?);
            for row in self.run_pipeline(self.field.chunks, pipeline).await? {
                spilled.extend(self.chunk_elements(&row));
            }
            if self.was_replaced(owner).await? {
                return Ok(None);
            }
        }
        order.sort_elements(&mut spilled);
        let spilled = spilled.into_iter().skip(from - skipped).take(remaining);
        range.extend(spilled);
        Ok(Some(range))
    }

    /// Returns the number and the length of each chunk, in order.
    async fn chunk_lengths(&self, filter: &Document) -> Result<Vec<(i64, usize)>> {
        let size = doc! { "$size": format!("${}", self.field.elements) };
        let pipeline = vec![
            to_raw_document(&doc! { "$match": filter.clone() })?,
            to_raw_document(&doc! { "$sort": { self.field.seq: 1 } })?,
            to_raw_document(
                &doc! { "$project": { "_id": 0, "seq": format!("${}", self.field.seq), "count": size } },
            )?,
        ];
        let rows = self.run_pipeline(self.field.chunks, pipeline).await?;
        let rows = rows.iter().map(|row| {
            let count = usize::try_from(integer_or_zero(row.get("count"))).unwrap_or(0);
            (integer_or_zero(row.get("seq")), count)
        });
        Ok(rows.collect())
    }

    /// Returns the state of the array and its matching elements in the owner document: the resident elements, and the elements of
    /// the block and the tail. A single pipeline reads everything. Two reads could miss or repeat an element that moves in
    /// between.
    pub(super) async fn read_matching_in_owner(
        &self,
        condition: &FilterNode,
    ) -> Result<Option<(ArrayState, Vec<Bson>, Vec<Bson>)>> {
        let matches = parse_document(&render_array_filter(condition, "e")?)?;
        let array = |path: &str| {
            let value = format!("${path}");
            doc! { "$cond": [{ "$isArray": &value }, &value, []] }
        };
        // A marker between the resident and the buffered elements. A fresh id never equals an element.
        let marker_id = ObjectId::new();
        let mut manifest = Document::new();
        for name in [GENERATION, NEXT] {
            manifest.insert(name, format!("${}", self.field.manifest_path(name)));
        }
        let mut work = Document::new();
        for name in WORK_HEAD {
            work.insert(name, format!("${}", self.field.work_path(name)));
        }
        manifest.insert(WORK, work);
        let marker = doc! { "mark": marker_id, "_id": "$_id", "manifest": manifest };
        let parts = vec![
            Bson::from(array(self.field.stored)),
            Bson::from(vec![Bson::from(marker)]),
            Bson::from(array(&self.field.work_path(BLOCK))),
            Bson::from(array(&self.field.manifest_path(TAIL))),
        ];
        let stages = vec![
            to_raw_document(&doc! { "$match": parse_document(&self.filter)? })?,
            to_raw_document(&doc! { "$limit": 1 })?,
            to_raw_document(&doc! { "$project": { "_id": 0, "e": { "$concatArrays": parts } } })?,
            to_raw_document(&doc! { "$unwind": "$e" })?,
            to_raw_document(&doc! { "$match": { "$or": [matches, { "e.mark": marker_id }] } })?,
        ];
        let rows = self.run_pipeline(self.model, stages).await?;
        let resident = rows.into_iter().filter_map(|mut row| row.remove("e"));
        let mut resident: Vec<_> = resident.collect();
        let is_marker = |element: &Bson| {
            let element = element.as_document();
            element.is_some_and(|element| {
                element
                    .get_object_id("mark")
                    .is_ok_and(|id| id == marker_id)
            })
        };
        let Some(position) = resident.iter().position(is_marker) else {
            return Ok(None);
        };
        let buffered = resident.split_off(position + 1);
        let Some(Bson::Document(mut marker)) = resident.pop() else {
            return Ok(None);
        };
        let mut owner = Document::new();
        owner.insert("_id", marker.remove("_id"));
        if let Some(manifest) = marker.remove("manifest") {
            set_at(&mut owner, self.field.manifest, manifest);
        }
        let owner = ArrayState::from_document(self.field, &to_raw_document(&owner)?)?;
        Ok(Some((owner, resident, buffered)))
    }

    async fn run_pipeline(
        &self,
        model: &'static Model,
        pipeline: Vec<RawDocumentBuf>,
    ) -> Result<Vec<Document>> {
        let rows = self
            .access
            .aggregate_all(model, pipeline_operation(model, pipeline));
        let rows = rows.await?;
        rows.iter().map(|row| parse_document(row)).collect()
    }

    /// Returns whether an element equals the value, or `None` if there is no document.
    pub(crate) async fn contains_element(&self, value: &Bson) -> Result<Option<bool>> {
        for attempt in 1..=MAX_READ_ATTEMPTS {
            let Some(owner) = self.read_state().await? else {
                return Ok(None);
            };
            let unchunked = owner.resident.iter().chain(buffered_elements(&owner));
            if ElementSet::from_elements(unchunked)?.contains_element(value)? {
                return Ok(Some(true));
            }
            let Some(mut filter) = live_chunks_filter(self.field, &owner) else {
                return Ok(Some(false));
            };
            filter.insert(self.field.elements, doc! { "$in": [value.clone()] });
            let count = crate::backend::operation::CountOperation {
                collection: self.field.chunks.collection.into(),
                filter: to_raw_document(&filter)?,
                limit: Some(1),
                options: Default::default(),
            };
            if self.access.count(self.field.chunks, count).await? > 0 {
                return Ok(Some(true));
            }
            if !self.was_replaced(&owner).await? {
                return Ok(Some(false));
            }
            retry::pause_before_retry("the array was replaced during the read", attempt).await;
        }
        Err(self.contention_error())
    }

    /// Returns the given values that are elements of the array. Returns none without a document.
    pub(crate) async fn values_present(&self, values: &[Bson]) -> Result<Vec<Bson>> {
        for attempt in 1..=MAX_READ_ATTEMPTS {
            let Some(owner) = self.read_state().await? else {
                return Ok(Vec::new());
            };
            let mut elements =
                ElementSet::from_elements(owner.resident.iter().chain(buffered_elements(&owner)))?;
            let missing = elements.filter_missing(values.to_vec())?;
            let filter = live_chunks_filter(self.field, &owner).filter(|_| !missing.is_empty());
            let has_chunks = filter.is_some();
            if let Some(mut filter) = filter {
                filter.insert(self.field.elements, doc! { "$in": missing });
                for element in self.chunks().read_elements(&filter).await? {
                    elements.insert(&element)?;
                }
            }
            if !has_chunks || !self.was_replaced(&owner).await? {
                let mut present = Vec::new();
                for value in values {
                    if elements.contains_element(value)? {
                        present.push(value.clone());
                    }
                }
                return Ok(present);
            }
            retry::pause_before_retry("the array was replaced during the read", attempt).await;
        }
        Err(self.contention_error())
    }

    /// The error after too many attempts to read an array that concurrent writes replace.
    pub(crate) fn contention_error(&self) -> Error {
        let message = format!(
            "too much contention on `{}`: each attempt to read was interrupted by a replacement of the array; retry",
            self.field.field
        );
        error::naming_model(self.model)(Error::new(ErrorKind::Conflict, message))
    }
}

/// Returns the elements between the chunks and the end of the array: the frozen block, then the tail.
pub(crate) fn buffered_elements(owner: &ArrayState) -> impl Iterator<Item = &Bson> {
    let manifest = owner.manifest.as_ref();
    let work = manifest.and_then(|manifest| manifest.work.as_ref());
    let block = work.into_iter().flat_map(|work| &work.block);
    block.chain(manifest.into_iter().flat_map(|manifest| &manifest.tail))
}

/// Returns the stages that unwind the elements, in order. With a condition, only matching elements are returned.
fn element_pipeline(
    field: &OverflowField,
    filter: Document,
    order: Option<&ArrayOrder>,
    condition: Option<&FilterNode>,
) -> Result<Vec<RawDocumentBuf>> {
    let mut stages = vec![doc! { "$match": filter }];
    if order.is_none() {
        stages.push(doc! { "$sort": { field.seq: 1 } });
    }
    stages.push(doc! { "$project": { "_id": 0, field.elements: 1 } });
    stages.push(doc! { "$unwind": format!("${}", field.elements) });
    if let Some(condition) = condition {
        let matches = parse_document(&render_array_filter(condition, field.elements)?)?;
        stages.push(doc! { "$match": matches });
    }
    if let Some(order) = order {
        stages.push(doc! { "$sort": order.sort_document(&format!("{}.", field.elements)) });
    }
    stages.iter().map(to_raw_document).collect()
}

/// Returns the first element in chunks by the sort order.
pub(crate) async fn first_chunk_element(
    Chunks { access, field }: Chunks<'_>,
    owner: &ArrayState,
    order: &ArrayOrder,
) -> Result<Option<Bson>> {
    let Some(filter) = live_chunks_filter(field, owner) else {
        return Ok(None);
    };
    let mut pipeline = element_pipeline(field, filter, Some(order), None)?;
    pipeline.push(to_raw_document(&doc! { "$limit": 1 })?);
    let pipeline = pipeline_operation(field.chunks, pipeline);
    let rows = access.aggregate_all(field.chunks, pipeline).await?;
    let first = rows.first().map(|row| parse_document(row)).transpose()?;
    Ok(first.and_then(|mut row| row.remove(field.elements)))
}

fn pipeline_operation(model: &'static Model, pipeline: Vec<RawDocumentBuf>) -> AggregateOperation {
    AggregateOperation {
        collection: model.collection.into(),
        pipeline,
        variables: RawDocumentBuf::new(),
        options: Default::default(),
    }
}

/// Returns a stored document with all elements of an array in place, as for an insert.
pub(crate) async fn with_all_elements(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    document: &RawDocument,
) -> Result<RawDocumentBuf> {
    let Some((reader, _)) = ArrayReader::from_document(access, field, document)? else {
        return Ok(document.to_owned());
    };
    let elements = reader.read_all().await?.unwrap_or_default();
    let mut complete = parse_document(document)?;
    set_at(&mut complete, field.stored, elements);
    set_at(&mut complete, field.manifest, Document::new());
    set_at(&mut complete, metadata::COMPLETE, true);
    to_raw_document(&complete)
}

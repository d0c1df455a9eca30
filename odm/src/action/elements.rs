//! Reads of the elements of an overflow array.

use std::{collections::VecDeque, marker::PhantomData, pin::Pin};

use bson::{Bson, RawBson};

use super::find::Rows;
use crate::{
    Result, error,
    language::{
        field::{Elem, FromPath, Path, role, shape},
        query::{Filter, FilterNode, IntoFilter, IntoValue, Key},
    },
    model::{
        decode,
        document::{Document, Stored},
    },
    overflow::{ArrayReader, MAX_READ_ATTEMPTS, SpilledCursor, order},
    session::{access::Access, retry},
};

/// All elements of an overflow array, resident and spilled. Made by [`Get::elements`](super::Get::elements).
///
/// Every read starts with the owner document, limited to the array. If no element is spilled, this is the only round trip.
/// Without a document, the error has the kind [`NotFound`](crate::ErrorKind::NotFound).
///
/// Elements that are pushed or pulled during a read may be included or not. Every element that stays is read exactly once, in its
/// place.
#[must_use = "nothing is read until a method such as `all`, `page` or `len` is awaited"]
pub struct Elements<T: Document, E> {
    reader: Result<ArrayReader>,
    key: Key<T>,
    of: PhantomData<fn() -> E>,
}

impl<T: Document, E: Stored> Elements<T, E> {
    pub(super) fn new(access: Access, key: Key<T>, path: &Path) -> Self {
        let reader = T::MODEL.require_overflow_at(path).and_then(|field| {
            Ok(ArrayReader {
                access,
                model: &T::MODEL,
                field,
                filter: key.to_raw()?,
            })
        });
        Self {
            reader,
            key,
            of: PhantomData,
        }
    }

    /// Returns the number of elements. Reads no spilled element.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn len(self) -> Result<u64> {
        let reading = self.reader?;
        let array = reading.read_state().await?;
        let array = array.ok_or_else(|| error::not_found::<T>(self.key.id()))?;
        Ok(array.len())
    }

    /// Returns whether the array has no elements.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn is_empty(self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Reads all elements in order: one round trip, and a second round trip if elements are spilled.
    ///
    /// # Errors
    ///
    /// - [`Decode`](crate::ErrorKind::Decode) for an element that does not fit the type.
    /// - [`Conflict`](crate::ErrorKind::Conflict) if concurrent writes replace the array during every attempt.
    pub async fn all(self) -> Result<Vec<E>> {
        let all = self.reader?.read_all().await?;
        decode_elements::<T, E>(all, &self.key)
    }

    /// Reads `len` elements from the position `from` on. Positions count from 0. Takes at most three round trips.
    ///
    /// A pull of an element before `from` shifts the positions of all later elements.
    ///
    /// # Errors
    ///
    /// The same as [`all`](Self::all).
    pub async fn page(self, from: u64, len: usize) -> Result<Vec<E>> {
        let page = self.reader?.read_range(from, len).await?;
        decode_elements::<T, E>(page, &self.key)
    }

    /// Reads the element at a position, counted from 0. Returns `None` after the last element.
    ///
    /// # Errors
    ///
    /// The same as [`all`](Self::all).
    pub async fn get(self, position: u64) -> Result<Option<E>> {
        Ok(self.page(position, 1).await?.pop())
    }

    /// Returns whether an element equals the value. Searches the spilled elements only if no resident element matches.
    ///
    /// # Errors
    ///
    /// - [`Conflict`](crate::ErrorKind::Conflict) if concurrent writes replace the array during every attempt.
    /// - Errors of the backend.
    pub async fn contains(self, value: impl IntoValue<E> + Send) -> Result<bool> {
        let value = value.into_value().map_err(error::of_model::<T>)?;
        let value = Bson::try_from(value).map_err(error::from_bson)?;
        let contains = self.reader?.contains_element(&value).await?;
        contains.ok_or_else(|| error::not_found::<T>(self.key.id()))
    }

    /// Selects the elements that meet a condition. The backend evaluates the condition on resident and spilled elements.
    ///
    /// Awaiting the result reads all matching elements in order. [`stream`](Matching::stream) reads the elements in batches.
    pub fn filter<F: IntoFilter<Elem<T>>>(
        self,
        condition: impl FnOnce(E::Fields<Elem<T>, role::Resident, shape::One>) -> F,
    ) -> Matching<T, E> {
        let condition = condition(FromPath::from_path(Path::ROOT)).into_filter();
        Matching {
            elements: self,
            condition: condition.map(Filter::into_node),
        }
    }

    /// Streams the elements in order, for arrays of any size. Spilled elements are read in batches.
    ///
    /// The stream ends with an error of kind [`Conflict`](crate::ErrorKind::Conflict) if a concurrent write replaces the array.
    pub fn stream(self) -> Rows<E> {
        into_rows::<T, E>(ElementStream::new(self, None))
    }
}

/// The elements of an overflow array that meet a condition. Made by [`Elements::filter`].
#[must_use = "nothing is read until this is awaited or streamed"]
pub struct Matching<T: Document, E> {
    elements: Elements<T, E>,
    condition: Option<FilterNode>,
}

impl<T: Document, E: Stored> Matching<T, E> {
    /// Streams the matching elements in order, for arrays of any size. Spilled elements are read in batches.
    ///
    /// The stream ends with an error of kind [`Conflict`](crate::ErrorKind::Conflict) if a concurrent write replaces the array.
    pub fn stream(self) -> Rows<E> {
        into_rows::<T, E>(ElementStream::new(self.elements, self.condition))
    }
}

/// Reads all matching elements in order: one round trip, and two more if the array has chunks.
///
/// # Errors
///
/// The same as [`Elements::all`].
impl<T: Document, E: Stored> IntoFuture for Matching<T, E> {
    type Output = Result<Vec<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut stream = ElementStream::new(self.elements, self.condition);
            for attempt in 1..=MAX_READ_ATTEMPTS {
                let elements = stream.collect_rest().await.map_err(error::of_model::<T>)?;
                if let Some(elements) = elements {
                    // Elements that were stored before the declaration of the sort order may be unsorted.
                    let mut elements = Vec::from(elements);
                    order::sort_if_ordered(stream.reader?.field, &mut elements);
                    return elements.into_iter().map(decode_element::<T, E>).collect();
                }
                retry::pause_before_retry("the array was replaced during the read", attempt).await;
                stream.restart_read();
            }
            Err(stream.reader?.contention_error())
        })
    }
}

fn into_rows<T: Document, E: Stored>(start: ElementStream<T>) -> Rows<E> {
    Rows::from_stream(futures_util::stream::unfold(
        start,
        async |mut stream| match stream.next_element().await {
            Ok(element) => Some((decode_element::<T, E>(element?), stream)),
            Err(error) => {
                (stream.is_over, stream.ready) = (true, VecDeque::new());
                Some((Err(error), stream))
            }
        },
    ))
}

/// The state of a stream of elements.
struct ElementStream<T: Document> {
    reader: Result<ArrayReader>,
    key: Key<T>,
    condition: Option<FilterNode>,
    /// The cursor over the spilled elements, once the owner document has been read.
    cursor: Option<SpilledCursor>,
    ready: VecDeque<Bson>,
    is_over: bool,
}

impl<T: Document> ElementStream<T> {
    fn new<E>(elements: Elements<T, E>, condition: Option<FilterNode>) -> Self {
        Self {
            reader: elements.reader,
            key: elements.key,
            condition,
            cursor: None,
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    async fn next_element(&mut self) -> Result<Option<Bson>> {
        loop {
            if let Some(element) = self.ready.pop_front() {
                return Ok(Some(element));
            }
            if self.is_over {
                return Ok(None);
            }
            if !self.read_more().await? {
                return Err(self.reader.clone()?.contention_error());
            }
        }
    }

    /// Returns all remaining elements, or `None` if the array was replaced meanwhile.
    async fn collect_rest(&mut self) -> Result<Option<VecDeque<Bson>>> {
        while !self.is_over {
            if !self.read_more().await? {
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(&mut self.ready)))
    }

    fn restart_read(&mut self) {
        (self.cursor, self.ready) = (None, VecDeque::new());
    }

    /// Reads the next elements into `ready`. Returns false if the array was replaced meanwhile.
    async fn read_more(&mut self) -> Result<bool> {
        match &mut self.cursor {
            None => {
                let cursor =
                    SpilledCursor::open_array(self.reader.clone()?, self.condition.as_ref())
                        .await?;
                let (first, cursor) = cursor.ok_or_else(|| error::not_found::<T>(self.key.id()))?;
                self.ready.extend(first);
                self.is_over = cursor.is_exhausted();
                self.cursor = Some(cursor);
            }
            Some(cursor) => {
                let next = cursor.next_elements(1).await?;
                self.is_over = cursor.is_exhausted();
                if self.is_over && !cursor.is_complete().await? {
                    return Ok(false);
                }
                self.ready.extend(next);
            }
        }
        Ok(true)
    }
}

fn decode_elements<T: Document, E: Stored>(
    elements: Option<Vec<Bson>>,
    key: &Key<T>,
) -> Result<Vec<E>> {
    let elements = elements.ok_or_else(|| error::not_found::<T>(key.id()))?;
    elements.into_iter().map(decode_element::<T, E>).collect()
}

fn decode_element<T: Document, E: Stored>(element: Bson) -> Result<E> {
    let element = RawBson::try_from(element).map_err(error::from_bson)?;
    decode::decode_value(&element).map_err(error::of_model::<T>)
}

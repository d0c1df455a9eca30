//! Reading the elements of an array that overflows.

use std::{collections::VecDeque, marker::PhantomData, pin::Pin};

use bson::{Bson, RawBson};

use super::find::Rows;
use crate::{
    Result,
    access::Access,
    decode,
    document::{Document, Stored},
    error,
    field::{Elem, FromPath, Path, role, shape},
    overflow::{ATTEMPTS, Reading, Walk, order},
    query::{Filter, IntoFilter, IntoValue, Key, Node},
    retry,
};

/// All elements of an array that overflows, wherever they are; made by [`Get::elements`](super::Get::elements).
///
/// Every question reads the document first, of it no more than the array; where all elements are in it, that is all. It is an error of
/// kind [`NotFound`](crate::ErrorKind::NotFound) if there is no document.
///
/// Elements that are pushed or pulled while they are read may be among what is read or not; each of the others is, once and in its place.
#[must_use = "it is a question to be asked: `all`, `stream`, `page`, `get`, `contains`, `filter`, `len`"]
pub struct Elements<T: Document, E> {
    reading: Result<Reading>,
    key: Key<T>,
    of: PhantomData<fn() -> E>,
}

impl<T: Document, E: Stored> Elements<T, E> {
    pub(super) fn new(access: Access, key: Key<T>, path: &Path) -> Self {
        let reading = T::MODEL.overflowing(path).and_then(|field| {
            Ok(Reading {
                access,
                model: &T::MODEL,
                field,
                filter: key.to_raw()?,
            })
        });
        Self {
            reading,
            key,
            of: PhantomData,
        }
    }

    /// How many elements there are. It reads none of those that are outside of the document.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub async fn len(self) -> Result<u64> {
        let reading = self.reading?;
        let owner = reading.owner().await?;
        let owner = owner.ok_or_else(|| error::not_found::<T>(self.key.id()))?;
        Ok(owner.len())
    }

    /// Whether there are none.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub async fn is_empty(self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// All of them, in order: two round trips if there are some outside of the document.
    ///
    /// # Errors
    ///
    /// [`Decode`](crate::ErrorKind::Decode) for an element that does not fit its type, [`Conflict`](crate::ErrorKind::Conflict) if the array was
    /// replaced again and again meanwhile.
    pub async fn all(self) -> Result<Vec<E>> {
        let all = self.reading?.all().await?;
        values::<T, E>(all, &self.key)
    }

    /// `len` of them from the position `from` on, which is counted from 0: three round trips at most.
    ///
    /// What is pulled before that position moves those behind it.
    ///
    /// # Errors
    ///
    /// As [`all`](Self::all).
    pub async fn page(self, from: u64, len: usize) -> Result<Vec<E>> {
        let page = self.reading?.range(from, len).await?;
        values::<T, E>(page, &self.key)
    }

    /// The one at a position, counted from 0; none behind the last.
    ///
    /// # Errors
    ///
    /// As [`all`](Self::all).
    pub async fn get(self, position: u64) -> Result<Option<E>> {
        Ok(self.page(position, 1).await?.pop())
    }

    /// Whether one of them equals the value. It looks outside of the document only if none does in it.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) if the array was replaced again and again meanwhile, and those of the backend.
    pub async fn contains(self, value: impl IntoValue<E> + Send) -> Result<bool> {
        let value = value.into_value().map_err(error::of_model::<T>)?;
        let value = Bson::try_from(value).map_err(error::encode)?;
        let found = self.reading?.contains(&value).await?;
        found.ok_or_else(|| error::not_found::<T>(self.key.id()))
    }

    /// Those that meet a condition, in order: the backend looks for them, wherever they are. All of them when it is awaited, or one after
    /// the other by [`stream`](Matching::stream).
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

    /// One after the other, in order, however many there are: those outside of the document are read batch by batch.
    ///
    /// It ends with an error of kind [`Conflict`](crate::ErrorKind::Conflict) if the array is replaced by another one meanwhile.
    pub fn stream(self) -> Rows<E> {
        rows::<T, E>(Stream::new(self, None))
    }
}

/// The elements of an array that overflows that meet a condition, wherever they are; made by [`Elements::filter`].
#[must_use = "it is a question to be asked: await it, or `stream`"]
pub struct Matching<T: Document, E> {
    elements: Elements<T, E>,
    condition: Option<Node>,
}

impl<T: Document, E: Stored> Matching<T, E> {
    /// One after the other, in order, however many there are: those outside of the document are read batch by batch.
    ///
    /// It ends with an error of kind [`Conflict`](crate::ErrorKind::Conflict) if the array is replaced by another one meanwhile.
    pub fn stream(self) -> Rows<E> {
        rows::<T, E>(Stream::new(self.elements, self.condition))
    }
}

/// All of them, in order: a round trip, and two more if there are documents of the extras.
///
/// # Errors
///
/// As [`Elements::all`].
impl<T: Document, E: Stored> IntoFuture for Matching<T, E> {
    type Output = Result<Vec<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut stream = Stream::new(self.elements, self.condition);
            for attempt in 1..=ATTEMPTS {
                let found = stream.all().await.map_err(error::of_model::<T>)?;
                if let Some(found) = found {
                    // What was there before the order was declared may not be in it yet.
                    let mut found = Vec::from(found);
                    order::in_order(stream.reading?.field, &mut found);
                    return found.into_iter().map(element_of::<T, E>).collect();
                }
                retry::pause(attempt).await;
                stream.begin_anew();
            }
            Err(stream.reading?.replaced())
        })
    }
}

fn rows<T: Document, E: Stored>(start: Stream<T>) -> Rows<E> {
    Rows::of(futures_util::stream::unfold(
        start,
        async |mut stream| match stream.next().await {
            Ok(element) => Some((element_of::<T, E>(element?), stream)),
            Err(error) => {
                (stream.is_over, stream.ready) = (true, VecDeque::new());
                Some((Err(error), stream))
            }
        },
    ))
}

/// Where a stream is.
struct Stream<T: Document> {
    reading: Result<Reading>,
    key: Key<T>,
    condition: Option<Node>,
    /// Among the elements outside of the document, when it has been read.
    walk: Option<Walk>,
    ready: VecDeque<Bson>,
    is_over: bool,
}

impl<T: Document> Stream<T> {
    fn new<E>(elements: Elements<T, E>, condition: Option<Node>) -> Self {
        Self {
            reading: elements.reading,
            key: elements.key,
            condition,
            walk: None,
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    async fn next(&mut self) -> Result<Option<Bson>> {
        loop {
            if let Some(element) = self.ready.pop_front() {
                return Ok(Some(element));
            }
            if self.is_over {
                return Ok(None);
            }
            if !self.read_on().await? {
                return Err(self.reading.clone()?.replaced());
            }
        }
    }

    /// All that follow; none if the array was replaced by another one meanwhile.
    async fn all(&mut self) -> Result<Option<VecDeque<Bson>>> {
        while !self.is_over {
            if !self.read_on().await? {
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(&mut self.ready)))
    }

    fn begin_anew(&mut self) {
        (self.walk, self.ready) = (None, VecDeque::new());
    }

    /// Makes some more ready; false if the array was replaced by another one meanwhile.
    async fn read_on(&mut self) -> Result<bool> {
        match &mut self.walk {
            None => {
                let walk = Walk::whole(self.reading.clone()?, self.condition.as_ref()).await?;
                let (first, walk) = walk.ok_or_else(|| error::not_found::<T>(self.key.id()))?;
                self.ready.extend(first);
                self.is_over = walk.is_over();
                self.walk = Some(walk);
            }
            Some(walk) => {
                let next = walk.next(1).await?;
                self.is_over = walk.is_over();
                if self.is_over && !walk.is_whole().await? {
                    return Ok(false);
                }
                self.ready.extend(next);
            }
        }
        Ok(true)
    }
}

fn values<T: Document, E: Stored>(found: Option<Vec<Bson>>, key: &Key<T>) -> Result<Vec<E>> {
    let found = found.ok_or_else(|| error::not_found::<T>(key.id()))?;
    found.into_iter().map(element_of::<T, E>).collect()
}

fn element_of<T: Document, E: Stored>(element: Bson) -> Result<E> {
    let element = RawBson::try_from(element).map_err(error::encode)?;
    decode::value(&element).map_err(error::of_model::<T>)
}

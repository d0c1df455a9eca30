//! The arrays of a model that overflow: asked wherever their elements are, and looked after.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc};

use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::{Aggregate, Find},
    document::{Document, Overflow, Stored},
    error,
    field::{Elem, FromPath, Path, Place, role, shape},
    maintain::{Finished, Folded, anywhere, fold, spill, too_long_or_large},
    overflow::unsorted,
    query::{Filter, IntoFilter, IntoKey},
    schema::OverflowField,
    settled::Worker,
};

/// The arrays of a model that overflow, to be asked and looked after; made by [`Session::arrays`](crate::Session::arrays).
///
/// [`any`](Self::any) is a condition on elements wherever they are. The others look after the arrays: each may run while the application
/// writes, may be ended at any time, and goes on where it was when it is begun again, as what is done needs nothing any more. Documents of
/// all scopes are looked at, and those that are deleted by a mark.
#[must_use = "say what to do: `any`, `fold`, `spill` or `lengths`"]
pub struct Arrays<T> {
    access: Access,
    of: PhantomData<fn() -> T>,
}

impl<T: Document> Arrays<T> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access: access.to_everything(),
            of: PhantomData,
        }
    }

    /// The condition that one and the same element meets the condition, wherever it is: in the document, or outside of it.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "sales")]
    /// # struct Book {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     title: String,
    /// #     #[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))] customers: Overflow<String>,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Book))] struct Shop;
    /// # async fn example(db: odm::Database<Shop>) -> odm::Result<()> {
    /// let bought = db.arrays::<Book>().any(|b| b.customers(), |customer| customer.eq("user777")).await?;
    /// let books = db.find::<Book>().filter(|b| bought & b.title().starts_with("Harry")).all().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// It is asked when it is made: one query for elements on their way out of documents, one for those outside, one more for each 1,000
    /// documents that have such, to make sure that they are theirs. No index has the elements: the first looks at all documents, the
    /// second at everything that is outside. The condition then names the documents with such an element outside
    /// of them by their ids, and asks for it in the others. Where elements in documents are enough, a filter by
    /// [`resident`](crate::field::Overflowing::resident) costs nothing beside.
    ///
    /// It is about what is outside of documents now: made once and used again later, it does not find what has gone there meanwhile, and
    /// still finds documents whose element outside of them is gone. An array that is replaced as a whole meanwhile may be missed.
    ///
    /// # Errors
    ///
    /// Those of the backend; [`Invalid`](crate::ErrorKind::Invalid) for an array that does not overflow;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if more than 100,000 documents have such an element outside of them.
    pub async fn any<P, E, F>(
        &self,
        array: impl FnOnce(T::Fields) -> P + Send,
        condition: impl FnOnce(E::Fields<Elem<T>, role::Resident, shape::One>) -> F + Send,
    ) -> Result<Filter<T>>
    where
        P: Place<Scope = T, Value = Overflow<E>>,
        E: Stored,
        F: IntoFilter<Elem<T>>,
    {
        let field = T::MODEL.overflowing(&array(T::fields()).path())?;
        let condition = condition(FromPath::from_path(Path::ROOT)).into_filter();
        let Some(condition) = condition else {
            return Ok(Filter::all());
        };
        let found = anywhere(&self.access, &T::MODEL, field, &condition.into_node()).await?;
        Ok(Filter::from_node(found))
    }

    /// Brings the elements of one document back into it, where they fit: where they are no more than three quarters of those that may
    /// be in it, so that the next push does not take them out again. Tells whether some were brought back.
    ///
    /// # Errors
    ///
    /// Those of the backend, and [`Conflict`](crate::ErrorKind::Conflict) if others write to the array again and again.
    pub async fn fold_one(&self, id: impl IntoKey<T>) -> Result<bool> {
        let find = found_by(&T::COLLECTION.into(), &id.into_key().to_raw()?);
        let mut is_folded = false;
        for id in self.ids(find).await? {
            for field in T::MODEL.overflows {
                let folded = fold(&self.access, &T::MODEL, field, &id).await?;
                is_folded |= folded == Folded::Now;
            }
        }
        Ok(is_folded)
    }

    /// The same for all documents; tells how many arrays were brought back.
    ///
    /// # Errors
    ///
    /// As [`fold_one`](Self::fold_one): once all others are done, that of the first array that could not be.
    pub async fn fold(&self) -> Result<u64> {
        let folded = self.fold_all().await?;
        folded.failed.map_or(Ok(folded.documents), Err)
    }

    async fn fold_all(&self) -> Result<Finished> {
        let mut folded = Finished::default();
        for field in T::MODEL.overflows {
            let outside = doc! { field.header: { "$exists": true } };
            for id in self.matching(&outside).await? {
                match fold(&self.access, &T::MODEL, field, &id).await {
                    Ok(done) => folded.documents += u64::from(done == Folded::Now),
                    Err(error) => folded.fail(error)?,
                }
            }
        }
        Ok(folded)
    }

    /// The same in a task of its own, at once and with this pause behind each time, until what is given back is dropped. Its
    /// [progress](Worker::progress) tells how many arrays were brought back.
    ///
    /// Several processes may do so: each array is brought back by one of them. It reads the documents that have elements outside, and no
    /// index leads there: let hours be between two rounds, not seconds.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "sales")]
    /// # struct Book {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     #[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))] customers: Overflow<String>,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Book))] struct Shop;
    /// # async fn serve(db: &odm::Database<Shop>) {}
    /// # async fn example(db: odm::Database<Shop>) {
    /// let folding = db.arrays::<Book>().fold_every(Duration::from_secs(3600));
    /// serve(&db).await;
    /// println!("{} arrays are whole again", folding.progress().documents);
    /// # }
    /// ```
    pub fn fold_every(self, pause: Duration) -> Worker {
        let arrays = Arc::new(self);
        Worker::start(pause, move || {
            let arrays = arrays.clone();
            async move { arrays.fold_all().await }
        })
    }

    /// Lets the arrays overflow that are longer or larger in their documents than they should be, and brings those into their order that
    /// are not in it: those of documents that were there before the array was declared so. Tells how many there were.
    ///
    /// # Errors
    ///
    /// As [`fold`](Self::fold).
    pub async fn spill(&self) -> Result<u64> {
        let mut spilled = Finished::default();
        for field in T::MODEL.overflows {
            let too_much = too_long_or_large(field);
            let found = match unsorted(field) {
                Some(unsorted) => doc! { "$or": [too_much, unsorted] },
                None => too_much,
            };
            for id in self.matching(&found).await? {
                match spill(&self.access, &T::MODEL, field, &id).await {
                    Ok(done) => spilled.documents += u64::from(done),
                    Err(error) => spilled.fail(error)?,
                }
            }
        }
        spilled.failed.map_or(Ok(spilled.documents), Err)
    }

    /// How long the arrays are, and how large the documents: what tells after how many elements an array is to overflow.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub async fn lengths(&self) -> Result<Vec<Lengths>> {
        let mut all = Vec::new();
        for field in T::MODEL.overflows {
            all.push(self.lengths_of(field).await?);
        }
        Ok(all)
    }

    async fn lengths_of(&self, field: &'static OverflowField) -> Result<Lengths> {
        let size = |path: &str| doc! { "$size": { "$ifNull": [format!("${path}"), []] } };
        let outside = doc! { "$ifNull": [format!("${}.count", field.header), 0_i64] };
        let count = doc! { "$add": [
            size(field.stored),
            outside,
            size(&format!("{}.tail", field.header)),
            size(&format!("{}.work.block", field.header)),
        ] };
        let stored = format!("${}", field.stored);
        let row = doc! { "$project": {
            "_id": 0,
            "count": count,
            "bytes": { "$bsonSize": "$$ROOT" },
            "inside": size(field.stored),
            "inside_bytes": { "$bsonSize": { "a": stored } },
        } };
        let aggregate = Aggregate {
            collection: T::COLLECTION.into(),
            pipeline: vec![raw(&row)?],
            variables: RawDocumentBuf::new(),
        };
        let mut cursor = self.access.aggregate(&T::MODEL, aggregate).await?;
        let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
        let (mut inside, mut inside_bytes) = (0, 0);
        loop {
            let batch = cursor.next_batch().await.map_err(error::of(&T::MODEL))?;
            if batch.is_empty() {
                break;
            }
            for row in &batch {
                let row = BsonDocument::try_from(&**row).map_err(error::encode)?;
                let number = |name: &str| match row.get(name) {
                    Some(Bson::Int32(number)) => u64::try_from(*number).unwrap_or(0),
                    Some(Bson::Int64(number)) => u64::try_from(*number).unwrap_or(0),
                    _ => 0,
                };
                lengths.push(number("count"));
                bytes.push(number("bytes"));
                inside += number("inside");
                inside_bytes += number("inside_bytes");
            }
        }
        lengths.sort_unstable();
        bytes.sort_unstable();
        Ok(Lengths {
            field: field.field,
            after: field.after,
            most: field.part as u64 / inside_bytes.checked_div(inside).unwrap_or(0).max(1),
            lengths,
            bytes,
        })
    }

    async fn matching(&self, filter: &BsonDocument) -> Result<Vec<Bson>> {
        self.ids(found_by(&T::COLLECTION.into(), &raw(filter)?))
            .await
    }

    async fn ids(&self, find: Find) -> Result<Vec<Bson>> {
        let find = Find {
            projection: Some(raw(&doc! { "_id": 1 })?),
            sort: Some(raw(&doc! { "_id": 1 })?),
            ..find
        };
        let found = self.access.find_all(&T::MODEL, find).await?;
        let ids = found.iter().filter_map(|raw| crate::decode::id(raw));
        let ids = ids.map(|id| Bson::try_from(id).map_err(error::encode));
        ids.collect()
    }
}

fn raw(document: &BsonDocument) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(error::encode)
}

/// How long the arrays in a field are, and how large their documents: as text, with a histogram.
#[derive(Debug, Clone)]
pub struct Lengths {
    field: &'static str,
    after: usize,
    /// How many elements of a mean size there is room for in a document.
    most: u64,
    lengths: Vec<u64>,
    bytes: Vec<u64>,
}

impl Lengths {
    /// The field.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// How many documents there are.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.lengths.len()
    }

    /// The length of which so many of a hundred arrays have no more elements; 0 without any.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        percentile(&self.lengths, percent)
    }

    /// The same of the bytes of the documents.
    #[must_use]
    pub fn bytes(&self, percent: f64) -> u64 {
        percentile(&self.bytes, percent)
    }

    /// How many arrays are longer than so much.
    #[must_use]
    pub fn longer_than(&self, len: u64) -> usize {
        self.lengths.len() - self.lengths.partition_point(|own| *own <= len)
    }

    /// After how many elements the arrays should overflow: as few as leave 99 of 100 whole, but no more than 10,000, nor than there is
    /// room for in a document where they are as large as those that are there now.
    #[must_use]
    pub fn proposal(&self) -> u64 {
        self.percentile(99.0).min(self.most).clamp(1, 10_000)
    }
}

/// The least value that so many of a hundred are not above.
fn percentile(sorted: &[u64], percent: f64) -> u64 {
    let reached = |position: usize| (position + 1) as f64 >= sorted.len() as f64 * percent / 100.0;
    let mut positions = 0..sorted.len();
    let at = positions.find(|position| reached(*position));
    at.and_then(|at| sorted.get(at))
        .or(sorted.last())
        .copied()
        .unwrap_or(0)
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} documents, overflows after {}",
            self.field,
            self.documents(),
            self.after
        )?;
        for percent in [50.0, 90.0, 99.0, 99.9, 100.0] {
            writeln!(
                f,
                "  {percent:>5} %: {} elements, {} bytes",
                self.percentile(percent),
                self.bytes(percent)
            )?;
        }
        let mut from = 0;
        let mut to: u64 = 1;
        let longest = self.lengths.last().copied().unwrap_or(0);
        while from <= longest {
            let count = self.longer_than_or(from) - self.longer_than_or(to);
            let width = (count * 40).div_ceil(self.documents().max(1));
            writeln!(
                f,
                "  {from:>8} to {:>8}: {:<40} {count}",
                to - 1,
                "#".repeat(width)
            )?;
            (from, to) = (to, to.saturating_mul(4));
        }
        write!(
            f,
            "  after {} elements, {} overflow",
            self.proposal(),
            self.longer_than(self.proposal())
        )
    }
}

impl Lengths {
    /// How many arrays have so many elements or more.
    fn longer_than_or(&self, len: u64) -> usize {
        self.lengths.len() - self.lengths.partition_point(|own| *own < len)
    }
}

//! How long arrays are: what tells after how many elements one is to overflow.

use std::fmt;

use bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc};

use super::{Arrays, raw};
use crate::{
    Result,
    action::update::List,
    backend::operation::Aggregate,
    document::Document,
    error,
    field::{In, Place, Single},
    schema::OverflowField,
};

/// What a document has room for of an array that does not overflow yet, in bytes.
const ROOM: u64 = 256 * 1024;

impl<T: Document> Arrays<T> {
    /// How long the arrays are that overflow, and how large the documents: what tells after how many elements an array is to.
    ///
    /// It reads two numbers of each document of the model, and keeps them until they are sorted.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub async fn lengths(&self) -> Result<Vec<Lengths>> {
        let mut all = Vec::new();
        for field in T::MODEL.overflows {
            all.push(self.measured(field.stored, Some(field)).await?);
        }
        Ok(all)
    }

    /// The same of one array of the documents, be it one that does not overflow yet.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "sales")]
    /// # struct Book { #[serde(rename = "_id")] id: i64, #[embed(unbounded)] customers: Vec<String> }
    /// # #[derive(Schema)] #[schema(models(Book))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Shop>::open("memory:").await?;
    /// # for (id, count) in [(1, 3), (2, 4), (3, 900)] {
    /// #     db.insert(Book { id, customers: vec!["a name".to_owned(); count] }).await?;
    /// # }
    /// let lengths = db.arrays::<Book>().lengths_of(|b| b.customers()).await?;
    /// assert_eq!((lengths.percentile(50.0), lengths.percentile(100.0)), (4, 900));
    /// println!("{lengths}"); // with a histogram
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// It reads two numbers of each document of the model, and keeps them until they are sorted.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    pub async fn lengths_of<P>(&self, array: impl FnOnce(T::Fields) -> P + Send) -> Result<Lengths>
    where
        P: Place<Scope: In<T>, Value: List, Shape: Single>,
    {
        let path = array(T::fields()).path();
        let stored = path.dotted()?;
        let mut declared = T::MODEL.overflows.iter();
        let declared = declared.find(|field| field.stored == stored);
        self.measured(stored, declared).await
    }

    async fn measured(&self, stored: &str, declared: Option<&OverflowField>) -> Result<Lengths> {
        let array = format!("${stored}");
        let array = doc! { "$cond": [{ "$isArray": &array }, &array, []] };
        let inside = doc! { "$size": array.clone() };
        let mut count = vec![Bson::from(inside.clone())];
        if let Some(field) = declared {
            let at = |name: &str, default: Bson| doc! { "$ifNull": [format!("${}.{name}", field.header), default] };
            let none = || Bson::Array(Vec::new());
            count.push(at("count", Bson::Int64(0)).into());
            count.push(doc! { "$size": at("tail", none()) }.into());
            count.push(doc! { "$size": at("work.block", none()) }.into());
        }
        let row = doc! { "$project": {
            "_id": 0,
            "count": { "$add": count },
            "bytes": { "$bsonSize": "$$ROOT" },
            "inside": inside,
            "inside_bytes": { "$bsonSize": { "a": array } },
        } };
        let aggregate = Aggregate {
            collection: T::COLLECTION.into(),
            pipeline: vec![raw(&row)?],
            variables: RawDocumentBuf::new(),
            max_time: None,
        };
        let mut cursor = self.access.again().aggregate(&T::MODEL, aggregate).await?;
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
        let room = declared.map_or(ROOM, |field| field.part as u64);
        Ok(Lengths {
            field: declared.map_or_else(|| stored.to_owned(), |field| field.field.to_owned()),
            after: declared
                .filter(|field| !field.gathers())
                .map(|field| field.after),
            gathers: declared.is_some_and(OverflowField::gathers),
            most: room / inside_bytes.checked_div(inside).unwrap_or(0).max(1),
            lengths,
            bytes,
        })
    }
}

/// How long the arrays in a field are, and how large their documents: as text, with a histogram.
#[derive(Debug, Clone)]
pub struct Lengths {
    field: String,
    /// Of one that overflows.
    after: Option<usize>,
    /// Whether it did, and its elements come back.
    gathers: bool,
    /// How many elements of a mean size there is room for in a document.
    most: u64,
    lengths: Vec<u64>,
    bytes: Vec<u64>,
}

impl Lengths {
    /// The field: its name in Rust, or where it is stored if it does not overflow.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// How many documents there are.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.lengths.len()
    }

    /// The length of which so many of a hundred arrays, from 0 to 100, have no more elements; 0 without any.
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
        write!(f, "{}: {} documents, ", self.field, self.documents())?;
        match self.after {
            Some(after) => writeln!(f, "overflows after {after}")?,
            None if self.gathers => writeln!(f, "goes back to its documents")?,
            None => writeln!(f, "does not overflow")?,
        }
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

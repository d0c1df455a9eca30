//! The lengths of arrays, which show after how many elements an array should overflow.

use std::fmt;

use bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc};

use super::{Arrays, to_raw_document};
use crate::{
    Result,
    action::update::ArrayValue,
    backend::operation::AggregateOperation,
    error,
    language::field::{Place, SameScope, Single},
    metadata::overflow::{BLOCK, COUNT, TAIL},
    model::document::Document,
    schema::{Model, OverflowField},
    session::access::Access,
};

/// The maximum size in bytes of the resident elements of an array that does not overflow yet.
const MAX_RESIDENT_BYTES: u64 = 256 * 1024;

impl<T: Document> Arrays<T> {
    /// Returns the lengths of each overflow array of the model, and the sizes of the documents. The lengths show after how many
    /// elements an array should overflow.
    ///
    /// The query returns a few numbers for each document of the model. All numbers are in memory at the same time.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn lengths(&self) -> Result<Vec<Lengths>> {
        let mut lengths = Vec::new();
        for field in T::MODEL.overflows {
            let measured = measure_lengths(&self.access, &T::MODEL, field.stored, Some(field));
            lengths.push(measured.await?);
        }
        Ok(lengths)
    }

    /// Returns the lengths of one array, and the sizes of the documents. The array need not be an overflow array.
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
    /// The query returns a few numbers for each document of the model. All numbers are in memory at the same time.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn lengths_of<P>(&self, array: impl FnOnce(T::Fields) -> P + Send) -> Result<Lengths>
    where
        P: Place<Scope: SameScope<T>, Value: ArrayValue, Shape: Single>,
    {
        let path = array(T::fields()).path();
        let stored = path.dotted()?;
        let mut fields = T::MODEL.overflows.iter();
        let field = fields.find(|field| field.stored == stored);
        measure_lengths(&self.access, &T::MODEL, stored, field).await
    }
}

/// Measures the array with this stored name. `field` is its declaration as an overflow array.
pub(crate) async fn measure_lengths(
    access: &Access,
    model: &Model,
    stored: &str,
    field: Option<&OverflowField>,
) -> Result<Lengths> {
    let array = format!("${stored}");
    let array = doc! { "$cond": [{ "$isArray": &array }, &array, []] };
    let resident = doc! { "$size": array.clone() };
    let mut count = vec![Bson::from(resident.clone())];
    if let Some(field) = field {
        let value_or =
            |path: String, default: Bson| doc! { "$ifNull": [format!("${path}"), default] };
        let len = |path: String| doc! { "$size": value_or(path, Bson::Array(Vec::new())) };
        count.push(value_or(field.manifest_path(COUNT), Bson::Int64(0)).into());
        count.push(len(field.manifest_path(TAIL)).into());
        count.push(len(field.work_path(BLOCK)).into());
    }
    let row = doc! { "$project": {
        "_id": 0,
        "count": { "$add": count },
        "bytes": { "$bsonSize": "$$ROOT" },
        "resident": resident,
        "resident_bytes": { "$bsonSize": { "a": array } },
    } };
    let aggregate = AggregateOperation {
        collection: model.collection.into(),
        pipeline: vec![to_raw_document(&row)?],
        variables: RawDocumentBuf::new(),
        options: Default::default(),
    };
    let mut cursor = access.for_repeat().aggregate(model, aggregate).await?;
    let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
    let (mut resident, mut resident_bytes) = (0, 0);
    loop {
        let batch = cursor
            .next_batch()
            .await
            .map_err(error::naming_model(model))?;
        if batch.is_empty() {
            break;
        }
        for row in &batch {
            let row = BsonDocument::try_from(&**row).map_err(error::from_bson)?;
            let number = |name: &str| match row.get(name) {
                Some(Bson::Int32(number)) => u64::try_from(*number).unwrap_or(0),
                Some(Bson::Int64(number)) => u64::try_from(*number).unwrap_or(0),
                _ => 0,
            };
            lengths.push(number("count"));
            bytes.push(number("bytes"));
            resident += number("resident");
            resident_bytes += number("resident_bytes");
        }
    }
    lengths.sort_unstable();
    bytes.sort_unstable();
    let max_bytes = field.map_or(MAX_RESIDENT_BYTES, |field| field.max_chunk_bytes as u64);
    let mean_bytes = resident_bytes.checked_div(resident).unwrap_or(0).max(1);
    Ok(Lengths {
        field: field.map_or_else(|| stored.to_owned(), |field| field.field.to_owned()),
        after: field
            .filter(|field| !field.is_inline())
            .map(|field| field.max_resident),
        is_inline: field.is_some_and(OverflowField::is_inline),
        max_resident: max_bytes / mean_bytes,
        lengths,
        bytes,
    })
}

/// The lengths of the arrays in a field, and the sizes of their documents. As text, with a histogram.
#[derive(Debug, Clone)]
pub struct Lengths {
    field: String,
    /// The declared number of resident elements. `None` if the array does not overflow, or is `inline`.
    after: Option<usize>,
    /// Whether the array is an `inline` overflow array.
    is_inline: bool,
    /// The number of elements of mean size that a document has room for.
    max_resident: u64,
    /// The lengths of the arrays, sorted.
    lengths: Vec<u64>,
    /// The sizes of the documents in bytes, sorted.
    bytes: Vec<u64>,
}

impl Lengths {
    /// Returns the Rust name of an overflow array, or the stored path of another array.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the number of documents.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the length that `percent` percent of the arrays do not exceed, or 0 without documents. `percent` is from 0 to 100.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        percentile(&self.lengths, percent)
    }

    /// Returns the size in bytes that `percent` percent of the documents do not exceed, or 0 without documents.
    #[must_use]
    pub fn bytes(&self, percent: f64) -> u64 {
        percentile(&self.bytes, percent)
    }

    /// Returns the number of arrays with more than `len` elements.
    #[must_use]
    pub fn longer_than(&self, len: u64) -> usize {
        self.lengths.len() - self.lengths.partition_point(|length| *length <= len)
    }

    /// Returns the proposed number of resident elements: the least number with which 99 % of the arrays do not overflow. The number
    /// is at most 10,000, and at most the number of elements of mean size that a document has room for.
    #[must_use]
    pub fn proposal(&self) -> u64 {
        self.percentile(99.0)
            .min(self.max_resident)
            .clamp(1, 10_000)
    }
}

/// Returns the least value that `percent` percent of the values do not exceed.
fn percentile(sorted: &[u64], percent: f64) -> u64 {
    let is_reached =
        |position: usize| (position + 1) as f64 >= sorted.len() as f64 * percent / 100.0;
    let mut positions = 0..sorted.len();
    let position = positions.find(|position| is_reached(*position));
    position
        .and_then(|position| sorted.get(position))
        .or(sorted.last())
        .copied()
        .unwrap_or(0)
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} documents, ", self.field, self.documents())?;
        match self.after {
            Some(after) => writeln!(f, "overflows after {after}")?,
            None if self.is_inline => writeln!(f, "keeps all elements in the document (`inline`)")?,
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
        let mut end: u64 = 1;
        let longest = self.lengths.last().copied().unwrap_or(0);
        while from <= longest {
            let count = self.at_least(from) - self.at_least(end);
            let width = (count * 40).div_ceil(self.documents().max(1));
            writeln!(
                f,
                "  {from:>8} to {:>8}: {:<40} {count}",
                end - 1,
                "#".repeat(width)
            )?;
            (from, end) = (end, end.saturating_mul(4));
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
    /// Returns the number of arrays with at least `len` elements.
    fn at_least(&self, len: u64) -> usize {
        self.lengths.len() - self.lengths.partition_point(|length| *length < len)
    }
}

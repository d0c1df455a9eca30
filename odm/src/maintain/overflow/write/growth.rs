//! Elements that may grow in place: what they can become is measured before, as what has grown too much cannot be written any more.

use bson::{Document, RawDocumentBuf, doc};

use super::{
    super::{
        MAX_PART,
        extras::of_owner,
        header::Owner,
        room::{is_still, of_version},
    },
    OfOne,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Aggregate,
    maintain::{Write, stored::close},
    schema::{Model, OverflowField},
};

/// How large elements can become in a document of their own. They come there as less, and others do not come to them.
const MAX_GROWN: usize = 3 * MAX_PART;

/// The condition that each element in a document can grow by so much.
pub(super) fn can_grow(field: &OverflowField, growth: usize) -> Document {
    let stored = format!("${}", field.stored);
    let size = doc! { "$bsonSize": { "a": &stored } };
    let count = doc! { "$size": { "$ifNull": [stored, []] } };
    let grown = doc! { "$add": [size, { "$multiply": [count, growth as i64] }] };
    doc! { "$expr": { "$lte": [grown, field.room as i64] } }
}

/// Some elements of a document.
struct Part<'p> {
    model: &'static Model,
    those: Document,
    path: &'p str,
    /// How many bytes they can have.
    most: usize,
}

impl<W: Write> OfOne<W> {
    /// Refuses an update that may let elements grow too much; gives the condition that they are still what was measured.
    pub(super) async fn measure(
        &self,
        owner: &Owner,
        operators: &Document,
        growth: usize,
    ) -> Result<Document> {
        let field = self.field;
        let part = |path, most| Part {
            model: self.model,
            those: doc! { "_id": { "$eq": owner.id.clone() } },
            path,
            most,
        };
        let tail = self.place("tail");
        let outside = of_owner(field, owner).map(|those| Part {
            model: field.extras,
            those,
            path: field.elements,
            most: MAX_GROWN,
        });
        let own = [part(field.stored, field.room), part(&tail, field.part)];
        for part in own.into_iter().chain(outside) {
            if self.grows_too_much(part, operators, growth).await? {
                let message = format!(
                    "the elements could grow by {growth} bytes each, and be more in a document than there is room for; nothing was written: pull \
                     them and push them as they are to be, or change fewer at once"
                );
                let error = Error::new(ErrorKind::Unsupported, message).with_path(field.field);
                return Err(crate::error::of(self.model)(error));
            }
        }
        let mut as_measured = is_still(field, &owner.resident);
        if let Some(header) = &owner.header {
            as_measured.extend(of_version(field, header));
            as_measured.insert(tail, doc! { "$eq": header.tail.clone() });
        }
        Ok(as_measured)
    }

    async fn grows_too_much(
        &self,
        part: Part<'_>,
        operators: &Document,
        growth: usize,
    ) -> Result<bool> {
        let (name, condition) = self.asked.growing(operators);
        let elements = format!("${}", part.path);
        let grown = doc! { "$add": ["$bytes", { "$multiply": ["$count", growth as i64] }] };
        let stages = [
            doc! { "$match": part.those },
            doc! { "$project": { "bytes": { "$bsonSize": { "a": &elements } }, &name: &elements } },
            doc! { "$unwind": format!("${name}") },
            doc! { "$match": condition },
            doc! { "$group": { "_id": "$_id", "bytes": { "$first": "$bytes" }, "count": { "$sum": 1 } } },
            doc! { "$match": { "$expr": { "$gt": [grown, part.most as i64] } } },
            doc! { "$limit": 1 },
        ];
        let aggregate = Aggregate {
            collection: part.model.collection.into(),
            pipeline: stages.iter().map(close).collect::<Result<_>>()?,
            variables: RawDocumentBuf::new(),
            max_time: None,
        };
        let found = self.all.aggregate_all(part.model, aggregate).await?;
        Ok(!found.is_empty())
    }
}

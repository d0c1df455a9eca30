//! What a document knows of its elements that are outside of it.

use bson::{Bson, DateTime, Document, RawBson, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    query::{append, by_id, document},
    schema::{Model, OverflowField, upgrade},
    stored::{close, get, open, raw},
};

/// An array, as far as its document knows it.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) id: Bson,
    /// The elements in the document.
    pub(crate) resident: Vec<Bson>,
    /// Whether it says that there are more.
    pub(crate) flag: bool,
    pub(crate) header: Option<Header>,
}

/// What it knows of the others. There is one as soon as there are some.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header {
    /// Which documents have them; none before there are any.
    pub(crate) generation: Option<ObjectId>,
    /// The number of the next such document: theirs are those before it.
    pub(crate) next: i64,
    /// How many elements they have.
    pub(crate) count: i64,
    /// What each change but a push at the end raises.
    pub(crate) version: i64,
    /// The last elements, which are in no such document yet.
    pub(crate) tail: Vec<Bson>,
    /// Of an array with an order: what none outside of the document comes before.
    pub(crate) bound: Option<Bson>,
    /// What is being done to them.
    pub(crate) work: Option<Work>,
}

/// What is being done to the elements of an array by a write that is more than one operation: one thing at a time.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// Of this write alone.
    pub(crate) key: ObjectId,
    /// When others may see to it.
    pub(crate) due: DateTime,
    pub(crate) kind: Kind,
    /// Elements behind those of the extras, and before the tail, that go there next.
    pub(crate) block: Vec<Bson>,
    /// The documents of this generation go.
    pub(crate) sweep: Option<ObjectId>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// The block becomes a document.
    Spill,
    /// The elements in the documents change as those in the owner have changed already.
    Change { change: Document, counts: bool },
    /// Documents are being filled that nobody reads yet. Only who fills them can go on; others take it back.
    Stage,
    /// They were filled, and are read from now on; there are so many of them, where that is not sure.
    Published { expects: Option<i64> },
    /// Documents go.
    Sweep,
}

impl Owner {
    /// The one that a filter finds, if it is about an array that overflows.
    pub(crate) async fn find(
        access: &Access,
        model: &'static Model,
        field: &OverflowField,
        filter: &RawDocument,
    ) -> Result<Option<Self>> {
        let mut projection = RawDocumentBuf::new();
        for name in ["_id", "_odm", field.stored, field.flag] {
            append(&mut projection, name, 1)?;
        }
        let find = Find {
            projection: model.upgrade.is_none().then_some(projection),
            limit: Some(1),
            ..found_by(&model.collection.into(), filter)
        };
        let found = access.find_all(model, find).await?;
        let Some(found) = found.first() else {
            return Ok(None);
        };
        let current = upgrade::current(model, found)?;
        Self::of(field, &current).map(Some)
    }

    /// The one with an id.
    pub(crate) async fn by_id(
        access: &Access,
        model: &'static Model,
        field: &OverflowField,
        id: &Bson,
    ) -> Result<Option<Self>> {
        Self::find(access, model, field, &by_id(&raw(id)?)?).await
    }

    pub(crate) fn of(field: &OverflowField, document: &RawDocument) -> Result<Self> {
        let document = open(document)?;
        let header = get(&document, field.header).and_then(Bson::as_document);
        Ok(Self {
            id: document.get("_id").cloned().unwrap_or(Bson::Null),
            resident: array(document.get(field.stored)),
            flag: document.contains_key(field.flag),
            header: header.map(Header::of),
        })
    }

    pub(crate) fn work(&self) -> Option<&Work> {
        self.header.as_ref()?.work.as_ref()
    }

    /// Whether this is what is being done to it.
    pub(crate) fn is_at(&self, key: ObjectId) -> bool {
        self.work().is_some_and(|work| work.key == key)
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> u64 {
        let outside = self.header.as_ref().map_or(0, Header::len);
        self.resident.len() as u64 + outside
    }
}

impl Header {
    pub(crate) fn of(header: &Document) -> Self {
        let work = header.get_document("work").ok();
        Self {
            generation: header.get_object_id("generation").ok(),
            next: integer(header.get("next")),
            count: integer(header.get("count")),
            version: integer(header.get("version")),
            tail: array(header.get("tail")),
            bound: header.get("bound").cloned(),
            work: work.and_then(Work::of),
        }
    }

    /// How many elements there are outside of the array in the document.
    pub(crate) fn len(&self) -> u64 {
        let block = self.work.as_ref().map_or(0, |work| work.block.len());
        u64::try_from(self.count).unwrap_or(0) + (block + self.tail.len()) as u64
    }

    /// Whether nothing is outside, and nothing on its way there or back.
    pub(crate) fn is_idle(&self) -> bool {
        self.len() == 0 && self.work.is_none()
    }

    /// Whether there are documents of it that may have elements.
    pub(crate) fn has_documents(&self) -> bool {
        self.next > 0
    }
}

impl Work {
    fn of(work: &Document) -> Option<Self> {
        let kind = match work.get_str("kind").ok()? {
            "spill" => Kind::Spill,
            "change" => {
                let change = work.get_binary_generic("change").ok()?;
                let change = RawDocument::from_bytes(change).ok()?;
                Kind::Change {
                    change: Document::try_from(change).ok()?,
                    counts: work.get_bool("counts").unwrap_or(true),
                }
            }
            "stage" => Kind::Stage,
            "published" => Kind::Published {
                expects: work.get_i64("expects").ok(),
            },
            "sweep" => Kind::Sweep,
            _ => return None,
        };
        let due = work.get_datetime("due").ok().copied()?;
        // Blocked work counts as abandoned: a waiting writer tries the work and gets the rejection.
        let blocked = work.get_document("blocked").ok();
        let is_blocked =
            blocked.is_some_and(|record| record.get_datetime("due").ok() == Some(&due));
        Some(Self {
            key: work.get_object_id("key").ok()?,
            due: if is_blocked { DateTime::MIN } else { due },
            kind,
            block: array(work.get("block")),
            sweep: work.get_object_id("sweep").ok(),
        })
    }

    /// As it stands in a document.
    pub(crate) fn stored(&self) -> Result<Document> {
        let Self {
            key,
            due,
            kind,
            block,
            sweep,
        } = self;
        let name = match kind {
            Kind::Spill => "spill",
            Kind::Change { .. } => "change",
            Kind::Stage => "stage",
            Kind::Published { .. } => "published",
            Kind::Sweep => "sweep",
        };
        let mut work = doc! { "key": key, "due": due, "kind": name };
        match kind {
            Kind::Change { change, counts } => {
                // Operators cannot stand in a document as fields.
                let bytes = close(change)?.into_bytes();
                let subtype = bson::spec::BinarySubtype::Generic;
                work.insert("change", bson::Binary { subtype, bytes });
                work.insert("counts", counts);
            }
            Kind::Published {
                expects: Some(expects),
            } => {
                work.insert("expects", expects);
            }
            _ => {}
        }
        if !block.is_empty() {
            work.insert("block", block.clone());
        }
        if let Some(sweep) = sweep {
            work.insert("sweep", sweep);
        }
        Ok(work)
    }
}

pub(crate) fn integer(value: Option<&Bson>) -> i64 {
    match value {
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Int32(number)) => i64::from(*number),
        _ => 0,
    }
}

pub(crate) fn array(value: Option<&Bson>) -> Vec<Bson> {
    value.and_then(Bson::as_array).cloned().unwrap_or_default()
}

/// The bytes of elements in an array, together.
pub(crate) fn sizes<'e>(elements: impl IntoIterator<Item = &'e Bson>) -> Result<usize> {
    let mut elements = elements.into_iter();
    elements.try_fold(0, |bytes, element| Ok(bytes + size(element)?))
}

/// The bytes of an element in an array.
pub(crate) fn size(element: &Bson) -> Result<usize> {
    size_of(RawBson::try_from(element.clone()).map_err(crate::error::encode)?)
}

pub(crate) fn size_of(element: RawBson) -> Result<usize> {
    let alone = document("", element)?;
    // The positions of later elements have more digits than a name without a character.
    Ok(alone.as_bytes().len() + 6)
}

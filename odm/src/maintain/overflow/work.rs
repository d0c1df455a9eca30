//! What is being done to an array by more than one operation, and finishing it: whoever comes upon it can.
//!
//! Each step can be repeated, and a step that comes late does nothing: it names the key of its work, or the version of the array, and both
//! are gone by then.

use bson::{Bson, DateTime, Document, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    ATTEMPTS,
    asked::changed_by,
    due,
    extras::{self, Batch, DONE, OWN, of_generation, of_owner},
    header::{Header, Kind, Owner, Work},
    order::Order,
    place,
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::operation::{Change, FindAndModify, Modification, Update},
    error,
    maintain::{
        link::{CLOSING, GOING, linked::by_id},
        narrow,
        stored::{self, close, raw},
    },
    retry,
    schema::{Model, OverflowField},
};

/// MongoDB's number for a document that a rule of its collection does not allow.
const DOCUMENT_VALIDATION_FAILURE: i32 = 121;

/// An array of one document.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    /// To everything.
    pub(super) access: &'a Access,
    pub(super) model: &'static Model,
    pub(super) field: &'static OverflowField,
    pub(super) id: &'a Bson,
}

impl At<'_> {
    /// The array as it is; none without its document.
    pub(super) async fn owner(&self) -> Result<Option<Owner>> {
        Owner::by_id(self.access, self.model, self.field, self.id).await
    }

    /// The same of a document that is not as good as gone: what comes to be outside of one that is stays behind it.
    pub(super) async fn staying(&self) -> Result<Option<Owner>> {
        let filter = self.filter(stays())?;
        Owner::find(self.access, self.model, self.field, &filter).await
    }

    /// Changes the document if it meets a condition; tells whether it did.
    pub(super) async fn change(&self, condition: Document, update: Document) -> Result<bool> {
        let filter = self.filter(condition)?;
        let done = stored::change(
            self.access,
            self.model,
            stored::Amendment::new(filter, update),
        )
        .await?;
        Ok(done > 0)
    }

    fn filter(&self, condition: Document) -> Result<RawDocumentBuf> {
        let mut filter = stored::open(&by_id(&raw(self.id)?)?)?;
        filter.extend(condition);
        close(&filter)
    }

    /// Others leave what is being done alone for some time more; false if they have taken it back.
    pub(super) async fn renew(&self, key: ObjectId) -> Result<bool> {
        let later = doc! { "$set": { place(self.field, "work.due"): due() } };
        self.change(self.is_at(key), later).await
    }

    /// The condition that this is being done to the array of a document that stays.
    pub(super) fn is_at(&self, key: ObjectId) -> Document {
        let mut condition = stays();
        condition.insert(place(self.field, "work.key"), doc! { "$eq": key });
        condition
    }

    /// Begins something, with what there is in the tail as a block if it is to be; gives the document as it is then, if it met the
    /// condition and nothing else was being done.
    pub(super) async fn begin(
        &self,
        mut condition: Document,
        work: &Work,
        freezes: bool,
    ) -> Result<Option<Owner>> {
        let field = self.field;
        let at = |name: &str| format!("${}", place(field, name));
        condition.insert(field.work, doc! { "$exists": false });
        condition.extend(stays());
        let mut begun = work.stored()?;
        if freezes {
            begun.insert("block", doc! { "$ifNull": [at("tail"), []] });
        }
        let tail = match freezes {
            true => Bson::Array(Vec::new()),
            false => Bson::Document(doc! { "$ifNull": [at("tail"), []] }),
        };
        let first = |name: &str| doc! { "$ifNull": [at(name), 0_i64] };
        let generation = doc! { "$ifNull": [at("generation"), ObjectId::new()] };
        let set = doc! {
            field.flag: true,
            field.work: begun,
            place(field, "tail"): tail,
            place(field, "version"): { "$add": [first("version"), 1_i64] },
            place(field, "generation"): generation,
            place(field, "next"): first("next"),
            place(field, "count"): first("count"),
        };
        let mut filter = self.filter(condition)?;
        narrow(self.access, self.model, &mut filter, false).await?;
        let modify = FindAndModify {
            collection: self.model.collection.into(),
            filter,
            sort: None,
            projection: None,
            modification: Modification::Update {
                change: Change::Pipeline(vec![close(&doc! { "$set": set })?]),
                upsert: false,
                return_new: true,
            },
        };
        self.access.told().writes();
        let found = self.access.executor().find_and_modify(modify).await;
        let found = found.map_err(error::of(self.model))?;
        let found = found.map(|raw| Owner::of(field, &raw)).transpose()?;
        // Its elements were taken literally.
        Ok(found)
    }

    /// Lets a full tail become a document.
    pub(super) async fn spill(&self, owner: &Owner) -> Result<()> {
        let tail = owner.header.as_ref().map_or(0, |header| header.tail.len());
        let Some(last) = tail.checked_sub(1) else {
            return Ok(());
        };
        let work = Work::new(Kind::Spill);
        // Another may have done so.
        let is_full = doc! { place(self.field, &format!("tail.{last}")): { "$exists": true } };
        match self.begin(is_full, &work, true).await? {
            Some(owner) => self.finish(owner).await,
            None => Ok(()),
        }
    }

    /// Waits for what is being done, or finishes it.
    pub(super) async fn help(&self, owner: Owner, attempt: u32) -> Result<()> {
        let Some(work) = owner.work().filter(|work| !work.is_overdue()) else {
            return self.finish(owner).await;
        };
        let is_change = work.is_change();
        if work.is_stage() {
            // A transaction would see it as long as it looks: it is to begin anew.
            if self.access.unit().is_some() {
                return Err(self.busy().passing());
            }
            retry::pause(attempt).await;
            return Ok(());
        }
        match self.carry_out(owner).await {
            // Who began it ends it, and hears why.
            Err(error) if is_change && self.is_refusal(&error) => {
                retry::pause(attempt).await;
                Ok(())
            }
            done => done,
        }
    }

    /// Finishes what is being done to an array that was read like this. A change of elements that the server refuses is over then: it
    /// would be refused again, and nothing else could be done to the array.
    pub(super) async fn finish(&self, owner: Owner) -> Result<()> {
        let change = owner.work().filter(|work| work.is_change());
        let change = change.map(|work| (work.key, of_owner(self.field, &owner)));
        match (self.carry_out(owner).await, change) {
            (Err(error), Some((key, those))) if self.is_refusal(&error) => {
                let mut over = doc! { "$unset": { self.field.work: "" } };
                // Some may have been pulled.
                if let Some(those) = those {
                    let count = extras::count(self.access, self.field, &those).await?;
                    put(&mut over, "$set", &place(self.field, "count"), count);
                }
                self.change(self.is_at(key), over).await?;
                Err(self.refused(&error))
            }
            (done, _) => done,
        }
    }

    async fn carry_out(&self, owner: Owner) -> Result<()> {
        let mut next = Some(owner);
        // What is taken back may leave a block to spill.
        for _ in 0..3 {
            let Some((owner, header, work)) = next.and_then(Owner::split) else {
                return Ok(());
            };
            match &work.kind {
                Kind::Spill => return self.finish_spill(&header, &work).await,
                Kind::Change { change, counts } => {
                    return self
                        .finish_change(&owner, &header, &work, change, *counts)
                        .await;
                }
                Kind::Stage => {
                    self.take_back(&header, &work).await?;
                    next = self.owner().await?;
                }
                Kind::Published { expects } => {
                    return self
                        .finish_published(&owner, &header, &work, *expects)
                        .await;
                }
                Kind::Sweep => return self.finish_sweep(&work).await,
            }
        }
        Ok(())
    }

    async fn finish_spill(&self, header: &Header, work: &Work) -> Result<()> {
        let (access, field) = (self.access, self.field);
        let Some(generation) = header.generation else {
            return Ok(());
        };
        let batch = Batch {
            owner: self.id,
            generation,
            key: work.key,
            first: header.next,
        };
        let is_of_another =
            !work.block.is_empty() && batch.spill(access, field, work.block.clone()).await?;
        let is_one = i64::from(!work.block.is_empty());
        let update = doc! {
            "$inc": {
                place(field, "next"): is_one,
                place(field, "count"): work.block.len() as i64,
            },
            "$unset": { field.work: "" },
        };
        // Who comes late may have made again what was its and is not any more.
        let is_its = self.change(self.is_at(work.key), update).await?;
        // In a transaction it never says that it may be nobody's, unless it is from outside of that.
        if is_its && (access.unit().is_none() || is_of_another) {
            let mut those = of_generation(field, self.id, generation);
            those.insert("_id.key", doc! { "$eq": work.key });
            self.disown(those).await?;
        }
        Ok(())
    }

    /// Some documents are their owner's for good.
    async fn disown(&self, those: Document) -> Result<u64> {
        let disown = doc! { "$unset": { OWN: "" } };
        extras::change(self.access, self.field, &those, &disown, &[]).await
    }

    async fn finish_change(
        &self,
        owner: &Owner,
        header: &Header,
        work: &Work,
        change: &Document,
        counts: bool,
    ) -> Result<()> {
        let field = self.field;
        let those = of_owner(field, owner);
        let mut update = doc! { "$unset": { field.work: "" } };
        if let Some(those) = those {
            let own = |name: &str| change.get_document(name).cloned().unwrap_or_default();
            let mut filter = those.clone();
            let done = doc! { DONE: { "$gte": header.version } };
            filter.insert("$nor", vec![done]);
            let mut operators = own("update");
            filter.extend(changed_by(field, &operators));
            put(&mut operators, "$set", DONE, header.version);
            let array_filters = change.get_array("array_filters").into_iter().flatten();
            let array_filters: Vec<_> = array_filters
                .filter_map(|filter| filter.as_document().cloned())
                .collect();
            extras::change(self.access, field, &filter, &operators, &array_filters).await?;
            if counts {
                let count = extras::count(self.access, field, &those).await?;
                put(&mut update, "$set", &place(field, "count"), count);
            }
        }
        self.change(self.is_at(work.key), update).await?;
        Ok(())
    }

    /// Takes back what was being filled: nobody has read it.
    pub(super) async fn take_back(&self, header: &Header, work: &Work) -> Result<()> {
        let field = self.field;
        let mut condition = self.is_at(work.key);
        condition.insert(place(field, "work.kind"), "stage");
        let is_taken_back = if work.block.is_empty() {
            let done = doc! { "$unset": { field.work: "" } };
            self.forget(condition.clone(), header).await? || self.change(condition, done).await?
        } else {
            let spill = Work {
                block: work.block.clone(),
                ..Work::new(Kind::Spill)
            };
            let set = doc! { "$set": { field.work: spill.stored()? } };
            self.change(condition, set).await?
        };
        // They may be published by now.
        if !is_taken_back {
            return Ok(());
        }
        let those = doc! {
            field.owner: { "$eq": self.id.clone() },
            "_odm.own.key": { "$eq": work.key },
        };
        extras::delete(self.access, field, &those).await?;
        Ok(())
    }

    async fn finish_published(
        &self,
        owner: &Owner,
        header: &Header,
        work: &Work,
        expects: Option<i64>,
    ) -> Result<()> {
        let (access, field) = (self.access, self.field);
        let mut own = doc! { field.owner: { "$eq": self.id.clone() } };
        own.insert("_odm.own.key", doc! { "$eq": work.key });
        self.disown(own).await?;
        // Nobody deletes them from now on.
        if let (Some(expects), Some(generation)) = (expects, header.generation) {
            let those = of_generation(field, &owner.id, generation);
            if count_documents(access, field, &those).await? < expects {
                return super::removal::never_inserted(self, work.key).await;
            }
        }
        if let Some(sweep) = work.sweep {
            extras::delete(access, field, &of_generation(field, self.id, sweep)).await?;
        }
        let done = doc! { "$unset": { field.work: "" } };
        self.change(self.is_at(work.key), done).await?;
        Ok(())
    }

    async fn finish_sweep(&self, work: &Work) -> Result<()> {
        let (access, field) = (self.access, self.field);
        if let Some(sweep) = work.sweep {
            extras::delete(access, field, &of_generation(field, self.id, sweep)).await?;
        }
        if !self
            .forget(self.is_at(work.key), &Header::default())
            .await?
        {
            let done = doc! { "$unset": { field.work: "" } };
            self.change(self.is_at(work.key), done).await?;
        }
        Ok(())
    }

    /// Leaves no trace in a document that has all of its elements again; tells whether it has.
    async fn forget(&self, mut condition: Document, header: &Header) -> Result<bool> {
        if header.has_documents() {
            return Ok(false);
        }
        let field = self.field;
        condition.insert(place(field, "tail.0"), doc! { "$exists": false });
        condition.insert(place(field, "next"), doc! { "$not": { "$gt": 0 } });
        let mut filter = self.filter(condition)?;
        narrow(self.access, self.model, &mut filter, false).await?;
        let unless_empty = |name: &str| {
            let value = format!("${name}");
            let is_empty = doc! { "$eq": [&value, {}] };
            doc! { "$set": { name: { "$cond": [is_empty, "$$REMOVE", &value] } } }
        };
        let update = Update {
            collection: self.model.collection.into(),
            filter,
            change: Change::Pipeline(vec![
                close(&doc! { "$unset": [field.header, field.flag] })?,
                close(&unless_empty("_odm.overflow"))?,
                close(&unless_empty("_odm"))?,
            ]),
            multi: false,
            upsert: false,
        };
        self.access.told().writes();
        let done = self.access.executor().update(update).await;
        Ok(done.map_err(error::of(self.model))?.matched > 0)
    }

    /// Whether the server does not want to do something, and is not only kept from it; a transaction takes back all else then.
    fn is_refusal(&self, error: &Error) -> bool {
        let is_of_what_is_asked = matches!(
            error.kind(),
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::DuplicateKey
        );
        self.access.unit().is_none()
            && (is_of_what_is_asked || error.code() == Some(DOCUMENT_VALIDATION_FAILURE))
    }

    fn refused(&self, error: &Error) -> Error {
        let message = format!(
            "a change of the elements of `{}` of {} was refused outside of the document: those in it have changed, and perhaps some of the \
             others: {}",
            self.field.field,
            self.id,
            error.message()
        );
        let refused = Error::new(error.kind(), message).with_source(error.clone());
        let refused = match error.code() {
            Some(code) => refused.with_code(code),
            None => refused,
        };
        error::of(self.model)(refused.with_id(self.id.clone()))
    }

    /// Others write to it again and again.
    pub(super) fn busy(&self) -> Error {
        let message = format!(
            "others write to `{}` of {} again and again: try again",
            self.field.field, self.id
        );
        error::of(self.model)(Error::new(ErrorKind::Conflict, message))
    }
}

/// The condition that a document is not as good as gone: the deletion of one that is has looked for what is outside of it, and does not
/// look again.
pub(super) fn stays() -> Document {
    let gone = doc! { GOING: { "$exists": true }, CLOSING: { "$exists": false } };
    doc! { "$nor": [gone] }
}

/// How many documents there are.
pub(super) async fn count_documents(
    access: &Access,
    field: &OverflowField,
    those: &Document,
) -> Result<i64> {
    let count = crate::backend::operation::Count {
        collection: field.extras.collection.into(),
        filter: close(those)?,
        limit: None,
        max_time: None,
    };
    let count = access.count(field.extras, count).await?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

impl Work {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            key: ObjectId::new(),
            due: due(),
            kind,
            block: Vec::new(),
            sweep: None,
        }
    }

    pub(super) fn is_stage(&self) -> bool {
        matches!(self.kind, Kind::Stage)
    }

    pub(super) fn is_change(&self) -> bool {
        matches!(self.kind, Kind::Change { .. })
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.due <= DateTime::now()
    }
}

impl Owner {
    fn split(self) -> Option<(Self, Header, Work)> {
        let header = self.header.clone()?;
        let work = header.work.clone()?;
        Some((self, header, work))
    }
}

/// An operator of an update with one more path.
pub(super) fn put(update: &mut Document, operator: &str, path: &str, value: impl Into<Bson>) {
    let fields = update.entry(operator.to_owned());
    if let Bson::Document(fields) = fields.or_insert_with(|| Bson::Document(Document::new())) {
        fields.insert(path, value);
    }
}

/// How often something is tried that others are writing to.
pub(super) fn attempts() -> std::ops::RangeInclusive<u32> {
    1..=ATTEMPTS
}

/// Says that what was outside of a document goes, and that these are all of its elements.
pub(super) fn emptied(
    field: &OverflowField,
    work: &Work,
    all: &[Bson],
    operators: &mut Document,
) -> Result<()> {
    if let Some(order) = Order::of(field) {
        put(
            operators,
            "$set",
            &place(field, "bound"),
            order.bound(all, &[]),
        );
    }
    put(operators, "$set", field.work, work.stored()?);
    put(operators, "$set", &place(field, "tail"), Vec::<Bson>::new());
    put(operators, "$set", &place(field, "next"), 0_i64);
    put(operators, "$set", &place(field, "count"), 0_i64);
    put(operators, "$unset", &place(field, "generation"), "");
    put(operators, "$inc", &place(field, "version"), 1_i64);
    Ok(())
}

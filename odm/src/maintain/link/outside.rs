//! References that overflow: those that are outside of the documents that have them.
//!
//! A write of one is carried out by `maintain/overflow`, which keeps elements apart before anything here sees them: so what enters is
//! held there, as `refer` does it, and what refers to a document is looked for wherever it is.

use std::collections::BTreeSet;

use bson::{Bson, DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};

use super::{
    BATCH,
    deletion::Rule,
    hold,
    linked::{Id, array, by_id, one_of},
    past_what_is_left,
    promise::{self, DUE, TOKEN, WANTED},
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    error,
    field::Path,
    maintain::{Write, overflow},
    overflow::Owner,
    query::{Node, append, document},
    schema::{Model, OverflowField, OwnLink},
    soft_delete::Sight,
    unit,
};

/// How many bytes of references one write adds where there are no transactions: it names them in a document first.
const MOST_WANTED: usize = 4 * 1024 * 1024;

/// How many of those that refer to a document outside of them are named at once, where one comes back for the others.
pub(super) const SOME: Option<usize> = Some(BATCH);

/// The reference with a rule that an array of a model is.
pub(crate) fn rule_of(model: &'static Model, field: &OverflowField) -> Option<&'static OwnLink> {
    let mut links = model.links.iter();
    links.find(|link| link.side.stored == field.stored)
}

/// Sees to it, in a transaction, that what elements lead to stays there until that is committed.
pub(crate) async fn hold_all(
    access: &Access,
    link: &'static OwnLink,
    elements: impl IntoIterator<Item = &Bson>,
) -> Result<()> {
    let ids: BTreeSet<_> = ids(elements)?.iter().map(Id::of).collect();
    let present = access.clone().seeing(Sight::Present);
    hold(&present, link, ids.into_iter().collect()).await
}

/// Carries out a write to one document that adds elements to such an array, together with what keeps those that they lead to there.
/// Gives none if there is no such document, or it is not as the write asks for.
pub(crate) async fn refer<W, C, F>(
    access: &Access,
    (model, link): (&'static Model, &'static OwnLink),
    write: &W,
    id: &Bson,
    elements: &[Bson],
    carry_out: C,
) -> Result<Option<W::Done>>
where
    W: Write,
    C: Fn(Access, W) -> F + Send + Sync,
    F: Future<Output = Result<W::Done>> + Send,
{
    if !access.has_transactions() {
        let ids = ids(elements)?;
        if array(&ids).as_bytes().len() > MOST_WANTED {
            return Err(too_many(model, link));
        }
        let id = RawBson::try_from(id.clone()).map_err(error::encode)?;
        let carry_out = |write| carry_out(access.clone(), write);
        return promise::change(access, model, write, &id, carry_out).await;
    }
    let work = |access: Access| {
        let done = carry_out(access.clone(), write.clone());
        async move {
            let held = hold_all(&access, link, elements).await;
            held.map_err(|error| access.fail(error))?;
            done.await.map_err(|error| access.fail(error))
        }
    };
    let run = || Box::pin(access.together(unit::ATTEMPTS, work));
    let done = past_what_is_left(access, run).await;
    done.map(Some)
}

fn too_many(model: &'static Model, link: &OwnLink) -> Error {
    let message = format!(
        "without transactions one write adds {MOST_WANTED} bytes of references at most, and nothing was written: push them by several"
    );
    let error = Error::new(ErrorKind::Unsupported, message);
    error::of(model)(error.with_path(link.side.field))
}

fn ids<'e>(elements: impl IntoIterator<Item = &'e Bson>) -> Result<Vec<RawBson>> {
    let ids = elements.into_iter().cloned().map(RawBson::try_from);
    ids.collect::<Result<_, _>>().map_err(error::encode)
}

/// Adds the conditions of another filter.
pub(super) fn both(filter: &mut RawDocumentBuf, other: RawDocumentBuf) -> Result<()> {
    let mut fields = other.iter().flatten();
    if fields.any(|(name, _)| filter.get(name).is_ok_and(|own| own.is_some())) {
        let mut all = RawArrayBuf::new();
        all.push(std::mem::take(filter));
        all.push(other);
        return append(filter, "$and", all);
    }
    for field in other.iter() {
        let (name, value) = field.map_err(error::encode)?;
        append(filter, name.as_str(), RawBson::from(value))?;
    }
    Ok(())
}

/// Whether a write is the one that a document has the promise of: all of its references are seen to.
pub(crate) fn is_promised(filter: &RawDocument) -> bool {
    filter.get(TOKEN).is_ok_and(|token| token.is_some())
        || filter.get_array("$and").is_ok_and(|parts| {
            let mut parts = parts.into_iter().flatten();
            parts.any(|part| part.as_document().is_some_and(is_promised))
        })
}

impl Rule {
    /// The array that the reference is, if that overflows.
    pub(super) fn overflow(&self) -> Option<&'static OverflowField> {
        self.model.overflow_of(&self.link.side)
    }

    /// The condition that a document refers to one of these, in its array or outside of it.
    ///
    /// It names those that do so outside: while somebody writes to one, it may be found though it does so no more. They are all, or so
    /// many of them at most.
    pub(super) async fn leads_to(
        &self,
        access: &Access,
        ids: &[&RawBson],
        most: Option<usize>,
    ) -> Result<RawDocumentBuf> {
        let path = self.link.side.stored;
        let inside = document(path, one_of(ids.iter().copied())?)?;
        let Some(field) = self.overflow() else {
            return Ok(inside);
        };
        let ids = array(ids.iter().copied());
        let are_among = |path: &str| Node::Test(Path::ROOT.append(path), "$in", ids.clone().into());
        // The way of an element, in the order in which it goes: what is seen at none of these places is in the array, or is at the next.
        let within = [
            Node::And(vec![
                Node::Test(Path::ROOT.append(DUE), "$gte", DateTime::MIN.into()),
                are_among(&format!("{WANTED}.{path}")),
            ]),
            are_among(&format!("{}.tail", field.header)),
            are_among(&format!("{}.block", field.work)),
        ];
        let elements = are_among(field.elements);
        let owners = overflow::owners_of(access, self.model, field, &within, &elements, most);
        let owners = owners.await?;
        if owners.is_empty() {
            return Ok(inside);
        }
        let mut either = RawArrayBuf::new();
        either.push(inside);
        either.push(document("_id", one_of(&owners)?)?);
        document("$or", either)
    }

    /// How often it is looked for what refers to a document, until it is said that nothing does: what goes from one place to another while
    /// these are asked is where it went the second time.
    pub(super) fn looks(&self) -> usize {
        if self.overflow().is_some() { 2 } else { 1 }
    }

    /// What a document refers to, in its array and outside of it; nothing if none of it can be outside.
    pub(super) async fn held_by(&self, access: &Access, owner: &RawBson) -> Result<BTreeSet<Id>> {
        let Some(field) = self.overflow() else {
            return Ok(BTreeSet::new());
        };
        let all = overflow::all(access, self.model, field, by_id(owner)?).await?;
        Ok(ids(&all)?.iter().map(Id::of).collect())
    }

    /// The condition that a document refers to another one as it did when it was read; none if it does not.
    pub(super) async fn refers_as_read(
        &self,
        access: &Access,
        owner: &RawBson,
        to: &RawBson,
    ) -> Result<Option<RawDocumentBuf>> {
        let Some(field) = self.overflow() else {
            return document(self.link.side.stored, document("$eq", to.clone())?).map(Some);
        };
        let id = Bson::try_from(owner.clone()).map_err(error::encode)?;
        let Some(read) = Owner::by_id(access, self.model, field, &id).await? else {
            return Ok(None);
        };
        if !self.held_by(access, owner).await?.contains(&Id::of(to)) {
            return Ok(None);
        }
        let Some(header) = read.header else {
            let mut whole = document(self.link.side.stored, document("$eq", to.clone())?)?;
            append(&mut whole, field.header, document("$exists", false)?)?;
            return Ok(Some(whole));
        };
        // Only what is pushed leaves it as it is.
        let version = format!("{}.version", field.header);
        let as_read = match header.version {
            0 => document("$in", array([&RawBson::Null, &RawBson::Int64(0)]))?,
            version => document("$eq", version)?,
        };
        document(&version, as_read).map(Some)
    }
}

//! References that overflow: those that are outside of the documents that have them.
//!
//! A write of one is carried out by `maintain/overflow`, which keeps elements apart before anything here sees them: so what enters is
//! held there, as `refer` does it, and what refers to a document is looked for wherever it is.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use bson::{Bson, DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};

use super::{
    BATCH,
    deletion::Rule,
    effect::{self, Taken},
    linked::{Id, Linked, array, by_id, one_of},
    not_gone, past_what_is_left,
    promise::{self, DUE, TOKEN, WANTED},
    sides::Sides,
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::operation::Change,
    batches::id_batches,
    error,
    field::Path,
    maintain::{Write, overflow},
    overflow::Owner,
    query::{Node, append, document},
    schema::{Model, OverflowField, OwnLink},
    soft_delete::Sight,
    unit,
};

/// How many bytes of references one write adds, or takes out without naming them, where there are no transactions: it says them in the
/// document first, which stays below 1 MiB with both.
pub(super) const MOST_WANTED: usize = 320 * 1024;

/// How many bytes a write says there in all, with what its document refers to before. There is three times 128 KiB of arrays beside it at
/// most: those in it, what waits, and what is being done to them. On their way back arrays have more room, and so has this.
pub(super) const MOST_SAID: usize = 512 * 1024;

/// How many of those that refer to a document outside of them are named at once, where one comes back for the others.
pub(super) const SOME: Option<usize> = Some(BATCH);

/// The reference with a rule that an array of a model is.
pub(crate) fn rule_of(model: &'static Model, field: &OverflowField) -> Option<Rule> {
    let mut rules = Rule::of(model);
    rules.find(|rule| rule.link.side.stored == field.stored)
}

/// Sees to it, in a transaction, that what new elements of an array lead to stays there until that is committed, and lists their document.
pub(crate) async fn enter_all(
    access: &Access,
    rule: Rule,
    owner: &Bson,
    elements: impl IntoIterator<Item = &Bson>,
) -> Result<()> {
    let owner = RawBson::try_from(owner.clone()).map_err(error::encode)?;
    let entered = ids(elements)?.iter().map(Id::of).collect();
    rule.follow(access, &owner, BTreeSet::new(), entered).await
}

/// Carries out a write to such an array of one document, together with what follows from it: what enters the array stays there, and the
/// other sides know of what enters and leaves it. Gives none if there is no such document, or it is not as the write asks for.
pub(crate) async fn refer<W, C, F>(
    access: &Access,
    rule: Rule,
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
    let owner = RawBson::try_from(id.clone()).map_err(error::encode)?;
    let elements = ids(elements)?;
    if !access.has_transactions() {
        if array(&elements).as_bytes().len() > MOST_WANTED {
            return Err(too_many(rule.model, rule.link, MOST_SAID));
        }
        let carry_out = |write| carry_out(access.clone(), write);
        return promise::change(access, rule.model, write, &owner, carry_out).await;
    }
    let (carry_out, owner, elements) = (&carry_out, &owner, &elements);
    let work = |access: Access| async move {
        let done = referring(&access, rule, write.clone(), owner, elements, carry_out).await;
        done.map_err(|error| access.fail(error))
    };
    let run = || Box::pin(access.together(unit::ATTEMPTS, work));
    let done = past_what_is_left(access, run).await;
    done.map(Some)
}

/// The same in a transaction.
async fn referring<W, C, F>(
    access: &Access,
    rule: Rule,
    mut write: W,
    owner: &RawBson,
    elements: &[RawBson],
    carry_out: C,
) -> Result<W::Done>
where
    W: Write,
    C: Fn(Access, W) -> F,
    F: Future<Output = Result<W::Done>>,
{
    let all = access.to_everything();
    let taken = match write.change() {
        Some(Change::Operators { update, .. }) if rule.inverse.is_some() => {
            effect::taken(update, &rule.link.side)
        }
        _ => Taken::These(Vec::new()),
    };
    let before = match &taken {
        Taken::These(ids) => ids.iter().map(Id::of).collect(),
        Taken::Any => rule.held_by(&all, owner).await?,
    };
    // One that goes by its mark leaves its other sides once, before it goes.
    if let Some(filter) = write.filter() {
        not_gone(filter)?;
    }
    let done = carry_out(access.clone(), write).await?;
    if W::documents(&done) == 0 {
        return Ok(done);
    }
    let after = match taken {
        Taken::These(_) => elements.iter().map(Id::of).collect(),
        Taken::Any => rule.held_by(&all, owner).await?,
    };
    let left = before.difference(&after).cloned().collect();
    let entered = after.difference(&before).cloned().collect();
    rule.follow(access, owner, left, entered).await?;
    Ok(done)
}

/// Adds to documents that go what they refer to outside of them, as far as other sides are to know of it.
pub(super) async fn complete(
    all: &Access,
    model: &'static Model,
    documents: &mut Cow<'_, [Linked]>,
) -> Result<()> {
    let rules = Rule::of(model);
    for rule in rules.filter(|rule| rule.overflow().is_some() && rule.inverse.is_some()) {
        for document in documents.to_mut() {
            let held = rule.held_by(all, &document.id).await?;
            let held = held.iter().map(Id::value).collect::<Result<_>>()?;
            document.hold(rule.position, held);
        }
    }
    Ok(())
}

/// What a change takes out of arrays that overflow, of which other sides are to know.
#[derive(Debug, Default)]
pub(super) struct TakenOutside {
    /// By reference of the model.
    pub(super) named: BTreeMap<usize, Vec<RawBson>>,
    /// Those of which it may take whatever they have.
    pub(super) any: Vec<Rule>,
}

pub(super) fn taken_by(model: &'static Model, change: Option<&mut Change>) -> TakenOutside {
    let mut outside = TakenOutside::default();
    let Some(Change::Operators { update, .. }) = change else {
        return outside;
    };
    let rules = Rule::of(model);
    for rule in rules.filter(|rule| rule.overflow().is_some() && rule.inverse.is_some()) {
        match effect::taken(update, &rule.link.side) {
            Taken::These(ids) => drop(outside.named.insert(rule.position, ids)),
            Taken::Any => outside.any.push(rule),
        }
    }
    outside
}

/// Refuses a write that would say too much in its document, if some of its references are outside of that.
pub(super) fn refuse_too_much(
    model: &'static Model,
    before: &RawDocument,
    wanted: &RawDocument,
) -> Result<()> {
    let (before, wanted) = (before.as_bytes().len(), wanted.as_bytes().len());
    let arrays = Rule::of(model).filter_map(|rule| rule.overflow());
    let gathered = arrays.filter(|field| field.gathers());
    let most = MOST_SAID + gathered.map(|field| field.room).sum::<usize>();
    let mut rules = Rule::of(model);
    match rules.find(|rule| rule.overflow().is_some()) {
        Some(rule) if wanted > MOST_WANTED || before + wanted > most => {
            Err(too_many(model, rule.link, most))
        }
        _ => Ok(()),
    }
}

pub(super) fn too_many(model: &'static Model, link: &OwnLink, most: usize) -> Error {
    let message = format!(
        "without transactions one write adds {MOST_WANTED} bytes of references at most, takes no more out that it does not name, and has \
         {most} with those that its document has; nothing was written: push them by several, and pull few by what they are"
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

    /// Lets other sides know, in a transaction, what a document does not refer to any more and what it does from now on.
    async fn follow(
        &self,
        access: &Access,
        owner: &RawBson,
        left: BTreeSet<Id>,
        entered: BTreeSet<Id>,
    ) -> Result<()> {
        let (present, all) = (
            access.clone().seeing(Sight::Present),
            access.to_everything(),
        );
        let of_owner = |targets: BTreeSet<Id>| {
            let targets = targets.into_iter();
            targets.map(|target| (target, vec![owner.clone()]))
        };
        let mut sides = Sides::new(&present, &all);
        sides
            .follow(
                self.link,
                of_owner(left).collect(),
                of_owner(entered).collect(),
            )
            .await?;
        sides.write().await
    }

    /// Those of some documents that a document refers to, in its array and outside of it.
    pub(super) async fn among(
        &self,
        access: &Access,
        owner: &RawBson,
        targets: &BTreeSet<Id>,
    ) -> Result<BTreeSet<Id>> {
        let Some(field) = self.overflow() else {
            return Ok(BTreeSet::new());
        };
        let targets: Vec<_> = targets.iter().collect();
        let mut among = BTreeSet::new();
        for some in id_batches(&targets, BATCH) {
            let values = some.iter().map(|id| {
                let id = id.value()?;
                Bson::try_from(id).map_err(error::encode)
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let found = overflow::among(access, self.model, field, by_id(owner)?, &values);
            among.extend(ids(&found.await?)?.iter().map(Id::of));
        }
        Ok(among)
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

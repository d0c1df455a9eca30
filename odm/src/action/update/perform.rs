//! How an update is carried out: with hooks, with rules that look at its outcome, with arrays that have no room.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::{
    Update, Updated,
    changes::Finished,
    requirement::{Reason, Requirement},
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    action::target::{Aim, Which, id_of, to_raw},
    backend::{BoxFuture, operation},
    decode,
    document::Document,
    error,
    field::Path,
    hook::{self, Committed, RunHooks, Written},
    maintain::{Plan, anywhere},
    overflow,
    query::{Node, append, document},
    retry,
    rule::{Behind, check_update},
    schema::{Model, upgrade},
    soft_delete::Sight,
    trace, unit,
};

/// How an update is carried out.
#[derive(Debug, Clone)]
#[doc(hidden)]
pub enum How {
    /// Counting what it was about.
    Count,
    /// Giving the first document back.
    FindAndModify {
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    },
}

/// What an update gave.
#[derive(Debug)]
#[doc(hidden)]
pub enum Done {
    Counted(Updated),
    Found(Option<RawDocumentBuf>),
}

impl Done {
    pub(in crate::action) fn is_applied(&self) -> bool {
        match self {
            Self::Counted(done) => done.applied(),
            Self::Found(found) => found.is_some(),
        }
    }

    pub(in crate::action) fn counted(self) -> Updated {
        match self {
            Self::Counted(done) => done,
            Self::Found(_) => Updated::default(),
        }
    }

    pub(in crate::action) fn found(self) -> Option<RawDocumentBuf> {
        match self {
            Self::Counted(_) => None,
            Self::Found(found) => found,
        }
    }
}

impl<T: Document, K: Which> Update<T, K> {
    /// The room for what is pushed is part of the filter, so that two pushes at once cannot both take the last place.
    pub(in crate::action) fn prepare(self) -> Result<Prepared> {
        let asked = self.target.node().map_err(error::of_model::<T>)?;
        let checked = self.changes.check(&asked);
        checked.map_err(error::of_model::<T>)?;
        let behind = check_update::<T>(self.changes.each())?;
        let Finished {
            update,
            array_filters,
            asked: places,
            mut requirements,
        } = self.changes.finish().map_err(error::of_model::<T>)?;
        // Beside computed fields an update becomes a pipeline, in which a sum beyond an `i64` is a `double`.
        if T::MODEL.computed.is_empty() {
            requirements.retain(|requirement| !requirement.is_checked_by_backend());
        }
        refuse_room_elsewhere(&requirements).map_err(error::of_model::<T>)?;
        Ok(Prepared {
            asked: asked.and(places.clone()),
            access: self.access,
            aim: self.target.aim().map_err(error::of_model::<T>)?,
            places,
            change: operation::Change::Operators {
                update,
                array_filters,
            },
            requirements,
            behind,
        })
    }

    /// Carries it out, with the hooks of its model.
    pub(in crate::action) fn perform(self, how: How) -> BoxFuture<'static, Result<Done>> {
        if T::HAS_HOOKS {
            return self.perform_with_hooks(how);
        }
        Prepared::begin(self.prepare(), how)
    }

    /// An object, so that of a model without hooks nothing of it is compiled.
    fn perform_with_hooks(self, how: How) -> BoxFuture<'static, Result<Done>> {
        Box::pin(async move {
            let Some(hooks) = T::hooks() else {
                return self.prepare()?.perform_or_refuse(&how).await;
            };
            let access = self.access.clone();
            let work = |access: Access| {
                let (update, how) = (self.clone(), how.clone());
                async move { update.perform_hooked(hooks, access, how).await }
            };
            access.together(unit::ATTEMPTS, work).await
        })
    }

    async fn perform_hooked(
        mut self,
        hooks: &'static dyn RunHooks<T>,
        access: Access,
        how: How,
    ) -> Result<Done> {
        let is_many = matches!(how, How::Count) && self.target.id().is_none();
        let mut changes = hook::Changes {
            selection: self.target.selection(&access, is_many)?,
            operators: std::mem::take(&mut self.changes),
            is_save: false,
        };
        let before = hooks.before_update(&mut changes, &access).await;
        before.map_err(|error| access.fail(error))?;
        let update = Self {
            access: access.clone(),
            target: self.target.pin(changes.selection.pinned()?),
            changes: changes.operators.clone(),
        };
        let update = update.prepare().map_err(|error| access.fail(error))?;
        hook::written(access, hooks, move |access| async move {
            let done = update.perform_or_refuse(&how).await?;
            if !done.is_applied() {
                return Ok(Written::nothing(done));
            }
            if let Done::Found(Some(found)) = &done
                && changes.selection.ids.is_none()
                && let Ok(id) = id_of::<T>(found)
            {
                changes.selection.ids = Some(vec![id]);
            }
            Ok(Written {
                done,
                after: hooks.after_update(&changes, &access).await,
                events: vec![Committed::Updated(changes)],
            })
        })
        .await
    }
}

/// An update whose changes and conditions have been put together.
pub(in crate::action) struct Prepared {
    pub(in crate::action) access: Access,
    pub(in crate::action) aim: Aim,
    pub(in crate::action) change: operation::Change,
    /// That the places are there which it changes: elements that meet a condition, fields of a variant.
    places: Node,
    /// What the caller asked for, and that the places are there.
    asked: Node,
    /// What else a document must meet.
    requirements: Vec<Requirement>,
    /// What the rules of the model have to say of the outcome.
    behind: Option<Behind>,
}

impl Prepared {
    /// Carries out what has been put together, if it could be.
    fn begin(prepared: Result<Self>, how: How) -> BoxFuture<'static, Result<Done>> {
        Box::pin(async move { prepared?.perform_or_refuse(&how).await })
    }

    /// Whether it is about as many documents as there are that meet the condition.
    pub(in crate::action) fn is_of_many(&self) -> bool {
        self.aim.named.is_none()
    }

    /// What names the one document.
    fn named(&self) -> Node {
        self.aim.named.clone().unwrap_or(Node::All)
    }

    /// Whether a document can match the condition and stay unchanged, because it does not meet a requirement.
    pub(in crate::action) fn has_requirements(&self) -> bool {
        !self.requirements.is_empty()
    }

    fn filter(&self, only: &Node) -> Result<RawDocumentBuf> {
        let asked = only.clone().and(self.asked.clone());
        let requirements = self.requirements.iter();
        let all = requirements.fold(asked, |all, requirement| {
            all.and(requirement.condition.clone())
        });
        to_raw(self.aim.model, &all)
    }

    pub(in crate::action) fn operation(&self, multi: bool) -> Result<operation::Update> {
        self.operation_on(&Node::All, multi)
    }

    fn operation_on(&self, only: &Node, multi: bool) -> Result<operation::Update> {
        Ok(operation::Update {
            collection: self.aim.model.collection.into(),
            filter: self.filter(only)?,
            change: self.change.clone(),
            multi,
            upsert: false,
        })
    }

    /// Whether the rules of the model have to say something of the outcome.
    pub(in crate::action) fn is_checked_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Whether a requirement is about elements that the filter of the update does not see.
    pub(in crate::action) fn may_spill(&self) -> bool {
        let mut requirements = self.requirements.iter();
        requirements.any(|requirement| requirement.may_spill)
    }

    /// Makes nulls missing that stand in the way of an update of many documents.
    ///
    /// # Errors
    ///
    /// That of the first document that does not meet a requirement.
    pub(in crate::action) async fn look_first(&self) -> Result<()> {
        self.look_first_in(&self.access).await
    }

    /// Finds the requirement that an update of one document failed, and retries the update after a null was removed.
    pub(in crate::action) async fn look_again(&self) -> Result<Option<Updated>> {
        let mut requirements = self.requirements.iter();
        if requirements.any(|requirement| matches!(requirement.reason, Reason::Null(_))) {
            let done = self.count(false).await?;
            return Ok(Some(done).filter(|done| done.applied()));
        }
        self.refuse_unmet(&self.access, &Node::All).await?;
        Ok(None)
    }

    async fn look_first_in(&self, access: &Access) -> Result<()> {
        self.refuse_unmet(access, &Node::All).await?;
        self.unset_nulls(access, &Node::All).await?;
        Ok(())
    }

    /// An error if a document that was to be changed does not meet a requirement.
    async fn refuse_unmet(&self, access: &Access, only: &Node) -> Result<()> {
        let model = self.aim.model;
        for requirement in &self.requirements {
            if let Reason::Null(_) = requirement.reason {
                continue;
            }
            let unmet = match requirement.spilled(model) {
                Some((field, element)) => anywhere(access, model, field, element).await?,
                None => Node::Not(Box::new(requirement.condition.clone())),
            };
            let asked = only.clone().and(self.asked.clone()).and(unmet);
            let mut projection = document("_id", 1)?;
            if let Some(path) = requirement.shows() {
                append(&mut projection, &without_indexes(path), 1)?;
            }
            let find = operation::Find {
                collection: model.collection.into(),
                filter: to_raw(model, &asked)?,
                projection: Some(projection),
                sort: None,
                limit: Some(1),
                max_time: None,
            };
            let found = access.find_all(model, find).await?;
            if let Some(error) = found.first().and_then(|found| requirement.refuse(found)) {
                return Err(error::of(model)(error));
            }
        }
        Ok(())
    }

    /// Removes the nulls on which an operator of the update would fail. They read as the same `None` as a missing value, on which it works.
    /// Tells whether there were some.
    ///
    /// A crash after this step changes no value that can be read.
    async fn unset_nulls(&self, access: &Access, only: &Node) -> Result<bool> {
        let (model, mut are_some) = (self.aim.model, false);
        for requirement in &self.requirements {
            let Reason::Null(null) = &requirement.reason else {
                continue;
            };
            let is_null = Node::Not(Box::new(requirement.condition.clone()));
            let asked = match &null.first {
                // `$` names an element in one condition on the array alone.
                Node::All => self.asked.clone().and(is_null),
                first => first.clone(),
            };
            let update = operation::Update {
                collection: model.collection.into(),
                filter: to_raw(model, &only.clone().and(asked))?,
                change: operation::Change::Operators {
                    update: null.update.clone(),
                    array_filters: null.array_filters.clone(),
                },
                multi: true,
                upsert: false,
            };
            let done = Plan::of_stored_form(model, update).run(access.clone());
            are_some |= done.await?.modified > 0;
        }
        Ok(are_some)
    }

    /// Carries it out; an error where nothing was there, if that is one.
    async fn perform_or_refuse(&self, how: &How) -> Result<Done> {
        let done = self.perform(how).await?;
        if !done.is_applied() {
            self.refuse_missing().await?;
        }
        Ok(done)
    }

    /// Carries it out.
    pub(in crate::action) async fn perform(&self, how: &How) -> Result<Done> {
        match how {
            How::Count => self.count(self.is_of_many()).await.map(Done::Counted),
            How::FindAndModify {
                projection,
                return_new,
            } => {
                let found = self.find_and_modify(projection.clone(), *return_new).await;
                found.map(Done::Found)
            }
        }
    }

    /// Where nothing was changed: an error if the id was all that was asked for, and there is no such document.
    pub(in crate::action) async fn refuse_missing(&self) -> Result<()> {
        let Some(id) = &self.aim.only_id else {
            return Ok(());
        };
        let (model, has_places) = (self.aim.model, !matches!(self.places, Node::All));
        if has_places && is_there(&self.access, model, self.named()).await? {
            return Ok(());
        }
        Err(error::no_such(model, Some(id.clone())))
    }

    /// Changes what was asked for, and tells how much that was; without a document, that may be because of its arrays.
    pub(in crate::action) async fn count(&self, multi: bool) -> Result<Updated> {
        let Some(behind) = &self.behind else {
            return self.count_in(&self.access, &Node::All, multi).await;
        };
        self.refuse_unchecked(behind)?;
        let work = |access: Access| async move {
            let only = self.concerned(&access, !multi).await?;
            let done = self.count_in(&access, &only.0, multi).await?;
            if done.applied() {
                self.look_behind(behind, &access, only).await?;
            }
            Ok(done)
        };
        self.access.together(unit::ATTEMPTS, work).await
    }

    async fn count_in(&self, access: &Access, only: &Node, multi: bool) -> Result<Updated> {
        // No document is changed if one of many does not meet a requirement. A document that stops meeting it between the check and the
        // write is skipped, like one that does not match the condition.
        if multi || self.may_spill() {
            self.look_first_in(access).await?;
        }
        for attempt in 1.. {
            let write = self.operation_on(only, multi)?;
            let done = Plan::new(self.aim.model, write)?.run(access.clone());
            let done = done.await?;
            if done.matched > 0 {
                self.tell_lengths(access).await;
                return Ok(Updated {
                    matched: done.matched,
                    modified: done.modified,
                });
            }
            if multi || !self.is_worth_another(access, only, attempt).await? {
                break;
            }
        }
        Ok(Updated::default())
    }

    /// Whether an update of one document that has matched none is to be tried again: a null was in its way.
    ///
    /// # Errors
    ///
    /// That of a document that does not meet a requirement.
    async fn is_worth_another(&self, access: &Access, only: &Node, attempt: u32) -> Result<bool> {
        self.refuse_unmet(access, &Node::All).await?;
        if attempt == ATTEMPTS || !self.unset_nulls(access, only).await? {
            return Ok(false);
        }
        if attempt > 1 {
            retry::pause(attempt).await;
        }
        Ok(true)
    }

    /// Tells which arrays of the document are near their bound now.
    async fn tell_lengths(&self, access: &Access) {
        let Some(by_id) = &self.aim.named else {
            return;
        };
        if !trace::looks_at_plans() {
            return;
        }
        for requirement in &self.requirements {
            let Reason::Room { path, max } = &requirement.reason else {
                continue;
            };
            let near = trace::near(*max);
            let last = Path::ROOT.append(&format!("{path}.{}", near.saturating_sub(1)));
            let is_long = by_id.clone().and(Node::Test(last, "$exists", true.into()));
            let is_long = is_there(access, self.aim.model, is_long);
            if near <= *max && is_long.await.unwrap_or(false) {
                trace::length(path, near, *max);
            }
        }
    }

    /// Changes the first document that was asked for, and gives it back in the same step.
    pub(in crate::action) async fn find_and_modify(
        &self,
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    ) -> Result<Option<RawDocumentBuf>> {
        let Some(behind) = &self.behind else {
            let access = &self.access;
            return self
                .modify_in(access, &Node::All, projection, return_new)
                .await;
        };
        self.refuse_unchecked(behind)?;
        let projection = &projection;
        let work = |access: Access| async move {
            let only = self.concerned(&access, true).await?;
            let projection = projection.clone();
            let found = self
                .modify_in(&access, &only.0, projection, return_new)
                .await?;
            if found.is_some() {
                self.look_behind(behind, &access, only).await?;
            }
            Ok(found)
        };
        self.access.together(unit::ATTEMPTS, work).await
    }

    async fn modify_in(
        &self,
        access: &Access,
        only: &Node,
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    ) -> Result<Option<RawDocumentBuf>> {
        if self.may_spill() {
            self.look_first_in(access).await?;
        }
        for attempt in 1.. {
            let write = operation::FindAndModify {
                collection: self.aim.model.collection.into(),
                filter: self.filter(only)?,
                sort: self.aim.sort.clone(),
                projection: projection.clone(),
                modification: operation::Modification::Update {
                    change: self.change.clone(),
                    upsert: false,
                    return_new,
                },
            };
            let found = Plan::new(self.aim.model, write)?.run(access.clone());
            let found = found.await?;
            if found.is_some() {
                self.tell_lengths(access).await;
                return Ok(found);
            }
            if !self.is_worth_another(access, only, attempt).await? {
                break;
            }
        }
        Ok(None)
    }

    fn refuse_unchecked(&self, behind: &Behind) -> Result<()> {
        match self.access.has_transactions() {
            true => Ok(()),
            false => Err(behind.unsupported()),
        }
    }

    /// The documents that the update is about, in its transaction: as a condition, and how to find them behind it.
    async fn concerned(&self, access: &Access, first: bool) -> Result<(Node, Node)> {
        let model = self.aim.model;
        if let Some(by_id) = &self.aim.named {
            return Ok((Node::All, by_id.clone()));
        }
        let find = operation::Find {
            collection: model.collection.into(),
            filter: self.filter(&Node::All)?,
            projection: Some(document("_id", 1)?),
            sort: self.aim.sort.clone(),
            limit: first.then_some(1),
            max_time: None,
        };
        upgrade::before_write(access, model, &find.filter).await?;
        let mut ids = RawArrayBuf::new();
        for found in &access.find_all(model, find).await? {
            if let Some(id) = decode::id(found) {
                ids.push(RawBson::from(id));
            }
        }
        let these = Node::Test(Path::ROOT.then("_id"), "$in", ids.into());
        Ok((these.clone(), these))
    }

    /// Checks what has become of the documents. What breaks a rule is not committed.
    async fn look_behind(
        &self,
        behind: &Behind,
        access: &Access,
        (_, those): (Node, Node),
    ) -> Result<()> {
        let model = self.aim.model;
        let find = operation::Find {
            collection: model.collection.into(),
            filter: to_raw(model, &those)?,
            projection: None,
            sort: None,
            limit: None,
            max_time: None,
        };
        // What was restored is out of sight for what has restored it.
        let access = access.clone().seeing(Sight::All);
        let mut found = access.find_all(model, find).await?;
        for field in behind.elements() {
            for raw in &mut found {
                *raw = overflow::with_all(&access, model, field, raw).await?;
            }
        }
        behind.check(&found).map_err(|error| access.fail(error))
    }
}

/// Whether there is a document that meets a condition.
pub(in crate::action) async fn is_there(
    access: &Access,
    model: &'static Model,
    condition: Node,
) -> Result<bool> {
    let count = operation::Count {
        collection: model.collection.into(),
        filter: to_raw(model, &condition)?,
        limit: Some(1),
        max_time: None,
    };
    Ok(access.count(model, count).await? > 0)
}

/// How often an update is tried while others store a null in its way.
const ATTEMPTS: u32 = 10;

/// A path as a projection names it: the elements of an array have no index there.
fn without_indexes(path: &str) -> String {
    let is_name = |part: &&str| part.parse::<usize>().is_err();
    let names: Vec<_> = path.split('.').filter(is_name).collect();
    names.join(".")
}

/// Refuses an append inside of elements that may be in chunk documents: the condition for room reads the owner document alone.
fn refuse_room_elsewhere(requirements: &[Requirement]) -> Result<()> {
    let elsewhere = requirements
        .iter()
        .find_map(|requirement| match &requirement.reason {
            Reason::Room { path, max } if requirement.may_spill => Some((path, max)),
            _ => None,
        });
    let Some((path, max)) = elsewhere else {
        return Ok(());
    };
    let message = format!(
        "the array has {max} elements at most, and is in an element that may be outside of its document, where nothing tells whether there \
         is room: set it as a whole, or pull the element and push it anew"
    );
    Err(Error::new(ErrorKind::Unsupported, message).with_path(path.clone()))
}

//! Delete sets. The `restrict` rules are checked for the complete set, so the answer does not depend on the order of models or
//! documents.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawBson, RawDocumentBuf};

use super::{
    delete_rule::{DeleteRule, rules_targeting},
    exclude_final_tombstones,
    linked_document::{LinkedDocument, read_linked},
    soft_cascade::cascading_rules,
    validate::{delete_restricted, ensure_decided},
};
use crate::{
    Error, Result,
    backend::operation::{CountOperation, Stage},
    language::query::equal_to,
    metadata::references::TombstoneState,
    model::ids::{OrderedId, none_of},
    schema::Model,
    session::access::{Access, ModelAccess, add_condition, find_matching},
    write::narrow_filter,
};

/// The documents that one delete removes.
#[derive(Debug)]
pub(super) struct DeleteSet {
    by_collection: BTreeMap<&'static str, ModelDeletes>,
    /// Whether the delete is a preview. A preview counts documents with an undecided delete as remaining.
    is_preview: bool,
}

#[derive(Debug)]
pub(super) struct ModelDeletes {
    pub(super) model: &'static Model,
    pub(super) documents: Vec<LinkedDocument>,
    ids: BTreeSet<OrderedId>,
}

impl DeleteSet {
    pub(super) fn new(is_preview: bool) -> Self {
        Self {
            by_collection: BTreeMap::new(),
            is_preview,
        }
    }

    /// Adds documents. Returns the documents that were not in the set before.
    pub(super) fn add_documents(
        &mut self,
        model: &'static Model,
        documents: Vec<LinkedDocument>,
    ) -> Vec<LinkedDocument> {
        let part = self
            .by_collection
            .entry(model.collection)
            .or_insert_with(|| ModelDeletes {
                model,
                documents: Vec::new(),
                ids: BTreeSet::new(),
            });
        let added = documents.into_iter();
        let added: Vec<_> = added
            .filter(|document| part.ids.insert(OrderedId::from_id(&document.id)))
            .collect();
        part.documents.extend(added.iter().cloned());
        added
    }

    /// Returns the documents of the set, grouped by model.
    pub(super) fn by_model(&self) -> impl Iterator<Item = &ModelDeletes> {
        self.by_collection.values()
    }

    pub(super) fn contains(&self, model: &Model, id: &OrderedId) -> bool {
        self.contains_in(model.collection, id)
    }

    pub(super) fn contains_in(&self, collection: &str, id: &OrderedId) -> bool {
        let part = self.by_collection.get(collection);
        part.is_some_and(|part| part.ids.contains(id))
    }

    /// Returns the number of documents.
    fn len(&self) -> usize {
        let parts = self.by_collection.values();
        parts.map(|part| part.documents.len()).sum()
    }

    fn ids_of_model(&self, model: &Model) -> impl Iterator<Item = &RawBson> {
        let part = self.by_collection.get(model.collection).into_iter();
        part.flat_map(|part| &part.documents)
            .map(|document| &document.id)
    }

    /// Adds documents together with all cascaded documents. `max_documents` limits the number of documents in the set.
    ///
    /// Returns `false` if the set exceeds the limit.
    pub(super) async fn collect_cascade(
        &mut self,
        access: ModelAccess<'_>,
        roots: Vec<LinkedDocument>,
        max_documents: Option<usize>,
    ) -> Result<bool> {
        self.collect_referrers(access, roots, None, max_documents)
            .await
    }

    /// Adds documents together with the documents that a soft delete or a restore reaches: with this deletion date, or null.
    /// Otherwise as [`collect_cascade`](Self::collect_cascade).
    pub(super) async fn collect_soft_cascade(
        &mut self,
        access: ModelAccess<'_>,
        roots: Vec<LinkedDocument>,
        date: &RawBson,
        max_documents: Option<usize>,
    ) -> Result<bool> {
        self.collect_referrers(access, roots, Some(date), max_documents)
            .await
    }

    async fn collect_referrers(
        &mut self,
        access: ModelAccess<'_>,
        roots: Vec<LinkedDocument>,
        deleted_at: Option<&RawBson>,
        max_documents: Option<usize>,
    ) -> Result<bool> {
        let model = access.model;
        let mut capacity = max_documents.map(|max| max.saturating_sub(self.len()));
        let mut queue = vec![(model, self.without_deleted(model, roots)?)];
        // A work list instead of recursion: a deep cascade must not overflow the stack.
        while let Some((model, documents)) = queue.pop() {
            let added = self.add_documents(model, documents);
            if let Some(capacity) = &mut capacity {
                let Some(remaining) = capacity.checked_sub(added.len()) else {
                    return Ok(false);
                };
                *capacity = remaining;
            }
            if added.is_empty() {
                continue;
            }
            let rules: Vec<_> = match deleted_at {
                None => rules_targeting(access.to(model))
                    .filter(DeleteRule::is_cascading)
                    .collect(),
                Some(_) => cascading_rules(access.to(model)).collect(),
            };
            for rule in rules {
                let Some(mut filter) = rule.referrer_filter(&access, &added, None).await? else {
                    continue;
                };
                if let (Some(date), Some(field)) = (deleted_at, rule.model.soft_delete) {
                    add_condition(&mut filter, field, equal_to(date.clone()))?;
                }
                narrow_filter(access.to(rule.model), &mut filter).await?;
                let find = find_matching(rule.model.collection, &filter)
                    .with_origin(Stage::REFERENCES.step("read the referrers"))
                    .with_limit(capacity.map(|capacity| capacity as u64 + 1));
                let found = read_linked(access.to(rule.model), find).await?;
                queue.push((rule.model, self.without_deleted(rule.model, found)?));
            }
        }
        Ok(true)
    }

    /// Returns an error if a remaining document restricts the delete of a document in the set.
    pub(super) async fn ensure_unrestricted(&self, access: &Access) -> Result<()> {
        for part in self.by_model() {
            for rule in rules_targeting(access.to(part.model)).filter(DeleteRule::is_restricting) {
                match rule.complete_inverse {
                    Some(_) => self.ensure_no_inverse_entry(&rule, &part.documents)?,
                    None => {
                        self.ensure_no_stored_referrer(access, &rule, &part.documents)
                            .await?
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn ensure_no_inverse_entry(
        &self,
        rule: &DeleteRule,
        documents: &[LinkedDocument],
    ) -> Result<()> {
        for document in documents {
            let inverse_ids = rule.referrers_in_inverses(std::slice::from_ref(document));
            let remaining = inverse_ids
                .iter()
                .filter(|referrer| !self.contains(rule.model, referrer));
            match remaining.count() {
                0 => {}
                referrers => return Err(delete_restricted(rule, &document.id, referrers as u64)),
            }
        }
        Ok(())
    }

    async fn ensure_no_stored_referrer(
        &self,
        access: &Access,
        rule: &DeleteRule,
        documents: &[LinkedDocument],
    ) -> Result<()> {
        let Some(filter) = self
            .remaining_referrer_filter(access, rule, documents)
            .await?
        else {
            return Ok(());
        };
        let find = find_matching(rule.model.collection, &filter)
            .with_origin(Stage::REFERENCES.step("look for a referrer"))
            .with_limit(1);
        let referrers = read_linked(access.to(rule.model), find).await?;
        let referrers = self.without_deleted(rule.model, referrers)?;
        let Some(referrer) = referrers.first() else {
            return Ok(());
        };
        let mut targets = referrer.targets_of(rule.link_index);
        targets.append(&mut rule.overflow_targets(access, &referrer.id).await?);
        let mut documents = documents.iter();
        let document =
            documents.find(|document| targets.contains(&OrderedId::from_id(&document.id)));
        Err(match document {
            Some(document) => self.restricted_error(access, rule, document).await?,
            // The referrer stores the id in another numeric type, for example as a decimal.
            None => delete_restricted(rule, &referrer.id, 1),
        })
    }

    /// Returns the error of a restricted delete, with the number of referrers.
    async fn restricted_error(
        &self,
        access: &Access,
        rule: &DeleteRule,
        document: &LinkedDocument,
    ) -> Result<Error> {
        let documents = std::slice::from_ref(document);
        let filter = self
            .remaining_referrer_filter(access, rule, documents)
            .await?;
        let count = CountOperation {
            collection: rule.model.collection.into(),
            filter: filter.unwrap_or_default(),
            limit: None,
            options: Stage::REFERENCES.step("count the referrers").into(),
        };
        let referrers = access.count(rule.model, count).await?;
        Ok(delete_restricted(rule, &document.id, referrers.max(1)))
    }

    /// Excludes documents that another delete removes.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) if another delete of a document is undecided, except in a preview.
    fn without_deleted(
        &self,
        model: &Model,
        mut found: Vec<LinkedDocument>,
    ) -> Result<Vec<LinkedDocument>> {
        found.retain(|document| document.tombstone != TombstoneState::Final);
        if !self.is_preview {
            ensure_decided(model, &found)?;
        }
        Ok(found)
    }

    /// Returns the condition that a document references any of the given documents and is not in the delete set.
    async fn remaining_referrer_filter(
        &self,
        access: &Access,
        rule: &DeleteRule,
        documents: &[LinkedDocument],
    ) -> Result<Option<RawDocumentBuf>> {
        let Some(mut filter) = rule.referrer_filter(access, documents, None).await? else {
            return Ok(None);
        };
        let deleted_ids: Vec<_> = self.ids_of_model(rule.model).collect();
        if !deleted_ids.is_empty() {
            add_condition(&mut filter, "_id", none_of(deleted_ids))?;
        }
        exclude_final_tombstones(&mut filter)?;
        narrow_filter(access.to(rule.model), &mut filter).await?;
        Ok(Some(filter))
    }

    /// Returns the documents of a model in the set, without the excluded documents.
    pub(super) fn documents_except(
        part: &ModelDeletes,
        excluded: &[LinkedDocument],
    ) -> Vec<LinkedDocument> {
        let excluded: BTreeSet<_> = excluded
            .iter()
            .map(|document| OrderedId::from_id(&document.id))
            .collect();
        let remaining = part.documents.iter();
        let remaining =
            remaining.filter(|document| !excluded.contains(&OrderedId::from_id(&document.id)));
        remaining.cloned().collect()
    }
}

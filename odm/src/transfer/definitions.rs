//! Collections, options and indexes of the target.

use bson::{RawBsonRef, RawDocument};

use super::{Transfer, documents};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::CollectionDefinition,
    metadata::{collections::SCHEMA, transfer::TRANSFERS},
};

impl Transfer<'_> {
    /// Returns the definitions of the source that the target can have, sorted by name. A definition that the target cannot have is
    /// an error, or left out.
    pub(super) async fn definitions(&mut self) -> Result<Vec<CollectionDefinition>> {
        let mut definitions = Vec::new();
        for definition in self.from.list_definitions().await? {
            if definition.name == TRANSFERS {
                continue;
            }
            let is_capped = definition.options.get_bool("capped").unwrap_or_default();
            if is_capped && !self.is_quiescent {
                let message = "a capped collection drops documents without an event: stop the writers, and copy the database by `quiescent`";
                return Err(
                    Error::new(ErrorKind::Unsupported, message).with_collection(&*definition.name)
                );
            }
            definitions.extend(self.fit(definition)?);
        }
        Ok(definitions)
    }

    /// Returns the part of a definition that the target can have.
    fn fit(&mut self, definition: CollectionDefinition) -> Result<Option<CollectionDefinition>> {
        if !self.skips_unsupported {
            self.to.ensure_definable(&definition)?;
            return Ok(Some(definition));
        }
        if self.is_definable(&definition)? {
            return Ok(Some(definition));
        }
        let CollectionDefinition {
            name,
            kind,
            options,
            indexes,
        } = definition;
        let mut fitting = CollectionDefinition {
            kind,
            ..CollectionDefinition::new(&*name)
        };
        if !self.is_definable(&fitting)? {
            self.skipped
                .insert(format!("{name}: the {} itself", fitting.kind));
            return Ok(None);
        }
        for option in &options {
            let (option, value) = option.map_err(crate::error::from_bson)?;
            let mut with_option = fitting.clone();
            with_option.options.append(option, value);
            match self.is_definable(&with_option)? {
                true => fitting = with_option,
                false => drop(
                    self.skipped
                        .insert(format!("{name}: the option `{option}`")),
                ),
            }
        }
        for index in indexes {
            let index_name = index.get_str("name").unwrap_or_default().to_owned();
            let mut with_index = fitting.clone();
            with_index.indexes.push(index);
            match self.is_definable(&with_index)? {
                true => fitting = with_index,
                false => drop(
                    self.skipped
                        .insert(format!("{name}: the index `{index_name}`")),
                ),
            }
        }
        Ok(Some(fitting))
    }

    /// Returns whether the target can have a definition.
    fn is_definable(&self, definition: &CollectionDefinition) -> Result<bool> {
        match self.to.ensure_definable(definition) {
            Ok(()) => Ok(true),
            Err(error) if error.is_unsupported() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Drops the definitions that the source may have changed since an earlier attempt: all views and indexes, and the collections
    /// that the source does not have. The change stream may start after a drop, and has no events for views and indexes. Also drops
    /// the declarations that the open of the target has recorded.
    pub(super) async fn drop_earlier_definitions(&mut self) -> Result<()> {
        // List the target first, so that a collection that the source creates meanwhile stays.
        let existing = self.to.list_definitions().await?;
        let expected = self.definitions().await?;
        let is_begun = self.state.position.is_some();
        for definition in existing {
            let name = definition.name.as_str();
            let mut collections = collections(&expected);
            if name == TRANSFERS {
                continue;
            }
            let is_of_target = name == SCHEMA && !is_begun;
            let is_expected = collections.any(|expected| expected.name == name);
            if definition.is_view() || is_of_target || !is_expected {
                self.created.remove(name);
                self.to.drop_collection(name).await?;
                continue;
            }
            for index in &definition.indexes {
                let index = index.get_str("name").map_err(crate::error::from_bson)?;
                self.to.drop_index(name, index).await?;
            }
        }
        Ok(())
    }

    /// Creates the collections without documents and without indexes.
    pub(super) async fn create_collections(
        &mut self,
        definitions: Vec<CollectionDefinition>,
    ) -> Result<()> {
        for mut definition in definitions {
            if definition.is_view() {
                continue;
            }
            definition.indexes.clear();
            self.created.insert(definition.name.clone());
            self.to.create_defined(definition).await?;
        }
        Ok(())
    }

    /// Creates a collection that a change of the source has named.
    pub(super) async fn ensure_created(&mut self, collection: &str) -> Result<()> {
        if self.created.contains(collection) {
            return Ok(());
        }
        let mut definitions = self.definitions().await?;
        // A missing definition belongs to a collection that was dropped again.
        definitions.retain(|definition| definition.name == collection);
        for definition in &definitions {
            documents::ensure_ordered_ids(self.from, &definition.name).await?;
        }
        self.create_collections(definitions).await
    }

    /// Creates the indexes that reject and delete no documents. A unique index would reject a state between two changes, and an
    /// index with an expiry would delete documents that the source still has.
    pub(super) async fn create_plain_indexes(&mut self) -> Result<()> {
        self.create_indexes(|index| !is_unique(index) && !expires(index))
            .await
    }

    /// Creates the missing indexes, and the views.
    pub(super) async fn create_all_indexes(&mut self) -> Result<Vec<CollectionDefinition>> {
        self.create_indexes(|index| !expires(index)).await?;
        self.create_indexes(|_| true).await?;
        let definitions = self.definitions().await?;
        for definition in definitions.iter().filter(|definition| definition.is_view()) {
            self.to.create_defined(definition.clone()).await?;
        }
        Ok(definitions)
    }

    async fn create_indexes(&mut self, includes: impl Fn(&RawDocument) -> bool) -> Result<()> {
        for mut definition in self.definitions().await? {
            definition.indexes.retain(|index| includes(index));
            if !definition.is_view() {
                self.to.create_defined(definition).await?;
            }
        }
        Ok(())
    }
}

/// Returns the definitions of collections, without the views.
pub(super) fn collections(
    definitions: &[CollectionDefinition],
) -> impl Iterator<Item = &CollectionDefinition> {
    definitions
        .iter()
        .filter(|definition| !definition.is_view())
}

fn is_unique(index: &RawDocument) -> bool {
    matches!(index.get("unique"), Ok(Some(RawBsonRef::Boolean(true))))
}

fn expires(index: &RawDocument) -> bool {
    matches!(index.get("expireAfterSeconds"), Ok(Some(_)))
}

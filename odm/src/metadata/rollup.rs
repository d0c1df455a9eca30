//! Metadata of rollups: the contributions of children, the version guards and states of parents, and the entries of lists.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::{ParsedMetadata, metadata_path};

/// The version guard of a parent. Each write of the rollups compares and increments the value. Stays in the document.
pub(crate) const ROLLUP_VERSION: &str = metadata_path!("rollup_version");

/// The contributions that a child has recorded, by reference. Disappears when the child has no parent.
pub(crate) const CONTRIBUTIONS: &str = metadata_path!("contributions");

/// The contributions that a parent has applied and the children have not recorded yet. Written on a standalone server. An entry
/// disappears after the child has recorded the contribution.
pub(crate) const APPLIED_CONTRIBUTIONS: &str = metadata_path!("applied");

/// The states of averages, minimums and maximums, by stored name of the field. Each field is computed from its state.
const ROLLUP_STATE: &str = metadata_path!("rollup_state");

/// The sum of the values, in the state of an average.
pub(crate) const STATE_SUM: &str = "sum";

/// The number of the values, in the state of an average.
pub(crate) const STATE_COUNT: &str = "count";

/// The `_id` of the child, in an entry of a list.
pub(crate) const ENTRY_ID: &str = metadata_path!("id");

/// The sort value of the child, in an entry of a list that does not show the sort field.
pub(crate) const ENTRY_SORT_VALUE: &str = metadata_path!("sort_value");

/// Returns the path of the contributions that a child has recorded for a reference.
pub(crate) fn contributions_path(reference: &str) -> String {
    format!("{CONTRIBUTIONS}.{reference}")
}

/// Returns the path of the parents in the contributions that a child has recorded for a reference.
pub(crate) fn contribution_parents_path(reference: &str) -> String {
    format!("{CONTRIBUTIONS}.{reference}.parent")
}

/// Returns the path of the state from which a rollup field of a parent is computed.
pub(crate) fn rollup_state_path(stored: &str) -> String {
    format!("{ROLLUP_STATE}.{stored}")
}

/// The contribution of a child to one parent, as recorded in the child. A change of the contribution replaces the record.
#[derive(Debug, Clone)]
pub(crate) struct RecordedContribution {
    /// The `_id` of the parent.
    pub(crate) parent_id: Bson,
    /// The values that the parent has from the child, by stored name. Empty before the first update of the parent.
    pub(crate) values: Document,
}

impl RecordedContribution {
    fn from_document(record: &Document) -> Option<Self> {
        Some(Self {
            parent_id: record.get("parent")?.clone(),
            values: record.get_document("values").cloned().unwrap_or_default(),
        })
    }

    /// Returns the record as stored.
    pub(crate) fn to_document(&self) -> Document {
        doc! { "parent": self.parent_id.clone(), "values": self.values.clone() }
    }
}

/// A contribution that a parent has applied and the child has not recorded yet.
#[derive(Debug, Clone)]
pub(crate) struct AppliedContribution {
    /// The write that applied the contribution.
    pub(crate) write_id: ObjectId,
    /// The collection and the reference of the child.
    pub(crate) group_key: String,
    pub(crate) child_id: Bson,
    pub(crate) values: Document,
}

impl AppliedContribution {
    fn from_document(entry: &Document) -> Option<Self> {
        Some(Self {
            write_id: entry.get_object_id("write").ok()?,
            group_key: entry.get_str("group").ok()?.to_owned(),
            child_id: entry.get("child")?.clone(),
            values: entry.get_document("values").cloned().unwrap_or_default(),
        })
    }

    /// Returns the entry as stored.
    pub(crate) fn to_document(&self) -> Document {
        doc! {
            "write": self.write_id,
            "group": &self.group_key,
            "child": self.child_id.clone(),
            "values": self.values.clone(),
        }
    }

    /// Returns the condition that a parent has no entry for any of these children.
    pub(crate) fn none_of(group_key: &str, child_ids: Vec<Bson>) -> Document {
        let entry = doc! { "group": group_key, "child": { "$in": child_ids } };
        doc! { APPLIED_CONTRIBUTIONS: { "$not": { "$elemMatch": entry } } }
    }

    /// Returns the update that removes the entries of a write.
    pub(crate) fn pull_write_entries(write_id: ObjectId) -> Document {
        doc! { "$pull": { APPLIED_CONTRIBUTIONS: { "write": write_id } } }
    }
}

impl<'d> ParsedMetadata<'d> {
    /// Returns the version guard of a parent.
    pub(crate) fn rollup_version(self) -> Option<&'d Bson> {
        self.value(ROLLUP_VERSION)
    }

    /// Returns the contributions that a child has recorded for a reference.
    pub(crate) fn recorded_contributions(self, reference: &str) -> Vec<RecordedContribution> {
        self.documents_at(&contributions_path(reference))
            .filter_map(RecordedContribution::from_document)
            .collect()
    }

    /// Returns the contributions that a parent has applied and the children have not recorded yet.
    pub(crate) fn applied_contributions(self) -> Vec<AppliedContribution> {
        self.documents_at(APPLIED_CONTRIBUTIONS)
            .filter_map(AppliedContribution::from_document)
            .collect()
    }

    /// Returns the `_id` of the child in an entry of a list.
    pub(crate) fn entry_id(self) -> Option<&'d Bson> {
        self.value(ENTRY_ID)
    }

    /// Returns the documents of an array.
    fn documents_at(self, path: &str) -> impl Iterator<Item = &'d Document> + use<'d> {
        let array = self.value(path).and_then(Bson::as_array);
        array.into_iter().flatten().filter_map(Bson::as_document)
    }
}

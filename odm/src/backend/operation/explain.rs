//! The plan of a query.

use std::fmt;

/// A description of how a database finds the documents of a [`FindOperation`](super::FindOperation), with the number of reads.
///
/// [`Executor::explain`](crate::backend::Executor::explain) returns this type after executing the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explain {
    /// The names of the used indexes, without duplicates. `_id_` is the index on `_id`. A missing collection uses no index.
    pub indexes: Vec<String>,
    /// Whether the query reads all documents of the collection.
    pub is_collection_scan: bool,
    /// Whether the database sorts the documents in memory, because no index has the requested order.
    ///
    /// A sort in memory reads all matching documents, even with a limit.
    pub is_sorted_in_memory: bool,
    /// The number of index entries that the query reads.
    pub keys_examined: u64,
    /// The number of documents that the query reads. Zero if the indexes contain all requested fields.
    pub documents_examined: u64,
    /// The number of returned documents.
    pub returned: u64,
    /// The answers of conditions on related documents, in the order in which the query needs them. A backend returns none.
    pub related: Vec<RelatedPlan>,
    /// The declaration of an index for a query of a scope, such as `index(status, -placed)`, with the stored names of the fields.
    /// `None` if an index serves the query, and for a query without a scope. A backend returns `None`.
    pub missing_index: Option<String>,
}

/// The answer of a condition on related documents: on the targets of a reference, or on children.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelatedPlan {
    /// The collection of the related documents.
    pub collection: String,
    /// The path of the reference: in the document for targets, and in the children for children.
    pub reference: String,
    /// The strategy.
    pub strategy: RelatedStrategy,
}

/// The way in which a condition on related documents is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelatedStrategy {
    /// The copies beside the reference answer the condition, without a query.
    Copy {
        /// The paths of the copies and references that the condition compares.
        fields: Vec<String>,
    },
    /// A query reads the ids, and the condition compares the reference with the ids.
    Ids {
        /// The number of ids.
        count: usize,
        /// The plan of the query for the ids.
        plan: Box<Explain>,
    },
    /// There are too many ids for a condition, so the database searches the related documents of each document. The plan of the
    /// query is the plan of the part before this search.
    Lookup {
        /// The plan of the search for one document.
        plan: Box<Explain>,
    },
}

impl Explain {
    /// Returns a warning for a query of a scope that reads the documents of all scopes, and for each condition on related documents
    /// with a query for ids that reads its whole collection.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let scans = self
            .related
            .iter()
            .filter(|related| match &related.strategy {
                RelatedStrategy::Copy { .. } => false,
                RelatedStrategy::Ids { plan, .. } | RelatedStrategy::Lookup { plan } => {
                    plan.is_collection_scan
                }
            });
        let warning = |related: &RelatedPlan| {
            format!(
                "the condition on `{}`, by the reference `{}`, reads the whole collection: declare an index on the fields of the condition",
                related.collection, related.reference
            )
        };
        let of_scope = self.missing_index.iter().map(|declaration| {
            format!(
                "the query of a scope reads the documents of all scopes: declare `{declaration}` in `#[document(…)]`, which begins with the scope by itself"
            )
        });
        of_scope.chain(scans.map(warning)).collect()
    }
}

impl fmt::Display for RelatedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}: ", self.collection, self.reference)?;
        match &self.strategy {
            RelatedStrategy::Copy { fields } => write!(f, "copy {}", fields.join(", ")),
            RelatedStrategy::Ids { count, plan } => {
                write!(f, "{count} ids, {}", plan.index_use())
            }
            RelatedStrategy::Lookup { plan } => {
                write!(f, "lookup for each document, {}", plan.index_use())
            }
        }
    }
}

impl Explain {
    fn index_use(&self) -> String {
        match self.is_collection_scan {
            true => "without an index".to_owned(),
            false => format!("index {}", self.indexes.join(", ")),
        }
    }
}

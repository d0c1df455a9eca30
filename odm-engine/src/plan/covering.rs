//! Covered queries: whether an index has all fields that a query reads.

use crate::filter::FilterExpression;
use crate::path::Path;

/// The fields that a query reads besides its filter and order: the whole document or some paths.
#[derive(Clone, Debug)]
pub(crate) enum ReadSet {
    Document,
    Paths(Vec<Path>),
}

impl ReadSet {
    /// Whether the fields at `indexed`, with their content, are enough.
    pub(super) fn is_covered_by(&self, indexed: &[Path]) -> bool {
        match self {
            ReadSet::Document => false,
            ReadSet::Paths(paths) => paths.iter().all(|path| covers_path(path, indexed)),
        }
    }
}

/// Whether a filter only reads the fields at `indexed`. May return `false` for a covered filter.
pub(super) fn covers_filter(indexed: &[Path], expression: &FilterExpression) -> bool {
    match expression {
        FilterExpression::And(inner)
        | FilterExpression::Or(inner)
        | FilterExpression::Nor(inner) => inner.iter().all(|inner| covers_filter(indexed, inner)),
        FilterExpression::Not(inner) => covers_filter(indexed, inner),
        FilterExpression::Field(path, _) if covers_path(path, indexed) => true,
        _ => false,
    }
}

/// Whether the path is one of the indexed paths, or inside of one.
pub(super) fn covers_path(path: &Path, indexed: &[Path]) -> bool {
    indexed.iter().any(|prefix| path.starts_with(prefix))
}

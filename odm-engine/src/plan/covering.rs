//! Whether an index has all that is read of a document.

use crate::filter::Expression;
use crate::path::Path;

/// What a query reads of a document besides its filter and its order: everything, or some paths.
#[derive(Clone, Debug)]
pub(crate) enum Reads {
    Document,
    Paths(Vec<Path>),
}

impl Reads {
    /// Whether the fields at `indexed`, with all that is in them, are enough.
    pub(super) fn are_covered_by(&self, indexed: &[Path]) -> bool {
        match self {
            Reads::Document => false,
            Reads::Paths(paths) => paths.iter().all(|path| is_covered(path, indexed)),
        }
    }
}

/// Whether a filter reads no more than the fields at `indexed`. Errs on the side of no.
pub(super) fn covers(indexed: &[Path], expression: &Expression) -> bool {
    match expression {
        Expression::And(inner) | Expression::Or(inner) | Expression::Nor(inner) => {
            inner.iter().all(|inner| covers(indexed, inner))
        }
        Expression::Not(inner) => covers(indexed, inner),
        Expression::Field(path, _) if is_covered(path, indexed) => true,
        _ => false,
    }
}

/// Whether the path is one of these, or leads on from one.
pub(super) fn is_covered(path: &Path, indexed: &[Path]) -> bool {
    indexed.iter().any(|own| path.starts_with(own))
}

//! The refusal to read a whole collection.

use std::collections::BTreeSet;

use super::conditions::Demands;
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::{Error, code};
use crate::filter::Expression;
use crate::sort::Sort;

/// The error of an operation without an index, where [`notablescan`] is set.
///
/// [`notablescan`]: crate::Database::set_notablescan
pub(super) fn refused(
    collection: &Collection,
    expression: &Expression,
    demands: &Demands<'_>,
    sort: Option<&Sort>,
) -> Error {
    let fields = useful_index(expression, demands, sort);
    let name = &collection.name;
    let message = if fields.is_empty() {
        format!(
            "notablescan is set, and this would read every document of {name}; name fields to search by"
        )
    } else {
        let fields = fields.join(", ");
        format!(
            "notablescan is set, and no index of {name} serves this operation; create one on {{ {fields} }}"
        )
    };
    Error::server(code::NO_QUERY_EXECUTION_PLANS, message)
}

/// The fields of an index that would serve: those with single values, those that give the order, then
/// one with a range.
fn useful_index(
    expression: &Expression,
    demands: &Demands<'_>,
    sort: Option<&Sort>,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut fields = Vec::new();
    let mut add = |path: &str, direction| {
        if seen.insert(path.to_owned()) {
            let sign = if direction == Direction::Ascending {
                "1"
            } else {
                "-1"
            };
            fields.push(format!("{path}: {sign}"));
        }
    };
    let (points, ranges): (Vec<_>, Vec<_>) = demands
        .conditions
        .iter()
        .partition(|condition| condition.bounds.are_points());
    for condition in points {
        add(&condition.path, Direction::Ascending);
    }
    for (path, direction) in sort.into_iter().flat_map(Sort::fields) {
        add(path.as_str(), direction);
    }
    for condition in ranges.iter().take(1) {
        add(&condition.path, Direction::Ascending);
    }
    if fields.is_empty() {
        // Nothing bounds an index; one on what is asked about is still the best there can be.
        let mut paths = Vec::new();
        collect_paths(expression, &mut paths);
        fields.extend(paths.into_iter().map(|path| format!("{path}: 1")));
        fields.dedup();
    }
    fields
}

fn collect_paths(expression: &Expression, paths: &mut Vec<String>) {
    match expression {
        Expression::And(inner) | Expression::Or(inner) | Expression::Nor(inner) => {
            inner.iter().for_each(|inner| collect_paths(inner, paths));
        }
        Expression::Not(inner) => collect_paths(inner, paths),
        Expression::Field(path, _) if !path.as_str().is_empty() => {
            paths.push(path.as_str().to_owned());
        }
        _ => {}
    }
}

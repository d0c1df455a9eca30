//! How a reference to a document that is gone leaves the document that it is in.

use bson::RawBson;

use super::linked::{array, one_of};
use crate::{
    Result,
    backend::operation::Change,
    query::document,
    schema::{LinkStep, OnDelete, OwnLink},
};

/// The change that takes what is gone out of a reference.
///
/// In arrays of embedded structs only those elements are touched that refer to it: each array on the way has a condition, which
/// also says that what is behind it is there.
pub(super) fn parting<'g>(
    link: &OwnLink,
    gone: impl IntoIterator<Item = &'g RawBson>,
) -> Result<Change> {
    let gone: Vec<_> = gone.into_iter().collect();
    let way = link.side.way;
    let last_array = way.iter().rposition(|step| step.is_array);
    // What the operator is about: the array that loses something, or the reference itself.
    let target = match (link.on_delete, last_array) {
        (OnDelete::Pull, Some(array)) => array,
        _ => way.len().saturating_sub(1),
    };
    let (mut path, mut array_filters) = (String::new(), Vec::new());
    for (position, step) in way.iter().enumerate().take(target + 1) {
        if position > 0 {
            path.push('.');
        }
        path.push_str(step.stored);
        if step.is_array && position < target {
            // A letter first, as the server asks for.
            let name = format!("e{position}");
            let behind = names(&way[position + 1..]);
            let condition = document(&format!("{name}.{behind}"), one_of(gone.iter().copied())?)?;
            array_filters.push(condition);
            path.push_str(&format!(".$[{name}]"));
        }
    }
    let behind = way.get(target + 1..).unwrap_or_default();
    let update = match (link.on_delete, behind) {
        (OnDelete::Pull, []) => document("$pullAll", document(&path, array(gone))?)?,
        (OnDelete::Pull, behind) => {
            let element = document(&names(behind), one_of(gone)?)?;
            document("$pull", document(&path, element)?)?
        }
        // As a document that is inserted without a reference.
        _ if (link.omits_none)() => document("$unset", document(&path, "")?)?,
        _ => document("$set", document(&path, RawBson::Null)?)?,
    };
    Ok(Change::Operators {
        update,
        array_filters,
    })
}

fn names(way: &[LinkStep]) -> String {
    let names: Vec<_> = way.iter().map(|step| step.stored).collect();
    names.join(".")
}

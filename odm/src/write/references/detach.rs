//! The update that removes references to deleted documents from a referrer.

use bson::RawBson;

use crate::{
    Result,
    backend::operation::DocumentChange,
    language::query::single_field_document,
    model::ids::{id_array, one_of},
    schema::{LinkStep, OnDelete, ReferenceLink},
};

/// Returns the change that removes the ids of deleted documents from a reference.
///
/// In arrays of embedded documents, the change affects only elements that reference a deleted document. Each array on the path
/// has an array filter, which also ensures that the path below the array exists.
pub(super) fn detach_change<'d>(
    link: &ReferenceLink,
    deleted: impl IntoIterator<Item = &'d RawBson>,
) -> Result<DocumentChange> {
    let deleted: Vec<_> = deleted.into_iter().collect();
    let steps = link.link_field.steps;
    let removes_elements = match link.on_delete {
        OnDelete::Pull => true,
        // The other rules never detach: `cascade` deletes the referrer, `restrict` and `keep` leave the reference unchanged.
        OnDelete::Nullify | OnDelete::Cascade | OnDelete::Restrict | OnDelete::Keep => false,
    };
    let last_array = steps.iter().rposition(|step| step.is_array);
    // The step where the operator applies: the array that loses elements, or the reference itself.
    let target = last_array
        .filter(|_| removes_elements)
        .unwrap_or(steps.len().saturating_sub(1));
    let (mut path, mut array_filters) = (String::new(), Vec::new());
    for (position, step) in steps.iter().enumerate().take(target + 1) {
        if position > 0 {
            path.push('.');
        }
        path.push_str(step.stored);
        if step.is_array && position < target {
            // MongoDB requires that the name of an array filter begins with a letter.
            let name = format!("e{position}");
            let remaining = join_names(&steps[position + 1..]);
            let (path_below, ids) = (format!("{name}.{remaining}"), deleted.iter().copied());
            array_filters.push(single_field_document(&path_below, one_of(ids))?);
            path.push_str(&format!(".$[{name}]"));
        }
    }
    let (operator, operand) = match (removes_elements, steps.get(target + 1..)) {
        (true, None | Some([])) => ("$pullAll", single_field_document(&path, id_array(deleted))?),
        (true, Some(remaining)) => {
            let element = single_field_document(&join_names(remaining), one_of(deleted))?;
            ("$pull", single_field_document(&path, element)?)
        }
        // The same form as in a document that was inserted without the reference.
        (false, _) if (link.omits_none)() => ("$unset", single_field_document(&path, "")?),
        (false, _) => ("$set", single_field_document(&path, RawBson::Null)?),
    };
    let update = single_field_document(operator, operand)?;
    Ok(DocumentChange::Operators {
        update,
        array_filters,
    })
}

fn join_names(steps: &[LinkStep]) -> String {
    let names: Vec<_> = steps.iter().map(|step| step.stored).collect();
    names.join(".")
}

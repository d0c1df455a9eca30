//! What a save may not change, and what is new in it.

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use super::{
    close,
    group::{Group, Meets, Taken, fixed, groups},
    open,
};
use crate::{
    Error, ErrorKind, Result, error,
    maintain::stored::{get, names, set},
    schema::Model,
};

/// The update of a save, in which the structs that are new have nothing yet of what the framework fills. `stored` is the document as it was
/// read.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if it changes what was taken of other documents, or never changes.
pub(crate) fn of_a_save(
    model: &Model,
    stored: &RawDocument,
    update: RawDocumentBuf,
) -> Result<RawDocumentBuf> {
    if !model.copies.is_any() && model.tallies.is_empty() && model.overflows.is_empty() {
        return Ok(update);
    }
    let (mut open, stored) = (open(&update)?, open(stored)?);
    let (fixed, groups) = (fixed(model), groups(model));
    for (operator, fields) in open.iter_mut() {
        let Bson::Document(fields) = fields else {
            continue;
        };
        for (path, value) in fields.iter_mut() {
            if fixed.iter().any(|fixed| is_inside(path, fixed)) {
                return Err(changed(model, path));
            }
            let value = match value {
                Bson::Document(modifiers) if operator == "$push" => modifiers.get_mut("$each"),
                value => Some(value),
            };
            let Some(value) = value else { continue };
            for group in &groups {
                if let Meets::Around(step) = group.meets(path) {
                    let there = match operator.as_str() {
                        "$push" => Vec::new(),
                        _ => structs(group, step, get(&stored, path)),
                    };
                    renew(group, step, value, there).map_err(|()| changed(model, path))?;
                }
            }
        }
    }
    close(&open)
}

fn changed(model: &Model, path: &str) -> Error {
    let message = "a copy follows what it was taken from, and a snapshot stays as it was taken: leave them as they were read";
    error::of(model)(Error::new(ErrorKind::Invalid, message).with_path(path))
}

/// Whether a place is one of these names, or inside of it.
fn is_inside(path: &str, fixed: &str) -> bool {
    let names = names(path);
    let rest = names.strip_prefix(fixed);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a struct has of the group, as it was read.
struct Held {
    /// The reference and what was taken.
    values: Vec<Bson>,
    /// Of which revision that is.
    from: Option<i64>,
    /// Of what and when the snapshots were taken that remember it.
    origins: Vec<(String, Bson)>,
}

fn structs(group: &Group, step: usize, value: Option<&Bson>) -> Vec<Held> {
    let found = value.map(|value| group.structs_in(step, value));
    let found = found.into_iter().flatten().map(|(_, inside)| Held {
        values: held(group, inside),
        from: group.revision_in(inside),
        origins: origins(group, inside),
    });
    found.collect()
}

fn origins(group: &Group, inside: &Document) -> Vec<(String, Bson)> {
    let paths = group.snapshots().map(Taken::origin);
    let origins = paths.filter_map(|path| get(inside, &path).cloned().map(|origin| (path, origin)));
    origins.collect()
}

fn held(group: &Group, inside: &Document) -> Vec<Bson> {
    let fields = group.fields.iter().map(|taken| taken.stored);
    let fields = [group.reference].into_iter().chain(fields);
    fields
        .map(|field| inside.get(field).cloned().unwrap_or(Bson::Null))
        .collect()
}

/// Leaves the structs of a value that were there, wherever they stand now; what others have of the group is taken anew. It is an error if
/// one is as it was but for what was taken.
fn renew(group: &Group, step: usize, value: &mut Bson, mut there: Vec<Held>) -> Result<(), ()> {
    let mut others = Vec::new();
    let mut position = 0;
    group.each_in(step, value, &mut |inside| {
        let own = held(group, inside);
        match there.iter().position(|there| there.values == own) {
            Some(same) => {
                // The first of equal ones is the first still.
                let there = there.remove(same);
                if let Some(from) = there.from {
                    set(inside, &group.from(), from);
                }
                for (path, origin) in there.origins {
                    set(inside, &path, origin);
                }
            }
            None => others.push(position),
        }
        position += 1;
        Ok(())
    })?;
    position = 0;
    group.each_in(step, value, &mut |inside| {
        if others.contains(&position) {
            let own = inside.get(group.reference).unwrap_or(&Bson::Null);
            if there.iter().any(|there| there.values.first() == Some(own)) {
                return Err(());
            }
            for taken in &group.fields {
                inside.remove(taken.stored);
            }
            let own = inside.get_document_mut("_odm");
            if let Ok(from) = own.and_then(|own| own.get_document_mut("from")) {
                from.remove(group.reference);
            }
        }
        position += 1;
        Ok(())
    })
}

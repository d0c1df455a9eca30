//! What is put into documents, and into what an update writes, of the documents that they refer to.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    VERIFY,
    group::{Group, Meets},
    source::{Source, Sources},
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    document::{self, Draft, Drafted},
    error,
    maintain::Said,
    schema::Model,
};

/// Makes documents of drafts, with what is taken of others: one query for each model that these are of.
pub(crate) async fn resolve<T: document::Document>(
    access: &Access,
    drafts: Vec<Draft<T>>,
) -> Result<(Vec<T>, Sources)> {
    let (groups, mut sources) = (super::groups(&T::MODEL), Sources::default());
    let mut open = Vec::new();
    for draft in &drafts {
        if let Drafted::Raw(raw) = &draft.0 {
            open.push(Document::try_from(&**raw).map_err(error::encode)?);
        }
    }
    fill_all(access, &T::MODEL, &groups, &mut open, &mut sources).await?;
    let mut filled = open.into_iter();
    let mut documents = Vec::with_capacity(drafts.len());
    for draft in drafts {
        documents.push(match (draft.0, ()) {
            (Drafted::Whole(document), ()) => document,
            (Drafted::Raw(_), ()) => {
                let filled = filled.next().unwrap_or_default();
                let raw = RawDocumentBuf::try_from(&filled).map_err(error::encode)?;
                T::from_stored(&raw)?
            }
        });
    }
    Ok((documents, sources))
}

/// Fills documents that are to be inserted, and says in them that they are to be looked at again.
pub(super) async fn insert(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    documents: &mut [RawDocumentBuf],
    sources: &Sources,
) -> Result<Option<Said>> {
    let mut sources = sources.clone();
    let open = documents
        .iter()
        .map(|raw| Document::try_from(&**raw).map_err(error::encode));
    let mut open = open.collect::<Result<Vec<_>>>()?;
    let follows = fill_all(access, model, groups, &mut open, &mut sources).await?;
    let said = follows.then(Said::now);
    for (raw, mut filled) in documents.iter_mut().zip(open) {
        if let Some(said) = said {
            set(&mut filled, VERIFY.0, said.to_document());
        }
        *raw = RawDocumentBuf::try_from(&filled).map_err(error::encode)?;
    }
    Ok(said)
}

/// Puts a value at a dotted path of a document.
pub(super) fn put(raw: &mut RawDocumentBuf, dotted: &str, value: Bson) -> Result<()> {
    let mut open = Document::try_from(&**raw).map_err(error::encode)?;
    set(&mut open, dotted, value);
    *raw = RawDocumentBuf::try_from(&open).map_err(error::encode)?;
    Ok(())
}

/// Fills values of a whole document each; tells whether something in them follows.
async fn fill_all(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    documents: &mut [Document],
    sources: &mut Sources,
) -> Result<bool> {
    let mut wanted = Vec::new();
    for group in groups {
        for document in documents.iter_mut() {
            wants(group, 0, document, &mut wanted);
        }
    }
    sources.read(access, groups, &wanted).await?;
    let mut follows = false;
    for group in groups {
        follows |= group.is_following();
        for document in documents.iter_mut() {
            group.each_struct(0, document, &mut |inside| {
                fill(model, group, inside, sources)
            })?;
        }
    }
    Ok(follows && !wanted.is_empty())
}

/// The sources of what is in a value from a step on.
fn wants(
    group: &Group,
    step: usize,
    value: &mut Document,
    wanted: &mut Vec<(&'static Model, Bson)>,
) {
    let seen: Result<(), ()> = group.each_struct(step, value, &mut |inside| {
        if let Some(id) = inside.get(group.reference).filter(|id| **id != Bson::Null) {
            wanted.push(((group.model)(), id.clone()));
        }
        Ok(())
    });
    let _: Result<(), ()> = seen;
}

/// Puts into a struct what its reference leads to.
fn fill(model: &Model, group: &Group, inside: &mut Document, sources: &Sources) -> Result<()> {
    let id = inside.get(group.reference).cloned().unwrap_or(Bson::Null);
    let source = match find(model, group, &id, sources) {
        // It was filled before what it was taken from had gone, and is written as it was.
        Err(_) if group.revision_in(inside).is_some() => return Ok(()),
        source => source?,
    };
    for taken in &group.fields {
        // What was taken once stays.
        if taken.is_following() || !inside.contains_key(taken.stored) {
            inside.insert(taken.stored, value(source, &taken.from));
        }
    }
    if let (Some(source), true) = (source, group.is_following()) {
        set(inside, &group.from(), source.revision);
    }
    Ok(())
}

fn value(source: Option<&Source>, from: &str) -> Bson {
    source.map_or(Bson::Null, |source| source.value(from))
}

/// What a reference leads to; none if there is no reference.
fn find<'s>(
    model: &Model,
    group: &Group,
    id: &Bson,
    sources: &'s Sources,
) -> Result<Option<&'s Source>> {
    if *id == Bson::Null {
        return match group.is_optional {
            true => Ok(None),
            false => Err(no_source(model, group, id, "is missing")),
        };
    }
    match sources.get((group.model)(), id)? {
        Some(Some(source)) => Ok(Some(source)),
        _ => Err(no_source(model, group, id, "leads to nothing")),
    }
}

fn no_source(model: &Model, group: &Group, id: &Bson, what: &str) -> Error {
    let source = (group.model)();
    let path = group.reference_path();
    let message = format!(
        "`{path}` {what}, so there is no {} to copy from, and nothing was written: insert that first",
        source.name
    );
    let error = Error::new(ErrorKind::Dangling, message).with_path(path);
    let error = error.with_id(id.clone());
    error::of(model)(error)
}

/// Fills what an update writes; tells what it says of itself if a reference may be new.
pub(super) async fn update(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    update: &mut RawDocumentBuf,
    sources: &Sources,
) -> Result<Option<Said>> {
    let mut open = Document::try_from(&**update).map_err(error::encode)?;
    let touches = touches(model, groups, &open)?;
    if touches.is_empty() {
        return Ok(None);
    }
    let mut sources = sources.clone();
    let mut wanted = Vec::new();
    for touch in &touches {
        let Some(value) = operand(&mut open, touch.operator, &touch.path) else {
            continue;
        };
        match &touch.meets {
            Meets::Around(step) => {
                let seen: Result<(), ()> = touch.group.each_in(*step, value, &mut |inside| {
                    wants(touch.group, touch.group.steps.len(), inside, &mut wanted);
                    Ok(())
                });
                let _: Result<(), ()> = seen;
            }
            Meets::Reference(_) if touch.operator == "$set" && *value != Bson::Null => {
                wanted.push(((touch.group.model)(), value.clone()));
            }
            _ => {}
        }
    }
    sources.read(access, groups, &wanted).await?;
    for touch in touches {
        let group = touch.group;
        let Some(value) = operand(&mut open, touch.operator, &touch.path) else {
            continue;
        };
        match touch.meets {
            Meets::Around(step) => {
                group.each_in(step, value, &mut |inside| {
                    fill(model, group, inside, &sources)
                })?;
            }
            Meets::Reference(before) => {
                let id = match touch.operator {
                    "$set" => value.clone(),
                    _ => Bson::Null,
                };
                retarget(model, group, &before, &id, &sources, &mut open)?;
            }
            Meets::Nothing => {}
        }
    }
    let said = (!wanted.is_empty()).then(Said::now);
    if let Some(said) = said {
        say(&mut open, "$set", VERIFY.0.to_owned(), said.to_document());
    }
    *update = RawDocumentBuf::try_from(&open).map_err(error::encode)?;
    Ok(said)
}

/// Takes the copies beside references away that a change makes null.
pub(super) fn leave(model: &Model, update: &mut RawDocumentBuf) -> Result<()> {
    let groups = super::groups(model);
    let mut open = Document::try_from(&**update).map_err(error::encode)?;
    for touch in touches(model, &groups, &open)? {
        if let (Meets::Reference(before), "$set") = (&touch.meets, touch.operator) {
            let none = Sources::default();
            retarget(model, touch.group, before, &Bson::Null, &none, &mut open)?;
        }
    }
    *update = RawDocumentBuf::try_from(&open).map_err(error::encode)?;
    Ok(())
}

/// A place that an update writes, with copies in it or beside it.
struct Touch<'g> {
    group: &'g Group,
    operator: &'static str,
    path: String,
    meets: Meets,
}

/// Where an update writes references with copies, or the structs that have them.
fn touches<'g>(model: &Model, groups: &'g [Group], update: &Document) -> Result<Vec<Touch<'g>>> {
    let mut touches = Vec::new();
    for (operator, fields) in update {
        let Bson::Document(fields) = fields else {
            continue;
        };
        for (path, value) in fields {
            for group in groups {
                let meets = match (group.meets(path), value) {
                    (Meets::Nothing, Bson::String(to)) if operator == "$rename" => group.meets(to),
                    (meets, _) => meets,
                };
                if meets == Meets::Nothing {
                    continue;
                }
                let operator = match operator.as_str() {
                    "$set" => "$set",
                    "$push" => "$push",
                    "$unset" => "$unset",
                    // Nothing is new in what is left.
                    "$pull" | "$pullAll" | "$pop" => continue,
                    other => return Err(not_followed(model, other, path)),
                };
                touches.push(Touch {
                    group,
                    operator,
                    path: path.clone(),
                    meets,
                });
            }
        }
    }
    Ok(touches)
}

fn not_followed(model: &Model, operator: &str, path: &str) -> Error {
    let message = format!(
        "no copies follow from `{operator}` of `{path}`, and nothing was written: use `set`, `unset` or `push`; to add what is not there \
         yet, `push` with a `when`"
    );
    error::of(model)(Error::new(ErrorKind::Unsupported, message).with_path(path))
}

/// What an operator does at a path.
fn operand<'u>(update: &'u mut Document, operator: &str, path: &str) -> Option<&'u mut Bson> {
    let value = update.get_document_mut(operator).ok()?.get_mut(path)?;
    let modifiers = value.as_document();
    let is_each = modifiers.is_some_and(|modifiers| modifiers.contains_key("$each"));
    match is_each && operator == "$push" {
        true => value.as_document_mut()?.get_mut("$each"),
        false => Some(value),
    }
}

/// Adds an operator on a path.
fn say(update: &mut Document, operator: &str, path: String, value: impl Into<Bson>) {
    match update.get_document_mut(operator) {
        Ok(fields) => {
            fields.insert(path, value);
        }
        Err(_) => {
            update.insert(operator, doc! { path: value });
        }
    }
}

/// Writes the copies of a reference beside it; what was taken once stays.
fn retarget(
    model: &Model,
    group: &Group,
    before: &str,
    id: &Bson,
    sources: &Sources,
    update: &mut Document,
) -> Result<()> {
    if !group.is_following() {
        return Ok(());
    }
    let source = find(model, group, id, sources)?;
    for taken in group.following() {
        let path = format!("{before}{}", taken.stored);
        say(update, "$set", path, value(source, &taken.from));
    }
    let from = format!("{before}{}", group.from());
    match source {
        Some(source) => say(update, "$set", from, source.revision),
        None => say(update, "$unset", from, ""),
    }
    Ok(())
}

/// Puts a value at a dotted path.
pub(super) fn set(document: &mut Document, dotted: &str, value: impl Into<Bson>) {
    let Some((first, rest)) = dotted.split_once('.') else {
        document.insert(dotted, value);
        return;
    };
    let inside = document.entry(first.to_owned());
    if let Bson::Document(inside) = inside.or_insert_with(|| Bson::Document(Document::new())) {
        set(inside, rest, value);
    }
}

/// The ids of all sources of a document's copies that follow.
pub(super) fn references(group: &Group, document: &mut Document) -> Vec<(Bson, Option<i64>)> {
    let mut found = Vec::new();
    let seen: Result<(), ()> = group.each_struct(0, document, &mut |inside| {
        if let Some(id) = inside.get(group.reference).filter(|id| **id != Bson::Null) {
            found.push((id.clone(), group.revision_in(inside)));
        }
        Ok(())
    });
    let _: Result<(), ()> = seen;
    found
}

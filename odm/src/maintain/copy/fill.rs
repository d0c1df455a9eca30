//! What is put into documents, and into what an update writes, of the documents that they refer to.

use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};

use super::{
    VERIFY, close,
    fan::write,
    group::{Group, Meets},
    source::{Source, Sources},
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::BoxFuture,
    decode,
    document::{self, Draft, Drafted},
    error,
    maintain::{Said, computed, stored::set},
    schema::Model,
};

/// Makes documents of drafts, with what is taken of others: one query for each model that these are of.
pub(crate) async fn resolve<T: document::Document>(
    access: &Access,
    drafts: Vec<Draft<T>>,
) -> Result<(Vec<T>, Sources)> {
    let mut documents = Vec::with_capacity(drafts.len());
    let (mut raws, mut places) = (Vec::new(), Vec::new());
    for draft in drafts {
        documents.push(match draft.0 {
            Drafted::Whole(document) => Some(document),
            Drafted::Raw(raw) => {
                places.push(documents.len());
                raws.push(raw);
                None
            }
        });
    }
    let mut sources = Sources::default();
    if !raws.is_empty() {
        let filled;
        (filled, sources) = fill_drafts(access, &T::MODEL, &raws).await?;
        for (place, raw) in places.into_iter().zip(filled) {
            documents[place] = Some(decode::encoded(&raw)?);
        }
    }
    Ok((documents.into_iter().flatten().collect(), sources))
}

/// The documents that are stored of drafts.
fn fill_drafts<'a>(
    access: &'a Access,
    model: &'static Model,
    drafts: &'a [RawDocumentBuf],
) -> BoxFuture<'a, Result<(Vec<RawDocumentBuf>, Sources)>> {
    Box::pin(async move {
        let mut sources = Sources::default();
        let open = drafts.iter().map(|raw| super::open(raw));
        let mut open = open.collect::<Result<Vec<_>>>()?;
        fill_all(
            access,
            model,
            &super::groups(model),
            &mut open,
            &mut sources,
        )
        .await?;
        let filled = open.iter().map(|filled| {
            let mut raw = close(filled)?;
            computed::fill(model, &mut raw)?;
            Ok(raw)
        });
        Ok((filled.collect::<Result<_>>()?, sources))
    })
}

/// Fills documents that are to be inserted, and says in them that they are to be looked at again.
pub(super) async fn insert(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    documents: &mut [RawDocumentBuf],
    sources: &mut Sources,
) -> Result<Option<Said>> {
    let open = documents.iter().map(|raw| super::open(raw));
    let mut open = open.collect::<Result<Vec<_>>>()?;
    let follows = fill_all(access, model, groups, &mut open, sources).await?;
    let said = follows.then(Said::now);
    for (raw, mut filled) in documents.iter_mut().zip(open) {
        if let Some(said) = said {
            set(&mut filled, VERIFY.0, said.to_document());
        }
        *raw = close(&filled)?;
    }
    Ok(said)
}

/// Puts a value at a dotted path of a document.
pub(in crate::maintain) fn put(raw: &mut RawDocumentBuf, dotted: &str, value: Bson) -> Result<()> {
    let mut open = super::open(raw)?;
    set(&mut open, dotted, value);
    *raw = close(&open)?;
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
        for document in documents.iter() {
            let structs = group.structs(document).into_iter();
            wanted.extend(structs.filter_map(|(_, inside)| wants(group, inside)));
        }
    }
    sources.read(access, &super::groups(model), &wanted).await?;
    let (mut follows, now) = (false, DateTime::now());
    for group in groups {
        follows |= group.is_following();
        for document in documents.iter_mut() {
            let taking = Taking::OfAll(now);
            group.each(document, &mut |inside| {
                fill(model, group, inside, sources, taking)
            })?;
        }
    }
    Ok(follows && !wanted.is_empty())
}

/// The source of what is in a struct, if its reference leads to one.
fn wants(group: &Group, inside: &Document) -> Option<(&'static Model, Bson)> {
    let id = group.reference_in(inside)?;
    Some(((group.model)(), id.clone()))
}

/// When snapshots are taken, and which of those in a struct are.
#[derive(Debug, Clone, Copy)]
enum Taking {
    /// All: what is in a document that is inserted was taken for it.
    OfAll(DateTime),
    /// Those that are not there. The others are of an earlier time.
    OfMissing(DateTime),
}

/// Puts into a struct what its reference leads to.
fn fill(
    model: &Model,
    group: &Group,
    inside: &mut Document,
    sources: &Sources,
    taking: Taking,
) -> Result<()> {
    let id = inside.get(group.reference).cloned().unwrap_or(Bson::Null);
    let source = match find(model, group, &id, sources) {
        // It was filled before what it was taken from had gone, and is written as it was.
        Err(error)
            if error.kind() == ErrorKind::Dangling && group.revision_in(inside).is_some() =>
        {
            return Ok(());
        }
        source => source?,
    };
    for taken in &group.fields {
        let is_there = inside.contains_key(taken.stored);
        // What was taken once stays.
        if taken.is_following() || !is_there {
            taken.put(inside, value(source, &taken.from));
        }
        let at = match taking {
            Taking::OfMissing(_) if is_there => continue,
            Taking::OfAll(at) | Taking::OfMissing(at) => at,
        };
        if taken.has_origin && source.is_some() {
            set(inside, &taken.origin(), doc! { "id": &id, "at": at });
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
    sources: &mut Sources,
) -> Result<Option<Said>> {
    let mut open = super::open(update)?;
    let touches = touches(model, groups, &open)?;
    if touches.is_empty() {
        return Ok(None);
    }
    let (mut wanted, mut follows) = (Vec::new(), false);
    for touch in &touches {
        let Some(value) = operand(&mut open, touch.operator, &touch.path) else {
            continue;
        };
        let before = wanted.len();
        match &touch.meets {
            Meets::Around(step) => {
                let structs = touch.group.structs_in(*step, value).into_iter();
                wanted.extend(structs.filter_map(|(_, inside)| wants(touch.group, inside)));
            }
            Meets::Reference(_) if touch.operator == "$set" && *value != Bson::Null => {
                wanted.push(((touch.group.model)(), value.clone()));
            }
            _ => {}
        }
        follows |= touch.group.is_following() && wanted.len() > before;
    }
    sources.read(access, &super::groups(model), &wanted).await?;
    let taking = Taking::OfMissing(DateTime::now());
    for touch in touches {
        let group = touch.group;
        let Some(value) = operand(&mut open, touch.operator, &touch.path) else {
            continue;
        };
        match touch.meets {
            Meets::Around(step) => {
                group.each_in(step, value, &mut |inside| {
                    fill(model, group, inside, sources, taking)
                })?;
            }
            Meets::Reference(before) => {
                let id = match touch.operator {
                    "$set" => value.clone(),
                    _ => Bson::Null,
                };
                retarget(model, group, &before, &id, sources, &mut open)?;
            }
            Meets::Nothing => {}
        }
    }
    let said = follows.then(Said::now);
    if let Some(said) = said {
        let said = said.to_document().into();
        write(&mut open, VERIFY.0.to_owned(), Some(said));
    }
    *update = close(&open)?;
    Ok(said)
}

/// Takes the copies beside references away that a change makes null.
pub(super) fn leave(model: &Model, update: &mut RawDocumentBuf) -> Result<()> {
    let groups = super::groups(model);
    let mut open = super::open(update)?;
    for touch in touches(model, &groups, &open)? {
        if let (Meets::Reference(before), "$set" | "$unset") = (&touch.meets, touch.operator) {
            let none = Sources::default();
            retarget(model, touch.group, before, &Bson::Null, &none, &mut open)?;
        }
    }
    *update = close(&open)?;
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
        write(update, path, taken.stored_value(value(source, &taken.from)));
    }
    let from = format!("{before}{}", group.from());
    write(update, from, source.map(|source| source.revision.into()));
    Ok(())
}

//! Filling copies: in documents that are inserted, and in references and structs that an update writes.

use bson::{Bson, DateTime, Document, RawDocumentBuf};

use super::{
    fan_out::set_or_unset,
    layout::{CopyField, CopyGroup, PathRelation, dependent_fields},
    source::{SourceCache, SourceState},
    to_raw_document,
};
use crate::{
    Error, ErrorKind, Result,
    backend::BoxFuture,
    error,
    metadata::copy::SnapshotOrigin,
    model::{
        decode,
        document::{self, Draft, DraftContent},
        stored::{edit_fields, parse_fields, replace_fields, root_of},
    },
    parallel,
    pending::record::{PendingKind, PendingToken},
    schema::{Model, computed::evaluate::compute_fields},
    session::access::{Access, ModelAccess},
    write::{
        footprint::{Operator, parsed_changes, parsed_changes_mut, written_values},
        metadata_update::set_at,
        tree_chain::ensure_no_descendants,
    },
};

/// Turns drafts into documents by filling their copies. Costs one query for each source model. Returns the sources that were
/// read.
pub(crate) async fn resolve_drafts<T: document::Document>(
    access: &Access,
    drafts: Vec<Draft<T>>,
) -> Result<(Vec<T>, SourceCache)> {
    let mut documents = Vec::with_capacity(drafts.len());
    let (mut raws, mut positions) = (Vec::new(), Vec::new());
    for draft in drafts {
        documents.push(match draft.0 {
            DraftContent::Complete(document) => Some(document),
            DraftContent::Partial(raw) => {
                positions.push(documents.len());
                raws.push(raw);
                None
            }
        });
    }
    let mut sources = SourceCache::default();
    if !raws.is_empty() {
        let filled;
        (filled, sources) = fill_drafts(access.to(&T::MODEL), &raws).await?;
        for (position, raw) in positions.into_iter().zip(filled) {
            documents[position] = Some(decode::decode_new(&raw)?);
        }
    }
    Ok((documents.into_iter().flatten().collect(), sources))
}

/// Returns drafts as complete stored documents: copies and computed fields are filled.
fn fill_drafts<'a>(
    access: ModelAccess<'a>,
    drafts: &'a [RawDocumentBuf],
) -> BoxFuture<'a, Result<(Vec<RawDocumentBuf>, SourceCache)>> {
    Box::pin(async move {
        let mut sources = SourceCache::default();
        let groups = super::copy_groups(access.model);
        let names = dependent_fields(&groups);
        let mut structs = parallel::map(drafts.iter(), |raw| parse_fields(raw, &names))?;
        fill_documents(access, &groups, &mut structs, &mut sources).await?;
        let filled = parallel::map(drafts.iter().zip(structs), |(draft, fields)| {
            let mut raw = draft.clone();
            replace_fields(&mut raw, &names, &fields)?;
            compute_fields(access.model, &mut raw)?;
            Ok(raw)
        });
        Ok((filled?, sources))
    })
}

/// Fills documents before an insert, and adds a pending revalidation. Returns the token, or `None` if there are no followed
/// copies.
pub(super) async fn fill_inserted(
    access: ModelAccess<'_>,
    groups: &[CopyGroup],
    documents: &mut [RawDocumentBuf],
    sources: &mut SourceCache,
) -> Result<Option<PendingToken>> {
    let names = dependent_fields(groups);
    let mut structs = parallel::map(documents.iter(), |raw| parse_fields(raw, &names))?;
    let has_copies = fill_documents(access, groups, &mut structs, sources).await?;
    let token = has_copies.then(|| PendingToken::with_new_lease(access.lease()));
    for (raw, fields) in documents.iter().zip(&structs) {
        ensure_no_descendants(access, raw, fields).await?;
    }
    parallel::map(documents.iter_mut().zip(structs), |(raw, mut fields)| {
        if let Some(token) = token {
            let path = PendingKind::REVALIDATE.record_path();
            set_at(&mut fields, path, token.to_document());
        }
        replace_fields(raw, &names, &fields)
    })?;
    Ok(token)
}

/// Sets a value at a dotted path of a document.
pub(super) fn put_field(raw: &mut RawDocumentBuf, dotted: &str, value: Bson) -> Result<()> {
    edit_fields(raw, &[root_of(dotted)], |fields| {
        set_at(fields, dotted, value);
        Ok(())
    })
}

/// Fills all copies of complete documents. Returns whether a followed copy was filled from a source.
async fn fill_documents(
    access: ModelAccess<'_>,
    groups: &[CopyGroup],
    documents: &mut [Document],
    sources: &mut SourceCache,
) -> Result<bool> {
    let model = access.model;
    let source_ids = groups.iter().flat_map(|group| group.sources_in(documents));
    let source_ids: Vec<_> = source_ids.collect();
    sources
        .read_missing(&access, &super::copy_groups(model), &source_ids)
        .await?;
    let (mut has_copies, now) = (false, DateTime::now());
    for group in groups {
        has_copies |= group.has_fan_out();
        let sources = &*sources;
        parallel::map(documents.iter_mut(), |document| {
            let timing = SnapshotTiming::All(now);
            group.for_each_struct(document, &mut |embedded| {
                fill_struct(model, group, embedded, sources, timing)
            })
        })?;
    }
    Ok(has_copies && !source_ids.is_empty())
}

/// The time of new snapshots, and which snapshots are new.
#[derive(Debug, Clone, Copy)]
enum SnapshotTiming {
    /// Every snapshot is new: the document is inserted.
    All(DateTime),
    /// Only missing snapshots are new. Existing snapshots keep their origin.
    Missing(DateTime),
}

/// Fills the copies of one struct.
fn fill_struct(
    model: &Model,
    group: &CopyGroup,
    embedded: &mut Document,
    sources: &SourceCache,
    timing: SnapshotTiming,
) -> Result<()> {
    let id = embedded.get(group.reference).cloned().unwrap_or(Bson::Null);
    let source = match find_source(model, group, &id, sources) {
        // The source was deleted after an earlier operation filled this struct: keep the copies that the struct has.
        Err(error)
            if error.kind() == ErrorKind::Dangling && group.version_in(embedded).is_some() =>
        {
            return Ok(());
        }
        source => source?,
    };
    for field in &group.fields {
        let exists = embedded.contains_key(field.stored);
        // A snapshot keeps its value.
        if field.has_fan_out() || !exists {
            field.put_in_struct(embedded, source_value(source, field));
        }
        let time = match timing {
            SnapshotTiming::Missing(_) if exists => continue,
            SnapshotTiming::All(time) | SnapshotTiming::Missing(time) => time,
        };
        if field.has_origin && source.is_some() {
            let origin = SnapshotOrigin {
                id: id.clone(),
                at: time,
            };
            set_at(embedded, &field.origin_path(), origin.to_document());
        }
    }
    if let (Some(source), true) = (source, group.has_fan_out()) {
        set_at(embedded, &group.version_path(), source.version);
    }
    Ok(())
}

fn source_value(source: Option<&SourceState>, field: &CopyField) -> Bson {
    source.map_or_else(
        || field.value_without_source(),
        |source| field.value_of(source),
    )
}

/// Returns the source of a reference, or `None` for an optional reference that is null.
///
/// # Errors
///
/// [`Dangling`](ErrorKind::Dangling) if the source does not exist.
fn find_source<'s>(
    model: &Model,
    group: &CopyGroup,
    id: &Bson,
    sources: &'s SourceCache,
) -> Result<Option<&'s SourceState>> {
    if *id == Bson::Null {
        if group.is_optional {
            return Ok(None);
        }
        let error = missing_source_error(group, "has no value");
        return Err(error::naming_model(model)(error));
    }
    match sources.get_source((group.source_model)(), id)? {
        Some(Some(source)) => Ok(Some(source)),
        _ => {
            let error = missing_source_error(group, "refers to a missing document");
            let error = error.with_id(id.clone());
            Err(error::naming_model((group.source_model)())(error))
        }
    }
}

/// The error of a reference without a source, with the path of the reference.
fn missing_source_error(group: &CopyGroup, problem: &str) -> Error {
    let message = format!(
        "`{path}` {problem}: there is no {name} to copy from, and nothing was written; insert the {name} first",
        path = group.reference_path(),
        name = (group.source_model)().name
    );
    Error::new(ErrorKind::Dangling, message).with_path(group.reference_path())
}

/// Fills the copies of references and structs that an update writes, and adds a pending revalidation. Returns the token, or
/// `None` if no followed copy was filled.
pub(super) async fn fill_update(
    access: ModelAccess<'_>,
    groups: &[CopyGroup],
    update: &mut RawDocumentBuf,
    sources: &mut SourceCache,
) -> Result<Option<PendingToken>> {
    let model = access.model;
    let mut parsed = super::parse_document(update)?;
    let touched_paths = find_touched_paths(model, groups, &parsed)?;
    if touched_paths.is_empty() {
        return Ok(None);
    }
    let (mut source_ids, mut has_copies) = (Vec::new(), false);
    for touched in &touched_paths {
        let Some(value) = touched.values_in(&mut parsed) else {
            continue;
        };
        let count = source_ids.len();
        match &touched.relation {
            PathRelation::Contains(step) => {
                let structs = touched.group.structs_in(*step, value).into_iter();
                let ids = structs.filter_map(|(_, embedded)| touched.group.source_in(embedded));
                source_ids.extend(ids);
            }
            PathRelation::Reference(_)
                if touched.operator == Operator::Set && *value != Bson::Null =>
            {
                source_ids.push(((touched.group.source_model)(), value.clone()));
            }
            _ => {}
        }
        has_copies |= touched.group.has_fan_out() && source_ids.len() > count;
    }
    sources
        .read_missing(&access, &super::copy_groups(model), &source_ids)
        .await?;
    let timing = SnapshotTiming::Missing(DateTime::now());
    for touched in touched_paths {
        let group = touched.group;
        let Some(value) = touched.values_in(&mut parsed) else {
            continue;
        };
        match touched.relation {
            PathRelation::Contains(step) => {
                group.for_each_struct_in(step, value, &mut |embedded| {
                    fill_struct(model, group, embedded, sources, timing)
                })?;
            }
            PathRelation::Reference(prefix) => {
                let id = match touched.operator == Operator::Set {
                    true => value.clone(),
                    false => Bson::Null,
                };
                write_sibling_copies(model, group, &prefix, &id, sources, &mut parsed)?;
            }
            PathRelation::Disjoint => {}
        }
    }
    let token = has_copies.then(|| PendingToken::with_new_lease(access.lease()));
    if let Some(token) = token {
        let token = token.to_document().into();
        let path = PendingKind::REVALIDATE.record_path();
        set_or_unset(&mut parsed, path.to_owned(), Some(token));
    }
    *update = to_raw_document(&parsed)?;
    Ok(token)
}

/// Sets the copies beside a reference to null when an update removes the reference.
pub(super) fn null_copies(model: &'static Model, update: &mut RawDocumentBuf) -> Result<()> {
    let groups = super::copy_groups(model);
    let mut parsed = super::parse_document(update)?;
    for touched in find_touched_paths(model, &groups, &parsed)? {
        if let (PathRelation::Reference(prefix), Operator::Set | Operator::Unset) =
            (&touched.relation, touched.operator)
        {
            let no_sources = SourceCache::default();
            let (group, id) = (touched.group, Bson::Null);
            write_sibling_copies(model, group, prefix, &id, &no_sources, &mut parsed)?;
        }
    }
    *update = to_raw_document(&parsed)?;
    Ok(())
}

/// A path of an update at or around a reference with copies.
struct TouchedPath<'g> {
    group: &'g CopyGroup,
    /// The operator: `$set`, `$unset` or `$push`.
    operator: Operator,
    path: String,
    relation: PathRelation,
}

impl TouchedPath<'_> {
    /// Returns the values that the update writes at the path: the operand, or the elements of a `$push` with `$each`.
    fn values_in<'u>(&self, update: &'u mut Document) -> Option<&'u mut Bson> {
        let operator = self.operator;
        let mut changes = parsed_changes_mut(update);
        let change =
            changes.find(|change| change.operator == operator && change.path == self.path)?;
        Some(written_values(operator, change.operand))
    }
}

/// Returns the paths at which an update writes references with copies, or structs that contain one.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) for an operator that cannot fill copies.
fn find_touched_paths<'g>(
    model: &Model,
    groups: &'g [CopyGroup],
    update: &Document,
) -> Result<Vec<TouchedPath<'g>>> {
    let mut touched_paths = Vec::new();
    for change in parsed_changes(update) {
        for group in groups {
            let mut relations = change.written_paths().map(|path| group.relation_to(path));
            let Some(relation) = relations.find(|relation| *relation != PathRelation::Disjoint)
            else {
                continue;
            };
            match change.operator {
                Operator::Set | Operator::Push | Operator::Unset => {}
                // These operators only remove elements.
                Operator::Pull | Operator::PullAll | Operator::Pop => continue,
                Operator::SetOnInsert
                | Operator::Rename
                | Operator::Inc
                | Operator::Mul
                | Operator::Min
                | Operator::Max
                | Operator::Bit
                | Operator::CurrentDate
                | Operator::AddToSet
                | Operator::Unknown => {
                    let operator = change.operator_name;
                    return Err(unsupported_operator_error(model, operator, change.path));
                }
            }
            touched_paths.push(TouchedPath {
                group,
                operator: change.operator,
                path: change.path.to_owned(),
                relation,
            });
        }
    }
    Ok(touched_paths)
}

fn unsupported_operator_error(model: &Model, operator: &str, path: &str) -> Error {
    let message = format!(
        "`{operator}` of `{path}` cannot fill copies, and nothing was written: use `set`, `unset` or `push`; to add only a new element, \
         use `push` with a `when`"
    );
    error::naming_model(model)(Error::new(ErrorKind::Unsupported, message).with_path(path))
}

/// Writes the copies of a reference in the same update. Snapshots keep their values.
fn write_sibling_copies(
    model: &Model,
    group: &CopyGroup,
    prefix: &str,
    id: &Bson,
    sources: &SourceCache,
    update: &mut Document,
) -> Result<()> {
    if !group.has_fan_out() {
        return Ok(());
    }
    let source = find_source(model, group, id, sources)?;
    for field in group.fan_out_fields() {
        let path = format!("{prefix}{}", field.stored);
        let value = source_value(source, field);
        set_or_unset(update, path, field.stored_value(value));
    }
    let version_path = format!("{prefix}{}", group.version_path());
    let version = source.map(|source| source.version.into());
    set_or_unset(update, version_path, version);
    Ok(())
}

//! Consecutive stages that remove fields and add the fields again.
//!
//! A server keeps the position of a removed field. If `$set` follows `$unset` of the same field, the field is in its old position.
//! The stages in this module run together on each document, and pass on the [`Layout`] of the document.

use bson::{RawDocument, RawDocumentBuf};

use super::{DocumentTransform, PipelineStage};
use crate::projection::{ChangedPaths, FieldChange, Layout};
use crate::value::growth;
use crate::{Result, interrupt};

/// Combines the stages of each sequence in which a stage may restore a removed field.
pub(super) fn combine_stages(stages: Vec<PipelineStage>) -> Vec<PipelineStage> {
    let mut combined = Vec::new();
    let mut sequence = Vec::new();
    for stage in stages {
        let is_filter_inside = matches!(stage, PipelineStage::Match(_)) && !sequence.is_empty();
        if is_filter_inside || field_change(&stage).is_some() {
            sequence.push(stage);
            continue;
        }
        end_sequence(&mut combined, std::mem::take(&mut sequence));
        combined.push(stage);
    }
    end_sequence(&mut combined, sequence);
    combined
}

fn end_sequence(combined: &mut Vec<PipelineStage>, sequence: Vec<PipelineStage>) {
    match may_restore_fields(sequence.iter().filter_map(field_change)) {
        true => combined.push(PipelineStage::FieldChanges(sequence)),
        false => combined.extend(sequence),
    }
}

fn field_change(stage: &PipelineStage) -> Option<FieldChange<'_>> {
    match stage {
        PipelineStage::Transform(transform) => transform.as_field_change(),
        _ => None,
    }
}

/// Returns whether a stage may add a field that an earlier stage has removed.
fn may_restore_fields<'c>(mut changes: impl Iterator<Item = FieldChange<'c>>) -> bool {
    let mut changed = ChangedPaths::default();
    changes.any(|change| changed.add_stage(change))
}

/// Runs combined stages on a document. `None` if a filter excludes the document.
///
/// # Errors
/// Errors of expressions. The result of a stage is too large or too deep.
pub(super) fn run_stages(
    stages: &[PipelineStage],
    document: RawDocumentBuf,
) -> Result<Option<RawDocumentBuf>> {
    let mut document = document;
    let mut layout = Layout::default();
    for stage in stages {
        interrupt::check()?;
        match stage {
            PipelineStage::Match(filter) if !filter.matches(&document)? => return Ok(None),
            PipelineStage::Transform(transform) => {
                document = transform.transform_in_place(&document, &mut layout)?;
                growth::check_stage_output(&document)?;
            }
            _ => {}
        }
    }
    Ok(Some(document))
}

/// The stages of an update, which handle one document at a time.
#[derive(Debug)]
pub(crate) struct TransformSequence {
    transforms: Vec<Box<dyn DocumentTransform>>,
    may_restore_fields: bool,
}

impl TransformSequence {
    pub(super) fn new(transforms: Vec<Box<dyn DocumentTransform>>) -> TransformSequence {
        let changes = transforms
            .iter()
            .filter_map(|transform| transform.as_field_change());
        let may_restore_fields = may_restore_fields(changes);
        TransformSequence {
            transforms,
            may_restore_fields,
        }
    }

    /// Applies all stages to a document.
    ///
    /// # Errors
    /// An expression fails.
    pub(crate) fn apply_to(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let mut layout = Layout::default();
        let mut transforms = self.transforms.iter();
        transforms.try_fold(document.to_owned(), |document, transform| {
            match self.may_restore_fields {
                true => transform.transform_in_place(&document, &mut layout),
                false => transform.transform_document(&document),
            }
        })
    }
}

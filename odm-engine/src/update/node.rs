//! The tree of a document during an update. Unchanged parts stay in their original bytes.

use std::borrow::Cow;

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::opened_fields::OpenedFields;
use super::target::PathName;
use crate::error::{Error, Result, code};
use crate::value;

/// The maximum number of nulls that fill the gap between the end of an array and a new position.
const MAX_PADDING_ELEMENTS: usize = 1_500_000;

/// The approximate size in bytes of one such null as a BSON element.
const NULL_ELEMENT_BYTES: usize = 10;

/// A value in a document during an update.
#[derive(Debug, Clone)]
pub(super) enum UpdateNode<'d> {
    /// An unchanged value of the original document.
    Original(RawBsonRef<'d>),
    /// A new value.
    New(RawBson),
    /// A document whose fields are accessible.
    Document(OpenedFields<'d>),
    /// An array whose elements are accessible.
    Array(Vec<UpdateNode<'d>>),
}

/// An edit of the value at the end of a path.
pub(super) trait PathEdit {
    /// Edits an existing value.
    fn edit_existing(&self, value: &mut UpdateNode<'_>) -> Result<EditOutcome>;

    /// Returns the value for a missing field. `None` leaves the field missing.
    fn missing_value(&self) -> Result<Option<RawBson>>;

    /// Returns whether a path through a value without fields is an error.
    fn needs_path(&self) -> bool;

    /// Counts bytes that are added besides the value itself.
    ///
    /// # Errors
    /// The update adds too many bytes.
    fn spend_bytes(&self, bytes: usize) -> Result<()>;
}

/// The result of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditOutcome {
    /// The value is unchanged.
    Same,
    /// The value counts as modified, even if the new value equals the old value.
    Modified,
    /// The value must be removed from its document.
    Removed,
}

impl<'d> UpdateNode<'d> {
    pub(super) fn from_document(document: &'d RawDocument) -> UpdateNode<'d> {
        UpdateNode::Original(RawBsonRef::Document(document))
    }

    /// Returns the elements if the value is an array.
    pub(super) fn as_array(&mut self) -> Option<&mut Vec<UpdateNode<'d>>> {
        self.open_children();
        match self {
            UpdateNode::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Follows a path and edits the value at the end. Missing documents on the path are created if
    /// the edit returns a value. Returns whether the value counts as modified.
    ///
    /// # Errors
    /// The path runs into a value that cannot have the field (code 28), or the edit fails.
    pub(super) fn edit_path(&mut self, path: &[PathName], edit: &dyn PathEdit) -> Result<bool> {
        let Some((name, rest)) = path.split_first() else {
            return Ok(false);
        };
        self.open_children();
        let outcome = match self {
            UpdateNode::Document(fields) => edit_field(fields, name, rest, edit)?,
            UpdateNode::Array(items) => match name.index() {
                Some(index) => edit_item(items, index, rest, edit)?,
                None => self.not_viable(name, edit)?,
            },
            UpdateNode::Original(_) | UpdateNode::New(_) => self.not_viable(name, edit)?,
        };
        Ok(outcome != EditOutcome::Same)
    }

    /// Returns a copy of the value.
    pub(super) fn to_bson(&self) -> RawBson {
        match self {
            UpdateNode::Original(value) => RawBson::from(*value),
            UpdateNode::New(value) => value.clone(),
            UpdateNode::Document(fields) => {
                let mut document = RawDocumentBuf::new();
                for (key, node) in fields.iter() {
                    node.with_value(|value| document.append(key, value));
                }
                RawBson::Document(document)
            }
            UpdateNode::Array(items) => {
                let mut array = RawArrayBuf::new();
                for node in items {
                    node.with_value(|value| array.push(value));
                }
                RawBson::Array(array)
            }
        }
    }

    /// Passes the value to `show` without copying more than necessary.
    pub(super) fn with_value<R>(&self, show: impl FnOnce(RawBsonRef<'_>) -> R) -> R {
        match self {
            UpdateNode::Original(value) => show(*value),
            UpdateNode::New(value) => show(value.as_raw_bson_ref()),
            opened => show(opened.to_bson().as_raw_bson_ref()),
        }
    }

    /// Returns the whole document. Empty if the value is not a document.
    pub(super) fn into_document(self) -> RawDocumentBuf {
        match self.to_bson() {
            RawBson::Document(document) => document,
            _ => RawDocumentBuf::new(),
        }
    }

    fn edit_here(&mut self, rest: &[PathName], edit: &dyn PathEdit) -> Result<EditOutcome> {
        if rest.is_empty() {
            return edit.edit_existing(self);
        }
        Ok(if self.edit_path(rest, edit)? {
            EditOutcome::Modified
        } else {
            EditOutcome::Same
        })
    }

    /// Makes the fields of a document or the elements of an array accessible.
    fn open_children(&mut self) {
        let opened = match self {
            UpdateNode::Original(RawBsonRef::Document(document)) => {
                let elements = document.iter_elements().map_while(|element| element.ok());
                let fields = elements.map_while(|element| {
                    Some((
                        Cow::Borrowed(element.key()),
                        UpdateNode::Original(element.value().ok()?),
                    ))
                });
                UpdateNode::Document(fields.collect())
            }
            UpdateNode::Original(RawBsonRef::Array(array)) => {
                UpdateNode::Array(value::items(array).map(UpdateNode::Original).collect())
            }
            UpdateNode::New(RawBson::Document(document)) => {
                let elements = document.iter_elements().map_while(|element| element.ok());
                let fields = elements.map_while(|element| {
                    let value = RawBson::from(element.value().ok()?);
                    Some((
                        Cow::Owned(CString::from(element.key())),
                        UpdateNode::New(value),
                    ))
                });
                UpdateNode::Document(fields.collect())
            }
            UpdateNode::New(RawBson::Array(array)) => {
                let items = value::items(array).map(|item| UpdateNode::New(RawBson::from(item)));
                UpdateNode::Array(items.collect())
            }
            _ => return,
        };
        *self = opened;
    }

    /// Wraps a value in one new document for each name of the path.
    fn nest_value(path: &[PathName], value: RawBson) -> UpdateNode<'d> {
        path.iter()
            .rev()
            .fold(UpdateNode::New(value), |inner, name| {
                UpdateNode::Document(OpenedFields::from_iter([(
                    Cow::Owned(name.to_cstring()),
                    inner,
                )]))
            })
    }

    fn not_viable(&self, name: &PathName, edit: &dyn PathEdit) -> Result<EditOutcome> {
        if !edit.needs_path() {
            return Ok(EditOutcome::Same);
        }
        let kind = self.with_value(value::type_name);
        Err(Error::with_server_code(
            28,
            format!(
                "cannot reach field '{}' in a value of type {kind}",
                name.as_str()
            ),
        ))
    }
}

fn edit_field<'d>(
    fields: &mut OpenedFields<'d>,
    name: &PathName,
    rest: &[PathName],
    edit: &dyn PathEdit,
) -> Result<EditOutcome> {
    let Some(child) = fields.get_mut(name.as_str()) else {
        let Some(created) = edit.missing_value()? else {
            return Ok(EditOutcome::Same);
        };
        fields.push_field(
            Cow::Owned(name.to_cstring()),
            UpdateNode::nest_value(rest, created),
        );
        return Ok(EditOutcome::Modified);
    };
    let outcome = child.edit_here(rest, edit)?;
    if outcome == EditOutcome::Removed {
        fields.remove_field(name.as_str());
    }
    Ok(outcome)
}

fn edit_item(
    items: &mut Vec<UpdateNode<'_>>,
    index: usize,
    rest: &[PathName],
    edit: &dyn PathEdit,
) -> Result<EditOutcome> {
    let Some(child) = items.get_mut(index) else {
        let Some(created) = edit.missing_value()? else {
            return Ok(EditOutcome::Same);
        };
        let padding = index.saturating_sub(items.len());
        if padding > MAX_PADDING_ELEMENTS {
            let message = format!(
                "position {index} is more than {MAX_PADDING_ELEMENTS} past the end of the array"
            );
            return Err(Error::with_server_code(
                code::CANNOT_BACKFILL_ARRAY,
                message,
            ));
        }
        edit.spend_bytes(padding * NULL_ELEMENT_BYTES)?;
        items.resize(index, UpdateNode::New(RawBson::Null));
        items.push(UpdateNode::nest_value(rest, created));
        return Ok(EditOutcome::Modified);
    };
    let outcome = child.edit_here(rest, edit)?;
    if outcome == EditOutcome::Removed {
        // An element that is removed becomes null, so that later elements keep their positions.
        *child = UpdateNode::New(RawBson::Null);
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::{RawBson, rawdoc};

    #[test]
    fn paths_are_created() {
        let set = |document, update| apply_update(document, rawdoc! { "$set": update }).unwrap();
        assert_eq!(
            set(rawdoc! {}, rawdoc! { "a.0.b": 1 }),
            rawdoc! { "a": { "0": { "b": 1 } } }
        );
        assert_eq!(
            set(rawdoc! { "a": [] }, rawdoc! { "a.1.b": 1 }),
            rawdoc! { "a": [RawBson::Null, { "b": 1 }] }
        );
    }

    #[test]
    fn paths_do_not_lead_through_scalars() {
        let code = |document, path: &str| {
            let mut fields = bson::RawDocumentBuf::new();
            fields.append(bson::raw::CString::try_from(path).unwrap(), 1);
            apply_update(document, rawdoc! { "$set": fields })
                .unwrap_err()
                .code()
        };
        assert_eq!(code(rawdoc! { "a": 1 }, "a.b"), Some(28));
        assert_eq!(code(rawdoc! { "a": [1] }, "a.b"), Some(28));
        assert_eq!(code(rawdoc! { "a": [1] }, "a.2000000"), Some(34));
    }
}

//! A document while it changes: what is not touched stays in its original bytes.

use std::borrow::Cow;

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::fields::Fields;
use super::target::Name;
use crate::error::{Error, Result, code};
use crate::value;

/// How far past its end an array may be written, the gap being filled with null.
const MAX_PADDING: usize = 1_500_000;

/// What one null of such a gap counts for: about its size as a BSON element.
const PADDING_BYTES: usize = 10;

/// A value in a changing document.
#[derive(Debug, Clone)]
pub(super) enum Node<'d> {
    /// A value of the original.
    Original(RawBsonRef<'d>),
    /// A value that was put in.
    New(RawBson),
    /// A document that has been opened.
    Document(Fields<'d>),
    /// An array that has been opened.
    Array(Vec<Node<'d>>),
}

/// What is to be done at the end of a path.
pub(super) trait Edit {
    /// Changes the value that is there.
    fn existing(&self, value: &mut Node<'_>) -> Result<Outcome>;

    /// The value to put where there is none. `None` leaves it so.
    fn missing(&self) -> Result<Option<RawBson>>;

    /// Whether an error is due where the path runs into a value that has no fields.
    fn needs_path(&self) -> bool;

    /// Accounts for bytes that are put in beside the value itself.
    ///
    /// # Errors
    /// They are too many.
    fn spend(&self, bytes: usize) -> Result<()>;
}

/// What has become of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is as it was.
    Same,
    /// It counts as modified, be its new value the old one.
    Modified,
    /// It is to be taken out of its document.
    Removed,
}

impl<'d> Node<'d> {
    pub(super) fn document(document: &'d RawDocument) -> Node<'d> {
        Node::Original(RawBsonRef::Document(document))
    }

    /// The elements, if this is an array.
    pub(super) fn as_array(&mut self) -> Option<&mut Vec<Node<'d>>> {
        self.open();
        match self {
            Node::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Follows a path and edits what is there, creating the documents on the way if the edit
    /// puts a value in. Returns whether anything counts as modified.
    ///
    /// # Errors
    /// The path runs into a value that has no such field (code 28), or the edit fails.
    pub(super) fn edit(&mut self, path: &[Name], edit: &dyn Edit) -> Result<bool> {
        let Some((name, rest)) = path.split_first() else {
            return Ok(false);
        };
        self.open();
        let outcome = match self {
            Node::Document(fields) => edit_field(fields, name, rest, edit)?,
            Node::Array(items) => match name.index() {
                Some(index) => edit_item(items, index, rest, edit)?,
                None => self.not_viable(name, edit)?,
            },
            Node::Original(_) | Node::New(_) => self.not_viable(name, edit)?,
        };
        Ok(outcome != Outcome::Same)
    }

    /// The value, copied.
    pub(super) fn to_bson(&self) -> RawBson {
        match self {
            Node::Original(value) => RawBson::from(*value),
            Node::New(value) => value.clone(),
            Node::Document(fields) => {
                let mut document = RawDocumentBuf::new();
                for (key, node) in fields.iter() {
                    node.with(|value| document.append(key, value));
                }
                RawBson::Document(document)
            }
            Node::Array(items) => {
                let mut array = RawArrayBuf::new();
                for node in items {
                    node.with(|value| array.push(value));
                }
                RawBson::Array(array)
            }
        }
    }

    /// Shows the value without copying more than must be.
    pub(super) fn with<R>(&self, show: impl FnOnce(RawBsonRef<'_>) -> R) -> R {
        match self {
            Node::Original(value) => show(*value),
            Node::New(value) => show(value.as_raw_bson_ref()),
            opened => show(opened.to_bson().as_raw_bson_ref()),
        }
    }

    /// The whole document; empty if this is something else.
    pub(super) fn into_document(self) -> RawDocumentBuf {
        match self.to_bson() {
            RawBson::Document(document) => document,
            _ => RawDocumentBuf::new(),
        }
    }

    fn edit_here(&mut self, rest: &[Name], edit: &dyn Edit) -> Result<Outcome> {
        if rest.is_empty() {
            return edit.existing(self);
        }
        Ok(if self.edit(rest, edit)? {
            Outcome::Modified
        } else {
            Outcome::Same
        })
    }

    /// Makes the fields of a document or the elements of an array accessible.
    fn open(&mut self) {
        let opened = match self {
            Node::Original(RawBsonRef::Document(document)) => {
                let elements = document.iter_elements().map_while(|element| element.ok());
                let fields = elements.map_while(|element| {
                    Some((
                        Cow::Borrowed(element.key()),
                        Node::Original(element.value().ok()?),
                    ))
                });
                Node::Document(fields.collect())
            }
            Node::Original(RawBsonRef::Array(array)) => {
                Node::Array(value::items(array).map(Node::Original).collect())
            }
            Node::New(RawBson::Document(document)) => {
                let elements = document.iter_elements().map_while(|element| element.ok());
                let fields = elements.map_while(|element| {
                    let value = RawBson::from(element.value().ok()?);
                    Some((Cow::Owned(CString::from(element.key())), Node::New(value)))
                });
                Node::Document(fields.collect())
            }
            Node::New(RawBson::Array(array)) => {
                let items = value::items(array).map(|item| Node::New(RawBson::from(item)));
                Node::Array(items.collect())
            }
            _ => return,
        };
        *self = opened;
    }

    /// A value inside as many new documents as the path has names.
    fn nested(path: &[Name], value: RawBson) -> Node<'d> {
        path.iter().rev().fold(Node::New(value), |inner, name| {
            Node::Document(Fields::from_iter([(Cow::Owned(name.to_cstring()), inner)]))
        })
    }

    fn not_viable(&self, name: &Name, edit: &dyn Edit) -> Result<Outcome> {
        if !edit.needs_path() {
            return Ok(Outcome::Same);
        }
        let kind = self.with(value::type_name);
        Err(Error::server(
            28,
            format!(
                "cannot reach field '{}' in a value of type {kind}",
                name.as_str()
            ),
        ))
    }
}

fn edit_field<'d>(
    fields: &mut Fields<'d>,
    name: &Name,
    rest: &[Name],
    edit: &dyn Edit,
) -> Result<Outcome> {
    let Some(child) = fields.get_mut(name.as_str()) else {
        let Some(created) = edit.missing()? else {
            return Ok(Outcome::Same);
        };
        fields.push(Cow::Owned(name.to_cstring()), Node::nested(rest, created));
        return Ok(Outcome::Modified);
    };
    let outcome = child.edit_here(rest, edit)?;
    if outcome == Outcome::Removed {
        fields.remove(name.as_str());
    }
    Ok(outcome)
}

fn edit_item(
    items: &mut Vec<Node<'_>>,
    index: usize,
    rest: &[Name],
    edit: &dyn Edit,
) -> Result<Outcome> {
    let Some(child) = items.get_mut(index) else {
        let Some(created) = edit.missing()? else {
            return Ok(Outcome::Same);
        };
        let padding = index.saturating_sub(items.len());
        if padding > MAX_PADDING {
            let message =
                format!("position {index} is more than {MAX_PADDING} past the end of the array");
            return Err(Error::server(code::CANNOT_BACKFILL_ARRAY, message));
        }
        edit.spend(padding * PADDING_BYTES)?;
        items.resize(index, Node::New(RawBson::Null));
        items.push(Node::nested(rest, created));
        return Ok(Outcome::Modified);
    };
    let outcome = child.edit_here(rest, edit)?;
    if outcome == Outcome::Removed {
        // What is removed from an array leaves a hole.
        *child = Node::New(RawBson::Null);
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::{RawBson, rawdoc};

    #[test]
    fn paths_are_created() {
        let set = |document, update| updated(document, rawdoc! { "$set": update }).unwrap();
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
            updated(document, rawdoc! { "$set": fields })
                .unwrap_err()
                .code()
        };
        assert_eq!(code(rawdoc! { "a": 1 }, "a.b"), Some(28));
        assert_eq!(code(rawdoc! { "a": [1] }, "a.b"), Some(28));
        assert_eq!(code(rawdoc! { "a": [1] }, "a.2000000"), Some(34));
    }
}

//! The footprint of an update on an overflow array.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use super::{
    manifest::{ElementChange, array_or_empty, element_bytes},
    order::ArrayOrder,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::DocumentChange,
    error,
    metadata::overflow::TAIL,
    schema::{Model, OverflowField},
    write::{
        footprint::{
            AddedElements, Operator, PathChange, merge_update, parsed_changes, path_changes,
            put_operator, update_touches,
        },
        metadata_update::{field_names_of, parse_document, paths_overlap, to_raw_document},
    },
};

/// The maximum size in bytes of a stored change beside its values.
const MAX_CHANGE_OVERHEAD_BYTES: usize = 1024;

/// An update, split into the part for one overflow array and the rest.
#[derive(Debug, Clone)]
pub(super) struct ArrayFootprint {
    pub(super) field: &'static OverflowField,
    pub(super) change: ArrayChange,
    /// The operators for other fields.
    other_operators: Document,
    /// Whether the rest changes another overflow array.
    changes_more_arrays: bool,
    array_filters: Vec<Document>,
}

/// The change of the array.
#[derive(Debug, Clone)]
pub(super) enum ArrayChange {
    /// Append these elements.
    Push(Vec<Bson>),
    /// Append the elements that the array does not have.
    AddToSet(Vec<Bson>),
    /// Replace all elements by these.
    Replace(Vec<Bson>),
    /// Apply operators to each element.
    Each {
        operators: Document,
        /// Whether elements may be removed.
        changes_count: bool,
        /// The maximum growth of an element in bytes.
        growth: usize,
    },
}

/// Returns whether an update changes an overflow array.
pub(super) fn changes_array(model: &Model, change: &DocumentChange) -> bool {
    match change {
        DocumentChange::Operators { update, .. } => {
            let mut fields = model.overflows.iter();
            fields.any(|field| update_touches(update, field.stored))
        }
        // The typed language changes overflow arrays by operators only.
        _ => false,
    }
}

impl ArrayFootprint {
    /// Returns the footprint of the update on the first overflow array that is not in `handled`. The operators for the `handled`
    /// arrays are final.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) for an operator that overflow arrays do not have, and
    /// [`Invalid`](ErrorKind::Invalid) for an element that is too large.
    pub(super) fn parse_except(
        model: &'static Model,
        change: &DocumentChange,
        handled: &[&'static OverflowField],
    ) -> Result<Self> {
        Self::parse_operators(model, change, handled).map_err(error::naming_model(model))
    }

    /// Returns the footprint on the first overflow array. Also checks the changes of the remaining overflow arrays, before the
    /// first write.
    ///
    /// # Errors
    ///
    /// As [`parse_except`](Self::parse_except).
    pub(super) fn parse_first(model: &'static Model, change: &DocumentChange) -> Result<Self> {
        let first = Self::parse_except(model, change, &[])?;
        let (mut handled, mut has_more) = (vec![first.field], first.changes_more_arrays);
        while has_more {
            let next = Self::parse_except(model, change, &handled)?;
            handled.push(next.field);
            has_more = next.changes_more_arrays;
        }
        Ok(first)
    }

    /// Splits the operators of the update: those on the first array that is not in `handled`, and the others.
    fn parse_operators(
        model: &'static Model,
        change: &DocumentChange,
        handled: &[&'static OverflowField],
    ) -> Result<Self> {
        let DocumentChange::Operators {
            update,
            array_filters,
        } = change
        else {
            let problem =
                "a replacement or a pipeline cannot change the array; use update operators";
            return Err(unsupported_change(problem, ""));
        };
        let (mut other_operators, mut array_operators) = (Document::new(), Document::new());
        let (mut array, mut changes_more_arrays) = (None::<&'static OverflowField>, false);
        let is_handled =
            |field: &OverflowField| handled.iter().any(|other| other.stored == field.stored);
        for change in path_changes(update) {
            let mut fields = model.overflows.iter().filter(|field| !is_handled(field));
            let field = fields.find(|field| change.touches(field.stored));
            let of_this_array = field.filter(|field| match array {
                None => true,
                Some(array) => array.stored == field.stored,
            });
            changes_more_arrays |= field.is_some() && of_this_array.is_none();
            array = array.or(of_this_array);
            let operators = match of_this_array {
                Some(_) => &mut array_operators,
                None => &mut other_operators,
            };
            let operand = Bson::try_from(change.operand).map_err(error::from_bson)?;
            put_operator(operators, change.operator_name, change.path, operand);
        }
        let Some(field) = array else {
            let problem = "the update does not change the array: add an operator on the array";
            return Err(unsupported_change(problem, ""));
        };
        let array_filters = array_filters.iter().map(|filter| parse_document(filter));
        let change = ArrayChange::from_operators(field, &array_operators)?;
        let mut links = model.links().iter();
        let is_reference = links.any(|link| link.link_field.stored == field.stored);
        if let (ArrayChange::Each { changes_count, .. }, true) = (&change, is_reference)
            && !changes_count
        {
            let problem = "a reference with a delete rule cannot change in place; pull the reference, and push another";
            return Err(unsupported_change(problem, field.field));
        }
        Ok(Self {
            field,
            change,
            other_operators,
            changes_more_arrays,
            array_filters: array_filters.collect::<Result<_>>()?,
        })
    }

    /// Returns whether the update changes another overflow array.
    pub(super) fn changes_more_arrays(&self) -> bool {
        self.changes_more_arrays
    }

    /// Returns the whole update, with these operators for the array.
    pub(super) fn with_operators(&self, operators: &[&Document]) -> Result<DocumentChange> {
        let mut update = self.other_operators.clone();
        for operators in operators {
            merge_update(&mut update, operators);
        }
        let array_filters = self.array_filters.iter().map(to_raw_document);
        Ok(DocumentChange::Operators {
            update: to_raw_document(&update)?,
            array_filters: array_filters.collect::<Result<_>>()?,
        })
    }

    /// Returns the identifier and the condition of the elements that may grow by these operators. With several identifiers or
    /// without a condition, all elements may grow.
    pub(super) fn growing_elements(&self, operators: &Document) -> (String, Document) {
        let mut names = BTreeSet::new();
        for change in parsed_changes(operators) {
            if !maximum_growth(change).is_ok_and(|growth| growth == 0) {
                let name = change.path.split_once("$[");
                let name = name.and_then(|(_, name)| name.split_once(']'));
                names.extend(name.map(|(name, _)| name.to_owned()));
            }
        }
        let mut names = names.into_iter();
        let single = names.next().filter(|_| names.next().is_none());
        let has_name = |filter: &&Document| filter_identifier(filter) == single;
        match self.array_filters.iter().find(has_name).zip(single.clone()) {
            Some((filter, name)) => (name, filter.clone()),
            None => ("e".to_owned(), doc! {}),
        }
    }

    /// Returns the operators with the tail as the array.
    pub(super) fn for_tail(&self, operators: &Document) -> Document {
        let tail = self.field.manifest_path(TAIL);
        move_paths(operators, self.field.stored, &tail)
    }

    /// Returns the change of the elements in chunks.
    pub(super) fn for_chunks(&self, operators: &Document) -> Result<ElementChange> {
        let operators = move_paths(operators, self.field.stored, self.field.elements);
        let mut identifiers = Vec::new();
        for change in parsed_changes(&operators) {
            let parts = change.path.split('.');
            let parts = parts.filter_map(|part| part.strip_prefix("$[")?.strip_suffix(']'));
            identifiers.extend(parts.map(String::from));
        }
        let used_filters = self.array_filters.iter().filter(|filter| {
            filter_identifier(filter).is_some_and(|name| identifiers.contains(&name))
        });
        let change = ElementChange {
            array_filters: used_filters.cloned().collect(),
            operators,
        };
        // The owner document stores the change until all chunks are changed.
        let max_bytes = self.field.max_chunk_bytes;
        let change_bytes = to_raw_document(&change.to_document())?.as_bytes().len();
        if change_bytes > max_bytes + MAX_CHANGE_OVERHEAD_BYTES {
            return Err(unsupported_change(
                &format!(
                    "the change of the spilled elements is too large (max {max_bytes} bytes); use several updates"
                ),
                self.field.field,
            ));
        }
        Ok(change)
    }
}

/// Returns the filter for the chunks that the operators change. A pull changes only chunks with a matching element.
pub(super) fn changed_chunks_filter(field: &OverflowField, operators: &Document) -> Document {
    let pull = parsed_changes(operators).find(|change| {
        change.path == field.elements
            && matches!(change.operator, Operator::Pull | Operator::PullAll)
    });
    match pull.map(|pull| (pull.operator, pull.operand)) {
        Some((Operator::PullAll, values)) => doc! { field.elements: { "$in": values.clone() } },
        Some((_, Bson::Document(condition))) => {
            doc! { field.elements: { "$elemMatch": condition.clone() } }
        }
        _ => doc! {},
    }
}

impl ArrayChange {
    /// Returns the elements that the update may add.
    pub(super) fn added_elements(&self) -> &[Bson] {
        match self {
            Self::Push(values) | Self::AddToSet(values) | Self::Replace(values) => values,
            // References with a rule cannot change in place.
            Self::Each { .. } => &[],
        }
    }

    /// Returns the change that the operators on the array make.
    fn from_operators(field: &OverflowField, operators: &Document) -> Result<Self> {
        let mut changes = parsed_changes(operators);
        let whole_array = match (changes.next(), changes.next()) {
            (Some(change), None) if change.path == field.stored => change,
            _ => return Self::each_from_operators(field, operators),
        };
        let reject = |reason: &str| Err(unsupported_change(reason, field.field));
        match (whole_array.operator, whole_array.operand) {
            (Operator::Push | Operator::AddToSet, Bson::Document(_)) => {
                let AddedElements::Each {
                    elements,
                    has_modifiers: false,
                } = whole_array.added_elements()
                else {
                    return reject(
                        "a push appends elements, without `$position`, `$sort` or `$slice`; use `push` or `push_each`",
                    );
                };
                let elements = array_or_empty(Some(elements));
                ensure_element_sizes(field, &elements)?;
                Ok(match whole_array.operator {
                    Operator::Push => Self::Push(elements),
                    _ => Self::AddToSet(elements),
                })
            }
            (Operator::Set, value @ Bson::Array(_)) => {
                let elements = array_or_empty(Some(value));
                ensure_element_sizes(field, &elements)?;
                Ok(Self::Replace(elements))
            }
            (Operator::Pull | Operator::PullAll, values)
                if element_bytes(values)? > field.max_chunk_bytes =>
            {
                let max_bytes = field.max_chunk_bytes;
                reject(&format!(
                    "the values to pull are too large (max {max_bytes} bytes); use several updates"
                ))
            }
            (Operator::Pull | Operator::PullAll, _) => Ok(Self::Each {
                operators: operators.clone(),
                changes_count: true,
                growth: 0,
            }),
            _ => reject(&format!(
                "an overflow array has no operator `{}`; use `push`, `add_to_set`, `pull`, `set`, or change elements with `all()` or `matching(…)`",
                whole_array.operator_name
            )),
        }
    }

    /// Returns the change of each element, for operators on paths in the elements.
    fn each_from_operators(field: &OverflowField, operators: &Document) -> Result<Self> {
        let unsupported = |problem| Err(unsupported_change(problem, field.field));
        let mut growth = 0;
        for change in parsed_changes(operators) {
            growth += maximum_growth(change)?;
            let suffix = change.path.strip_prefix(field.stored).unwrap_or_default();
            if field_names_of(change.path) == field.stored && suffix.is_empty() {
                return unsupported(
                    "an update can change the array only once; use several updates, in a transaction if the changes belong together",
                );
            }
            let element_path = suffix
                .split_once(']')
                .map_or("", |(_, element_path)| element_path);
            let element_path = element_path.trim_start_matches('.');
            if let Some(order) = ArrayOrder::from_field(field)
                && (element_path.is_empty() || paths_overlap(element_path, order.key_path()))
            {
                return unsupported(
                    "the sort field of an element cannot change; pull the element, and push the new one",
                );
            }
            if !suffix.starts_with(".$[") {
                return unsupported(
                    "select elements with `all()` or `matching(…)`, not by position",
                );
            }
        }
        ensure_element_size(field, growth)?;
        Ok(Self::Each {
            operators: operators.clone(),
            changes_count: false,
            growth,
        })
    }
}

/// Returns the number of bytes by which a change may let an element grow. Values of a fixed size do not count. An unknown
/// operator may add the whole operand.
fn maximum_growth(change: PathChange<'_, &Bson>) -> Result<usize> {
    let has_fixed_size = matches!(
        change.operator,
        Operator::Set | Operator::Min | Operator::Max
    ) && is_fixed_size(change.operand);
    match change.operator.may_store_operand() && !has_fixed_size {
        true => element_bytes(change.operand),
        false => Ok(0),
    }
}

/// Returns whether all values of the type of this value have the same size.
fn is_fixed_size(value: &Bson) -> bool {
    matches!(
        value,
        Bson::Null
            | Bson::Boolean(_)
            | Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::Double(_)
            | Bson::Decimal128(_)
            | Bson::DateTime(_)
            | Bson::Timestamp(_)
            | Bson::ObjectId(_)
    )
}

/// Returns the operators with another path for the array.
fn move_paths(operators: &Document, from: &str, to: &str) -> Document {
    let mut moved = Document::new();
    for change in parsed_changes(operators) {
        let suffix = change.path.strip_prefix(from).unwrap_or_default();
        let (path, operand) = (format!("{to}{suffix}"), change.operand.clone());
        put_operator(&mut moved, change.operator_name, &path, operand);
    }
    moved
}

/// Returns the identifier of an array filter.
fn filter_identifier(filter: &Document) -> Option<String> {
    filter.iter().find_map(|(name, value)| match value {
        Bson::Array(parts) if name.starts_with('$') => parts
            .iter()
            .find_map(|part| filter_identifier(part.as_document()?)),
        _ => name.split('.').next().map(ToOwned::to_owned),
    })
}

/// Ensures that no element is too large, before anything is written.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) for an element that is too large.
pub(super) fn ensure_element_sizes(field: &OverflowField, elements: &[Bson]) -> Result<()> {
    for element in elements {
        ensure_element_size(field, element_bytes(element)?)?;
    }
    Ok(())
}

/// Ensures that an element takes at most half of the bytes of a chunk.
fn ensure_element_size(field: &OverflowField, size: usize) -> Result<()> {
    let max_bytes = field.max_chunk_bytes / 2;
    if size <= max_bytes {
        return Ok(());
    }
    let message = format!(
        "an element is too large: {size} bytes (max {max_bytes}); store the data in a document of its own, and a reference in the element"
    );
    Err(Error::new(ErrorKind::Invalid, message).with_path(field.field))
}

/// The error of a change that overflow arrays do not support.
fn unsupported_change(reason: &str, path: &str) -> Error {
    let message =
        format!("unsupported change of an overflow array, and nothing was written: {reason}");
    let error = Error::new(ErrorKind::Unsupported, message);
    match path {
        "" => error,
        path => error.with_path(path),
    }
}

//! Paths from a document to a place.

use std::{borrow::Cow, fmt, sync::Arc};

use bson::RawBson;

use super::Tag;
use crate::{Error, ErrorKind, Result, language::query::FilterNode, metadata::caseless_path};

/// A dotted path of stored names, with properties of the place.
#[derive(Debug, Clone)]
pub struct Path {
    dotted: Cow<'static, str>,
    max: Option<usize>,
    /// Whether serde's `skip_serializing_if` leaves a value out of a document.
    omits: Option<fn(&RawBson) -> bool>,
    /// Whether the field has serde's `default`.
    has_default: bool,
    /// Whether the document also stores the caseless text of the place.
    is_caseless: bool,
    /// The error of an invalid map key, found when the path is built and returned when the path is used.
    error: Option<Error>,
    /// The condition on the enum variants around the place: the place is written only where the condition holds.
    only_where: Option<Box<FilterNode>>,
    /// The place consists of the fields beside an enum's tag, so no single path holds the value.
    beside_tag: bool,
    /// The array steps in the path, with their byte positions in the text.
    steps: Vec<(usize, PathStep)>,
    /// The arrays that the path traverses by any element: the byte positions of their ends in the text.
    arrays: Vec<usize>,
    /// The nullable places on the path, with the byte positions of their ends in the text.
    holders: Vec<(usize, NullableKind)>,
    /// The path selects elements of an overflow array, which may be spilled.
    may_spill: bool,
    array: ArrayPosition,
}

/// The content of a nullable place. Below a null or missing value an update has nothing to write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NullableKind {
    /// A document with fields. An update must not create a document with only some of the fields.
    Document,
    Array,
    /// A map. An update may create the map, because every set of keys is valid.
    Map,
}

/// An array step of a path.
#[derive(Debug, Clone)]
pub(crate) enum PathStep {
    /// One element of an array, by index.
    At(usize),
    /// Any element of an array, as the root of the rest of the path; without text.
    Element,
    /// Every element: `$[]`.
    Every,
    /// The elements that meet a condition: `$[name]`, with an array filter.
    Matching(Arc<FilterNode>),
    /// The first element that meets a condition: `$`, with the condition in the filter.
    First(Arc<FilterNode>),
}

/// The position of a path relative to arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArrayPosition {
    No,
    /// An array that queries traverse, or a field below such an array.
    Yes,
    /// An array that queries do not traverse, because the array is an element.
    Inner,
    /// Any element of an array that queries traverse.
    Any,
    /// One element, or any element of an inner array.
    Element,
}

/// The text of an element step before the update assigns a name.
const UNNAMED: &str = "$[]";

impl Path {
    /// The document itself.
    pub const ROOT: Self = Self {
        dotted: Cow::Borrowed(""),
        max: None,
        omits: None,
        has_default: false,
        is_caseless: false,
        error: None,
        only_where: None,
        beside_tag: false,
        steps: Vec::new(),
        arrays: Vec::new(),
        holders: Vec::new(),
        may_spill: false,
        array: ArrayPosition::No,
    };

    /// Returns the path of a field at this place.
    #[must_use]
    pub fn subfield(&self, name: &'static str) -> Self {
        if self.dotted.is_empty() {
            Self {
                dotted: Cow::Borrowed(name),
                max: None,
                omits: None,
                has_default: false,
                is_caseless: false,
                error: self.error.clone(),
                only_where: self.only_where.clone(),
                beside_tag: false,
                steps: self.steps.clone(),
                arrays: self.arrays.clone(),
                holders: self.holders.clone(),
                may_spill: self.may_spill,
                array: self.array.below_position(),
            }
        } else {
            self.append_name(name)
        }
    }

    /// Returns the path of an array field with at most `max` elements.
    #[must_use]
    pub fn bounded_subfield(&self, name: &'static str, max: usize) -> Self {
        Self {
            max: Some(max),
            ..self.subfield(name)
        }
    }

    /// Marks a field that serde leaves out for some values: `skip_serializing_if`.
    #[must_use]
    pub fn omitting(self, omits: fn(&RawBson) -> bool) -> Self {
        Self {
            omits: Some(omits),
            ..self
        }
    }

    /// Marks a field with serde's `default`.
    #[must_use]
    pub fn with_default(self) -> Self {
        Self {
            has_default: true,
            ..self
        }
    }

    /// Marks a text with an index that ignores case.
    #[must_use]
    pub fn caseless(self) -> Self {
        Self {
            is_caseless: true,
            ..self
        }
    }

    /// Returns the path of the caseless text, if the document stores the caseless text.
    pub(crate) fn caseless_place(&self) -> Option<Self> {
        let path = || Self::ROOT.append_name(&caseless_path(&self.dotted));
        self.is_caseless.then(path)
    }

    /// Returns whether a document without the place reads as a document with an empty array or map.
    ///
    /// False for an optional field, which reads as `None`, and for a field of an array element, where a filter for a missing
    /// field would test all elements.
    pub(super) fn is_empty_if_missing(&self) -> bool {
        let is_optional = self
            .holders
            .last()
            .is_some_and(|(end, _)| *end == self.dotted.len());
        self.has_default && !is_optional && self.array == ArrayPosition::No
    }

    /// Returns whether serde leaves this value out of a document.
    pub(crate) fn is_omitted(&self, value: &RawBson) -> bool {
        self.omits.is_some_and(|omits| omits(value))
    }

    /// Returns the path of a map key, which may come from user input.
    pub(crate) fn map_key(&self, key: &str) -> Self {
        let mut path = self.append_name(key);
        if let Some((end, holder)) = path.holders.last_mut()
            && *end == self.dotted.len()
        {
            *holder = NullableKind::Map;
        }
        match ensure_map_key(key) {
            Ok(()) => path,
            Err(error) => path.with_error(error.with_path(self.dotted.clone())),
        }
    }

    /// Adds the error that each use of the path returns, unless the path has an error already.
    pub(super) fn with_error(&self, error: Error) -> Self {
        Self {
            error: Some(self.error.clone().unwrap_or(error)),
            ..self.clone()
        }
    }

    /// Returns the path of a field with any name.
    pub(crate) fn append_name(&self, name: &str) -> Self {
        let dotted = if self.dotted.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.dotted)
        };
        Self {
            dotted: Cow::Owned(dotted),
            max: None,
            omits: None,
            has_default: false,
            is_caseless: false,
            error: self.error.clone(),
            only_where: self.only_where.clone(),
            beside_tag: false,
            steps: self.steps.clone(),
            arrays: self.arrays.clone(),
            holders: self.holders.clone(),
            may_spill: self.may_spill,
            array: self.array.below_position(),
        }
    }

    /// Returns the path of another field of the struct that has this field, by dotted name.
    pub(crate) fn sibling(&self, name: &str) -> Self {
        match self.dotted.rsplit_once('.') {
            Some((parent, _)) => Self::ROOT.append_name(&format!("{parent}.{name}")),
            None => Self::ROOT.append_name(name),
        }
    }

    /// Marks the elements as possibly spilled.
    pub(super) fn with_spilled_elements(self) -> Self {
        Self {
            may_spill: true,
            ..self
        }
    }

    /// Returns whether the path selects elements that may be spilled.
    pub(crate) fn may_spill(&self) -> bool {
        self.may_spill
    }

    /// Marks the place as nullable.
    pub(super) fn mark_nullable(mut self, is_array: bool) -> Self {
        let holder = match is_array {
            true => NullableKind::Array,
            false => NullableKind::Document,
        };
        if self
            .holders
            .last()
            .is_none_or(|(end, _)| *end < self.dotted.len())
        {
            self.holders.push((self.dotted.len(), holder));
        }
        self
    }

    /// Restricts the place to documents that meet the condition.
    pub(crate) fn only_where(&self, condition: FilterNode) -> Self {
        let condition = match self.only_where.as_deref() {
            Some(before) => before.clone().and(condition),
            None => condition,
        };
        Self {
            only_where: Some(Box::new(condition)),
            ..self.clone()
        }
    }

    /// Returns the condition on the enum variants around the place.
    pub(crate) fn variant_condition(&self) -> Option<&FilterNode> {
        self.only_where.as_deref()
    }

    /// Returns the enums around the place, by path, with their required variants; the outermost first.
    pub(crate) fn enclosing_variants(&self) -> Vec<(&Self, Tag)> {
        fn collect_variants<'n>(node: &'n FilterNode, variants: &mut Vec<(&'n Path, Tag)>) {
            match node {
                FilterNode::Variant(path, tag) => variants.push((path, *tag)),
                FilterNode::And(nodes) => nodes
                    .iter()
                    .for_each(|node| collect_variants(node, variants)),
                _ => {}
            }
        }
        let mut variants = Vec::new();
        if let Some(condition) = self.variant_condition() {
            collect_variants(condition, &mut variants);
        }
        variants
    }

    /// Ensures that the place is not inside an enum variant, because documents of other variants may store any type there.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid).
    pub(crate) fn ensure_not_in_variant(&self) -> Result<()> {
        match &self.only_where {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::Invalid,
                "a field inside an enum variant cannot be used in an expression, because documents of other variants may store anything at this path: compare the field with values, or use a `pipeline`",
            )
            .with_path(self.dotted.clone())),
        }
    }

    /// Marks the place as the fields beside an enum's tag.
    pub(crate) fn beside_tag(self) -> Self {
        Self {
            beside_tag: true,
            ..self
        }
    }

    /// Returns the path in an expression: `$author.name`.
    ///
    /// # Errors
    ///
    /// The errors of [`dotted`](Self::dotted), and [`Invalid`](ErrorKind::Invalid) for one element of an array, where expressions
    /// expect a field, and for a place inside an enum variant.
    pub(crate) fn to_expression(&self) -> Result<String> {
        let dotted = self.dotted()?;
        if !self.steps.is_empty() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "an aggregate needs a field, not one element of an array: use a `pipeline`",
            )
            .with_path(dotted));
        }
        self.ensure_not_in_variant()?;
        Ok(format!("${dotted}"))
    }

    /// Returns the path as an expression over documents whose arrays on the path are unwound.
    ///
    /// # Errors
    ///
    /// The errors of [`to_expression`](Self::to_expression).
    pub(crate) fn to_unwound_expression(&self) -> Result<String> {
        let is_element = |(_, step): &(usize, PathStep)| matches!(step, PathStep::Element);
        if !self.arrays.is_empty() && self.steps.iter().all(is_element) {
            self.ensure_not_in_variant()?;
            return Ok(format!("${}", self.dotted()?));
        }
        self.to_expression()
    }

    /// Returns the paths of the arrays that the path traverses by any element, from the outermost array on.
    pub(crate) fn traversed_arrays(&self) -> impl Iterator<Item = &str> {
        let ends = self.arrays.iter();
        ends.map(|end| self.dotted.get(..*end).unwrap_or_default())
    }

    /// Marks the place as an array.
    ///
    /// Queries traverse an array on the path, but not an array that is an element of an array, which needs a step of its own.
    pub(crate) fn holding_array(mut self) -> Self {
        self.array = match self.array {
            ArrayPosition::Any => {
                self.steps.push((self.dotted.len(), PathStep::Element));
                ArrayPosition::Inner
            }
            ArrayPosition::Element | ArrayPosition::Inner => ArrayPosition::Inner,
            // The element in the closure of an element condition.
            ArrayPosition::No if self.is_root() => ArrayPosition::Inner,
            ArrayPosition::No | ArrayPosition::Yes => ArrayPosition::Yes,
        };
        self
    }

    /// Returns the path of any element of the array.
    pub(super) fn any_element(&self) -> Self {
        let mut path = Self {
            max: None,
            omits: None,
            has_default: false,
            array: ArrayPosition::Any,
            ..self.clone()
        };
        path.arrays.push(self.dotted.len());
        if self.array == ArrayPosition::Inner {
            path.steps.push((self.dotted.len(), PathStep::Element));
            path.array = ArrayPosition::Element;
        }
        path
    }

    /// Returns the path of the element with this index.
    pub(super) fn element_at(&self, index: usize) -> Self {
        self.element_path(&index.to_string(), PathStep::At(index))
    }

    /// Returns the path of every element, for an update.
    pub(super) fn every_element(&self) -> Self {
        self.element_path(UNNAMED, PathStep::Every)
    }

    /// Returns the path of the elements that meet the condition, for an update.
    pub(super) fn matching_elements(&self, condition: FilterNode) -> Self {
        self.element_path(UNNAMED, PathStep::Matching(Arc::new(condition)))
    }

    /// Returns the path of the first element that meets the condition, for an update.
    pub(super) fn first_matching_element(&self, condition: FilterNode) -> Self {
        self.element_path("$", PathStep::First(Arc::new(condition)))
    }

    fn element_path(&self, text: &str, step: PathStep) -> Self {
        let mut path = self.append_name(text);
        let at = path.dotted.len() - text.len();
        path.steps.push((at, step));
        path.array = ArrayPosition::Element;
        path
    }

    /// Returns the path with `name` before it.
    pub(crate) fn with_prefix(&self, name: &str) -> Self {
        let shift = name.len() + usize::from(!self.dotted.is_empty());
        let mut path = self.clone();
        path.dotted = Cow::Owned(match self.dotted.is_empty() {
            true => name.to_owned(),
            false => format!("{name}.{}", self.dotted),
        });
        for (at, _) in &mut path.steps {
            *at += shift;
        }
        for (end, _) in &mut path.holders {
            *end += shift;
        }
        for end in &mut path.arrays {
            *end += shift;
        }
        path
    }

    /// Returns the path in MongoDB's notation: stored names, separated by dots.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an invalid map key on the path, and for the whole content of an internally tagged
    /// variant, which is stored beside the tag.
    pub fn dotted(&self) -> Result<&str> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.beside_tag => Err(Error::new(
                ErrorKind::Invalid,
                "the content of an internally tagged variant is stored beside the tag, so the content has no path: use the fields of the content, or the whole enum",
            )
            .with_path(self.dotted.clone())),
            None => Ok(&self.dotted),
        }
    }

    /// Returns the declared maximum length of the array at this place.
    #[must_use]
    pub fn max(&self) -> Option<usize> {
        self.max
    }

    pub(crate) fn is_root(&self) -> bool {
        self.dotted.is_empty() && !self.beside_tag
    }

    /// Returns whether the path is an array or passes through an array.
    pub(crate) fn meets_array(&self) -> bool {
        self.array != ArrayPosition::No
    }

    /// Splits the path at its array steps: each part, with the step that follows. The last part has no step.
    pub(crate) fn split_at_steps(&self) -> impl Iterator<Item = (&str, Option<&PathStep>)> {
        let mut from = 0;
        let ends = self.steps.iter().map(|(at, step)| (*at, Some(step)));
        ends.chain([(self.dotted.len(), None)])
            .map(move |(end, step)| {
                let part = self.dotted.get(from..end).unwrap_or_default();
                from = end + step.map_or(0, PathStep::text_len);
                (part.trim_matches('.'), step)
            })
    }

    /// Splits the path into levels: the document, and each array element that an update selects.
    pub(crate) fn selection_levels(&self) -> Vec<PathLevel<'_>> {
        let mut levels = Vec::new();
        let mut start = 0;
        let named = self
            .steps
            .iter()
            .filter(|(_, step)| step.selects_elements());
        let ends = named.map(|(at, step)| (*at, Some(step)));
        for (end, elements) in ends.chain([(self.dotted.len(), None)]) {
            let is_in_part = |place: usize| (start..=end).contains(&place);
            let text = |end_place: usize| {
                let text = self.dotted.get(start..end_place).unwrap_or_default();
                text.trim_matches('.')
            };
            let holders = self.holders.iter().copied();
            // The update writes the end of the path, so the end may be null.
            let nullable = holders.filter(|(place, _)| *place < self.dotted.len());
            let nullable = nullable.filter(|(place, _)| is_in_part(*place));
            let indexes = self.steps.iter().filter_map(|(at, step)| match step {
                PathStep::At(_) => Some(at + step.text_len()),
                _ => None,
            });
            levels.push(PathLevel {
                place: text(end),
                holders: nullable
                    .map(|(place, holder)| (text(place), holder))
                    .collect(),
                indexes: indexes
                    .filter(|place| is_in_part(*place))
                    .map(text)
                    .collect(),
                elements,
            });
            start = end + elements.map_or(0, PathStep::text_len);
        }
        levels
    }

    /// Splits a path through an array of arrays: the outer array, and the place as seen from an element of the outer array.
    pub(crate) fn split_nested_array(&self) -> Option<(Self, Self)> {
        let is_element_step =
            |(_, (_, step)): &(usize, &(usize, PathStep))| matches!(step, PathStep::Element);
        let (nth, (at, _)) = self.steps.iter().enumerate().find(is_element_step)?;
        let steps = |steps: &[(usize, PathStep)], shift: usize| {
            let moved = steps
                .iter()
                .map(|(at, step)| (at.saturating_sub(shift), step.clone()));
            moved.collect::<Vec<_>>()
        };
        let outer = Self {
            dotted: Cow::Owned(self.dotted.get(..*at).unwrap_or_default().to_owned()),
            max: None,
            omits: None,
            has_default: false,
            is_caseless: false,
            error: self.error.clone(),
            only_where: self.only_where.clone(),
            beside_tag: false,
            steps: steps(&self.steps[..nth], 0),
            arrays: Vec::new(),
            // Queries do not use nullable places.
            holders: Vec::new(),
            may_spill: false,
            array: ArrayPosition::Yes,
        };
        let rest = self.dotted.get(*at..).unwrap_or_default();
        let dot = usize::from(rest.starts_with('.'));
        let inner = Self {
            dotted: Cow::Owned(rest[dot..].to_owned()),
            steps: steps(&self.steps[nth + 1..], at + dot),
            arrays: Vec::new(),
            holders: Vec::new(),
            ..self.clone()
        };
        Some((outer, inner))
    }
}

/// A part of a path, as seen from the document or from an array element.
#[derive(Debug)]
pub(crate) struct PathLevel<'p> {
    /// The end of the part: the array with the elements of the next part, or the end of the path.
    pub(crate) place: &'p str,
    /// The nullable places in the part.
    pub(crate) holders: Vec<(&'p str, NullableKind)>,
    /// The array elements in the part that are selected by index.
    pub(crate) indexes: Vec<&'p str>,
    /// The selection of elements before the next part; `None` at the end.
    pub(crate) elements: Option<&'p PathStep>,
}

impl ArrayPosition {
    fn below_position(self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Yes | Self::Inner | Self::Any | Self::Element => Self::Yes,
        }
    }
}

impl PathStep {
    /// Returns whether the step selects elements by a condition, or all elements.
    fn selects_elements(&self) -> bool {
        matches!(self, Self::Every | Self::Matching(_) | Self::First(_))
    }

    /// Returns the length of the step's text in a path, in bytes.
    fn text_len(&self) -> usize {
        match self {
            Self::At(index) => index.to_string().len(),
            Self::Element => 0,
            Self::Every | Self::Matching(_) => UNNAMED.len(),
            Self::First(_) => 1,
        }
    }
}

impl super::FromPath for Path {
    fn from_path(path: Path) -> Self {
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dotted)
    }
}

/// Ensures that a map key is valid. A dot would separate a path, a dollar sign would be an operator, and BSON ends a key at a
/// null byte.
pub(crate) fn ensure_map_key(key: &str) -> Result<()> {
    let problem = if key.is_empty() {
        "is empty"
    } else if key.contains('.') {
        "has a dot"
    } else if key.starts_with('$') {
        "begins with a dollar sign"
    } else if key.contains('\0') {
        "has a null byte"
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "the map key {key:?} {problem}, so no filter could find the value: encode such keys"
        ),
    ))
}

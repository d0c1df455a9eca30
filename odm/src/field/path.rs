//! The way from a document to a place in it.

use std::{borrow::Cow, fmt, sync::Arc};

use super::Tag;
use crate::{Error, ErrorKind, Result, query::Node};

/// A dotted path of stored names, with what is known of the place that it leads to.
#[derive(Debug, Clone)]
pub struct Path {
    dotted: Cow<'static, str>,
    max: Option<usize>,
    /// A key that no path can hold, found when the path was made and reported when it is used.
    refused: Option<Error>,
    /// The place is inside of an enum's variant: it is written only where this holds.
    only_where: Option<Box<Node>>,
    /// The place has fields of one value and the tag of an enum side by side, and holds neither alone.
    beside_tag: bool,
    /// What in the path is no name, by where it begins in the text.
    steps: Vec<(usize, Step)>,
    /// The places on the way that may hold nothing, by where they end in the text.
    holders: Vec<(usize, Holder)>,
    /// It leads to elements of an array that overflows: some of them may be in chunk documents.
    may_spill: bool,
    array: InArray,
}

/// What a place holds if it holds anything: below a null or missing value there is no place to write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A document with fields of its own, of which an update must not make only some.
    Document,
    Array,
    /// A map, which an update may make: any keys are a whole map.
    Map,
}

/// A part of a path that is no name.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// One element of an array, by its index.
    At(usize),
    /// Any element of an array, where what follows is seen from there: it has no text.
    Inside,
    /// Every element: `$[]`.
    Every,
    /// The elements that meet a condition: `$[name]`, and an array filter of that name.
    Matching(Arc<Node>),
    /// The first element that meets a condition: `$`, and the condition in the filter.
    First(Arc<Node>),
}

/// Where a path is in an array, if it is in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InArray {
    No,
    /// An array that queries look through, or a field somewhere below one.
    Yes,
    /// An array that they do not look through, because it is an element.
    Inner,
    /// Any element of an array that they look through.
    Any,
    /// One element, or any of an inner array.
    Element,
}

/// The text of elements that have no name before the update is put together.
const UNNAMED: &str = "$[]";

impl Path {
    /// The document itself.
    pub const ROOT: Self = Self {
        dotted: Cow::Borrowed(""),
        max: None,
        refused: None,
        only_where: None,
        beside_tag: false,
        steps: Vec::new(),
        holders: Vec::new(),
        may_spill: false,
        array: InArray::No,
    };

    /// The path to a field of what this one leads to.
    #[must_use]
    pub fn then(&self, name: &'static str) -> Self {
        if self.dotted.is_empty() {
            Self {
                dotted: Cow::Borrowed(name),
                max: None,
                refused: self.refused.clone(),
                only_where: self.only_where.clone(),
                beside_tag: false,
                steps: self.steps.clone(),
                holders: self.holders.clone(),
                may_spill: self.may_spill,
                array: self.array.below(),
            }
        } else {
            self.append(name)
        }
    }

    /// The path to an array in a field, which holds at most `max` elements.
    #[must_use]
    pub fn then_bounded(&self, name: &'static str, max: usize) -> Self {
        Self {
            max: Some(max),
            ..self.then(name)
        }
    }

    /// The path to the value of a map's key, which may come from a user.
    pub(crate) fn key(&self, key: &str) -> Self {
        let mut path = self.append(key);
        if let Some((end, holder)) = path.holders.last_mut()
            && *end == self.dotted.len()
        {
            *holder = Holder::Map;
        }
        if path.refused.is_none() {
            path.refused = refuse_key(key)
                .err()
                .map(|e| e.with_path(self.dotted.clone()));
        }
        path
    }

    /// The path to a field, whatever its name.
    pub(crate) fn append(&self, name: &str) -> Self {
        let dotted = if self.dotted.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.dotted)
        };
        Self {
            dotted: Cow::Owned(dotted),
            max: None,
            refused: self.refused.clone(),
            only_where: self.only_where.clone(),
            beside_tag: false,
            steps: self.steps.clone(),
            holders: self.holders.clone(),
            may_spill: self.may_spill,
            array: self.array.below(),
        }
    }

    /// The same elements, of which some may be in chunk documents.
    pub(super) fn spilling(self) -> Self {
        Self {
            may_spill: true,
            ..self
        }
    }

    /// Whether it leads to elements of which some may be in chunk documents.
    pub(crate) fn may_spill(&self) -> bool {
        self.may_spill
    }

    /// The same place, which may hold nothing.
    pub(super) fn optional(mut self, is_array: bool) -> Self {
        let holder = match is_array {
            true => Holder::Array,
            false => Holder::Document,
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

    /// The same place, which is there only where the condition holds.
    pub(crate) fn only_where(&self, condition: Node) -> Self {
        let condition = match self.only_where.as_deref() {
            Some(before) => before.clone().and(condition),
            None => condition,
        };
        Self {
            only_where: Some(Box::new(condition)),
            ..self.clone()
        }
    }

    /// The condition on which the place is there, if it is inside of an enum's variant.
    pub(crate) fn condition(&self) -> Option<&Node> {
        self.only_where.as_deref()
    }

    /// The enums that the place is inside of, by their paths, and of which variants they must be; the outermost first.
    pub(crate) fn variants(&self) -> Vec<(&Self, Tag)> {
        fn find<'n>(node: &'n Node, found: &mut Vec<(&'n Path, Tag)>) {
            match node {
                Node::Variant(path, tag) => found.push((path, *tag)),
                Node::And(nodes) => nodes.iter().for_each(|node| find(node, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        if let Some(condition) = self.condition() {
            find(condition, &mut found);
        }
        found
    }

    /// An error for a place inside of a variant: what is there in other documents is not known.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid).
    pub(crate) fn refuse_variant(&self) -> Result<()> {
        match &self.only_where {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::Invalid,
                "nothing is calculated or compared with a field inside of an enum's variant, as documents of other variants \
                 may have anything there: compare it with values, or use a `pipeline`",
            )
            .with_path(self.dotted.clone())),
        }
    }

    /// The same place as one of fields that are beside an enum's tag.
    pub(crate) fn beside_tag(self) -> Self {
        Self {
            beside_tag: true,
            ..self
        }
    }

    /// The path as an expression reads it: `$author.name`.
    ///
    /// # Errors
    ///
    /// As [`dotted`](Self::dotted), and [`Invalid`](ErrorKind::Invalid) for one element of an array, where an expression
    /// looks for a field, and for a place inside of a variant, which in other documents may be one of another variant.
    pub(crate) fn expression(&self) -> Result<String> {
        let dotted = self.dotted()?;
        if !self.steps.is_empty() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "an aggregate is of a field, not of one element of an array: use a `pipeline`",
            )
            .with_path(dotted));
        }
        self.refuse_variant()?;
        Ok(format!("${dotted}"))
    }

    /// The same place, known to hold an array.
    ///
    /// Queries look through an array on their way, but not through one that is an element of it: that has a step of its
    /// own.
    pub(crate) fn array(mut self) -> Self {
        self.array = match self.array {
            InArray::Any => {
                self.steps.push((self.dotted.len(), Step::Inside));
                InArray::Inner
            }
            InArray::Element | InArray::Inner => InArray::Inner,
            // The element that a condition speaks about.
            InArray::No if self.is_root() => InArray::Inner,
            InArray::No | InArray::Yes => InArray::Yes,
        };
        self
    }

    /// Any element of the array at this place.
    pub(super) fn each(&self) -> Self {
        let mut path = Self {
            max: None,
            array: InArray::Any,
            ..self.clone()
        };
        if self.array == InArray::Inner {
            path.steps.push((self.dotted.len(), Step::Inside));
            path.array = InArray::Element;
        }
        path
    }

    /// The element of the array at this place with this index.
    pub(super) fn at(&self, index: usize) -> Self {
        self.element(&index.to_string(), Step::At(index))
    }

    /// Every element of the array at this place.
    pub(super) fn every(&self) -> Self {
        self.element(UNNAMED, Step::Every)
    }

    /// The elements of the array at this place that meet the condition.
    pub(super) fn matching(&self, condition: Node) -> Self {
        self.element(UNNAMED, Step::Matching(Arc::new(condition)))
    }

    /// The first element of the array at this place that meets the condition.
    pub(super) fn first(&self, condition: Node) -> Self {
        self.element("$", Step::First(Arc::new(condition)))
    }

    fn element(&self, text: &str, step: Step) -> Self {
        let mut path = self.append(text);
        let at = path.dotted.len() - text.len();
        path.steps.push((at, step));
        path.array = InArray::Element;
        path
    }

    /// The same place, seen from outside: what this path speaks about is at `name`.
    pub(crate) fn inside(&self, name: &str) -> Self {
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
        path
    }

    /// The path as MongoDB writes it: stored names, with dots between them.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if a map's key on the way cannot stand in a path, and for the whole of what is
    /// stored beside the tag of an enum.
    pub fn dotted(&self) -> Result<&str> {
        match &self.refused {
            Some(error) => Err(error.clone()),
            None if self.beside_tag => Err(Error::new(
                ErrorKind::Invalid,
                "the content of an internally tagged variant is stored beside the tag, so nothing holds it alone: speak of \
                 its fields, or of the enum as a whole",
            )
            .with_path(self.dotted.clone())),
            None => Ok(&self.dotted),
        }
    }

    /// How many elements the array at this place may hold, where that was declared.
    #[must_use]
    pub fn max(&self) -> Option<usize> {
        self.max
    }

    pub(crate) fn is_root(&self) -> bool {
        self.dotted.is_empty() && !self.beside_tag
    }

    /// Whether the path leads to an array or into one.
    pub(crate) fn meets_array(&self) -> bool {
        self.array != InArray::No
    }

    /// The parts of the path between the steps that are no names: each part, with the step behind it. The last part has
    /// none.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&str, Option<&Step>)> {
        let mut from = 0;
        let ends = self.steps.iter().map(|(at, step)| (*at, Some(step)));
        ends.chain([(self.dotted.len(), None)])
            .map(move |(end, step)| {
                let part = self.dotted.get(from..end).unwrap_or_default();
                from = end + step.map_or(0, Step::len);
                (part.trim_matches('.'), step)
            })
    }

    /// The parts of the path that are seen from one place: the document, or an element of an array that an update names.
    pub(crate) fn levels(&self) -> Vec<PathLevel<'_>> {
        let mut levels = Vec::new();
        let mut start = 0;
        let named = self.steps.iter().filter(|(_, step)| step.names_elements());
        let ends = named.map(|(at, step)| (*at, Some(step)));
        for (end, elements) in ends.chain([(self.dotted.len(), None)]) {
            let is_here = |place: usize| (start..=end).contains(&place);
            let text = |to: usize| {
                let text = self.dotted.get(start..to).unwrap_or_default();
                text.trim_matches('.')
            };
            let holders = self.holders.iter().copied();
            // What the path ends at is written, not gone through.
            let on_the_way = holders.filter(|(place, _)| *place < self.dotted.len());
            let on_the_way = on_the_way.filter(|(place, _)| is_here(*place));
            let indexes = self.steps.iter().filter_map(|(at, step)| match step {
                Step::At(_) => Some(at + step.len()),
                _ => None,
            });
            levels.push(PathLevel {
                place: text(end),
                holders: on_the_way
                    .map(|(place, holder)| (text(place), holder))
                    .collect(),
                indexes: indexes.filter(|place| is_here(*place)).map(text).collect(),
                elements,
            });
            start = end + elements.map_or(0, Step::len);
        }
        levels
    }

    /// The place in an array inside an array, taken apart: the outer array, and the place seen from its element.
    pub(crate) fn inner(&self) -> Option<(Self, Self)> {
        let inside = |(_, (_, step)): &(usize, &(usize, Step))| matches!(step, Step::Inside);
        let (nth, (at, _)) = self.steps.iter().enumerate().find(inside)?;
        let steps = |steps: &[(usize, Step)], shift: usize| {
            let moved = steps
                .iter()
                .map(|(at, step)| (at.saturating_sub(shift), step.clone()));
            moved.collect::<Vec<_>>()
        };
        let outer = Self {
            dotted: Cow::Owned(self.dotted.get(..*at).unwrap_or_default().to_owned()),
            max: None,
            refused: self.refused.clone(),
            only_where: self.only_where.clone(),
            beside_tag: false,
            steps: steps(&self.steps[..nth], 0),
            // Queries do not ask for them.
            holders: Vec::new(),
            may_spill: false,
            array: InArray::Yes,
        };
        let rest = self.dotted.get(*at..).unwrap_or_default();
        let dot = usize::from(rest.starts_with('.'));
        let inner = Self {
            dotted: Cow::Owned(rest[dot..].to_owned()),
            steps: steps(&self.steps[nth + 1..], at + dot),
            holders: Vec::new(),
            ..self.clone()
        };
        Some((outer, inner))
    }
}

/// A part of a path, seen from the document or from an element of an array.
#[derive(Debug)]
pub(crate) struct PathLevel<'p> {
    /// The place that the part leads to: the array of which the next part names elements, or the end of the path.
    pub(crate) place: &'p str,
    /// The places on the way that may hold nothing.
    pub(crate) holders: Vec<(&'p str, Holder)>,
    /// The elements on the way that are named by their index.
    pub(crate) indexes: Vec<&'p str>,
    /// Which elements of the array the next part is of; none at the end.
    pub(crate) elements: Option<&'p Step>,
}

impl InArray {
    fn below(self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Yes | Self::Inner | Self::Any | Self::Element => Self::Yes,
        }
    }
}

impl Step {
    /// Whether it names elements by what they are.
    fn names_elements(&self) -> bool {
        matches!(self, Self::Every | Self::Matching(_) | Self::First(_))
    }

    /// The length of its text in a path.
    fn len(&self) -> usize {
        match self {
            Self::At(index) => index.to_string().len(),
            Self::Inside => 0,
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

/// A key with a dot would be a path, one with a dollar an operator, and BSON ends a key at a null byte.
pub(crate) fn refuse_key(key: &str) -> Result<()> {
    let what = if key.is_empty() {
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
            "the map key {key:?} {what}: no document can be asked for it, so it is not stored; encode such keys"
        ),
    ))
}

//! Sorts: the order of query results.

use std::marker::PhantomData;

use bson::{RawBson, RawDocumentBuf};

use super::{Brackets, render::append_field};
use crate::{Error, ErrorKind, Result, backend::operation::Direction, language::field::Path};

/// An order of documents of the model `M` by one field: `p.name().asc()`.
#[must_use = "an order does nothing until it is given to a query"]
pub struct Sort<M> {
    path: Path,
    direction: Direction,
    /// The brackets of the values at the path.
    brackets: Brackets,
    of: PhantomData<fn() -> M>,
}

impl<M> Sort<M> {
    pub(crate) fn new(path: Path, direction: Direction, brackets: Brackets) -> Self {
        Self {
            path,
            direction,
            brackets,
            of: PhantomData,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn brackets(&self) -> Brackets {
        self.brackets
    }

    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the reverse order.
    pub(crate) fn reversed(&self) -> Self {
        let direction = match self.direction {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        };
        Self::new(self.path.clone(), direction, self.brackets)
    }

    /// Returns whether the sort uses this path.
    pub(crate) fn sorts_by(&self, path: &str) -> bool {
        self.path.dotted().is_ok_and(|sort_path| sort_path == path)
    }
}

impl<M> Clone for Sort<M> {
    fn clone(&self) -> Self {
        Self::new(self.path.clone(), self.direction, self.brackets)
    }
}

/// The result of a sort closure: one order, or a tuple of orders, the most significant first.
#[diagnostic::on_unimplemented(
    message = "expected an order of `{M}`, got `{Self}`",
    label = "neither a `Sort<{M}>` nor a tuple of them",
    note = "write `.asc()` or `.desc()`: `|p| p.name().asc()`",
    note = "an order by the target of a reference needs a copy of the field: `|p| p.author().get(|a| a.name()).asc()`"
)]
pub trait IntoSort<M> {
    /// Returns the orders, the most significant first.
    fn into_sorts(self) -> Vec<Sort<M>>;
}

#[diagnostic::do_not_recommend]
impl<M> IntoSort<M> for Sort<M> {
    fn into_sorts(self) -> Vec<Self> {
        vec![self]
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<M> IntoSort<M> for ($(tuples!(@sort $name M),)*) {
            fn into_sorts(self) -> Vec<Sort<M>> {
                #[expect(non_snake_case, reason = "one variable for each type parameter")]
                let ($($name,)*) = self;
                vec![$($name),*]
            }
        }
    };
    (@sort $name:ident $m:ident) => { Sort<$m> };
}
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);

/// Returns the `$sort` of a `$push`: fields of the elements, or only a direction for whole elements. Returns `None` without
/// orders.
pub(crate) fn push_sort<M>(sorts: &[Sort<M>]) -> Result<Option<RawBson>> {
    match sorts {
        [only] if only.path.is_root() => Ok(Some(only.direction.sign().into())),
        _ => Ok(to_raw(sorts)?.map(RawBson::from)),
    }
}

/// Returns the sort document, or `None` without orders.
pub(crate) fn to_raw<M>(sorts: &[Sort<M>]) -> Result<Option<RawDocumentBuf>> {
    let mut raw = RawDocumentBuf::new();
    let mut paths = Vec::with_capacity(sorts.len());
    for sort in sorts {
        let path = sort.path.dotted()?;
        if path.is_empty() || paths.contains(&path) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the sort uses a field twice, or a whole element together with other fields: use each field once, and a whole element alone",
            )
            .with_path(path));
        }
        paths.push(path);
        append_field(&mut raw, path, sort.direction.sign())?;
    }
    Ok((!paths.is_empty()).then_some(raw))
}

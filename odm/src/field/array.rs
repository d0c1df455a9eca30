//! Arrays: their own operators first, then those of any of their elements.

use std::{marker::PhantomData, ops::Deref};

use super::{FromPath, Path, Place, Queryable, Variants, element, shape};
use crate::{
    Result,
    document::{Stored, kind},
    query::{Filter, IntoFilter, IntoValue, test, values},
    schema::{Closed, Schema},
};

/// The inside of an array element of `M`: what `any` speaks about.
#[derive(Debug)]
pub struct Elem<M>(PhantomData<fn() -> M>);

/// A place that holds an array of `T`.
///
/// The elements' own fields and operators follow by deref and speak about any element: `p.tags().eq("rust")`,
/// `p.comments().who().eq("jane")`. Where one has the name of an operator here, [`each`](Self::each) comes before it.
pub struct Array<M: 'static, T: Stored, R: 'static, S: 'static = shape::One> {
    path: Path,
    each: T::Fields<M, R, shape::Many>,
    of: PhantomData<fn() -> S>,
}

impl<M, T: Stored, R, S> FromPath for Array<M, T, R, S> {
    fn from_path(path: Path) -> Self {
        Self {
            each: FromPath::from_path(path.clone()),
            path,
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Place for Array<M, T, R, S> {
    type Scope = M;
    type Value = Vec<T>;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S> Deref for Array<M, T, R, S> {
    type Target = T::Fields<M, R, shape::Many>;
    fn deref(&self) -> &Self::Target {
        &self.each
    }
}

impl<M, T: Stored, R, S> Array<M, T, R, S> {
    /// One and the same element meets all conditions: `$elemMatch`.
    pub fn any<F>(
        &self,
        condition: impl FnOnce(T::Fields<Elem<M>, R, shape::One>) -> F,
    ) -> Filter<M>
    where
        F: IntoFilter<Elem<M>>,
        S: Queryable,
    {
        element(&self.path, condition(FromPath::from_path(Path::ROOT)))
    }

    /// One of the elements equals the value.
    pub fn contains(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$eq", value.into_value())
    }

    /// None of the elements equals the value.
    pub fn excludes(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$ne", value.into_value())
    }

    /// Each of the values equals one of the elements: `$all`.
    pub fn contains_all<I>(&self, of: I) -> Filter<M>
    where
        I: IntoIterator<Item: IntoValue<T>>,
        S: Queryable,
    {
        test(&self.path, "$all", values(of))
    }

    /// The array has exactly this many elements: `$size`.
    pub fn has_len(&self, len: u32) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$size", Ok(i64::from(len).into()))
    }

    /// The document has the array, if only an empty one: `$exists`.
    pub fn exists(&self) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$exists", Ok(true.into()))
    }

    /// The element at an index, counted from 0.
    pub fn at(&self, index: usize) -> T::Fields<M, R, S> {
        FromPath::from_path(self.path.append(&index.to_string()))
    }

    /// Every element, for an update: `$[]`.
    pub fn all(&self) -> T::Fields<M, R, shape::Every> {
        FromPath::from_path(self.path.append("$[]"))
    }

    /// Any element's own fields, where an operator of the array has the same name.
    pub fn each(&self) -> &T::Fields<M, R, shape::Many> {
        &self.each
    }
}

impl<T: Stored> Stored for Vec<T> {
    type Kind = <T::Kind as kind::Element>::Many;
    type Fields<M: 'static, R: 'static, S: 'static> = Array<M, T, R, S>;
    const REWRITES: bool = T::REWRITES;

    fn validate(&self, path: &Path) -> Result<()> {
        self.iter()
            .enumerate()
            .try_for_each(|(i, value)| value.validate(path).map_err(|e| at_index(e, path, i)))
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn variants(&self, found: &mut Variants) {
        for (i, value) in self.iter().enumerate() {
            found.element(i, |found| value.variants(found));
        }
    }
}

impl<S: Schema, T: Closed<S>> Closed<S> for Vec<T> {}

/// The path is made longer only where there is something to report.
fn at_index(error: crate::Error, path: &Path, index: usize) -> crate::Error {
    let below = error.path().unwrap_or_default();
    let own = path.to_string();
    let rest = below.strip_prefix(own.as_str()).unwrap_or(below).to_owned();
    error.with_path(format!("{own}.{index}{rest}"))
}

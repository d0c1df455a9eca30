//! Arrays whose elements overflow into another collection.

use std::marker::PhantomData;

use super::{Array, Elem, FromPath, Path, Place, Queryable, Single, Writable, role, shape};
use crate::{
    document::{Document, Overflow, Stored, kind},
    query::{Filter, IntoFilter, IntoValue, Node},
};

/// Arrays whose elements a filter of documents finds: none that overflows.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a filter of documents does not see the elements that are outside of them",
    label = "not all elements are in the document",
    note = "ask for an element first, wherever it is, and filter by the answer: `db.arrays::<…>().any(|d| d.…(), |element| …).await?`",
    note = "a filter of those that are in the document is one of `.resident()`"
)]
pub trait AllInside {}
#[diagnostic::do_not_recommend]
impl<T: Stored<Kind: Inside>> AllInside for T {}

/// The kinds of values that are in their document as a whole.
#[doc(hidden)]
pub trait Inside {}
macro_rules! inside {
    ($($kind:ident),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Inside for kind::$kind {}
    )*};
}
inside!(
    Value,
    Struct,
    Enum,
    Array,
    Map,
    Native,
    NativeArray,
    NativeMap,
    Reference,
    References
);

/// What a place is of, without having any of it.
type Of<M, T, R, S> = PhantomData<fn() -> (M, T, R, S)>;

/// A place that holds an array of `T` of which only the first elements are in the document.
///
/// An update pushes to it, pulls from it and changes its elements, wherever they are. A filter of documents sees what is in them:
/// [`resident`](Self::resident); one of elements wherever they are is a question of its own, [`Arrays::any`](crate::action::Arrays::any).
/// [`Get::elements`](crate::action::Get::elements) asks for all of them.
pub struct Overflowing<M: 'static, T: Stored, R: 'static, S: 'static = shape::One> {
    path: Path,
    of: Of<M, T, R, S>,
}

impl<M, T: Stored, R, S> FromPath for Overflowing<M, T, R, S> {
    fn from_path(path: Path) -> Self {
        Self {
            path: path.array(),
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Place for Overflowing<M, T, R, S> {
    type Scope = M;
    type Value = Overflow<T>;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S> Overflowing<M, T, R, S> {
    /// The elements that are in the document, for a filter: the first ones. Of an array in an order these may be some more than
    /// [`Overflow::resident`](crate::Overflow::resident) shows.
    ///
    /// A filter by them costs no more than any other, and finds no document by an element that is outside of it:
    /// [`Arrays::any`](crate::action::Arrays::any) does.
    pub fn resident(&self) -> Array<M, T, role::Resident, S> {
        FromPath::from_path(self.path.clone())
    }

    /// The document has elements outside of it; of an array in an order also where there are more in it than are shown of it.
    pub fn has_more(&self) -> Filter<M>
    where
        M: Document,
        S: Single,
    {
        // It may be looked at from outside of its document, as in a change.
        let path = self.path.to_string();
        let (before, name) = path.rsplit_once('.').unwrap_or(("", &path));
        let document = match before {
            "" => Path::ROOT,
            before => Path::ROOT.append(before),
        };
        let header = document.append(&format!("_odm.overflow.{name}"));
        let ordered = M::MODEL
            .overflow_on(name)
            .filter(|field| field.order.is_some());
        let at = |place: &str| header.append(place);
        let exists = |place: Path| Node::Test(place, "$exists", true.into());
        // It stands there a while longer than something is outside.
        let outside = Node::Or(vec![
            Node::Test(at("count"), "$gt", 0_i64.into()),
            exists(at("tail.0")),
            exists(at("work.block.0")),
        ]);
        Filter::from_node(match ordered {
            Some(field) => {
                let hidden = document.append(&format!("{name}.{}", field.after));
                Node::Or(vec![outside, exists(hidden)])
            }
            None => outside,
        })
    }

    /// Not there: [`resident`](Self::resident) has one of the elements in the document.
    #[doc(hidden)]
    pub fn any<F>(
        &self,
        condition: impl FnOnce(T::Fields<Elem<M>, role::Resident, shape::One>) -> F,
    ) -> Filter<M>
    where
        F: IntoFilter<Elem<M>>,
        S: Queryable,
        Overflow<T>: AllInside,
    {
        self.resident().any(condition)
    }

    /// Not there: [`resident`](Self::resident) has one of the elements in the document.
    #[doc(hidden)]
    pub fn contains(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
        Overflow<T>: AllInside,
    {
        self.resident().contains(value)
    }

    /// Not there: [`resident`](Self::resident) has one of the elements in the document.
    #[doc(hidden)]
    pub fn excludes(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
        Overflow<T>: AllInside,
    {
        self.resident().excludes(value)
    }

    /// Every element, wherever it is, for an update: `$[]`.
    pub fn all(&self) -> T::Fields<M, R, shape::Every>
    where
        S: Writable,
    {
        FromPath::from_path(self.path.every().spilling())
    }

    /// The elements that meet the condition, wherever they are, for an update: `$[name]`, with an array filter.
    ///
    /// A document without such an element stays as it is, though the update counts it as matched.
    pub fn matching<F>(
        &self,
        condition: impl FnOnce(T::Fields<Elem<M>, R, shape::One>) -> F,
    ) -> T::Fields<M, R, shape::Every>
    where
        F: IntoFilter<Elem<M>>,
        S: Writable,
    {
        let condition = condition(FromPath::from_path(Path::ROOT)).into_filter();
        FromPath::from_path(match condition.map(Filter::into_node) {
            Some(condition) => self.path.matching(condition).spilling(),
            None => self.path.every().spilling(),
        })
    }
}

//! Typed places of overflow arrays.

use std::marker::PhantomData;

use super::{ArrayPlace, Elem, FromPath, Path, Place, Queryable, Single, Writable, role, shape};
use crate::{
    language::query::{Filter, FilterNode, IntoFilter, IntoValue},
    metadata::overflow::{BLOCK, COUNT, TAIL, WORK, manifest_in},
    model::document::{Document, Overflow, Stored, kind},
};

/// Arrays with all elements in the document, so that a filter can find a document by any element.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a filter cannot find documents by the spilled elements of an overflow array",
    label = "some elements are in chunk documents",
    note = "search all elements first, and filter by the result: `db.arrays::<…>().any(|d| d.…(), |element| …).await?`",
    note = "to filter by the resident elements alone, use `.resident()`"
)]
pub trait FullyResident {}
#[diagnostic::do_not_recommend]
impl<T: Stored<Kind: ResidentKind>> FullyResident for T {}

/// The kinds of values that are stored completely in their document.
#[doc(hidden)]
pub trait ResidentKind {}
macro_rules! resident_kinds {
    ($($kind:ident),*) => {$(
        #[diagnostic::do_not_recommend]
        impl ResidentKind for kind::$kind {}
    )*};
}
resident_kinds!(
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

/// Type parameters of a place without a value of these types.
type PlaceMarker<M, T, R, S> = PhantomData<fn() -> (M, T, R, S)>;

/// A place with an overflow array of `T`.
///
/// An update pushes, pulls and changes elements, resident and spilled. A filter sees only the resident elements: see
/// [`resident`](Self::resident). To find documents by any element, use [`Arrays::any`](crate::action::Arrays::any). To read all
/// elements, use [`Get::elements`](crate::action::Get::elements).
pub struct OverflowPlace<M: 'static, T: Stored, R: 'static, S: 'static = shape::One> {
    path: Path,
    of: PlaceMarker<M, T, R, S>,
}

impl<M, T: Stored, R, S> FromPath for OverflowPlace<M, T, R, S> {
    fn from_path(path: Path) -> Self {
        Self {
            path: path.holding_array(),
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Place for OverflowPlace<M, T, R, S> {
    type Scope = M;
    type Value = Overflow<T>;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S> OverflowPlace<M, T, R, S> {
    /// Returns the resident elements as an array, for a filter.
    ///
    /// Such a filter is as cheap as any filter on an array. A spilled element does not match:
    /// [`Arrays::any`](crate::action::Arrays::any) finds documents by spilled elements. A sorted array may have a few resident
    /// elements more than [`Overflow::resident`](crate::Overflow::resident) returns.
    pub fn resident(&self) -> ArrayPlace<M, T, role::Resident, S> {
        FromPath::from_path(self.path.clone())
    }

    /// Filters for documents with spilled elements. In a sorted array, the surplus of resident elements counts as spilled.
    pub fn has_more(&self) -> Filter<M>
    where
        M: Document,
        S: Single,
    {
        // The path may have a prefix, as in a change event.
        let path = self.path.to_string();
        let (prefix, name) = path.rsplit_once('.').unwrap_or(("", &path));
        let document = match prefix {
            "" => Path::ROOT,
            prefix => Path::ROOT.append_name(prefix),
        };
        let manifest = manifest_in(&document, name);
        let ordered = M::MODEL
            .overflow_on(name)
            .filter(|field| field.order.is_some());
        let count = manifest.append_name(COUNT);
        let block = manifest.append_name(WORK).append_name(BLOCK);
        let exists = |place: Path| FilterNode::Test(place, "$exists", true.into());
        // The manifest exists for a while after the last element was folded, so test the number of elements.
        let has_spilled = FilterNode::Or(vec![
            FilterNode::Test(count, "$gt", 0_i64.into()),
            exists(manifest.append_name(TAIL).append_name("0")),
            exists(block.append_name("0")),
        ]);
        Filter::from_node(match ordered {
            Some(field) => {
                let surplus_path = document.append_name(&format!("{name}.{}", field.max_resident));
                FilterNode::Or(vec![has_spilled, exists(surplus_path)])
            }
            None => has_spilled,
        })
    }

    /// Not available: [`resident`](Self::resident) has this filter for the resident elements.
    #[doc(hidden)]
    pub fn any<F>(
        &self,
        condition: impl FnOnce(T::Fields<Elem<M>, role::Resident, shape::One>) -> F,
    ) -> Filter<M>
    where
        F: IntoFilter<Elem<M>>,
        S: Queryable,
        Overflow<T>: FullyResident,
    {
        self.resident().any(condition)
    }

    /// Not available: [`resident`](Self::resident) has this filter for the resident elements.
    #[doc(hidden)]
    pub fn contains(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
        Overflow<T>: FullyResident,
    {
        self.resident().contains(value)
    }

    /// Not available: [`resident`](Self::resident) has this filter for the resident elements.
    #[doc(hidden)]
    pub fn excludes(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
        Overflow<T>: FullyResident,
    {
        self.resident().excludes(value)
    }

    /// Returns every element, resident and spilled, for an update: `$[]`.
    pub fn all(&self) -> T::Fields<M, R, shape::Every>
    where
        S: Writable,
    {
        FromPath::from_path(self.path.every_element().with_spilled_elements())
    }

    /// Returns the elements that meet the condition, resident and spilled, for an update: `$[name]`, with an array filter.
    ///
    /// A document without a matching element stays unchanged, but counts as matched.
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
            Some(condition) => self
                .path
                .matching_elements(condition)
                .with_spilled_elements(),
            None => self.path.every_element().with_spilled_elements(),
        })
    }
}

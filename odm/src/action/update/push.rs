//! `$push` with a position, an order and a slice.

use bson::RawDocumentBuf;

use super::{
    ArrayElementFields, ArrayValue, ResidentArray, TargetKind, Update, operators::OperatorPlace,
};
use crate::{
    Result,
    language::{
        field::{Elem, Path, Place, Settable, Writable},
        query::{IntoSort, IntoValue, Sort, append_field, encode_values, push_sort},
    },
    model::document::{Document, Stored},
};

/// The modifiers of a push: position, order and slice; made by [`Update::push_with`].
///
/// MongoDB first inserts the elements, then sorts the array, then cuts the array to the slice.
#[must_use = "a `Push` has no effect unless the closure of `push_with` returns the `Push`"]
pub struct Push<M, F> {
    fields: F,
    position: Option<i64>,
    sort: Vec<Sort<Elem<M>>>,
    slice: Option<i64>,
}

impl<M, F> Push<M, F> {
    /// Inserts before the element with this index, from 0: `$position`. An index beyond the end inserts at the end.
    pub fn at(mut self, index: u32) -> Self {
        self.position = Some(index.into());
        self
    }

    /// Inserts before the last `count` elements: negative `$position`. A count beyond the length inserts at the beginning.
    pub fn before_last(mut self, count: u32) -> Self {
        // MongoDB reads a position of 0 as the beginning of the array.
        self.position = (count > 0).then(|| -i64::from(count));
        self
    }

    /// Sorts the whole array, by fields of the elements or by the elements themselves: `$sort`.
    pub fn sort<O: IntoSort<Elem<M>>>(mut self, order: impl FnOnce(&F) -> O) -> Self {
        self.sort.extend(order(&self.fields).into_sorts());
        self
    }

    /// Keeps only the first `count` elements: `$slice`.
    ///
    /// In an array with a `max`, a slice within the `max` makes room: such a push never fails.
    pub fn keep_first(mut self, count: u32) -> Self {
        self.slice = Some(count.into());
        self
    }

    /// Keeps only the last `count` elements: negative `$slice`.
    ///
    /// In an array with a `max`, a slice within the `max` makes room: such a push never fails.
    pub fn keep_last(mut self, count: u32) -> Self {
        self.slice = Some(-i64::from(count));
        self
    }
}

/// The modifiers of a `$push`, without `$each`.
#[derive(Debug)]
pub(super) struct PushModifiers {
    pub(super) raw: RawDocumentBuf,
    /// The maximum number of elements after the push.
    pub(super) max_kept: Option<usize>,
}

impl<M, F> Push<M, F> {
    fn into_modifiers(self) -> Result<PushModifiers> {
        let mut raw = RawDocumentBuf::new();
        if let Some(position) = self.position {
            append_field(&mut raw, "$position", position)?;
        }
        if let Some(sort) = push_sort(&self.sort)? {
            append_field(&mut raw, "$sort", sort)?;
        }
        if let Some(slice) = self.slice {
            append_field(&mut raw, "$slice", slice)?;
        }
        let limit = self.slice.map(i64::unsigned_abs);
        Ok(PushModifiers {
            raw,
            max_kept: limit.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        })
    }
}

impl<T: Document, K: TargetKind> Update<T, K> {
    /// Inserts values into the array at a position, sorts the array, or cuts the array: `$push` with `$position`, `$sort` and
    /// `$slice`.
    ///
    /// Without values, the push only sorts or cuts the array. An update can use `push_with` on an array only once.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Embedded)]
    /// # struct Score { points: i64, player: String }
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "boards")]
    /// # struct Board { #[serde(rename = "_id")] id: i64, #[embed(max = 10)] best: Vec<Score> }
    /// # #[derive(Schema)] #[schema(models(Board))] struct Game;
    /// # async fn example(db: odm::Database<Game>) -> odm::Result<()> {
    /// let score = Score { points: 41, player: "jane".into() };
    /// db.update::<Board>(7)
    ///     .push_with(|b| b.best(), [score], |push| push.sort(|s| s.points().desc()).keep_first(10))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn push_with<P, I>(
        mut self,
        array: impl FnOnce(T::Fields) -> P,
        items: I,
        configure: impl FnOnce(Push<T, ArrayElementFields<P>>) -> Push<T, ArrayElementFields<P>>,
    ) -> Self
    where
        P: Place<Scope = T, Role: Settable + 'static, Shape: Writable, Value: ResidentArray>,
        I: IntoIterator<Item: IntoValue<<P::Value as ArrayValue>::Item>>,
    {
        let push = configure(Push {
            fields: <<P::Value as ArrayValue>::Item as Stored>::fields(Path::ROOT),
            position: None,
            sort: Vec::new(),
            slice: None,
        });
        let path = array(T::fields()).path();
        let array = OperatorPlace::for_value_type::<P::Value>(&path);
        self.changes
            .add_push_with(array, encode_values(items), push.into_modifiers());
        self
    }
}

//! `$push` with a position, an order and a slice.

use bson::RawDocumentBuf;

use super::{Inside, List, Sequence, Update, Which, changes::Operand};
use crate::{
    Result,
    document::{Document, Stored},
    field::{Elem, Path, Place, Settable, Writable},
    query::{IntoSort, IntoValue, Sort, append, push_sort, values},
};

/// Where pushed elements go in an array, and what of the array is left then; made by [`Update::push_with`].
///
/// The array is changed in this order: the elements are put in, it is sorted, and what is too much is cut off.
#[must_use = "how to push is said to `push_with`: return it from the closure"]
pub struct Push<M, F> {
    fields: F,
    position: Option<i64>,
    sort: Vec<Sort<Elem<M>>>,
    slice: Option<i64>,
}

impl<M, F> Push<M, F> {
    /// Before the element with this index, counted from 0, instead of at the end: `$position`. Beyond the end is the end.
    pub fn at(mut self, index: u32) -> Self {
        self.position = Some(index.into());
        self
    }

    /// Before this many of the last elements, instead of at the end: `$position`, negative. More than there are is the
    /// beginning.
    pub fn before_last(mut self, count: u32) -> Self {
        // Zero would be the beginning to MongoDB.
        self.position = (count > 0).then(|| -i64::from(count));
        self
    }

    /// Sorts the whole array, by fields of its elements or by the elements themselves: `$sort`.
    pub fn sort<O: IntoSort<Elem<M>>>(mut self, order: impl FnOnce(&F) -> O) -> Self {
        self.sort.extend(order(&self.fields).into_sorts());
        self
    }

    /// Keeps only this many elements, from the beginning: `$slice`.
    ///
    /// In an array with a `max`, a slice within it makes room by itself: such a push never fails.
    pub fn keep_first(mut self, count: u32) -> Self {
        self.slice = Some(count.into());
        self
    }

    /// Keeps only this many elements, from the end: `$slice`, negative.
    ///
    /// In an array with a `max`, a slice within it makes room by itself: such a push never fails.
    pub fn keep_last(mut self, count: u32) -> Self {
        self.slice = Some(-i64::from(count));
        self
    }
}

/// The modifiers of a `$push`, beside `$each`.
#[derive(Debug)]
pub(super) struct Modifiers {
    pub(super) raw: RawDocumentBuf,
    /// How many elements are left at most.
    pub(super) keeps: Option<usize>,
}

impl<M, F> Push<M, F> {
    fn modifiers(self) -> Result<Modifiers> {
        let mut raw = RawDocumentBuf::new();
        if let Some(position) = self.position {
            append(&mut raw, "$position", position)?;
        }
        if let Some(sort) = push_sort(&self.sort)? {
            append(&mut raw, "$sort", sort)?;
        }
        if let Some(slice) = self.slice {
            append(&mut raw, "$slice", slice)?;
        }
        let keeps = self.slice.map(i64::unsigned_abs);
        Ok(Modifiers {
            raw,
            keeps: keeps.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        })
    }
}

impl<T: Document, K: Which> Update<T, K> {
    /// Puts values into the array at a position, sorts it, or keeps only a part of it: `$push` with `$position`, `$sort`
    /// and `$slice`.
    ///
    /// Without values it sorts or cuts what is there. One update pushes to an array once in this way.
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
        of: I,
        how: impl FnOnce(Push<T, Inside<P>>) -> Push<T, Inside<P>>,
    ) -> Self
    where
        P: Place<Scope = T, Role: Settable + 'static, Shape: Writable, Value: Sequence>,
        I: IntoIterator<Item: IntoValue<<P::Value as List>::Item>>,
    {
        let push = how(Push {
            fields: <<P::Value as List>::Item as Stored>::fields(Path::ROOT),
            position: None,
            sort: Vec::new(),
            slice: None,
        });
        let path = array(T::fields()).path();
        let array = Operand::of::<P::Value>(&path);
        self.changes.push_with(array, values(of), push.modifiers());
        self
    }
}

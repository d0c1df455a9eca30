//! Queries for the documents under a parent: the `_id` begins with the id of the parent.

use super::Find;
use crate::{
    language::{field::Path, query::FilterNode},
    model::{
        document::{Document, IdPrefix, IntoIdPart, upper_bound},
        projection::Projection,
    },
    relation::Joins,
    schema::Schema,
};

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> Find<S, T, P, J, C> {
    /// Returns only the documents under the parent: the `_id` begins with the id of the parent and a slash.
    ///
    /// The method exists for models with an `_id` composed of fields, `#[document(id = "{user}/payments/{#number:06}")]`. The
    /// argument is the first of these fields: a parent, or the parent's id. The query reads a range of the `_id` index and needs
    /// no other index. The result can be read in [pages](Find::page).
    ///
    /// Ids sort as texts, so `users/1/payments/10` comes before `users/1/payments/2`. Give a number as many digits as the number
    /// can ever need, `{#number:06}`, or sort by the field.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "users", id = "users/{name}")]
    /// # struct User { #[serde(rename = "_id")] id: String, name: String }
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "payments", id = "{user}/payments/{#number:06}")]
    /// # struct Payment { #[serde(rename = "_id")] id: String, #[reference] user: Ref<User>, number: i64 }
    /// # #[derive(Schema)] #[schema(models(User, Payment))] struct Bank;
    /// # async fn example(db: odm::Database<Bank>, user: User) -> odm::Result<()> {
    /// let first = db.find::<Payment>().under(&user).page(20).await?;
    /// let all = db.find::<Payment>().under("users/jane").all().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn under<F>(mut self, parent: impl IntoIdPart<F>) -> Self
    where
        T: IdPrefix<F>,
    {
        let id = Path::ROOT.subfield("_id");
        let condition = match T::prefix(&parent.into_id_part()) {
            Err(error) => FilterNode::Invalid(error),
            Ok(prefix) => {
                let end =
                    upper_bound(&prefix).map(|end| FilterNode::Test(id.clone(), "$lt", end.into()));
                FilterNode::Test(id, "$gte", prefix.into()).and(end.unwrap_or(FilterNode::All))
            }
        };
        self.filter = self.filter.and(condition);
        self
    }
}

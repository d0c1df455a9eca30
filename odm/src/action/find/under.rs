//! The documents whose ids begin with that of another one.

use super::Find;
use crate::{
    document::{Document, IdPrefix, IntoIdPart, behind},
    field::Path,
    projection::Projection,
    query::Node,
    relation::Joins,
    schema::Schema,
};

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> Find<S, T, P, J, C> {
    /// Only documents under this one: those whose `_id` begins with it, and goes on behind a slash.
    ///
    /// It is for models whose `_id` is made of fields, `#[document(id = "{user}/payments/{#number:06}")]`, and takes the first of
    /// these: a parent, or its id. It reads a range of the index on `_id`, so no other one is needed, and what it finds can be
    /// read in [pages](Find::page).
    ///
    /// Ids sort as texts, so `users/1/payments/10` comes before `users/1/payments/2`: give a number as many digits as it may ever
    /// have, `{#number:06}`, or sort by the field.
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
        let id = Path::ROOT.then("_id");
        let under = match T::prefix(&parent.into_id_part()) {
            Err(error) => Node::Refused(error),
            Ok(prefix) => {
                let end = behind(&prefix).map(|end| Node::Test(id.clone(), "$lt", end.into()));
                Node::Test(id, "$gte", prefix.into()).and(end.unwrap_or(Node::All))
            }
        };
        self.filter = self.filter.and(under);
        self
    }
}

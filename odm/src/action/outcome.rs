//! What became of a write on a condition.

use crate::{Error, ErrorKind, Result};

/// What became of a write to one document that depended on a condition.
///
/// ```
/// use odm::prelude::*;
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "accounts")]
/// # struct Account { #[serde(rename = "_id")] id: String, credits: i64 }
/// # #[derive(Schema)] #[schema(models(Account))] struct Bank;
/// # async fn example(db: odm::Database<Bank>) -> odm::Result<()> {
/// let spent = db
///     .update::<Account>("jane")
///     .when(|a| a.credits().gte(5))
///     .inc(|a| a.credits(), -5)
///     .returning_after()
///     .await?;
/// match spent {
///     Applied(account) => println!("{} are left", account.credits),
///     NotApplied => println!("not enough"),
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "whether a write on a condition was applied is what one wants to know"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<D> {
    /// A document met the condition: this one, or what was asked of it.
    Applied(D),
    /// No document met the condition, and nothing was written.
    NotApplied,
}

impl<D> Outcome<D> {
    /// Whether a document met the condition.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }

    /// What there is if a document met the condition.
    #[must_use]
    pub fn applied(self) -> Option<D> {
        match self {
            Self::Applied(document) => Some(document),
            Self::NotApplied => None,
        }
    }

    /// An error unless a document met the condition.
    ///
    /// # Errors
    ///
    /// [`NotApplied`](ErrorKind::NotApplied).
    pub fn expect_applied(self) -> Result<D> {
        self.applied().ok_or_else(not_applied)
    }

    /// The same of something else.
    pub fn map<E>(self, change: impl FnOnce(D) -> E) -> Outcome<E> {
        self.applied().map(change).into()
    }
}

impl<D> From<Option<D>> for Outcome<D> {
    fn from(found: Option<D>) -> Self {
        found.map_or(Self::NotApplied, Self::Applied)
    }
}

/// No document met the condition, where one had to.
pub(super) fn not_applied() -> Error {
    Error::new(
        ErrorKind::NotApplied,
        "no document met the condition of the write, and nothing was written",
    )
}

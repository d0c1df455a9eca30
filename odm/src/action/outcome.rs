//! The result of a conditional write.

use crate::{Error, ErrorKind, Result};

/// The result of a conditional write to one document.
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
#[must_use = "a conditional write may not have been applied"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<D> {
    /// A document met the condition. The value is the document, or the part of the document that the write returns.
    Applied(D),
    /// No document met the condition, and nothing was written.
    NotApplied,
}

impl<D> Outcome<D> {
    /// Returns whether a document met the condition.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }

    /// Returns the value if a document met the condition.
    #[must_use]
    pub fn applied(self) -> Option<D> {
        match self {
            Self::Applied(document) => Some(document),
            Self::NotApplied => None,
        }
    }

    /// Returns the value, or an error if no document met the condition.
    ///
    /// # Errors
    ///
    /// [`NotApplied`](ErrorKind::NotApplied) if no document met the condition.
    pub fn expect_applied(self) -> Result<D> {
        self.applied().ok_or_else(not_applied_error)
    }

    /// Maps the value of [`Applied`](Self::Applied).
    pub fn map<E>(self, change: impl FnOnce(D) -> E) -> Outcome<E> {
        self.applied().map(change).into()
    }
}

impl<D> From<Option<D>> for Outcome<D> {
    fn from(document: Option<D>) -> Self {
        document.map_or(Self::NotApplied, Self::Applied)
    }
}

/// The error for an unmet condition, where the caller requires a match.
pub(super) fn not_applied_error() -> Error {
    Error::new(
        ErrorKind::NotApplied,
        "no document met the condition of the write, and nothing was written: correct the condition, or use `applied` instead of `expect_applied`",
    )
}

//! Scopes: models with documents that belong to a tenant, a user or a region, and sessions that are limited to a scope.
//!
//! A model declares the field with the scope, `#[document(scope = tenant)]`, and a session is created for a scope:
//! [`Session::scope`]. The session reads, changes, deletes and joins only documents of the scope, and inserts documents into the
//! scope. The session type contains the scope type, `C` in [`Session<S, C>`](Session): [`Unscoped`], the type of a scope, or
//! [`AllScopes`]. The compiler rejects models that do not fit.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::Arc,
};

use bson::RawBson;

use crate::{
    Error, ErrorKind, Result, Session,
    language::query::encode_value,
    model::document::Stored,
    relation::{Link, LinkItem, Links},
    schema::{Schema, ScopeField},
};

impl<S: Schema> Session<S> {
    /// Returns a session for one scope: a tenant, a user, a region.
    ///
    /// For models with a scope of this type, the session reaches only documents of this scope. An id of another scope is
    /// [`NotFound`](ErrorKind::NotFound), a reference to another scope is [`Missing`](crate::relation::Linked::Missing), and a
    /// page token of another scope is rejected. Inserts go into this scope. Models without a scope work as usual.
    ///
    /// A session is cheap: create a session for each request. A session cannot switch to another scope, so a function that takes
    /// a session stays inside. In a transaction, use `tx.scope(&tenant)`.
    ///
    /// An `_id` and a unique index are unique across all scopes. A unique index that begins with the scope field is unique within
    /// each scope. An insert of an `_id` or unique value that another scope has is a [`DuplicateKey`](ErrorKind::DuplicateKey)
    /// error, so do not let users choose ids.
    ///
    /// ```
    /// use odm::{Session, prelude::*};
    ///
    /// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
    /// struct TenantId(String);
    ///
    /// #[derive(Debug, Serialize, Deserialize, Document)]
    /// #[document(collection = "invoices", scope = tenant, index(tenant, number; unique))]
    /// struct Invoice {
    ///     #[serde(rename = "_id")]
    ///     id: ObjectId,
    ///     tenant: TenantId,
    ///     number: i64,
    /// }
    /// # #[derive(Schema)] #[schema(models(Invoice))] struct Shop;
    ///
    /// async fn invoice(shop: &Session<Shop, TenantId>, number: i64) -> odm::Result<Invoice> {
    ///     shop.insert(NewInvoice { id: ObjectId::new(), number }).await
    /// }
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Shop>::open("memory:").await?;
    /// # db.sync_indexes().await?;
    /// let acme = db.scope(&TenantId("acme".into()));
    /// let first = invoice(&acme, 1).await?;
    /// assert_eq!(first.tenant.0, "acme");
    ///
    /// let globex = db.scope(&TenantId("globex".into()));
    /// assert!(globex.get::<Invoice>(first.id).await.unwrap_err().is_not_found());
    /// assert_eq!(globex.delete_many::<Invoice>(|_| odm::Filter::all()).await?.deleted, 0);
    /// assert_eq!(db.all_scopes().find::<Invoice>().count().await?, 1);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn scope<I: IntoScope>(&self, scope: I) -> Session<S, I::Scope> {
        let access = self
            .access
            .clone()
            .with_scope(Scope::of_value(scope.into_scope()));
        Session::new(access)
    }

    /// Returns a session across all scopes, for reports, support and migrations.
    ///
    /// The session reads, changes and deletes the documents of every scope. It inserts no document of a model with a scope:
    /// insert through the session of that [scope](Self::scope). An update with [`or_insert`](crate::action::Update::or_insert) is
    /// an error of kind [`Invalid`](ErrorKind::Invalid) at run time.
    ///
    /// A reference and its target have the same scope. Between two models with a scope, an update of a reference with a delete
    /// rule, an inverse or copies is an error of kind [`Invalid`](ErrorKind::Invalid) in this session: update the reference in
    /// the scope of the document.
    pub fn all_scopes(&self) -> Session<S, AllScopes> {
        Session::new(self.access.clone().with_scope(Scope::ALL))
    }
}

/// The scope type of a session without a scope.
#[derive(Debug, Clone, Copy)]
pub struct Unscoped;

/// The scope type of a session across all scopes: see [`Session::all_scopes`].
#[derive(Debug, Clone, Copy)]
pub struct AllScopes;

/// Implemented by models and joins that a session with the scope type `C` can use. A model without a scope fits every session. A
/// model with a scope fits sessions of its scope type and of [`AllScopes`]. Derived together with the model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has a scope that a session of `{C}` cannot reach",
    label = "not available in this session",
    note = "create a session for a scope: `db.scope(&tenant)`, with a value of the type of the model's `scope = …` field; `db.all_scopes()` reads, changes and watches the documents of all scopes"
)]
pub trait InScope<C> {}

impl<C, X: LinkItem + InScope<C>> InScope<C> for Link<X> {}
impl<C, X: LinkItem + InScope<C>> InScope<C> for Links<X> {}
impl<C, X: InScope<C>> InScope<C> for Option<X> {}
impl<C, X: InScope<C>> InScope<C> for Vec<X> {}

macro_rules! joined {
    ($($item:ident)*) => {
        impl<C, $($item: InScope<C>),*> InScope<C> for ($($item,)*) {}
    };
}
joined!(T A);
joined!(T A B);
joined!(T A B D);
joined!(T A B D E);
joined!(T A B D E F);
joined!(T A B D E F G);

/// The scope type of sessions that insert documents of a model: its scope type, or [`Unscoped`]. Derived together with the model.
#[doc(hidden)]
pub trait WrittenIn {
    /// The scope type.
    type Session;
}

/// Implemented by scope types: [`Unscoped`], the type of a single scope, and [`AllScopes`].
pub trait SessionScope: 'static {
    /// The scope type of inserted documents. A session across all scopes inserts only documents without a scope.
    type InsertScope;
}
impl SessionScope for Unscoped {
    type InsertScope = Self;
}
impl SessionScope for AllScopes {
    type InsertScope = Unscoped;
}
impl<T: Stored> SessionScope for T {
    type InsertScope = T;
}

/// Implemented by arguments of [`Session::scope`]: a reference to a value of the type of the scope field, or a `&str` for a
/// `String`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a scope",
    label = "expected a reference to a storable value",
    note = "pass a reference to a value of the type of the model's `scope = …` field: `db.scope(&tenant)`; for a document, pass a reference to its `Ref`: `db.scope(&tenant.to_ref())`"
)]
pub trait IntoScope {
    /// The scope type.
    type Scope: Stored + Clone;
    /// Converts the argument into the value of the scope.
    fn into_scope(self) -> Self::Scope;
}

#[diagnostic::do_not_recommend]
impl<T: Stored + Clone> IntoScope for &T {
    type Scope = T;
    fn into_scope(self) -> T {
        self.clone()
    }
}

#[diagnostic::do_not_recommend]
impl IntoScope for &str {
    type Scope = String;
    fn into_scope(self) -> String {
        self.to_owned()
    }
}

/// The scope of a session as a value, from which [`Insertable`](crate::Insertable) fills the scope field of a document.
#[derive(Clone)]
pub struct Scope(ScopeKind);

#[derive(Clone)]
enum ScopeKind {
    None,
    One(Arc<SingleScope>),
    All,
}

struct SingleScope {
    /// The value as stored in documents, or the error of its serialization.
    stored: Result<RawBson>,
    type_id: TypeId,
    /// `None` for a scope that was read from a document.
    value: Option<Box<dyn Any + Send + Sync>>,
}

impl Scope {
    pub(crate) const NONE: Self = Self(ScopeKind::None);
    pub(crate) const ALL: Self = Self(ScopeKind::All);

    fn of_value<T: Stored>(value: T) -> Self {
        Self(ScopeKind::One(Arc::new(SingleScope {
            stored: encode_value(&value),
            type_id: TypeId::of::<T>(),
            value: Some(Box::new(value)),
        })))
    }

    /// Creates the scope of a stored document from the value of its scope field.
    pub(crate) fn of_stored(field: &ScopeField, value: RawBson) -> Self {
        Self(ScopeKind::One(Arc::new(SingleScope {
            stored: Ok(value),
            type_id: (field.type_id)(),
            value: None,
        })))
    }

    /// Returns the value of a single scope.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) without a single scope, or with a scope of another type.
    pub fn value<T: Clone + 'static>(&self) -> Result<T> {
        let value = match &self.0 {
            ScopeKind::One(scope) => scope
                .value
                .as_deref()
                .and_then(|value| value.downcast_ref::<T>()),
            ScopeKind::None | ScopeKind::All => None,
        };
        value.cloned().ok_or_else(missing_scope)
    }

    /// Returns which documents of a model with a scope can be reached.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a session without a scope. The type system prevents this error for operations of the
    /// application. Only the write path can cause this error, when follow-up work reads another model.
    pub(crate) fn reach_of(&self, field: &ScopeField) -> Result<ScopeReach> {
        match &self.0 {
            ScopeKind::One(scope) if scope.type_id == (field.type_id)() => {
                scope.stored.clone().map(ScopeReach::Scope)
            }
            // Stored values of different scope types may be equal by accident.
            ScopeKind::One(_) => Ok(ScopeReach::Nothing),
            ScopeKind::None => Err(missing_scope()),
            ScopeKind::All => Ok(ScopeReach::All),
        }
    }

    /// Returns whether the session is for a single scope.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.0, ScopeKind::One(_))
    }

    /// Returns whether the session covers all scopes.
    pub(crate) fn is_all(&self) -> bool {
        matches!(self.0, ScopeKind::All)
    }
}

/// The documents of a model with a scope that a session reaches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScopeReach {
    All,
    /// The documents with this value in the scope field.
    Scope(RawBson),
    Nothing,
}

fn missing_scope() -> Error {
    let message = "the model has a scope, and the session is not for a single scope of that type: create a session with `db.scope(…)`";
    Error::new(ErrorKind::Invalid, message)
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ScopeKind::None => f.write_str("Unscoped"),
            ScopeKind::One(scope) => f.debug_tuple("Scope").field(&scope.stored).finish(),
            ScopeKind::All => f.write_str("AllScopes"),
        }
    }
}

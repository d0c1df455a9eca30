//! Scopes: models whose documents belong to somebody, a tenant for instance, and the sessions that reach them.
//!
//! A model says which field tells whose a document is, `#[document(scope = tenant)]`, and a session says for whom it works:
//! [`Session::scope`]. Through such a session only documents of that scope are read, changed, deleted and joined, and what is
//! inserted belongs to it. Whether a model may be used through a session is in the type of the session, `C` in
//! [`Session<S, C>`](Session): [`Unscoped`], the type of a scope, or [`AllScopes`].

use std::{
    any::{Any, TypeId},
    fmt,
    sync::Arc,
};

use bson::RawBson;

use crate::{
    Error, ErrorKind, Result, Session,
    document::Stored,
    query::encode,
    relation::{Item, Link, Links},
    schema::{Schema, ScopeField},
};

impl<S: Schema> Session<S> {
    /// A session for one scope: a tenant, a user, a region.
    ///
    /// Of the models with a scope of this type it reaches the documents of this one, and no operation reaches others: an
    /// id of somebody else's is [`NotFound`](ErrorKind::NotFound), a reference to it leads to nothing
    /// ([`Missing`](crate::relation::Linked::Missing)), and a page token of theirs is refused. What is inserted is of this
    /// scope. Models without a scope are used as ever.
    ///
    /// It is cheap, and made anew for each request. Nothing leads from it to another scope, so a function that takes it
    /// cannot go beyond it. In a transaction it is made of that: `tx.scope(&tenant)`.
    ///
    /// An `_id` and a unique index are unique among all scopes; a unique index that begins with the scope is so for each.
    /// An insert of what another scope has is a [`DuplicateKey`](ErrorKind::DuplicateKey) all the same, so let ids be such
    /// that nobody can choose them.
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
    pub fn scope<I: IntoScope>(&self, of: I) -> Session<S, I::Scope> {
        let access = self.access.clone().within(Scope::one(of.into_scope()));
        Session::new(access)
    }

    /// A session that goes across all scopes: for reports, support and migrations, named so that it can be found.
    ///
    /// The session reads, changes and deletes the documents of every scope. It inserts no document of a model with a scope: insert
    /// through the session of that [scope](Self::scope). An update with [`or_insert`](crate::action::Update::or_insert) is an error of
    /// kind [`Invalid`](ErrorKind::Invalid) when it runs.
    ///
    /// A reference and its target have the same scope. Between two models with a scope, an update of a reference with a delete rule,
    /// an inverse or copies is an error of kind [`Invalid`](ErrorKind::Invalid) in this session: write it in the scope of the document.
    pub fn all_scopes(&self) -> Session<S, AllScopes> {
        Session::new(self.access.clone().within(Scope::ALL))
    }
}

/// Of no scope: what a session reaches that was not told for whom it works.
#[derive(Debug, Clone, Copy)]
pub struct Unscoped;

/// Of all scopes, named as going across: see [`Session::all_scopes`].
#[derive(Debug, Clone, Copy)]
pub struct AllScopes;

/// What may be used through a session of `C`: a model without a scope through any, one with a scope through a session of
/// that type and through [`AllScopes`]. Derived together with the model; what joins give is as the models in it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` belongs to a scope, which a session of `{C}` does not have",
    label = "out of reach from here",
    note = "say whose documents: `db.scope(&tenant)` gives a session for one scope, of the type that the field `scope = …` of the model has; `db.all_scopes()` reads, changes and watches those of all"
)]
pub trait InScope<C> {}

impl<C, X: Item + InScope<C>> InScope<C> for Link<X> {}
impl<C, X: Item + InScope<C>> InScope<C> for Links<X> {}
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

/// The type of the sessions that insert documents of a model: of its scope, or [`Unscoped`]. Derived together with the model.
#[doc(hidden)]
pub trait WrittenIn {
    /// The type of the scope.
    type Session;
}

/// For whom a session works: [`Unscoped`], one scope of this type, or [`AllScopes`].
pub trait Reach: 'static {
    /// For whom it inserts: for nobody where it goes across.
    type Inserts;
}
impl Reach for Unscoped {
    type Inserts = Self;
}
impl Reach for AllScopes {
    type Inserts = Unscoped;
}
impl<T: Stored> Reach for T {
    type Inserts = T;
}

/// What may be given to [`Session::scope`]: a reference to a value of the type that the field of the scope has, or a `&str` for
/// a `String`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no scope",
    label = "no reference to a value that is stored in documents",
    note = "a scope is a value of the type that the field `scope = …` of a model has: `db.scope(&tenant)`; a document is given as the reference to it, `db.scope(&tenant.to_ref())`"
)]
pub trait IntoScope {
    /// The type of the scope.
    type Scope: Stored + Clone;
    /// The value.
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

/// For whom a session works, as a value: what [`Insertable`](crate::Insertable) fills a document with.
#[derive(Clone)]
pub struct Scope(Kind);

#[derive(Clone)]
enum Kind {
    None,
    One(Arc<One>),
    All,
}

struct One {
    /// As it stands in documents, or why it cannot.
    stored: Result<RawBson>,
    type_id: TypeId,
    /// None for a scope that was read from a document.
    value: Option<Box<dyn Any + Send + Sync>>,
}

impl Scope {
    pub(crate) const NONE: Self = Self(Kind::None);
    pub(crate) const ALL: Self = Self(Kind::All);

    fn one<T: Stored>(value: T) -> Self {
        Self(Kind::One(Arc::new(One {
            stored: encode(&value),
            type_id: TypeId::of::<T>(),
            value: Some(Box::new(value)),
        })))
    }

    /// The scope that a stored document belongs to, by the value of its scope field.
    pub(crate) fn of_stored(field: &ScopeField, value: RawBson) -> Self {
        Self(Kind::One(Arc::new(One {
            stored: Ok(value),
            type_id: (field.type_id)(),
            value: None,
        })))
    }

    /// The value of the one scope.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is none, or none of this type.
    pub fn value<T: Clone + 'static>(&self) -> Result<T> {
        let value = match &self.0 {
            Kind::One(one) => one
                .value
                .as_deref()
                .and_then(|value| value.downcast_ref::<T>()),
            Kind::None | Kind::All => None,
        };
        value.cloned().ok_or_else(unscoped)
    }

    /// Which documents of a model with a scope are reached.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a session without a scope. The types exclude that for what the application asks for; the error
    /// is for a model that the write path reads on its behalf.
    pub(crate) fn reach(&self, field: &ScopeField) -> Result<Reached> {
        match &self.0 {
            Kind::One(one) if one.type_id == (field.type_id)() => {
                one.stored.clone().map(Reached::Scope)
            }
            // The stored values of two types may be equal, and mean different things.
            Kind::One(_) => Ok(Reached::Nothing),
            Kind::None => Err(unscoped()),
            Kind::All => Ok(Reached::All),
        }
    }

    /// Whether the session works across all scopes.
    pub(crate) fn is_all(&self) -> bool {
        matches!(self.0, Kind::All)
    }
}

/// Which documents of a model with a scope are reached.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reached {
    All,
    /// Those with this value in the scope field.
    Scope(RawBson),
    Nothing,
}

fn unscoped() -> Error {
    let message = "the model belongs to a scope, and the session is for no one scope of its type: make one by `db.scope(…)`";
    Error::new(ErrorKind::Invalid, message)
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::None => f.write_str("Unscoped"),
            Kind::One(one) => f.debug_tuple("Scope").field(&one.stored).finish(),
            Kind::All => f.write_str("AllScopes"),
        }
    }
}

//! Patches: structs with the fields that a request may change.

use super::UpdateOperators;
use crate::{
    language::{
        field::{Assignable, FromPath, Place, Settable},
        query::IntoValue,
    },
    model::projection::Projected,
};

/// A struct with new values for some fields of a model or of an embedded struct, for
/// [`Update::apply`](crate::action::Update::apply). Derived by `#[derive(Patch)]`.
///
/// Each field is an `Option` with the name of a field of the model: `None` keeps the stored value. For an optional field of the
/// model, `Option<Option<T>>` tells null from a missing value: `Some(None)` clears the field. `#[patch(nested)]` marks a field
/// with the patch of an embedded struct. Such a patch changes only some fields of that struct.
///
/// The derive implements serde's `Deserialize` too: a missing value is `None`. In JSON, null is a value: an error for a required
/// field, and `Some(None)` for an `Option<Option<T>>`. The struct can have serde's attributes, such as
/// `#[serde(deny_unknown_fields)]`. A field with serde's `with` reads null as `None`.
///
/// ```
/// # use odm::prelude::*;
/// # use odm::Patch;
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "products")]
/// struct Product {
///     #[serde(rename = "_id")] id: i64,
///     name: String,
///     subtitle: Option<String>,
///     price: i64,
///     #[embed] size: Size,
/// }
/// #[derive(Debug, PartialEq, Serialize, Deserialize, Embedded)]
/// struct Size { width: i64, height: i64 }
///
/// /// The fields that a client may change.
/// #[derive(Debug, Patch)]
/// #[patch(of = Product)]
/// struct ProductPatch {
///     name: Option<String>,
///     subtitle: Option<Option<String>>,
///     #[patch(nested)] size: Option<SizePatch>,
/// }
/// #[derive(Debug, Patch)]
/// #[patch(of = Size)]
/// struct SizePatch { width: Option<i64>, height: Option<i64> }
/// # #[derive(Schema)] #[schema(models(Product))] struct Shop;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
/// # let size = Size { width: 1, height: 2 };
/// # db.insert(Product { id: 7, name: "saw".into(), subtitle: Some("new".into()), price: 3, size }).await?;
/// let patch: ProductPatch = serde_json::from_str(r#"{"subtitle": null, "size": {"width": 4}}"#)?;
/// let product = db.update::<Product>(7).apply(patch).returning_after().await?;
/// assert_eq!(product.name, "saw");
/// assert_eq!(product.subtitle, None);
/// assert_eq!(product.size, Size { width: 4, height: 2 });
///
/// let empty: ProductPatch = serde_json::from_str("{}")?;
/// let unchanged = db.update::<Product>(7).apply(empty).await?;
/// assert_eq!((unchanged.matched, unchanged.modified), (1, 0));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a patch",
    label = "expected a struct that derives `Patch`",
    note = "write `#[derive(Patch)]` and `#[patch(of = Product)]` on a struct with an `Option` for each field that may change"
)]
pub trait Patch {
    /// The model or the embedded struct.
    type Of: Projected;

    /// Adds the changes to an update.
    #[doc(hidden)]
    fn apply_to(self, fields: &<Self::Of as Projected>::Tree, changes: &mut PatchChanges<'_>);
}

/// The changes of a patch.
#[doc(hidden)]
#[derive(Debug)]
pub struct PatchChanges<'u>(pub(super) &'u mut UpdateOperators);

impl PatchChanges<'_> {
    /// Sets the place to the value, if there is a value.
    pub fn set_some<P, V>(&mut self, place: &P, value: Option<V>)
    where
        P: Place<Role: Settable, Shape: Assignable>,
        V: IntoValue<P::Value>,
    {
        if let Some(value) = value {
            self.0.add_set(&place.path(), value.into_value());
        }
    }

    /// Adds the changes of the patch of an embedded struct.
    pub fn patch_some<P, N>(&mut self, place: &P, patch: Option<N>)
    where
        P: Place<Role: Settable, Shape: Assignable, Value = N::Of>,
        N: Patch,
    {
        if let Some(patch) = patch {
            patch.apply_to(&FromPath::from_path(place.path()), self);
        }
    }
}

//! UUIDs of the crate `uuid`.

use std::{convert::Infallible, fmt};

use serde::Deserialize;
use uuid::Uuid;

use super::{NativeForm, native_values};
use crate::language::{field::ElementSortKey, query::Operand};

impl NativeForm for Uuid {
    type Form = bson::Uuid;

    fn to_form(&self) -> Result<bson::Uuid, impl fmt::Display> {
        Ok::<_, Infallible>(bson::Uuid::from_bytes(self.into_bytes()))
    }

    fn from_form(uuid: bson::Uuid) -> Result<Self, impl fmt::Display> {
        Ok::<_, Infallible>(Self::from_bytes(uuid.bytes()))
    }
}
// A `bson::Uuid` also reads a text.
native_values!(Uuid: [BINARY], rounds: false, |deserializer| {
    bson::Uuid::deserialize(deserializer).map(|uuid| Uuid::from_bytes(uuid.bytes()))
});

#[diagnostic::do_not_recommend]
impl ElementSortKey for Uuid {}

#[diagnostic::do_not_recommend]
impl Operand for Uuid {
    type As = Self;
}

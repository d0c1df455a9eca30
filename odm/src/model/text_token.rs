//! Tokens: positions that an application stores as text and passes back.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{Error, Result};

/// A token with a byte representation.
pub(crate) trait Token: Sized {
    fn to_bytes(&self) -> Vec<u8>;

    /// Parses the bytes, which may come from an untrusted source. Returns `None` for invalid bytes.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;

    /// Returns the error for a text that is not a valid token.
    fn invalid_token() -> Error;
}

/// Encodes a token as text with URL-safe characters.
pub(crate) fn to_text(token: &impl Token) -> String {
    URL_SAFE_NO_PAD.encode(token.to_bytes())
}

pub(crate) fn from_text<T: Token>(text: &str) -> Result<T> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes
        .and_then(|bytes| T::from_bytes(&bytes))
        .ok_or_else(T::invalid_token)
}

/// Implements the common traits of a token: text (`Display`, `FromStr`, serde), and the conversion from a token or an `Option`,
/// by value or by reference.
macro_rules! token {
    ($token:ident, $into:ident::$method:ident) => {
        impl std::fmt::Display for $token {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$crate::model::text_token::to_text(self))
            }
        }

        impl std::fmt::Debug for $token {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($token), "({})"), self)
            }
        }

        impl std::str::FromStr for $token {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                $crate::model::text_token::from_text(text)
            }
        }

        impl serde::Serialize for $token {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $token {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schemars")]
        impl schemars::JsonSchema for $token {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($token).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<String>()
            }
        }

        #[cfg(feature = "utoipa")]
        impl utoipa::PartialSchema for $token {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                <String as utoipa::PartialSchema>::schema()
            }
        }

        #[cfg(feature = "utoipa")]
        impl utoipa::ToSchema for $token {}

        $crate::model::text_token::token!(@into $into::$method -> $token:
            $token => Some, &$token => |token: &$token| Some(token.clone()),
            Option<$token> => std::convert::identity, &Option<$token> => Option::clone);
    };
    (@into $into:ident::$method:ident -> $token:ident: $($source:ty => $option:expr),*) => {$(
        #[diagnostic::do_not_recommend]
        impl $into for $source {
            fn $method(self) -> Option<$token> {
                ($option)(self)
            }
        }
    )*};
}
pub(crate) use token;

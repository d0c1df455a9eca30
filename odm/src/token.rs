//! Tokens: places that an application keeps as text and gives back.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{Error, Result};

/// A token, by its bytes.
pub(crate) trait Token: Sized {
    fn to_bytes(&self) -> Vec<u8>;

    /// None for what is no such token: the bytes may come from anyone.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;

    /// What is said of a text that is no such token.
    fn refused() -> Error;
}

/// The token as text, of characters that stand in a URL as they are.
pub(crate) fn to_text(token: &impl Token) -> String {
    URL_SAFE_NO_PAD.encode(token.to_bytes())
}

pub(crate) fn from_text<T: Token>(text: &str) -> Result<T> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes
        .and_then(|bytes| T::from_bytes(&bytes))
        .ok_or_else(T::refused)
}

/// What each token is: text (`Display`, `FromStr`, serde), and given as itself or as an option, by value or by reference.
macro_rules! token {
    ($token:ident, $into:ident::$method:ident) => {
        impl std::fmt::Display for $token {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$crate::token::to_text(self))
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
                $crate::token::from_text(text)
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

        $crate::token::token!(@into $into::$method -> $token:
            $token => Some, &$token => |token: &$token| Some(token.clone()),
            Option<$token> => std::convert::identity, &Option<$token> => Option::clone);
    };
    (@into $into:ident::$method:ident -> $token:ident: $($given:ty => $option:expr),*) => {$(
        #[diagnostic::do_not_recommend]
        impl $into for $given {
            fn $method(self) -> Option<$token> {
                ($option)(self)
            }
        }
    )*};
}
pub(crate) use token;

//! What MongoDB refuses of a collation.

use bson::{RawBsonRef, RawDocument};

use crate::error::{Error, Result, code};
use crate::value::{self, Number};

/// The languages for which MongoDB has rules, besides `simple`.
const LANGUAGES: &str = "af am ar as az be bg bn bo br bs ca ceb chr cs cy da de dsb dz ee el en eo es et fa fi fil fo \
     fr fr_CA fy ga gl gu ha haw he hi hr hsb hu hy id ig is it ja ka kk kl km kn ko kok ku ky lb lkt ln lo lt lv \
     mk ml mn mr ms mt my nb ne nl nn no om or pa pl ps pt ro ru se si sk sl smn sq sr sv sw ta te th tk to tr ug uk \
     ur uz vi wae wo xh yi yo yue zh zu";

/// Refuses a collation that MongoDB refuses.
pub(super) fn check(collation: &RawDocument) -> Result<()> {
    if collation.is_empty() {
        return Err(Error::bad_value("a collation cannot be empty"));
    }
    for (name, value) in value::fields(collation) {
        if value == RawBsonRef::Null && name != "locale" {
            // As if it had not been said.
            continue;
        }
        let is_right = match name {
            "locale" | "caseFirst" | "alternate" | "maxVariable" | "version" => {
                value.as_str().is_some()
            }
            "strength" => Number::from_bson(value).is_some(),
            "caseLevel" | "numericOrdering" | "normalization" | "backwards" => {
                matches!(value, RawBsonRef::Boolean(_))
            }
            other => {
                let message = format!("a collation has no field '{other}'");
                return Err(Error::server(code::UNKNOWN_FIELD, message));
            }
        };
        if !is_right {
            let type_name = value::type_name(value);
            let message = format!("'collation.{name}' cannot be of type {type_name}");
            return Err(Error::server(code::TYPE_MISMATCH, message));
        }
    }
    let Some(locale) = value::get(collation, "locale").and_then(|value| value.as_str()) else {
        let message = "a collation needs a locale";
        return Err(Error::server(code::MISSING_FIELD, message));
    };
    let language = locale.split(['_', '@', '-']).next().unwrap_or_default();
    if locale != "simple" && !LANGUAGES.split(' ').any(|known| known == language) {
        return Err(Error::bad_value(format!("'{locale}' is not a locale")));
    }
    Ok(())
}

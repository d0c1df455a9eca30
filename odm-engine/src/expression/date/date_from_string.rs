//! `$dateFromString`: the date that a text means, in a format of `$dateToString`'s specifiers, or
//! in one of the usual ones. `onError` takes the place of the error if it means none.
//!
//! ```text
//! { "$dateFromString": { "dateString": "2024-05-17T10:20:30.5+02:00" } } → { "$date": "2024-05-17T08:20:30.5Z" }
//! { "$dateFromString": { "dateString": "May 17th, 2024 10:20 pm" } } → { "$date": "2024-05-17T22:20:00Z" }
//! { "$dateFromString": { "dateString": "17.5.2024", "format": "%d.%m.%Y", "timezone": "Europe/Rome" } } → { "$date": "2024-05-16T22:00:00Z" }
//! { "$dateFromString": { "dateString": "soon", "onError": "never" } } → "never"
//! { "$dateFromString": { "dateString": null } } → null
//! ```

use bson::{DateTime, RawBson};

use super::argument::zone;
use super::date_to_string::pattern;
use super::format::READABLE;
use super::parse::{self, not_a_date};
use super::parse_format;
use super::zone::Zone;
use crate::Result;
use crate::error::code;
use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};

#[derive(Debug)]
struct DateFromString {
    text: Expression,
    format: Option<Expression>,
    zone: Option<Expression>,
    on_null: Option<Expression>,
    on_error: Option<Expression>,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let known = &["dateString", "format", "onError", "onNull", "timezone"];
    let arguments = call.arguments(known, 40540, 40541)?;
    call.fold(DateFromString {
        text: arguments.required("dateString", 40542)?,
        format: arguments.optional("format")?,
        zone: arguments.optional("timezone")?,
        on_null: arguments.optional("onNull")?,
        on_error: arguments.optional("onError")?,
    })
}

impl Operands for DateFromString {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        let optional = [&self.format, &self.zone, &self.on_null, &self.on_error];
        [&self.text]
            .into_iter()
            .chain(optional.into_iter().flatten())
    }
}

impl Operator for DateFromString {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let text = self.text.evaluate(scope)?;
        let pattern = pattern(self.format.as_ref(), scope, READABLE, 40684)?;
        let zone = zone(self.zone.as_ref(), scope)?;
        if text.is_nullish() {
            let on_null = self.on_null.as_ref();
            return on_null.map_or(Ok(Value::NULL), |on_null| on_null.evaluate(scope));
        }
        match (self.read(&text, pattern.as_ref(), zone), &self.on_error) {
            (Err(error), Some(on_error)) if error.code() == Some(code::CONVERSION_FAILURE) => {
                on_error.evaluate(scope)
            }
            (Ok(None), _) => Ok(Value::NULL),
            (Ok(Some(instant)), _) => Ok(RawBson::DateTime(DateTime::from_millis(instant)).into()),
            (Err(error), _) => Err(error),
        }
    }
}

impl DateFromString {
    /// The instant, or `None` if an argument is null.
    fn read(
        &self,
        text: &Value<'_>,
        pattern: Option<&Value<'_>>,
        zone: Option<Zone>,
    ) -> Result<Option<i64>> {
        let text = text.text().ok_or_else(|| {
            let found = text.type_name();
            not_a_date(&format!("'dateString' is a string, not {found}"))
        })?;
        let Some(zone) = zone else {
            return Ok(None);
        };
        let parts = match pattern {
            None => parse::parts(text)?,
            Some(pattern) if pattern.is_nullish() => return Ok(None),
            Some(pattern) => parse_format::parts(text, pattern.text().unwrap_or_default())?,
        };
        if parts.has_zone() && self.zone.is_some() {
            let message = format!("'{text}' names a time zone, and so does 'timezone'");
            return Err(not_a_date(&message));
        }
        parts.instant(text, &zone).map(Some)
    }
}

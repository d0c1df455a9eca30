//! `$dateToString`: a date as text, in a format of `%Y` year, `%m` month, `%d` day, `%H` hour, `%M`
//! minute, `%S` second, `%L` millisecond, `%j` day of the year, `%w` day of the week, `%U` week,
//! `%G` `%V` `%u` year, week and day of ISO 8601's weeks, `%z` offset, `%Z` offset in minutes, `%%`.
//!
//! ```text
//! { "$dateToString": { "date": { "$date": "2024-12-30T23:59:58.007Z" } } } → "2024-12-30T23:59:58.007Z"
//! { "$dateToString": { "date": { "$date": "2024-12-30T23:59:58.007Z" }, "format": "%d.%m.%Y %H:%M %z", "timezone": "Europe/Rome" } } → "31.12.2024 00:59 +0100"
//! { "$dateToString": { "date": null, "onNull": "never" } } → "never"
//! ```

use super::argument::{instant, zone};
use super::format::{ISO, WRITABLE, check, format};
use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result};

#[derive(Debug)]
struct DateToString {
    date: Expression,
    format: Option<Expression>,
    zone: Option<Expression>,
    on_null: Option<Expression>,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let known = &["date", "format", "onNull", "timezone"];
    let arguments = call.arguments(known, 18629, 18534)?;
    call.fold(DateToString {
        date: arguments.required("date", 18628)?,
        format: arguments.optional("format")?,
        zone: arguments.optional("timezone")?,
        on_null: arguments.optional("onNull")?,
    })
}

impl Operands for DateToString {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        let optional = [&self.format, &self.zone, &self.on_null];
        [&self.date]
            .into_iter()
            .chain(optional.into_iter().flatten())
    }
}

impl Operator for DateToString {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let date = self.date.evaluate(scope)?;
        let pattern = pattern(self.format.as_ref(), scope, WRITABLE, 18533)?;
        let zone = zone(self.zone.as_ref(), scope)?;
        if date.is_nullish() {
            let on_null = self.on_null.as_ref();
            return on_null.map_or(Ok(Value::NULL), |on_null| on_null.evaluate(scope));
        }
        let Some(zone) = zone else {
            return Ok(Value::NULL);
        };
        let pattern = match &pattern {
            Some(pattern) if pattern.is_nullish() => return Ok(Value::NULL),
            Some(pattern) => pattern.text().unwrap_or_default(),
            None => ISO,
        };
        Ok(format(instant(&date)?, pattern, &zone)?.into())
    }
}

/// A format that may be left out or null. Even if it is of no use in the end it has to be one.
pub(super) fn pattern<'v>(
    argument: Option<&'v Expression>,
    scope: &Scope<'_, 'v>,
    specifiers: &str,
    no_string: i32,
) -> Result<Option<Value<'v>>> {
    let Some(argument) = argument else {
        return Ok(None);
    };
    let value = argument.evaluate(scope)?;
    if !value.is_nullish() {
        let pattern = value.text().ok_or_else(|| {
            let message = format!("'format' is a string, not {}", value.type_name());
            Error::server(no_string, message)
        })?;
        check(pattern, specifiers)?;
    }
    Ok(Some(value))
}

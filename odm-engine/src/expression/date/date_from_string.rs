//! `$dateFromString`: parses a string as a date, in a given format or in a common format. `onError`
//! replaces the result if parsing fails.
//!
//! ```text
//! { "$dateFromString": { "dateString": "2024-05-17T10:20:30.5+02:00" } } → { "$date": "2024-05-17T08:20:30.5Z" }
//! { "$dateFromString": { "dateString": "May 17th, 2024 10:20 pm" } } → { "$date": "2024-05-17T22:20:00Z" }
//! { "$dateFromString": { "dateString": "17.5.2024", "format": "%d.%m.%Y", "timezone": "Europe/Rome" } } → { "$date": "2024-05-16T22:00:00Z" }
//! { "$dateFromString": { "dateString": "soon", "onError": "never" } } → "never"
//! { "$dateFromString": { "dateString": null } } → null
//! ```

use bson::{DateTime, RawBson};

use super::argument::evaluate_zone;
use super::date_to_string::evaluate_format;
use super::format::PARSE_SPECIFIERS;
use super::parse::{self, not_a_date};
use super::parse_format;
use super::zone::DateZone;
use crate::Result;
use crate::error::code;
use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};

#[derive(Debug)]
struct DateFromString {
    text: Expression,
    format: Option<Expression>,
    zone: Option<Expression>,
    on_null: Option<Expression>,
    on_error: Option<Expression>,
}

pub(super) fn parse_date_from_string(call: &OperatorCall<'_>) -> Result<Expression> {
    let known = &["dateString", "format", "onError", "onNull", "timezone"];
    let arguments = call.named_arguments(known, 40540, 40541)?;
    call.fold_constant(DateFromString {
        text: arguments.required_expression("dateString", 40542)?,
        format: arguments.optional_expression("format")?,
        zone: arguments.optional_expression("timezone")?,
        on_null: arguments.optional_expression("onNull")?,
        on_error: arguments.optional_expression("onError")?,
    })
}

impl FoldableOperator for DateFromString {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        let optional = [&self.format, &self.zone, &self.on_null, &self.on_error];
        [&self.text]
            .into_iter()
            .chain(optional.into_iter().flatten())
    }
}

impl ExpressionOperator for DateFromString {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let text = self.text.evaluate(scope)?;
        let pattern = evaluate_format(self.format.as_ref(), scope, PARSE_SPECIFIERS, 40684)?;
        let zone = evaluate_zone(self.zone.as_ref(), scope)?;
        if text.is_nullish() {
            let on_null = self.on_null.as_ref();
            return on_null.map_or(Ok(Value::NULL), |on_null| on_null.evaluate(scope));
        }
        match (
            self.read_instant(&text, pattern.as_ref(), zone),
            &self.on_error,
        ) {
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
    /// Returns the instant. `None` if an argument is null.
    fn read_instant(
        &self,
        text: &Value<'_>,
        pattern: Option<&Value<'_>>,
        zone: Option<DateZone>,
    ) -> Result<Option<i64>> {
        let text = text.as_text().ok_or_else(|| {
            let type_name = text.type_name();
            not_a_date(&format!("'dateString' must be a string, not {type_name}"))
        })?;
        let Some(zone) = zone else {
            return Ok(None);
        };
        let parts = match pattern {
            None => parse::parse_parts(text)?,
            Some(pattern) if pattern.is_nullish() => return Ok(None),
            Some(pattern) => {
                parse_format::parse_parts(text, pattern.as_text().unwrap_or_default())?
            }
        };
        if parts.has_offset() && self.zone.is_some() {
            let message = format!("the time zone is given twice: in '{text}' and in 'timezone'");
            return Err(not_a_date(&message));
        }
        parts.to_instant(text, &zone).map(Some)
    }
}

//! `$dateToString`: a date as text in a format.
//!
//! Specifiers: `%Y` year, `%m` month, `%d` day, `%H` hour, `%M` minute, `%S` second, `%L`
//! millisecond, `%j` day of the year.
//!
//! Weeks: `%w` day of the week, `%U` week, `%G` ISO year, `%V` ISO week, `%u` ISO day. Zone: `%z`
//! offset, `%Z` offset in minutes. `%%` is a percent sign.
//!
//! ```text
//! { "$dateToString": { "date": { "$date": "2024-12-30T23:59:58.007Z" } } } → "2024-12-30T23:59:58.007Z"
//! { "$dateToString": { "date": { "$date": "2024-12-30T23:59:58.007Z" }, "format": "%d.%m.%Y %H:%M %z", "timezone": "Europe/Rome" } } → "31.12.2024 00:59 +0100"
//! { "$dateToString": { "date": null, "onNull": "never" } } → "never"
//! ```

use super::argument::{evaluate_zone, require_millis};
use super::format::{FORMAT_SPECIFIERS, ISO_FORMAT, check_format, format_date};
use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result};

#[derive(Debug)]
struct DateToString {
    date: Expression,
    format: Option<Expression>,
    zone: Option<Expression>,
    on_null: Option<Expression>,
}

pub(super) fn parse_date_to_string(call: &OperatorCall<'_>) -> Result<Expression> {
    let known = &["date", "format", "onNull", "timezone"];
    let arguments = call.named_arguments(known, 18629, 18534)?;
    call.fold_constant(DateToString {
        date: arguments.required_expression("date", 18628)?,
        format: arguments.optional_expression("format")?,
        zone: arguments.optional_expression("timezone")?,
        on_null: arguments.optional_expression("onNull")?,
    })
}

impl FoldableOperator for DateToString {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        let optional = [&self.format, &self.zone, &self.on_null];
        [&self.date]
            .into_iter()
            .chain(optional.into_iter().flatten())
    }
}

impl ExpressionOperator for DateToString {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let date = self.date.evaluate(scope)?;
        let pattern = evaluate_format(self.format.as_ref(), scope, FORMAT_SPECIFIERS, 18533)?;
        let zone = evaluate_zone(self.zone.as_ref(), scope)?;
        if date.is_nullish() {
            let on_null = self.on_null.as_ref();
            return on_null.map_or(Ok(Value::NULL), |on_null| on_null.evaluate(scope));
        }
        let Some(zone) = zone else {
            return Ok(Value::NULL);
        };
        let pattern = match &pattern {
            Some(pattern) if pattern.is_nullish() => return Ok(Value::NULL),
            Some(pattern) => pattern.as_text().unwrap_or_default(),
            None => ISO_FORMAT,
        };
        Ok(format_date(require_millis(&date)?, pattern, &zone)?.into())
    }
}

/// Evaluates an optional format argument. A format must be valid even if the result does not depend
/// on the format.
pub(super) fn evaluate_format<'v>(
    argument: Option<&'v Expression>,
    scope: &VariableScope<'_, 'v>,
    specifiers: &str,
    no_string: i32,
) -> Result<Option<Value<'v>>> {
    let Some(argument) = argument else {
        return Ok(None);
    };
    let value = argument.evaluate(scope)?;
    if !value.is_nullish() {
        let pattern = value.as_text().ok_or_else(|| {
            let message = format!("'format' must be a string, not {}", value.type_name());
            Error::with_server_code(no_string, message)
        })?;
        check_format(pattern, specifiers)?;
    }
    Ok(Some(value))
}

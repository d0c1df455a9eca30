//! Validation by the crate `garde`.

use bson::RawBson;
use garde::{Path, Report, Validate, rules::inner::Inner};

use super::Violation;
use crate::model::{
    decode,
    document::{Overflow, Stored},
};

/// Types that the crate `garde` validates, without a context.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no validation rules",
    label = "`validate` needs rules on this type",
    note = "derive the rules: `#[derive(garde::Validate)]`, with version 0.23 of `garde`, and without `#[garde(context(…))]`: a write has no context"
)]
pub trait Validated {
    /// Returns the broken rules, with Rust paths.
    fn rule_violations(&self) -> Vec<Violation>;
}

#[diagnostic::do_not_recommend]
impl<T: Validate<Context = ()>> Validated for T {
    fn rule_violations(&self) -> Vec<Violation> {
        let Err(report) = self.validate() else {
            return Vec::new();
        };
        let broken = report.iter();
        broken
            .map(|(path, error)| (path.to_string(), error.to_string()))
            .collect()
    }
}

/// `dive` validates the resident elements, as in a `Vec`.
impl<T: Validate> Validate for Overflow<T> {
    type Context = T::Context;

    fn validate_into(
        &self,
        context: &Self::Context,
        parent: &mut dyn FnMut() -> Path,
        report: &mut Report,
    ) {
        self.resident().validate_into(context, parent, report);
    }
}

/// `inner(…)` validates the resident elements, as in a `Vec`.
impl<T> Inner<T> for Overflow<T> {
    type Key = usize;

    fn validate_inner<F: FnMut(&T, &usize)>(&self, check: F) {
        self.resident().validate_inner(check);
    }
}

/// Returns the broken rules of a value.
pub fn find_violations<T: Validated>(value: &T) -> Vec<Violation> {
    value.rule_violations()
}

/// Returns the broken rules of a stored field value, or `None` if the value cannot be decoded. `rule` wraps the value in a struct
/// with the rules of the field.
pub fn checked<R: Validated, T: Stored>(
    value: &RawBson,
    rule: impl FnOnce(T) -> R,
) -> Option<Vec<Violation>> {
    let value = decode::decode_value(value).ok()?;
    Some(rule(value).rule_violations())
}

//! The rules of the crate `garde`.

use bson::RawBson;
use garde::{Path, Report, Validate, rules::inner::Inner};

use super::Violation;
use crate::{
    decode,
    document::{Overflow, Stored},
};

/// A type whose rules the crate `garde` checks, without a context.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no rules that a write could check",
    label = "`validate` is said here",
    note = "derive them: `#[derive(garde::Validate)]`, from version 0.23 of `garde`, and without `#[garde(context(…))]`: a write has none to give"
)]
pub trait Validated {
    /// All that is wrong, by paths in Rust.
    fn broken(&self) -> Vec<Violation>;
}

#[diagnostic::do_not_recommend]
impl<T: Validate<Context = ()>> Validated for T {
    fn broken(&self) -> Vec<Violation> {
        let Err(report) = self.validate() else {
            return Vec::new();
        };
        let broken = report.iter();
        broken
            .map(|(path, error)| (path.to_string(), error.to_string()))
            .collect()
    }
}

/// `dive`: as those of a `Vec`, of the elements that it has.
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

/// `inner(…)`: as those of a `Vec`, of the elements that it has.
impl<T> Inner<T> for Overflow<T> {
    type Key = usize;

    fn validate_inner<F: FnMut(&T, &usize)>(&self, check: F) {
        self.resident().validate_inner(check);
    }
}

/// All that is wrong with a value.
pub fn broken<T: Validated>(value: &T) -> Vec<Violation> {
    value.broken()
}

/// All that is wrong with a stored value of a field, which a struct of it alone has the rules of; none if it cannot be read.
pub fn checked<R: Validated, T: Stored>(
    value: &RawBson,
    rule: impl FnOnce(T) -> R,
) -> Option<Vec<Violation>> {
    let value = decode::value(value).ok()?;
    Some(rule(value).broken())
}
